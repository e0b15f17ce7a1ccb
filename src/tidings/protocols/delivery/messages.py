"""What a client and its broker say to each other, and how brokers fetch history from each other.

A client numbers its subscriptions, its advertisements and its publications itself, each from 1 upwards, and keeps the
numbers when it connects again. So whatever it repeats is recognised. Every request is answered once, by `Receipt` or by
`Refusal` with the same kind and number.

Events flow to a client inside a window: it says with `Taken` how many publications of a subscription it has taken out
of its hands, and the broker never has more than `window` of them on the way. What does not fit waits at the broker in a
bounded queue, and the policy of the subscription says what happens when that is full. Besides, the connection has a
window of bytes, as any link has: `DeliveriesTaken` opens it again.

What is stored can also be read without subscribing (`edge/readings.py`): `Look` asks how far publishers have come,
`Fetch` for a page of what one of them published. Each is answered by `Marks` or `Fetched`, or by a `Refusal`.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Annotated

from msgspec import Meta

from tidings.machine.message import Count, FilterText, Message, Name, OptionalName, Real, Text
from tidings.model.bounds import (
    EXTENTS_MAX,
    LIFE_CHARS_MAX,
    MARKS_MAX,
    PUBLICATIONS_MAX,
    PUBLISHERS_MAX,
    QUESTIONS_MAX,
    REFERENCE_HOPS_MAX,
    SUBSCRIPTIONS_MATCHED_MAX,
)
from tidings.pubsub.client import Guarantee, Kind, Latency, Names, Policy, ReplyWord
from tidings.pubsub.pages import StoredPage
from tidings.pubsub.publications import UNEVEN, Head, Heads, Numbers, Payload, Payloads

QUEUE_FULL = "the queue is full: the client takes publications more slowly than they come"
"""How the reason begins for which a client misses what it was too slow for."""

Positions = Annotated[tuple[tuple[Name, Count], ...], Meta(max_length=PUBLISHERS_MAX)]
"""Publishers, each with the number of its publication up to which we have everything."""
Subscriptions = Annotated[tuple[Count, ...], Meta(max_length=SUBSCRIPTIONS_MATCHED_MAX)]
Path = Annotated[tuple[Name, ...], Meta(max_length=REFERENCE_HOPS_MAX)]
Extents = Annotated[tuple[tuple[Count, Count], ...], Meta(max_length=EXTENTS_MAX)]
"""Numbers of a publisher: those behind the first up to and including the second of each pair."""


# From client to broker.


class Subscribe(Message, frozen=True):
    """The same number again, with the same filter, is a repetition."""

    number: Count
    filter: FilterText
    guarantee: Guarantee
    since: Real | None
    """A time of day that the application named, for publishers that `after` does not name. None is the arrival of this
    message."""
    after: Positions
    is_continued: bool
    """Whether it had its receipt before, perhaps from another broker. Then publishers that `after` does not name were
    not known at the time, and everything of them is wanted."""
    group: OptionalName
    """Members of a group of one principal, anywhere in the network, get the same events; where nobody is asked who he
    is, all who name it are members. Empty for none."""
    policy: Policy
    queue_max: Count
    window: Count


class Behind(Message, frozen=True):
    """Positions that belong to the `Subscribe` of this number, which follows and has no room for them."""

    subscription: Count
    positions: Positions


class Unsubscribe(Message, frozen=True):
    number: Count


class Advertise(Message, frozen=True):
    number: Count
    filter: FilterText
    first: Count = 1
    """The number of the first publication of this life of the client. One that begins with a higher number at a broker
    has published elsewhere before."""
    elsewhere: Count = 0
    """The last number that another broker has accepted; 0 where none has."""
    latency: Latency = "any"


class Unadvertise(Message, frozen=True):
    number: Count


class PublisherLife(Message, frozen=True):
    """What follows over this connection is published by this life of the client, which no other process shares."""

    life: Annotated[str, Meta(pattern="^[0-9a-z]+$", min_length=1, max_length=LIFE_CHARS_MAX)]


class PublishMessage(Message, frozen=True):
    """Publications numbered `first`, `first + 1`, ... under one advertisement."""

    advertisement: Count
    first: Count
    receipt: bool
    """Whether a `Receipt` is wanted, under the number of the last of them, when they have reached all brokers whose
    clients want them."""
    heads: Heads
    payloads: Payloads

    def __post_init__(self) -> None:
        if len(self.heads) != len(self.payloads):
            raise ValueError(UNEVEN)

    def continues(self, earlier: "PublishMessage") -> bool:
        """Would both in one message mean the same?"""
        return (
            self.advertisement == earlier.advertisement
            and self.first == earlier.first + len(earlier.heads)
            and not (self.receipt or earlier.receipt)
        )


def joined(run: Sequence[PublishMessage]) -> PublishMessage:
    """One message for several of which each continues the one before."""
    heads = tuple(chain.from_iterable([each.heads for each in run]))
    payloads = tuple(chain.from_iterable([each.payloads for each in run]))
    return PublishMessage(run[0].advertisement, run[0].first, False, heads, payloads)


class Taken(Message, frozen=True):
    """The application took so many more publications of this subscription."""

    subscription: Count
    count: Count


class DeliveriesTaken(Message, frozen=True):
    """So many bytes of events and of what was read have arrived over this connection, whether or not the application
    has taken them."""

    total_bytes: Count


class Look(Message, frozen=True):
    """How far have the publishers come that may publish what the filter matches? Answered by `Marks`."""

    number: Count
    """Of this request; `Look`, `Fetch` and `ReplyMessage` are numbered together."""
    filter: FilterText


class Fetch(Message, frozen=True):
    """What is stored of a publisher and matches: behind `after`, or without that accepted at or after `since`, or
    without either from the oldest on; up to and including `through`. Answered by `Fetched`."""

    number: Count
    filter: FilterText
    publisher: Name
    after: Count | None
    since: Real | None
    through: Count
    """It should have come so far, as `Marks` say; the answer waits for it, but not for ever."""
    limit: Count
    """How many publications there is room for; one message holds the answer, whatever it says."""
    with_payloads: bool = True
    """Without them the answer has empty ones: whoever reads attributes alone need not have them sent."""


class ReplyMessage(Message, frozen=True):
    """A reply to an event of this publisher (`edge/replies.py`). Answered by a `Receipt` when the publisher was handed
    it."""

    number: Count
    publisher: Name
    word: ReplyWord
    """That stands in the event."""
    reply: ReplyWord
    head: Head
    payload: Payload


# From broker to client.


class Beginning(Message, frozen=True):
    """The subscription gets what is behind these numbers; in as many messages as it takes, ahead of the receipt."""

    subscription: Count
    positions: Positions


ACCEPTED_ELSEWHERE = (
    "another broker has accepted the publications and passes them on; this one has none of this publisher, and cannot "
    "say who has them"
)
"""Why there is no receipt for what is repeated at another broker."""


class Refusal(Message, frozen=True):
    kind: Kind
    number: Count
    reason: Text
    may_retry: bool
    """Whether the same request may succeed later: it failed because the network did not carry it out in time."""


class Delivery(Message, frozen=True):
    """Publications that subscriptions of this client match."""

    publisher: Name
    accepted_at: Real
    numbers: Numbers
    heads: Heads
    payloads: Payloads
    matched: Annotated[tuple[Subscriptions, ...], Meta(max_length=PUBLICATIONS_MAX)]
    """Which subscriptions match, one entry for each publication; a single entry holds for all of them."""

    def __post_init__(self) -> None:
        if not len(self.numbers) == len(self.heads) == len(self.payloads):
            raise ValueError(UNEVEN)
        if len(self.matched) not in (1, len(self.numbers)):
            raise ValueError("matched: one entry, or one for each publication")


# Between brokers.


class NamesakeFar(Message, frozen=True):
    """To the broker of this advertisement: a client with the name of its publisher is attached to another broker."""

    advertisement: Name
    publisher: Name
    """That client, with its life."""
    broker: Name
    path: Path
    """The brokers that it passed, that one first."""


class Reference(Message, frozen=True):
    """A subscriber's broker asks the publishers' brokers for what is stored; one hop after the other."""

    client: Name
    subscription: Count
    round: Count
    """Tells the answers to this request from those to earlier ones."""
    filter: FilterText
    wanted: Annotated[tuple[tuple[Name, Count | None], ...], Meta(min_length=1, max_length=PUBLISHERS_MAX)]
    """Advertisements, each with the number behind which publications are wanted, if there is one."""
    since: Real | None
    """Of the others what was accepted at this time or later; None is everything since they were advertised."""
    is_from_now: bool
    """Of the others only what comes from now on; with a time, that is the time of the asking broker, and nobody's who
    named one."""
    group: OptionalName
    principal: OptionalName
    """Whose group that is; empty where there is none, or it is everybody's."""
    limit: Count
    """How many publications of each publisher there is room for."""
    limit_bytes: Count
    """How many bytes of each; a single publication may be larger."""
    path: Path
    """The brokers that the request passed, the asking one first."""
    is_late: bool = False
    """Whether the publishers became known when the subscription was there already: it was promised what they have
    published since, also where its group has begun later with another member."""


class PackedReferences(Message, frozen=True):
    """Several of them on the same link, in their order."""

    questions: Annotated[tuple[Reference, ...], Meta(min_length=1, max_length=QUESTIONS_MAX)]


class History(Message, frozen=True):
    """A page of what is stored of one publisher for a reference, back on the way the request came. What is accepted
    after it was made comes on the same way, before it or behind it."""

    client: Name
    subscription: Count
    round: Count
    advertisement: Name
    """One of those that were asked for; all of the same publisher are answered together, in the order of numbers."""
    publisher: Name
    group_at: Real | None
    """The time since which the members of the group get events of this publisher."""
    begin: Count
    """The number behind which publications were wanted, as far as the broker knows it."""
    is_truncated: bool
    """Whether older publications were wanted that are no longer stored."""
    missing: Count
    """How many those are at most: whether they match, nobody knows any more."""
    is_counted: bool
    """Whether it is exactly so many: the filter matches all that was advertised, and none is counted that is older."""
    lacking: Extents
    """What was published, there or elsewhere, and is not stored there."""
    held: Extents
    """What passed through that broker and is not lacking."""
    has_more: bool
    """More is stored than the page has room for; the rest is to be asked for behind `through`."""
    through: Count
    """The publisher's number up to which nothing that matches is left out."""
    problem: Text
    """Why there is none at all; empty where there is."""
    path: Path
    """The brokers still to pass; the asking one first."""
    accepted_at: Annotated[tuple[Real, ...], Meta(max_length=PUBLICATIONS_MAX)]
    numbers: Numbers
    heads: Heads
    payloads: Payloads
    begun_late: Count = 0
    """How many at most were promised to the subscription and lie before the number behind which its group begins."""

    def __post_init__(self) -> None:
        if not len(self.accepted_at) == len(self.numbers) == len(self.heads) == len(self.payloads):
            raise ValueError(UNEVEN)


class HistoryBegun(Message, frozen=True):
    """What this broker sends of questions and answers from now on is counted from 0 again."""

    life: Count
    window_bytes: Count
    """So much of it may be on the way."""


class HistoryTaken(Message, frozen=True):
    """How much of what was sent since that beginning is taken, or passed on."""

    life: Count
    total_bytes: Count


class LookFar(Message, frozen=True):
    """A broker asks the brokers of publishers how far these have come; one hop after the other."""

    reading: Count
    """The asking broker's number for it."""
    wanted: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MARKS_MAX)]
    """Advertisements; one of each publisher at each broker is enough."""
    path: Path
    """The brokers that the request passed, the asking one first."""


class MarksFar(Message, frozen=True):
    """How far publishers have come at one broker, back on the way the request came."""

    reading: Count
    marks: Annotated[tuple[tuple[Name, Count, Extents, Extents], ...], Meta(max_length=MARKS_MAX)]
    """Advertisements that were asked for, each with the number of the publisher's last publication that was accepted
    there, what of it is lacking there, and what is held."""
    missing: Names
    """Advertisements to which no way is known."""
    path: Path
    """The brokers still to pass; the asking one first."""


class FetchFar(Message, frozen=True):
    """A broker asks another for a page of what it stores of a publisher; `Fetch` says what the fields mean."""

    reading: Count
    advertisement: Name
    """Any one of the publisher at that broker: it shows the way."""
    filter: FilterText
    after: Count | None
    since: Real | None
    through: Count
    limit: Count
    path: Path
    with_payloads: bool = True


class FetchedFar(Message, frozen=True):
    """The page, back on the way the request came."""

    reading: Count
    advertisement: Name
    problem: Text
    """Why there is none; empty where there is."""
    begin: Count
    """The number behind which publications were wanted, as far as this broker knows it."""
    reach: Count
    """The number up to which this broker has heard of publications, and has saved them, where it saves any."""
    through: Count
    """Nothing that matches and is held up to this number is left out."""
    has_more: bool
    lacking: Extents
    """What is wanted and not there, though it was published, there or elsewhere."""
    elsewhere: Extents
    """What was published at other brokers, or before a crash that lost it."""
    held: Extents
    """What is there of the publisher, of whatever kind."""
    path: Path
    page: StoredPage


class ReplyFar(Message, frozen=True):
    """A reply on its way to the broker of the publisher, along the way on which the event came, backwards."""

    replying: Count
    """The number that the replier's broker has for it."""
    advertisement: Name
    word: ReplyWord
    reply: ReplyWord
    head: Head
    payload: Payload
    path: Path
    """The brokers that it passed, the replier's first."""


class ReplySettledFar(Message, frozen=True):
    """What became of it, back on the same way."""

    replying: Count
    advertisement: Name
    problem: Text
    """Why it was not handed over; empty where it was."""
    path: Path
    """The brokers still to pass; the replier's first."""
