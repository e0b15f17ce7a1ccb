"""Publications on their way to the client of a subscription: which are let in, and what if there is no room.

Everything goes through here, whether it has just been published or comes out of a history. First it is asked whether
it is wanted at all: the stream must be active, the number above its position (unless the network is best effort, or
for those to whom nothing is promised something left the tree or came around a failure: then events overtake each other
and the client tells what came twice), the time not too early. Then it is asked whether there
is room. The first question has one right answer; the second is a matter of the subscription's policy.

Room is a window, and behind it a bounded queue. At most `window` publications are on the way and not yet taken by the
application; the client says with `Taken` how many it took. What comes meanwhile, or finds the connection busy (the
window of bytes in `clients.py`), waits in a queue of at most `waiting_max`. Everything is kept in the batches in which
it came, so that the usual case, a batch that fits the window as a whole, costs the same for one publication or for
many. All outlets of a client share its bound on bytes (`ServedClient.pending_bytes`).
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from tidings.machine.effects import Disconnect, Drop, Effect, Send
from tidings.model.filter import Filter
from tidings.model.identity import NodeId, name_of
from tidings.model.weight import units_at_most
from tidings.protocols.delivery.edge.clients import ServedClient
from tidings.protocols.delivery.edge.history import NEVER, behind, size_bytes
from tidings.protocols.delivery.edge.outlets import Outlet
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.messages import QUEUE_FULL, Delivery, History, Subscribe
from tidings.pubsub.client import Guarantee, Missed, Policy, Receipt
from tidings.pubsub.publications import Publications, PublicationsAround, cut
from tidings.pubsub.signals import Known, SubscriptionKey
from tidings.pubsub.tenants import unstamped

NOT_ACTIVE = "the subscription is not active for this publisher yet"
BEFORE_RECEIPT = "; so many at most: there is no receipt yet, and if the network refuses it, what is stored comes again"
REPEATED = "passed on before"
CAME_AROUND = "came around a failure; the tree or history brings it in order"
TOO_EARLY = "accepted before the time asked for"

EARLY_BYTES = 128
"""What a batch that is kept counts besides its publications, which several may share."""

State = Literal["active", "asked", "lagging", "silent"]
"""active: what arrives is passed on. asked: history was asked for, and what arrives is in it or will follow it.
lagging: there was no room; history is asked for when there is. silent: nothing is to be expected yet."""


class PublisherStream(msgspec.Struct, eq=False):
    """A publisher as seen by a subscription."""

    publisher: NodeId
    state: State
    position: int | None
    """The number up to which everything was passed on, or given up with a reason."""
    effective_at: float
    """What was accepted earlier is not wanted."""
    round: int = 0
    """Of the latest question."""
    asked_at: float = 0.0
    news: int = 0
    """How many news of advertisements there had been when it was asked."""
    awaited: dict[NodeId, None] = {}
    """The brokers that store something of the publisher and have not answered."""
    answers: list[History] = []
    early: list[tuple[Publications, int]] = []
    """What came while answers were awaited, and the bytes that each counts."""
    gap: int = 0
    """Something up to this number was given up meanwhile, here or on the way."""
    told: tuple[int | None, int] | None = None
    """How many were forgotten behind which position, as the client was told last: it is not told the same again."""
    told_through: int = 0
    """Up to this number the client knows that something was forgotten."""

    def told_before(self, missing: int, through: int) -> tuple[int | None, bool]:
        """How many of those that are missing behind the position, up to that number, the client knows of; None if it
        knows of nothing. And whether it may have been told of some of them behind another position."""
        is_same = self.told is not None and self.told[0] == self.position
        before = self.told[1] if self.told is not None and is_same else None
        may_be_told = not is_same and self.told_through > (self.position or 0)
        self.told, self.told_through = (self.position, max(missing, before or 0)), max(through, self.told_through)
        return before, may_be_told

    def ask(self, now: float, round: int, news: int, origins: Iterable[NodeId]) -> None:
        self.state, self.round, self.asked_at, self.news = "asked", round, now, news
        self.awaited, self.answers = dict.fromkeys(origins), []
        self.gap = 0


class ServedSubscription:
    __slots__ = (
        "after",
        "asked_at",
        "begun",
        "client",
        "delivered",
        "dropped",
        "effective_at",
        "filter",
        "filter_text",
        "group",
        "guarantee",
        "is_from_now",
        "is_settled",
        "keeps_early",
        "key",
        "known_before",
        "lagging",
        "matched",
        "missed",
        "names_time",
        "number",
        "outlet",
        "policy",
        "receipt",
        "search_units",
        "since",
        "streams",
        "unplaced",
    )

    def __init__(self, client: ServedClient, asked: Subscribe, filter: Filter, params: EdgeParams) -> None:
        self.client, self.number, self.filter, self.filter_text = client, asked.number, filter, filter.text()
        self.key: SubscriptionKey = (client.name, asked.number)
        self.search_units = units_at_most(filter)
        self.matched = ((asked.number,),)
        self.guarantee: Guarantee = asked.guarantee
        self.after, self.group = dict(asked.after), asked.group
        self.since, self.asked_at, self.names_time = asked.since, asked.since, asked.since is not None
        """Since when publications are wanted of a publisher without a position; None is all that it advertised. Of one
        that is known already when the subscription comes it is `asked_at`: a time of this broker's clock says little of
        those that are heard of later, whose brokers have other clocks."""
        self.effective_at = NEVER if asked.since is None or asked.group else asked.since
        """What was accepted earlier of such a publisher is not wanted, also if it comes by itself."""
        self.is_from_now = bool(asked.after) and asked.since is None and params.unlisted == "installation"
        self.unplaced: dict[NodeId, None] = {}
        """Publishers of which it is not known yet where it begins; the receipt waits for that."""
        self.begun: dict[NodeId, int] = {}
        """Where it begins, of which the client is told with the receipt."""
        self.receipt: Receipt | None = None
        """What the network has answered, while that is not known."""
        self.policy: Policy = asked.policy
        self.outlet = Outlet(client, min(asked.window, params.window_max), min(asked.queue_max, params.queue_max))
        self.streams: dict[NodeId, PublisherStream] = {}
        self.lagging: dict[NodeId, None] = {}
        self.is_settled = False
        self.keeps_early = params.strict_ack and asked.guarantee == "installed"
        """Whether what comes before the receipt is kept for it."""
        self.known_before = 0
        """The latest advertisement that routing knew when it was told of this subscription."""
        self.delivered = 0
        self.dropped: dict[str, int] = {}
        self.missed: dict[tuple[NodeId, str], int] = {}
        """Given up for want of room, and the client was not told yet."""

    def concerns(self, known: Known) -> bool:
        """Whether something that it wants may be published under the advertisement."""
        return self.client.is_of(known.publisher) and known.filter.overlaps(self.filter)

    @property
    def is_complete(self) -> bool:
        """Whether nothing may be missing any more."""
        return self.guarantee == "reference" or (self.guarantee == "installed" and self.is_settled)

    def has_to_ask(self, publisher: NodeId, news_count: int) -> bool:
        """Whether it has not asked for the publisher since there were so many news. One that lags will ask anyway, and
        where one begins that came later was asked then (`beginnings.py`)."""
        stream = self.streams.get(publisher)
        has_asked = publisher in self.lagging or (stream is not None and stream.news >= news_count)
        has_begun = self.guarantee == "installed" and not self.group and self.known_before >= news_count
        return self.is_complete and not has_asked and not has_begun

    def position_after(self, publisher: NodeId) -> int | None:
        """Behind which number it begins, where that is known. A name without a life means all lives of it."""
        return self.after.get(publisher, self.after.get(name_of(publisher)))

    def wanted_since(self, stream: PublisherStream) -> tuple[float | None, bool, bool]:
        """Since which time, whether it is of what comes from now on, and whether a group that began later has to begin
        earlier for it. Where the stream has a position, that counts instead."""
        is_late = stream.position is None and stream.publisher not in self.unplaced
        is_from_now = self.is_from_now or not self.is_complete
        since = self.since if is_late else self.asked_at
        # Where a member named no time, the group has none: what comes would be held against the clocks of others.
        is_from_now |= bool(self.group) and not self.names_time and since is not None
        return since, is_from_now, is_late and bool(self.group)

    def begin_of(self, answers: Sequence[History]) -> int:
        """Where the stream begins, as the brokers of its publisher say; of a group each may know less than another."""
        begins = [each.begin for each in answers]
        return min(begins) if self.group else max(begins)

    def give_up(self, batch: Publications, reason: str) -> None:
        count = len(batch.numbers)
        self.dropped[reason] = self.dropped.get(reason, 0) + count
        key = (batch.publisher, reason)
        self.missed[key] = self.missed.get(key, 0) + count

    def check(self) -> None:
        self.outlet.check()
        assert self.lagging.keys() == {name for name, stream in self.streams.items() if stream.state == "lagging"}, (
            "who lags is noted wrongly"
        )
        assert not self.lagging or self.number in self.client.lagging, "nobody wakes a lagging subscription"


class UnlookedNews(NamedTuple):
    """Advertisements that became known of a publisher, and subscriptions that may have to ask because of them, the next
    one last. Many want the same: `verdicts` says which filters were compared, and overlap."""

    news: list[Known]
    left: list[ServedSubscription]
    news_count: int
    """How many news there had been of all publishers."""
    verdicts: dict[Filter, bool]

    def concern(self, subscription: ServedSubscription) -> bool:
        verdict = self.verdicts.get(subscription.filter)
        if verdict is None:
            overlaps = any(known.filter.overlaps(subscription.filter) for known in self.news)
            verdict = self.verdicts[subscription.filter] = overlaps
        return verdict and subscription.client.is_of(self.news[0].publisher)


class Admission:
    def __init__(self, params: EdgeParams, is_best_effort: bool = False, overtakes: bool = False) -> None:
        self.params, self.is_best_effort, self.overtakes = params, is_best_effort, overtakes
        self.early_bytes = 0
        self.early_last: Publications | None = None
        """Kept last: the next subscription that keeps it has the same object."""

    def admit(
        self,
        subscription: ServedSubscription,
        stream: PublisherStream,
        batch: Publications,
        effects: list[Effect],
        is_history: bool = False,
    ) -> Publications | None:
        """What of a batch leaves for the client now. The rest waits, or is given up: `effects` says so."""
        if type(batch) is PublicationsAround:
            self.overtakes = True
            if subscription.guarantee != "none":
                effects.append(Drop(batch, CAME_AROUND))
                return None
        if stream.state != "active" and not is_history and not self.wakes(subscription, stream, batch, effects):
            return None
        numbers = batch.numbers
        is_ordered = not (self.is_best_effort or (self.overtakes and subscription.guarantee == "none"))
        if stream.position is not None and numbers[0] <= stream.position and is_ordered:
            effects.append(Drop(batch, REPEATED))
            newer = behind(batch, stream.position)
            if newer is None:
                return None
            batch, numbers = newer, newer.numbers
        if batch.accepted_at < stream.effective_at:
            effects.append(Drop(batch, TOO_EARLY))
            return None
        outlet, client, size = subscription.outlet, subscription.client, size_bytes(batch)
        if (
            outlet.under_way + len(numbers) <= outlet.window
            and not outlet.waiting
            and client.has_room
            and client.pending_bytes + size <= self.params.pending_bytes_max
        ):
            stream.position = max(stream.position or 0, numbers[-1])
            outlet.send(batch, size)
            subscription.delivered += len(numbers)
            return batch
        return self.admit_part(subscription, stream, batch, effects, is_history)

    def wakes(
        self, subscription: ServedSubscription, stream: PublisherStream, batch: Publications, effects: list[Effect]
    ) -> bool:
        """Whether the stream becomes active by what has arrived."""
        if stream.state == "silent" and subscription.is_settled:
            stream.state = "active"
            return True
        is_kept = stream.state == "asked" or (stream.state == "silent" and subscription.keeps_early)
        if not is_kept or not self.keep_early(stream, batch, subscription.outlet.capacity):
            effects.append(Drop(batch, NOT_ACTIVE))
        return False

    def keep_early(self, stream: PublisherStream, batch: Publications, count_max: int) -> bool:
        """False if there is no room; then it is asked for."""
        size = EARLY_BYTES if batch is self.early_last else EARLY_BYTES + size_bytes(batch)
        count = sum(len(each.numbers) for each, _ in stream.early) + len(batch.numbers)
        if stream.gap or count > count_max or self.early_bytes + size > self.params.early_bytes_max:
            stream.gap = max(stream.gap, batch.numbers[-1])
            return False
        stream.early.append((batch, size))
        self.early_bytes += size
        self.early_last = batch
        return True

    def forget_early(self, stream: PublisherStream) -> None:
        self.early_bytes -= sum(size for _, size in stream.early)
        stream.early = []
        self.early_last = None

    def admit_part(
        self,
        subscription: ServedSubscription,
        stream: PublisherStream,
        batch: Publications,
        effects: list[Effect],
        is_history: bool,
    ) -> Publications | None:
        """As `admit`, where not everything can leave at once."""
        count = subscription.outlet.count_fitting(batch, self.params.pending_bytes_max)
        rest = cut(batch, slice(count, None), receipt=0) if count < len(batch.numbers) else None
        if rest is not None and (is_history or subscription.policy == "wait"):
            fall_back(subscription, stream)
        elif rest is not None:
            stream.position = batch.numbers[-1]
        ready = None
        if count:
            kept = batch if rest is None else cut(batch, slice(count), receipt=0)
            stream.position = max(stream.position or 0, kept.numbers[-1])
            ready = queue_up(subscription, kept)
        if rest is not None and stream.state != "lagging":
            if ready is not None and subscription.policy == "disconnect":
                # What still fits leaves before the goodbye; behind it nothing would arrive.
                effects.append(deliver(subscription, ready))
                ready = None
            self.turn_away(subscription, rest, effects)
        return ready

    def turn_away(self, subscription: ServedSubscription, rest: Publications, effects: list[Effect]) -> None:
        """There is no room for these, and the subscription does not wait."""
        if subscription.policy == "drop oldest":
            self.drop_oldest(subscription, rest, effects)
            return
        give_up(subscription, rest, effects)
        client = subscription.client
        if subscription.policy == "disconnect" and not client.is_turned_out:
            client.is_turned_out = True
            effects += [*tell_missed(subscription), Disconnect(client.name, QUEUE_FULL)]

    def drop_oldest(self, subscription: ServedSubscription, batch: Publications, effects: list[Effect]) -> None:
        outlet, count = subscription.outlet, len(batch.numbers)
        while (fitting := outlet.count_fitting(batch, self.params.pending_bytes_max)) < count:
            oldest = outlet.take_out(count - fitting)
            if oldest is None:
                # Nothing waits: what has just come is the oldest itself.
                give_up(subscription, cut(batch, slice(count - fitting), receipt=0), effects)
                if not fitting:
                    return
                batch, count = cut(batch, slice(count - fitting, None), receipt=0), fitting
            else:
                give_up(subscription, oldest, effects)
        outlet.put(batch)


def queue_up(subscription: ServedSubscription, batch: Publications) -> Publications | None:
    """There is room for all of it: answers with what leaves at once."""
    subscription.outlet.put(batch)
    # Whenever the windows have room nothing waits, so what leaves is of this batch.
    ready = subscription.outlet.leave()
    if ready is not None:
        subscription.delivered += len(ready.numbers)
    return ready


def give_up(subscription: ServedSubscription, batch: Publications, effects: list[Effect]) -> None:
    subscription.give_up(batch, QUEUE_FULL)
    effects.append(Drop(batch, QUEUE_FULL))


def fall_back(subscription: ServedSubscription, stream: PublisherStream) -> None:
    """The stream stops where it is, and asks for history when there is room."""
    stream.state = "lagging"
    subscription.lagging[stream.publisher] = None
    subscription.client.lagging[subscription.number] = subscription


def deliver(subscription: ServedSubscription, batch: Publications) -> Send:
    client = subscription.client
    heads = unstamped(batch.heads, client.tenant_name) if client.tenant_name else batch.heads
    return client.send(
        Delivery(batch.publisher, batch.accepted_at, batch.numbers, heads, batch.payloads, subscription.matched),
    )


def tell_missed(subscription: ServedSubscription) -> list[Effect]:
    """What was given up since the client was last told."""
    missed, subscription.missed = subscription.missed, {}
    may_begin_again = subscription.guarantee == "reference" and not subscription.is_settled
    bound = BEFORE_RECEIPT if may_begin_again else ""
    return [
        Send(subscription.client.name, Missed(subscription.number, publisher, count, reason + bound))
        for (publisher, reason), count in missed.items()
    ]
