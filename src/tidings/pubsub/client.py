"""What an application and its client say to each other, whatever network is below.

Requests go in as orders; each carries a `ticket` of the application's choice, and what the client delivers for it
carries the same. First comes `Begun` with the number that the client gave it, at once; then, when the network has
answered, `Confirmed` (`MarksRead` or `HistoryRead` for what is read) or `Failed`. Everything else that is delivered has
no ticket: `Arrived`, and as they came from a broker `Accepted`, `Declined`, `Missed` and `Replied`; of links
`PeerUp`, `PeerDown` and `TurnedAway` (`signals.py`).

The session with a broker speaks these words (`protocols/delivery/session`), and so does whatever stands between it and
an application, or in its place: the transport (`protocols/transport`), carriers that are no brokers of ours.
"""

from collections.abc import Hashable, Iterator
from typing import Annotated, Any, Literal, Protocol, get_args

import msgspec
from msgspec import Meta

from tidings.machine.inputs import Request
from tidings.machine.message import BrokerNames, Count, FilterText, Message, Name, OptionalName, Real, Text
from tidings.model.bounds import BROKERS_ASKED_MAX, FILTER_TEXT_BYTES_MAX, MARKS_MAX, OFFERS_MAX, REPLY_WORD_CHARS
from tidings.model.escapes import PRINTABLE
from tidings.pubsub.pages import StoredPage
from tidings.pubsub.publications import Head, Numbers, Payload
from tidings.pubsub.requests import Bundle, BundledEvent, PublishRequest

Names = Annotated[tuple[Name, ...], Meta(max_length=MARKS_MAX)]
BrokersAsked = Annotated[tuple[Name, ...], Meta(max_length=BROKERS_ASKED_MAX)]

Ticket = Hashable

Guarantee = Literal["none", "installed", "reference"]
"""none: whatever comes once the subscription is in place. installed: nothing before the receipt, everything after.
reference: everything from a time (`since`) or behind given publications (`after`) on."""

Policy = Literal["wait", "drop oldest", "drop newest", "disconnect"]
Latency = Literal["low", "any", "cheap"]
"""What a publisher asks for an advertisement, where routing goes by popularity: that its publications come soon, or
cost little; "any" leaves it to how many want them."""
LATENCIES: tuple[Latency, ...] = get_args(Latency)
Kind = Literal["subscribe", "unsubscribe", "advertise", "unadvertise", "publish", "read", "reply"]

REPLY_ATTRIBUTE = "tidings.reply"
"""An event that has it may be replied to; its value is a word that only its publisher and those who got it know."""

ReplyWord = Annotated[str, Meta(min_length=1, max_length=REPLY_WORD_CHARS, pattern=PRINTABLE)]


class Window(Protocol):
    """What a client has published and its network has not accepted yet: so much at a time. Whatever it counts, events
    or batches, has growing numbers."""

    @property
    def publications_max(self) -> int: ...

    @property
    def bytes_max(self) -> int: ...

    @property
    def count(self) -> int:
        """Publications that are not accepted."""

    @property
    def next(self) -> int:
        """The number of what is published next."""

    @property
    def through(self) -> int:
        """Everything up to this number is accepted, or given up."""

    def has_room(self, count: int, size_bytes: int) -> bool: ...


class OpenWindow:
    """That of a network which takes everything at once."""

    publications_max = 2**31
    bytes_max = 2**63
    count = 0

    def __init__(self) -> None:
        self.next = 1

    @property
    def through(self) -> int:
        return self.next - 1

    def has_room(self, count: int, size_bytes: int) -> bool:
        return True

    def take(self, count: int) -> int:
        """So many are published; the number of the first."""
        first = self.next
        self.next += count
        return first


# Requests.


class OpenSubscription(Request, frozen=True):
    ticket: Ticket
    filter: str
    guarantee: Guarantee = "installed"
    since: float | None = None
    after: tuple[tuple[str, int], ...] = ()
    group: str = ""
    policy: Policy = "wait"
    queue_max: int = 10_000
    window: int = 1024


class CloseSubscription(Request, frozen=True):
    ticket: Ticket
    number: int


class OpenAdvertisement(Request, frozen=True):
    ticket: Ticket
    filter: str
    latency: Latency = "any"


class CloseAdvertisement(Request, frozen=True):
    ticket: Ticket
    number: int


class PublishBatch(PublishRequest, Bundle, frozen=True):
    """Events as bytes, side by side. With a ticket, `Confirmed` comes when they have reached the brokers of all who
    want them; without one, only `Accepted` does."""

    advertisement: int
    heads: tuple[bytes, ...]
    payloads: tuple[bytes, ...]
    ticket: Ticket | None = None

    def publications(self) -> Iterator[BundledEvent]:
        return map(BundledEvent, self.heads, self.payloads)


class Took(Request, frozen=True):
    """The application took so many publications of a subscription out of our hands."""

    subscription: int
    count: int


class SendReply(Request, frozen=True):
    """To whoever published the event under this name and in it this word. `Confirmed` comes when the reply was handed
    to it, `Failed` where that cannot be."""

    ticket: Ticket
    publisher: str
    word: str
    head: bytes
    payload: bytes


class ReadMarks(Request, frozen=True):
    """How far have publishers come that may publish what the filter matches?"""

    ticket: Ticket
    filter: str


class ReadHistory(Request, frozen=True):
    """A page of what is stored of a publisher; the fields are those of the message `Fetch`."""

    ticket: Ticket
    filter: str
    publisher: str
    after: int | None
    since: float | None
    through: int
    limit: int
    with_payloads: bool = True


class StopReading(Request, frozen=True):
    """Nobody waits for the answer any longer."""

    number: int


# What brokers answer, and clients pass on as it is.


class Receipt(Message, frozen=True):
    kind: Kind
    number: Count
    brokers: BrokerNames
    brokers_count: Count
    at: Real
    """The time of day at the broker: from here on the guarantee holds."""
    filter: Annotated[str, Meta(max_length=FILTER_TEXT_BYTES_MAX)]
    """What was installed; narrower than what was asked for where the client's bound is narrower. Empty where there is
    no filter."""
    guarantee: Guarantee = "installed"
    """What is promised: of a subscription what was asked for. Otherwise "installed" where all whom it concerns have
    carried it out, and "none" in a network that is best effort, where that is known only of the brokers named."""


class Accepted(Message, frozen=True):
    """All publications up to this number are in the broker's hands, or were declined; the client may forget them."""

    through: Count


class Declined(Message, frozen=True):
    """These publications are refused for good."""

    numbers: Numbers
    reason: Text


class Missed(Message, frozen=True):
    """The broker could not give this subscription everything that it was promised, and why."""

    subscription: Count
    publisher: OptionalName
    count: Count
    """How many publications; 0 where that is not known."""
    reason: Text


class Namesake(Message, frozen=True):
    """Another process publishes under our name at the same time."""

    publisher: Name
    """That process: the name, with its life."""
    broker: Name
    """Where it is attached."""


class Replied(Message, frozen=True):
    """Somebody who got an event of ours replies to it; who, nobody says."""

    word: ReplyWord
    """Of the event."""
    reply: ReplyWord
    """Of the reply: one that comes twice, after a break, has the same."""
    head: Head
    payload: Payload


class MarksReply(Message, frozen=True):
    """What a `Look` found, in as many messages as it takes."""

    number: Count
    marks: Annotated[tuple[tuple[Name, Count, Count], ...], Meta(max_length=MARKS_MAX)]
    """Publishers, each with the number up to which publications are no longer stored, and that of the last one that was
    accepted (and saved, where it is saved)."""
    offers: Annotated[tuple[FilterText, ...], Meta(max_length=OFFERS_MAX)]
    """What is advertised of that, each filter once; in the first message."""
    unreachable: Names
    """Publishers whose brokers did not answer."""
    is_last: bool
    brokers: BrokersAsked = ()
    """Who answered, in the first message; not all of them if they are many."""
    absent: BrokersAsked = ()
    """Who did not though it should have: it stores what was asked for, or did when the way to it was lost."""
    remembered_for: Real = 0.0
    """Whoever published something at the broker that was asked within so many seconds is known to it."""


class Fetched(Message, frozen=True):
    """A page of what is stored."""

    number: Count
    through: Count
    """The publisher's number up to which nothing that matches is left out."""
    is_truncated: bool
    """Whether something that was wanted is no longer stored."""
    has_more: bool
    """Whether there may be more, behind `through` and up to the number that was asked for."""
    page: StoredPage


# Answers.


class Begun(msgspec.Struct, frozen=True):
    """The request has this number; for publications it is that of the first."""

    ticket: Ticket
    number: int


class Confirmed(msgspec.Struct, frozen=True):
    ticket: Ticket
    receipt: Receipt | None
    """None where nobody had to be asked: a subscription is closed when its link is gone."""


class MarksRead(msgspec.Struct, frozen=True):
    ticket: Ticket
    parts: tuple[MarksReply, ...]


class HistoryRead(msgspec.Struct, frozen=True):
    ticket: Ticket
    page: Fetched


class Failed(msgspec.Struct, frozen=True):
    ticket: Ticket
    reason: str
    may_retry: bool = False


class Ended(msgspec.Struct, frozen=True):
    """What was confirmed once is no longer carried out: the broker refused to continue it after a break."""

    kind: Kind
    number: int
    reason: str


class Arrived(Bundle, frozen=True):
    """Publications for one subscription that it did not have before, side by side."""

    subscription: int
    publisher: str
    accepted_at: float
    numbers: tuple[int, ...]
    heads: tuple[bytes, ...]
    payloads: tuple[bytes, ...]

    def publications(self) -> Iterator[BundledEvent]:
        about = self.about()
        for number, head, payload in zip(self.numbers, self.heads, self.payloads, strict=True):
            if self.is_numbered(number):
                yield BundledEvent(head, payload, f"{self.publisher} {number}", {**about, "number": number})
            else:
                yield BundledEvent(head, payload, None, about)

    def about(self) -> dict[str, Any]:
        return {"accepted_at": self.accepted_at, "publisher": self.publisher, "subscription": self.subscription}

    def is_numbered(self, number: int) -> bool:
        return True
