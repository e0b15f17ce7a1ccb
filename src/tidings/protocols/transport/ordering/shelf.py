"""The shelf of a stream: events that are held back, and which go when; those that are awaited, and given up when.

Events leave by number. The lowest one that is held leaves when everything below it is settled (it came, is not for us,
or was given up) or when its latch is over; those behind it follow by the same rule. An event never leaves because a
*later* one is due: that would undo most of what holding it was for. Whatever is awaited when a later event leaves,
since its latch was over, is lost, and said so once.

With `patience` an event whose latch is over stays for what was lost before it and is asked for (`asked`), until that
comes, is given up, or patience is over too. Then order is strict, and waits for repairs.

**Numbers** (`NumberStates`): what became of each number of the stream, in two rows of bits. A number was *received* or
not; and it is *settled* when nobody waits for it any more: it was received, it is not for us, or it was given up.
Numbers more than a window below the highest are forgotten; so the rows stay short whatever numbers a publisher claims.
Bit i stands for `origin + i`.

A run of events in order is entered at once (`add_through`), when something else happens: in order is the usual case,
and then nobody looks.
"""

import math
from heapq import heappop, heappush

import msgspec

from tidings.machine.effects import Deliver, Effect, SetTimer
from tidings.model.bounds import RECORD_MAX
from tidings.protocols.transport.ordering.rules import WantedRows, model_of
from tidings.protocols.transport.params import OrderingParams
from tidings.protocols.transport.signals import (
    CarriedEvent,
    EventLost,
    Handed,
    Quality,
    Stream,
    Way,
    event_key,
    publisher_text,
)
from tidings.pubsub.notes import LossDetected


class NumberStates:
    """`NumberStates(first, window)`: `first` was received, and what was before it is not waited for."""

    __slots__ = ("high", "origin", "received", "settled", "window")

    def __init__(self, first: int, window: int) -> None:
        self.window = window
        self.high = first
        """The highest number that anything is known of."""
        self.origin = max(0, first - window)
        self.received = 1 << first - self.origin
        self.settled = (1 << first - self.origin + 1) - 1

    def reach(self, number: int) -> None:
        """Something will be known of this number: forget what is too far below."""
        if number <= self.high:
            return
        self.high = number
        surplus = number - self.origin - 2 * self.window
        if surplus > 0:
            # By whole windows, so that most events shift nothing.
            shift = surplus + self.window
            self.received >>= shift
            self.settled >>= shift
            self.origin += shift

    def add_through(self, low: int, high: int) -> None:
        """All from `low` to `high` were received."""
        self.reach(high)
        low = max(low, self.origin)
        if low <= high:
            run = (1 << high - low + 1) - 1 << low - self.origin
            self.received |= run
            self.settled |= run

    def add(self, number: int) -> None:
        self.reach(number)
        if number >= self.origin:
            bit = 1 << number - self.origin
            self.received |= bit
            self.settled |= bit

    def settle(self, number: int) -> None:
        self.reach(number)
        if number >= self.origin:
            self.settled |= 1 << number - self.origin

    def reopen(self, number: int) -> None:
        """It is waited for after all, unless it was received."""
        if number >= self.origin:
            self.settled = self.settled & ~(1 << number - self.origin) | self.received

    def settle_through(self, low: int, high: int) -> None:
        """All from `low` to `high`."""
        self.reach(high)
        low = max(low, self.origin)
        if low <= high:
            self.settled |= (1 << high - low + 1) - 1 << low - self.origin

    def is_received(self, number: int) -> bool:
        return number >= self.origin and self.received >> number - self.origin & 1 == 1

    def is_settled(self, number: int) -> bool:
        return number < self.origin or self.settled >> number - self.origin & 1 == 1

    def are_settled(self, low: int, high: int) -> bool:
        """All between the two, which do not count. Of a longer range than is remembered, what is remembered counts."""
        low = max(low + 1, self.origin)
        if low >= high:
            return True
        width = high - low
        return self.settled >> low - self.origin & (1 << width) - 1 == (1 << width) - 1

    def count_settled(self, low: int, high: int) -> int:
        """Of those between the two."""
        low = max(low + 1, self.origin)
        return (self.settled >> low - self.origin & (1 << high - low) - 1).bit_count() if low < high else 0

    def check(self) -> None:
        assert self.received & ~self.settled == 0, "a number that was received is waited for"
        assert self.settled >> self.high - self.origin + 1 == 0, "a number above the highest is settled"


class Rules:
    __slots__ = ("interests", "is_enhanced", "is_static", "model", "params", "window")

    def __init__(self, params: OrderingParams, interests: WantedRows) -> None:
        self.params, self.interests = params, interests
        self.model = model_of(params)
        self.is_enhanced, self.is_static = params.mode == "enhanced", params.mode == "static"
        # A record must not reach below what is remembered.
        self.window = max(params.window, RECORD_MAX + 1)

    def bounded(self, latch: float) -> float:
        return min(max(latch, 0.0), self.params.latch_max)


class Held(msgspec.Struct, frozen=True):
    """An event that came before one that may still come; it goes out at `deadline` at the latest, unless one with a
    lower number is held too."""

    content: CarriedEvent
    arrived: float
    latch: float
    deadline: float
    way: Way = "direct"


class Missing(msgspec.Struct, frozen=True):
    """An event that is for us by its Bloom row and has not come. `deadline` is set where no event that is held decides
    how long we wait for it."""

    bits: int
    departed: float
    subscriptions: tuple[int, ...]
    deadline: float = math.inf


class Awaited:
    """Events that may still come, by number; those with a deadline of their own are found by it too."""

    __slots__ = ("deadlines", "missing")

    def __init__(self) -> None:
        self.missing: dict[int, Missing] = {}
        self.deadlines: list[tuple[float, int]] = []
        """A heap. What has come or was given up in the meantime is left in it until its time."""

    def __len__(self) -> int:
        return len(self.missing)

    def add(self, number: int, missing: Missing) -> None:
        self.missing[number] = missing
        if missing.deadline < math.inf:
            heappush(self.deadlines, (missing.deadline, number))

    def take(self, number: int) -> Missing | None:
        return self.missing.pop(number, None)

    @property
    def oldest(self) -> int:
        """The one that is awaited longest."""
        return next(iter(self.missing))

    def between(self, low: int, high: int) -> list[int]:
        return sorted(one for one in self.missing if low < one < high) if self.missing else []

    def expired(self, now: float) -> list[int]:
        """Those whose own deadline has passed, in its order."""
        found = []
        while self.deadlines and self.deadlines[0][0] <= now:
            deadline, number = heappop(self.deadlines)
            missing = self.missing.get(number)
            if missing is not None and missing.deadline == deadline:
                found.append(number)
        return found

    @property
    def next_deadline(self) -> float:
        while self.deadlines:
            deadline, number = self.deadlines[0]
            missing = self.missing.get(number)
            if missing is not None and missing.deadline == deadline:
                return deadline
            heappop(self.deadlines)
        return math.inf


class Shelf:
    """For the stream whose first event is number `first`."""

    def __init__(self, stream: Stream, first: int, rules: Rules) -> None:
        self.stream, self.rules = stream, rules
        self.numbers = NumberStates(first, rules.window)
        self.handed = first
        """The highest number that went out in order."""
        self.pending: list[tuple[int, Held]] = []
        """Events that are held back: a heap, the lowest number first."""
        self.awaited = Awaited()
        self.lost: dict[int, None] = {}
        """Given up, and not here yet."""
        self.asked: dict[int, None] = {}
        """Those of them that events wait for."""
        self.patient_until = -math.inf
        """The lowest event that is held stays so long, whatever its latch."""
        self.armed = math.inf
        self.delivered, self.losses = 1, 0

    def settle(self, now: float) -> list[Effect]:
        """Give up what is overdue, let go what may go, and see to the timer."""
        effects: list[Effect] = []
        for number in self.awaited.expired(now):
            effects += self.lose(number)
        self.patient_until = -math.inf
        while self.pending and self.is_free(now):
            number, held = self.pending[0]
            for missing in self.awaited.between(self.handed, number):
                effects += self.lose(missing)
            if self.is_patient(now, number, held):
                break
            effects.append(self.release(now))
        while len(self.awaited) > self.rules.params.pending_max:
            effects += self.lose(self.awaited.oldest)
        return effects + self.arm()

    def is_free(self, now: float) -> bool:
        """Whether the lowest event that is held may go."""
        number, held = self.pending[0]
        is_due = held.deadline <= now or len(self.pending) > self.rules.params.pending_max
        return is_due or self.numbers.are_settled(self.handed, number)

    def is_patient(self, now: float, number: int, held: Held) -> bool:
        """Whether an event that is due waits on for one before it."""
        until = held.deadline + self.rules.params.patience
        if not self.asked or now >= until or len(self.pending) > self.rules.params.pending_max:
            return False
        if not self.is_asked_below(number):
            return False
        self.patient_until = until
        return True

    def is_asked_below(self, number: int) -> bool:
        """Whether something is waited for that belongs before this event, and after what went out."""
        return any(self.handed < one < number for one in self.asked)

    def release(self, now: float) -> Effect:
        """The lowest event that is held goes out; nothing waits any more for what was before it."""
        number, held = heappop(self.pending)
        for passed in [one for one in self.asked if one < number]:
            self.end_asking(passed)
        self.handed = number
        self.delivered += 1
        return Deliver(Handed(held.content, self.stream, number, held.way, held.latch, now - held.arrived))

    def end_asking(self, number: int) -> None:
        """Nothing waits for it any more."""
        if number in self.asked:
            del self.asked[number]
            self.numbers.settle(number)

    def lose(self, number: int) -> list[Effect]:
        missing = self.awaited.take(number)
        assert missing is not None, "only what is awaited can be given up"
        listening = self.rules.interests.filters
        wanted = tuple([one for one in missing.subscriptions if one in listening])
        if not wanted:
            self.numbers.settle(number)
            return []
        self.losses += 1
        self.lost[number] = None
        if self.rules.params.patience and number > self.handed:
            self.asked[number] = None
        else:
            self.numbers.settle(number)
        if len(self.lost) > self.rules.window:
            oldest = next(iter(self.lost))
            del self.lost[oldest]
            self.end_asking(oldest)
        return [
            EventLost(self.stream, number, missing.bits, missing.departed, wanted),
            LossDetected(event_key(self.stream, number), publisher_text(self.stream), number),
            Deliver(Quality("lost", self.stream, number)),
        ]

    def arm(self) -> list[Effect]:
        """A timer that is set already is left to fire too early: that is cheaper than one for each event."""
        at = self.next_deadline
        if at >= self.armed:
            return []
        self.armed = at
        return [SetTimer(("latch", self.stream), at)]

    @property
    def next_deadline(self) -> float:
        first = max(self.pending[0][1].deadline, self.patient_until) if self.pending else math.inf
        return min(first, self.awaited.next_deadline)

    def flush(self, now: float) -> list[Effect]:
        """Everything that is held goes out, and nothing is called lost: the stream is forgotten."""
        self.awaited = Awaited()
        self.asked.clear()
        effects: list[Effect] = []
        while self.pending:
            effects.append(self.release(now))
        return effects

    def expect(self, number: int, missing: Missing) -> None:
        self.numbers.reach(number)
        self.awaited.add(number, missing)

    def hold(self, number: int, held: Held) -> None:
        heappush(self.pending, (number, held))

    def deadline_above(self, number: int) -> float:
        """When the first event above `number` goes out at the latest."""
        above = [entry for entry in self.pending if entry[0] > number]
        return min(above, key=lambda entry: entry[0])[1].deadline if above else math.inf

    def check(self) -> None:
        held_max = self.rules.params.pending_max
        self.numbers.check()
        assert len(self.pending) <= held_max, "more events are held than pending_max allows"
        assert len(self.awaited) <= held_max, "more events are awaited than pending_max allows"
        assert all(self.handed < number for number, _ in self.pending), "a late event is held"
        assert self.rules.is_enhanced or not self.awaited, "events are awaited without a record"
        for number in self.awaited.missing:
            is_known = number >= self.numbers.origin
            assert not (is_known and self.numbers.is_settled(number)), "a number is awaited that is settled"
        assert self.armed <= self.next_deadline, "nothing will let go what is held"
