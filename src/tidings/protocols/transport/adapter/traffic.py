"""Batches into events and events into batches, on their way down to the carrier and up from it.

**Down.** A batch goes into the transport event by event. Most come out in the same step, marked and with a header, and
go on to the carrier as one batch again, under the same advertisement and with the same ticket. Events that are paced
come out later, some of them perhaps never; then a batch reaches the carrier in pieces. A piece that is the whole batch
has the batch's ticket, and the carrier answers it; other pieces have tickets of their own, and the batch is answered
here: `Confirmed` when all have reached everybody, `Failed` as soon as one has not.

Headers make events longer than the application reckoned, so the carrier's window may be full when they come out. They
wait in `backlog` until the carrier has accepted some; `has_room` says no meanwhile. Whoever publishes all the same has
at most `BACKLOG_MAX` events wait.

To the outside this is what the carrier's window of publications is to a client without a transport: `has_room`, and
`next` and `through`, which here count batches, so that it can be told when everything that was published is accepted.

**Up.** A publication may come for several subscriptions at once; the carrier delivers it for each. `Intake` brings them
together again, since the transport has to see each event once, with all subscriptions that it is for. An event that
comes for one subscription after it came for another is a repetition to the transport, but not to a carrier that lets
nothing through twice. Such an event goes to its subscription at once, unless a repair was there first.

**The window of deliveries.** A carrier counts what the application has not taken, and brings only so much more. Two
kinds of events break that count, and the ledger mends it. What the transport keeps for itself (its own messages,
repetitions) is taken by nobody: `consume`. What the application gets though it did not come over the subscription
(repairs, events from history) must not be told as taken: `lend`, and the next events that the application takes pay for
it.

An event that was repaired before its original came is in `given`, by its number in the headers, with the subscriptions
that have it, so that none gets it twice.

**To the application.** `packed` puts events that are handed over in one step side by side again. Where the carrier has
no names for publishers and no numbers for events, those of the transport's headers stand for them.
"""

from collections import deque
from collections.abc import Container, Hashable, Iterable, Sequence
from itertools import groupby, repeat
from typing import cast

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect
from tidings.protocols.transport.carrier import Carried, Own, RoomMade
from tidings.protocols.transport.headers import HEADER_BYTES, decode_data
from tidings.protocols.transport.marks import DATA_TAIL, is_event
from tidings.protocols.transport.ordering.stream import REPEATED, TOO_OLD
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import CarriedEvent, Caught, Emit, Handed, Stream, Way
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.client import Arrived, Confirmed, Failed, PublishBatch, Receipt, Ticket, Took, Window

BACKLOG_MAX = 16_384
"""Events with a header that wait for the carrier's window: as many as that of a session holds by default."""

BACKLOG_FULL = "more waits for the carrier than is allowed"
WITHHELD = "withheld: its receivers can take no more of its flow, and the queue of the flow is full"


class Sending(msgspec.Struct):
    """A batch of the application."""

    number: int
    advertisement: int
    ticket: Ticket | None
    count: int
    left: int
    """Events that are still in the transport, or in the backlog."""
    last: int = 0
    """The carrier's number of the last of them that it has."""
    pieces: int = 0
    """Pieces that reached the carrier under tickets of their own, and have no answer yet."""
    made: int = 0
    has_failed: bool = False


class Sendings:
    """`window` is the carrier's."""

    def __init__(self, window: Window, params: TransportParams) -> None:
        self.window = window
        self.open: dict[Hashable, Sending] = {}
        """By number."""
        self.made = 0
        self.backlog: deque[Emit] = deque()
        self.configure(params)

    def configure(self, params: TransportParams) -> None:
        self.overhead_bytes = overhead_of(params)

    # What a client asks.

    @property
    def publications_max(self) -> int:
        return self.window.publications_max

    @property
    def bytes_max(self) -> int:
        return self.window.bytes_max

    @property
    def count(self) -> int:
        """Events of the application that are not accepted yet, batch by batch."""
        self.forget_done()
        return sum(sending.count for sending in self.open.values())

    @property
    def next(self) -> int:
        return self.made + 1

    @property
    def through(self) -> int:
        """All batches up to this one are accepted, or given up."""
        self.forget_done()
        return next(iter(self.open.values())).number - 1 if self.open else self.made

    def has_room(self, count: int, size_bytes: int) -> bool:
        return not self.backlog and self.window.has_room(count, size_bytes + count * self.overhead_bytes)

    # What becomes of them.

    def begin(self, request: PublishBatch) -> int:
        self.made += 1
        count = len(request.heads)
        self.open[self.made] = Sending(self.made, request.advertisement, request.ticket, count, count)
        return self.made

    def put(self, emits: Sequence[Emit]) -> Sequence[Emit]:
        """They have left the transport; answers with those for which there is no room at all."""
        self.backlog.extend(emits)
        surplus = []
        while len(self.backlog) > BACKLOG_MAX:
            surplus.append(self.backlog.pop())
        return surplus

    def take(self) -> tuple[Sending, PublishBatch] | None:
        """What goes to the carrier next, and the batch it is of; None while there is no room for anything."""
        backlog = self.backlog
        number = backlog[0].ticket
        heads: list[bytes] = []
        payloads: list[bytes] = []
        size_bytes = 0
        while backlog and backlog[0].ticket == number:
            head, payload = backlog[0].head, backlog[0].payload
            size_bytes += len(head) + len(payload)
            if not self.window.has_room(len(heads) + 1, size_bytes):
                break
            backlog.popleft()
            heads.append(head)
            payloads.append(payload)
        if not heads:
            return None
        sending = self.open[number]
        ticket = sending.ticket
        if ticket is not None and len(heads) < sending.count:
            sending.made += 1
            sending.pieces += 1
            ticket = Own("piece", (number, sending.made))
        sending.left -= len(heads)
        return sending, PublishBatch(sending.advertisement, tuple(heads), tuple(payloads), ticket)

    def lost(self, number: Hashable) -> list[Effect]:
        """An event of this batch will never leave."""
        sending = self.open.get(number)
        if sending is None:
            return []
        sending.left -= 1
        return [*fail(sending, WITHHELD), Deliver(RoomMade())]

    def answered(self, ticket: Own, receipt: Receipt | None, problem: str) -> list[Effect]:
        """What became of the piece that has this ticket."""
        number, _ = cast(tuple[int, int], ticket.key)
        sending = self.open.get(number)
        if sending is None:
            return []
        sending.pieces -= 1
        if problem:
            return fail(sending, problem)
        is_done = not sending.left and not sending.pieces and not sending.has_failed
        return [Deliver(Confirmed(sending.ticket, receipt))] if is_done else []

    def forget_done(self) -> None:
        """Batches at the front of which nothing is to come."""
        while self.open:
            first = next(iter(self.open))
            sending = self.open[first]
            if sending.left or sending.last > self.window.through or sending.pieces:
                return
            del self.open[first]

    def check(self) -> None:
        assert len(self.backlog) <= BACKLOG_MAX, "more waits for the window than is allowed"
        for sending in self.open.values():
            assert 0 <= sending.left <= sending.count, "events of a batch are counted wrongly"
            assert sending.pieces >= 0, "a piece was answered twice"


def fail(sending: Sending, reason: str) -> list[Effect]:
    if sending.ticket is None or sending.has_failed:
        return []
    sending.has_failed = True
    return [Deliver(Failed(sending.ticket, reason))]


def overhead_of(params: TransportParams) -> int:
    """About the bytes that mark and header add to an event."""
    if not params.is_ordered:
        return 0
    return HEADER_BYTES + params.record * (4 + params.profile.size_bytes) + len(DATA_TAIL) + 2


GIVEN_MAX = 8192
"""Repaired events that are remembered, twice the window of numbers in which the transport knows repetitions."""

BROUGHT: tuple[Way, ...] = ("repaired", "history")
"""Ways that do not lead over the subscription."""

CAME_BEFORE = (REPEATED, TOO_OLD)
"""Why the transport drops what the carrier has not delivered to this subscription before."""


class WindowLedger:
    """What the carrier takes for held by the application and is not, and the reverse."""

    def __init__(self) -> None:
        self.consumed: dict[int, int] = {}
        """Of this step, to be told to the carrier at its end."""
        self.lent: dict[int, int] = {}
        self.given: dict[tuple[Stream, int], tuple[int, ...]] = {}

    def consume(self, subscriptions: Iterable[int], count: int = 1) -> None:
        for subscription in subscriptions:
            self.consumed[subscription] = self.consumed.get(subscription, 0) + count

    def take_consumed(self) -> list[Took]:
        consumed, self.consumed = self.consumed, {}
        return [Took(subscription, count) for subscription, count in consumed.items()]

    def lend(self, handed: Handed) -> None:
        subscriptions = handed.content.subscriptions
        for subscription in subscriptions:
            self.lent[subscription] = self.lent.get(subscription, 0) + 1
        key = handed.stream, handed.sequence
        self.given[key] = self.given.get(key, ()) + subscriptions
        if len(self.given) > GIVEN_MAX:
            del self.given[next(iter(self.given))]

    def took(self, request: Took) -> Took | None:
        """What the carrier is to be told of what the application took."""
        lent = self.lent.get(request.subscription, 0)
        if not lent:
            return request
        paid = min(lent, request.count)
        if paid == lent:
            del self.lent[request.subscription]
        else:
            self.lent[request.subscription] = lent - paid
        return Took(request.subscription, request.count - paid) if request.count > paid else None

    def forget(self, subscription: int) -> None:
        self.lent.pop(subscription, None)
        self.consumed.pop(subscription, None)

    def check(self) -> None:
        assert len(self.given) <= GIVEN_MAX, "more repaired events are remembered than is allowed"
        assert all(count > 0 for count in self.lent.values()), "nothing is lent, and noted"


class Intake:
    """`own` are the subscriptions of the transport itself; `repeats` says the same as of the carrier. Whatever came for
    the application and does not go on to it is taken by us."""

    def __init__(self, transport: TransportNode, ledger: WindowLedger, own: Container[int], repeats: bool) -> None:
        self.transport, self.ledger, self.own, self.repeats = transport, ledger, own, repeats

    def catch(self, now: float, items: Sequence[Arrived]) -> list[Effect]:
        """What the transport orders for the publications of one delivery."""
        for item in items:
            if item.subscription in self.own:
                self.ledger.consume((item.subscription,), len(item.numbers))
        effects: list[Effect] = []
        handle = self.transport.handle
        for content in contents_of(items, self.own):
            caught = handle(now, Caught(content))
            if len(caught) != 1 or type(caught[0]) is not Deliver:
                caught = self.settle(content, caught)
            effects += caught
        return effects

    def settle(self, content: CarriedEvent, effects: list[Effect]) -> list[Effect]:
        wanted = content.subscriptions
        if not wanted:
            return effects
        if not is_event(content.head):
            # A message of a transport, which the application's filter happens to match.
            self.ledger.consume(wanted)
            return effects
        settled: list[Effect] = []
        for effect in effects:
            if type(effect) is Drop and type(effect.item) is CarriedEvent:
                if effect.reason in CAME_BEFORE and not self.repeats:
                    settled += self.again(content, effect.item)
                    continue
                self.ledger.consume(effect.item.subscriptions)
            settled.append(effect)
        return settled

    def again(self, content: CarriedEvent, inner: CarriedEvent) -> list[Effect]:
        """The transport had it before; but these subscriptions had not, unless as a repair."""
        header, _ = decode_data(content.payload)
        stream = content.source, header.publisher
        sequence = self.transport.shim.whole(stream, header.sequence)
        given = self.ledger.given.get((stream, sequence), ())
        had = tuple([number for number in inner.subscriptions if number in given])
        lacking = tuple([number for number in inner.subscriptions if number not in given])
        self.ledger.consume(had)
        effects: list[Effect] = [Drop(inner, REPEATED)] if had else []
        if lacking:
            effects.append(Deliver(Handed(inner.to(lacking), stream, sequence)))
        return effects


def contents_of(items: Sequence[Arrived], own: Container[int]) -> list[CarriedEvent]:
    """The publications of one delivery, each once; `own` are the subscriptions of the transport itself."""
    first = items[0]
    same = repeat(first.publisher), repeat(first.accepted_at)
    if len(items) == 1 or all(item.numbers == first.numbers for item in items):
        wanted = tuple([item.subscription for item in items if item.subscription not in own])
        return list(map(CarriedEvent, first.heads, first.payloads, same[0], first.numbers, same[1], repeat(wanted)))
    bytes_of: dict[int, tuple[bytes, bytes]] = {}
    wanted_by: dict[int, list[int]] = {}
    for item in items:
        for number, head, payload in zip(item.numbers, item.heads, item.payloads, strict=True):
            bytes_of[number] = head, payload
            subscriptions = wanted_by.setdefault(number, [])
            if item.subscription not in own:
                subscriptions.append(item.subscription)
    return [
        CarriedEvent(*bytes_of[number], first.publisher, number, first.accepted_at, tuple(wanted_by[number]))
        for number in sorted(bytes_of)
    ]


def packed(handed: Sequence[Handed]) -> list[Effect]:
    """Events that are handed over in one step, side by side again as far as they belong together."""
    effects: list[Effect] = []
    for (subscriptions, publisher, accepted_at, way, latch, held), run in groupby(handed, likeness):
        events = list(run)
        numbers = tuple([each.content.number if each.content.source else each.sequence for each in events])
        heads = tuple([each.content.head for each in events])
        payloads = tuple([each.content.payload for each in events])
        for subscription in subscriptions:
            item = Arrived(subscription, publisher, accepted_at, numbers, heads, payloads)
            if way != "direct" or held:
                item = Carried(subscription, publisher, accepted_at, numbers, heads, payloads, way, latch, held)
            effects.append(Deliver(item))
    return effects


def likeness(handed: Handed) -> tuple[tuple[int, ...], str, float, Way, float, float]:
    content = handed.content
    publisher = content.source or name_of(handed.stream)
    return content.subscriptions, publisher, content.accepted_at, handed.way, handed.latch, handed.held


def name_of(stream: Stream) -> str:
    """Of a publisher for which the carrier has no name; empty for one that has no transport either."""
    return f"{stream[1]:08x}" if stream[1] else ""
