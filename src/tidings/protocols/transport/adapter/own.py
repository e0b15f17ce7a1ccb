"""What the transport itself wants of its carrier: subscriptions, an advertisement for its own messages, and lost events
from its history.

Subscriptions are those of `Watch`: with no guarantee, since the network is best effort to the transport, and with a
queue whose oldest entries go first. The application sees neither them nor their tickets. A subscription that is refused
is left out; the transport works with what it hears.

The transport's messages are published under an advertisement of their own, `tidings_transport != 'data'`, made when the
first is to be sent; up to `WAITING_MAX` wait until the network knows it. A client may be bound to publish less than
that. Then `problem` says so, and recovery and congestion control, which must speak, are off; ordering, which need not,
goes on. With the next broker it is tried again.

**Lost events from history** (`StoredEvents`), where the carrier has one: those that the transport asks for, and those
of which the carrier itself says that it dropped them.

**Recalls.** The transport asks (`Recall`) for what a publisher published between two of its numbers and a subscription
matches; here that becomes pages to read. At most `READINGS_MAX` recalls are read at a time, so that the application can
read too; up to `RECALLS_MAX` wait, others are answered at once, with nothing. An answer has at most `PAGES_MAX` pages:
a stretch with more that matches is not one in which a few events were lost.

**Holes.** The transport finds losses by records, and a record tells of a few events only. Our brokers tell more:
`Missed` names the subscription and the publisher of what was dropped for a slow client, and how many. So for a reliable
subscription the stretch in which they must lie is read from history: behind the last event that came before `Missed`,
up to the last one that has come since. What the transport has not seen of it is `Recovered`, by the way "history".

    Missed            a hole begins at the position of the subscription; look after `WAIT_FIRST`
    timer             something came since: read up to that. Nothing did: ask how far the publisher has come (marks)
    page              bring what is lacking; read on; at the end of the stretch the hole moves up to there
    enough, or late   the hole is closed when all that was missed is found, or after `TRIES_MAX` looks, each time twice
                      as far apart: the rest came another way, or is no longer stored

Timer ("hole", (subscription, publisher)). At most `HOLES_MAX` holes; what is dropped beyond them is not looked for.
Only events with a header are brought: without one nobody can tell what came already.
"""

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import cast

import msgspec

from tidings.machine.effects import Drop, SetTimer
from tidings.model.bounds import PUBLISHERS_MAX
from tidings.model.language.parser import parse
from tidings.protocols.transport.carrier import Carrier, Order, Own, Subscribed
from tidings.protocols.transport.marks import MARK, Kind
from tidings.protocols.transport.signals import (
    CarriedEvent,
    Emit,
    FoundLosses,
    Recall,
    Recalled,
    Recovered,
    Watch,
    opened,
)
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.client import (
    CloseAdvertisement,
    CloseSubscription,
    Fetched,
    MarksReply,
    Missed,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    ReadHistory,
    ReadMarks,
    Receipt,
)

CONTROL = parse(f"{MARK} != '{Kind.DATA.value}'")
WAITING_MAX = 256
QUEUE_MAX = 1000
WINDOW = 1024
RANGES_MAX = 1024
"""Runs of publications of our own that are remembered, so that the application does not hear if they are declined."""

NOT_KNOWN_YET = "the network does not know our advertisement yet, and too many messages wait for that"
MAY_NOT = "this client may not publish the transport's messages"


class OwnNeeds:
    def __init__(self) -> None:
        self.wanted: dict[Hashable, tuple[int, str]] = {}
        """By key: the carrier's number for it, and its filter."""
        self.keys: dict[int, Hashable] = {}
        """The same by number."""
        self.advertisement = 0
        self.is_asked = self.is_open = False
        self.waiting: deque[Emit] = deque()
        self.published: deque[tuple[int, int]] = deque(maxlen=RANGES_MAX)
        self.problem = ""
        """Why our messages may not be published; empty where they may."""

    # Subscriptions.

    def ask(self, ask: Watch) -> list[Order]:
        known = self.wanted.get(ask.key)
        if known is not None and known[1] == ask.filter:
            return []
        closing = self.unask(ask.key)
        self.wanted[ask.key] = 0, ask.filter
        opening = OpenSubscription(
            Own("ask", ask.key), ask.filter, "none", policy="drop oldest", queue_max=QUEUE_MAX, window=WINDOW
        )
        return [opening, *closing]

    def unask(self, key: Hashable) -> list[Order]:
        number, _ = self.wanted.pop(key, (0, ""))
        if not number:
            return []
        del self.keys[number]
        return [CloseSubscription(Own("close", number), number)]

    def begun(self, ticket: Own, number: int) -> None:
        if ticket.what == "ask":
            _, filter = self.wanted[ticket.key]
            self.wanted[ticket.key] = number, filter
            self.keys[number] = ticket.key
        elif ticket.what == "advertise":
            self.advertisement = number

    def refused(self, key: Hashable) -> None:
        """The subscription of this key is not carried out."""
        number, _ = self.wanted.pop(key, (0, ""))
        self.keys.pop(number, None)

    # Messages of our own.

    def publish(self, emits: Sequence[Emit]) -> list[Order]:
        """What the carrier is to be asked, and what is given up."""
        if self.problem:
            return [Drop(emit, MAY_NOT) for emit in emits]
        if self.is_open:
            return [self.batch(emits)]
        self.waiting.extend(emits)
        effects: list[Order] = []
        while len(self.waiting) > WAITING_MAX:
            effects.append(Drop(self.waiting.popleft(), NOT_KNOWN_YET))
        if not self.is_asked:
            self.is_asked = True
            effects.append(OpenAdvertisement(Own("advertise"), CONTROL.text()))
        return effects

    def batch(self, emits: Sequence[Emit]) -> PublishBatch:
        heads, payloads = tuple([emit.head for emit in emits]), tuple([emit.payload for emit in emits])
        return PublishBatch(self.advertisement, heads, payloads)

    def confirmed(self, receipt: Receipt | None) -> list[Order]:
        """Our advertisement is known, as far as we may publish."""
        if receipt is not None and receipt.filter and parse(receipt.filter) != CONTROL:
            self.forbid(f"{MAY_NOT}, only {receipt.filter}")
            return [CloseAdvertisement(Own("close", self.advertisement), self.advertisement)]
        self.is_open = True
        waiting = tuple(self.waiting)
        self.waiting.clear()
        return [self.batch(waiting)] if waiting else []

    def forbid(self, reason: str) -> None:
        self.problem = (
            f"{reason}; recovery and pacing are off until the bound on what it publishes includes {CONTROL.text()}"
        )
        self.is_asked = self.is_open = False
        self.waiting.clear()

    def is_ours(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self.published)

    def check(self) -> None:
        assert len(self.waiting) <= WAITING_MAX, "too many messages wait for the advertisement"
        known = {number for number, _ in self.wanted.values() if number}
        assert known == set(self.keys), "subscriptions are filed wrongly"


READINGS_MAX = 8
RECALLS_MAX = 256
PAGES_MAX = 4
PAGE_PUBLICATIONS = 1024

TOO_MANY = "as much as is allowed is being read from history already"
NOTHING_THERE = "nothing was published between the two numbers"
NO_PUBLISHER = "the name of its publisher is not known"
NO_SUBSCRIPTION = "for a subscription that is not open"

WAIT_FIRST = 1.0
"""Seconds until the first look: caches of others are nearer than histories, and come first."""

TRIES_MAX = 6
HOLES_MAX = 256

HoleKey = tuple[int, str]
"""Subscription and publisher."""


class RecallReading(msgspec.Struct):
    filter: str
    through: int
    contents: list[CarriedEvent]
    pages: int = 0
    is_begun: bool = False


class Hole(msgspec.Struct):
    after: int
    """The publisher's number up to which everything is there, or was looked for."""
    missing: int
    through: int = 0
    """How far is being read; 0 while nothing is."""
    tries: int = 0


class StoredEvents:
    """`subscriptions` are those of the application that are confirmed. What is answered here is for the carrier
    (`ReadHistory`, `ReadMarks`), for the transport (`Recalled`, `FoundLosses`), or a timer."""

    def __init__(self, carrier: Carrier, transport: TransportNode, subscriptions: Mapping[int, Subscribed]) -> None:
        self.carrier, self.transport, self.subscriptions = carrier, transport, subscriptions
        self.readings: dict[Recall, RecallReading] = {}
        self.highest: dict[str, int] = {}
        """The highest number that came of each publisher: no loss that is noticed lies above it."""
        self.holes: dict[HoleKey, Hole] = {}

    def filter_of(self, subscription: int) -> str | None:
        subscribed = self.subscriptions.get(subscription)
        return None if subscribed is None else subscribed.filter

    # What the transport asks for.

    def saw(self, publisher: str, number: int) -> None:
        highest = self.highest
        if number > highest.get(publisher, 0):
            highest[publisher] = number
            if len(highest) > PUBLISHERS_MAX:
                del highest[next(iter(highest))]

    def recall(self, recall: Recall) -> list[Order]:
        """To be read as soon as possible; or why not."""
        publisher, filter = recall.stream[0], self.filter_of(recall.subscription)
        through = recall.before - 1 if recall.before else self.highest.get(publisher, 0)
        if not publisher:
            return self.answer(recall, NO_PUBLISHER)
        if filter is None:
            return self.answer(recall, NO_SUBSCRIPTION)
        if through <= recall.after:
            return self.answer(recall, NOTHING_THERE)
        if len(self.readings) >= RECALLS_MAX:
            return self.answer(recall, TOO_MANY)
        self.readings[recall] = RecallReading(filter, through, [])
        return self.begin()

    def answer(self, recall: Recall, problem: str, contents: Sequence[CarriedEvent] = ()) -> list[Order]:
        return [Recalled(recall.stream, recall.sequence, tuple(contents), problem), *self.begin()]

    def begin(self) -> list[Order]:
        """What the carrier is to be asked now."""
        free = READINGS_MAX - sum(reading.is_begun for reading in self.readings.values())
        waiting = [item for item in self.readings.items() if not item[1].is_begun][: max(0, free)]
        for _, reading in waiting:
            reading.is_begun = True
        return [page_asked(recall, reading, recall.after) for recall, reading in waiting]

    def read_recall(self, recall: Recall, page: Fetched) -> list[Order]:
        """The answer, or the next page; nothing if nobody waits for it."""
        reading = self.readings.get(recall)
        if reading is None:
            return self.begin()
        reading.pages += 1
        reading.contents += contents_of_page(page, recall.stream[0], ())
        if page.has_more and reading.pages < PAGES_MAX and page.through < reading.through:
            return [page_asked(recall, reading, page.through), *self.begin()]
        del self.readings[recall]
        return self.answer(recall, "", reading.contents)

    # What the carrier answers.

    def read(self, now: float, ticket: Own, page: Fetched) -> list[Order]:
        if ticket.what == "recall":
            return self.read_recall(cast(Recall, ticket.key), page)
        key = cast(HoleKey, ticket.key)
        hole, filter = self.holes.get(key), self.filter_of(key[0])
        if hole is None or filter is None:
            return []
        found: list[Order] = [FoundLosses(tuple(self.lacking(key, hole, page)))]
        if page.has_more and page.through < hole.through:
            hole.after = page.through
            return [*found, self.read_through(key, hole, filter, hole.through)]
        hole.after = hole.through
        return found + self.look_again(now, key)

    def marks_read(self, now: float, ticket: Own, parts: Sequence[MarksReply]) -> list[Order]:
        key = cast(HoleKey, ticket.key)
        hole, filter = self.holes.get(key), self.filter_of(key[0])
        found = [through for part in parts for name, _, through in part.marks if name == key[1]]
        if hole is None or filter is None or not found or max(found) <= hole.after:
            return self.look_again(now, key)
        return [self.read_through(key, hole, filter, max(found))]

    def failed(self, now: float, ticket: Own, reason: str) -> list[Order]:
        if ticket.what == "recall":
            recall = cast(Recall, ticket.key)
            is_known = self.readings.pop(recall, None) is not None
            return self.answer(recall, reason) if is_known else self.begin()
        return self.look_again(now, cast(HoleKey, ticket.key))

    # Holes.

    def missed(self, now: float, missed: Missed) -> list[Order]:
        key = missed.subscription, missed.publisher
        hole = self.holes.get(key)
        if hole is not None:
            hole.missing += missed.count
            hole.tries = 0
            return []
        position = self.carrier.position(*key)
        if position is None or not missed.count or not missed.publisher or len(self.holes) >= HOLES_MAX:
            return []
        self.holes[key] = Hole(position, missed.count)
        return [SetTimer(("hole", key), now + WAIT_FIRST)]

    def look(self, key: HoleKey) -> list[Order]:
        """A timer fired."""
        hole, filter, position = self.holes.get(key), self.filter_of(key[0]), self.carrier.position(*key)
        if hole is None or hole.through or filter is None or position is None:
            return []
        hole.tries += 1
        if position > hole.after:
            return [self.read_through(key, hole, filter, position)]
        return [ReadMarks(Own("marks", key), filter)]

    def read_through(self, key: HoleKey, hole: Hole, filter: str, through: int) -> ReadHistory:
        hole.through = through
        return read_history(Own("hole", key), filter, key[1], hole.after, through)

    def lacking(self, key: HoleKey, hole: Hole, page: Fetched) -> Iterator[Recovered]:
        """What a page has that we have not: an event that was lost and is here."""
        for stored in contents_of_page(page, key[1], (key[0],)):
            header, event = opened(stored)
            if header is None:
                continue
            stream = key[1], header.publisher
            sequence = self.transport.shim.lacks(stream, header.sequence)
            if sequence is not None:
                hole.missing -= 1
                yield Recovered(stream, sequence, event, "history")

    def look_again(self, now: float, key: HoleKey) -> list[Order]:
        """Nothing more is read now: later, unless all is found, or we looked often enough."""
        hole = self.holes.get(key)
        if hole is None:
            return []
        hole.through = 0
        if hole.missing <= 0 or hole.tries >= TRIES_MAX:
            del self.holes[key]
            return []
        return [SetTimer(("hole", key), now + WAIT_FIRST * 2.0**hole.tries)]

    def forget(self, subscription: int) -> None:
        """Timers that are set find nothing."""
        for key in [key for key in self.holes if key[0] == subscription]:
            del self.holes[key]

    def check(self) -> None:
        assert len(self.readings) <= RECALLS_MAX, "more is to be read from history than is allowed"
        assert sum(reading.is_begun for reading in self.readings.values()) <= READINGS_MAX, "too much is read at once"
        assert len(self.highest) <= PUBLISHERS_MAX, "too many publishers are remembered"
        assert len(self.holes) <= HOLES_MAX, "more holes are looked after than is allowed"
        assert all(hole.tries <= TRIES_MAX for hole in self.holes.values()), "looked too often"


def page_asked(recall: Recall, reading: RecallReading, after: int) -> ReadHistory:
    return read_history(Own("recall", recall), reading.filter, recall.stream[0], after, reading.through)


def read_history(ticket: Own, filter: str, publisher: str, after: int, through: int) -> ReadHistory:
    return ReadHistory(ticket, filter, publisher, after, since=None, through=through, limit=PAGE_PUBLICATIONS)


def contents_of_page(page: Fetched, publisher: str, subscriptions: tuple[int, ...]) -> Iterator[CarriedEvent]:
    stored = page.page
    columns = stored.heads, stored.payloads, stored.numbers, stored.accepted_at
    for head, payload, number, accepted_at in zip(*columns, strict=True):
        yield CarriedEvent(head, payload, publisher, number, accepted_at, subscriptions)
