"""The shelf of a stream: events that are held back, and which go when; those that are awaited, and given up when.

Events leave by number. The lowest one that is held leaves when everything below it is settled (it came, is not for us,
or was given up) or when its latch is over; those behind it follow by the same rule. An event never leaves because a
*later* one is due: that would undo most of what holding it was for. Whatever is awaited when a later event leaves,
since its latch was over, is lost, and said so once.

With `patience` an event whose latch is over stays for what was lost before it and is asked for (`asked`), until that
comes, is given up, or patience is over too. Then order is strict, and waits for repairs.
"""

import math

from tidings.machine.effects import Deliver, Effect, SetTimer
from tidings.protocols.transport.keys import event_key
from tidings.protocols.transport.ordering.numbers import Numbers
from tidings.protocols.transport.ordering.pending import Awaited, Held, Missing, Pending
from tidings.protocols.transport.ordering.rules import Rules
from tidings.protocols.transport.signals import Handed, Lost, Quality, Stream
from tidings.pubsub.notes import LossDetected


class Shelf:
    """For the stream whose first event is number `first`."""

    __slots__ = (
        "armed",
        "asked",
        "awaited",
        "delivered",
        "handed",
        "losses",
        "lost",
        "numbers",
        "patient_until",
        "pending",
        "rules",
        "stream",
    )

    def __init__(self, stream: Stream, first: int, rules: Rules) -> None:
        self.stream, self.rules = stream, rules
        self.numbers = Numbers(first, rules.window)
        self.handed = first
        """The highest number that went out in order."""
        self.pending, self.awaited = Pending(), Awaited()
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
            number, held = self.pending.head
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
        number, held = self.pending.head
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
        number, held = self.pending.pop()
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
            Lost(self.stream, number, missing.bits, missing.departed, wanted),
            LossDetected(event_key(self.stream, number), self.publisher, number),
            Deliver(Quality("lost", self.stream, number)),
        ]

    @property
    def publisher(self) -> str:
        """What traces call it."""
        return self.stream[0] or str(self.stream[1])

    def arm(self) -> list[Effect]:
        """A timer that is set already is left to fire too early: that is cheaper than one for each event."""
        at = self.next_deadline
        if at >= self.armed:
            return []
        self.armed = at
        return [SetTimer(("latch", self.stream), at)]

    @property
    def next_deadline(self) -> float:
        first = max(self.pending.head[1].deadline, self.patient_until) if self.pending else math.inf
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
        self.pending.push(number, held)

    def check(self) -> None:
        held_max = self.rules.params.pending_max
        self.numbers.check()
        assert len(self.pending) <= held_max, "more events are held than pending_max allows"
        assert len(self.awaited) <= held_max, "more events are awaited than pending_max allows"
        assert all(self.handed < number for number, _ in self.pending.heap), "a late event is held"
        assert self.rules.is_enhanced or not self.awaited, "events are awaited without a record"
        for number in self.awaited.missing:
            is_known = number >= self.numbers.origin
            assert not (is_known and self.numbers.is_settled(number)), "a number is awaited that is settled"
        assert self.armed <= self.next_deadline, "nothing will let go what is held"
