"""How a flow is kept to its rate: what the sender asks whoever controls it, and the two who can.

    Controller      may an event of this flow leave now, and if not, when? What has left; what was reported
    TokenBuckets    the equation: receivers say the rate, the publisher keeps to it
    Windows         the alternative (F-6): the publisher finds out itself, by what is acknowledged, as TCP does

**Token buckets.** A bucket fills at the flow's quota and holds what may go in one round trip, at least two: events come
in clusters, and a flow that was idle for a moment may catch up. With acknowledgements (F-3a) the publisher knows
exactly what its limiting receiver lost, and lowers the quota to what TCP would have with those losses. It never raises
it: the receiver may know of reasons that we do not see.

**Windows.** As many events of a flow may be on their way as its window says. The window grows by one in a round trip,
by one for each acknowledgement as long as it is below the threshold; when something is lost it is halved, once in a
round trip; when nothing is answered for a time-out it begins again at one. Who limits a flow is found as with the
equation: the lowest report does, and a new row begins with the window that belongs to the reported rate. Compared with
the equation this needs an acknowledgement for each event of the flow and swings more, but knows every loss and reacts
within a round trip.

**Acknowledgements.** A receiver finds losses by the publication record and misses those that no record tells of. The
publisher does not miss any, if it knows what came: it has the numbers of all events of the flow that it sent. So the
limiting receiver of a flow, and only that one, tells for each event of the flow the highest number it has, which of the
32 before that it has not (of whatever flow: the publisher knows which are of this one), and how many of the flow it has
got altogether. `FlowLedger` is the publisher's book of one flow. An event is lost when three later ones of its flow
have come (they may overtake each other) or when the time for an answer is over. What is too far back for the 32 bits,
because many acknowledgements were lost, is told by the number of those that came: so many have come, the oldest first.

Source: the transport specification, F-3a, F-6, after PGMCC.
"""

import math
from collections import deque

from tidings.protocols.transport.congestion.flows import Key, LimitedFlow
from tidings.protocols.transport.congestion.rates import LossIntervals, allowed_rate, loss_rate_at
from tidings.protocols.transport.headers import WRAP, unwrap
from tidings.protocols.transport.limits import Bucket
from tidings.protocols.transport.messages import Acknowledgement
from tidings.protocols.transport.params import CongestionParams

OVERTAKEN_BY = 3
"""Later events of the flow that must have come before one counts as lost."""

SENT_MAX = 4096
"""Events of one flow that may be on their way; the oldest is forgotten as lost."""

MISSING_BITS = 32


class FlowLedger:
    __slots__ = ("arrived", "received_base", "sent")

    def __init__(self) -> None:
        self.sent: dict[int, float] = {}
        """Events on their way: number and time of sending, oldest first."""
        self.arrived: deque[int] = deque(maxlen=OVERTAKEN_BY)
        """The highest numbers of the flow that came, highest last."""
        self.received_base: int | None = None
        """What the receiver had counted before us, modulo 2 ** 32."""

    def departed(self, sequence: int, now: float) -> int:
        """An event of the flow was sent; returns how many were forgotten."""
        self.sent[sequence] = now
        if len(self.sent) <= SENT_MAX:
            return 0
        del self.sent[next(iter(self.sent))]
        return 1

    def acknowledge(self, message: Acknowledgement) -> tuple[list[tuple[int, float]], list[int]]:
        """Events that came (number and time of sending) and events that are lost, since the last one."""
        if not self.sent:
            return [], []
        newest = next(reversed(self.sent))
        through = unwrap(message.through, newest)
        if through > newest:
            return [], []
        arrived, behind = [], 0
        for sequence, sent_at in self.sent.items():
            back = through - 1 - sequence
            if sequence == through or (0 <= back < MISSING_BITS and not message.missing >> back & 1):
                arrived.append((sequence, sent_at))
            elif back >= MISSING_BITS:
                behind += 1
        if behind:
            arrived = self.count_behind(message, arrived, behind)
        self.note_count(message, len(arrived))
        for sequence, _ in arrived:
            del self.sent[sequence]
            if not self.arrived or sequence > self.arrived[-1]:
                self.arrived.append(sequence)
        if len(self.arrived) < OVERTAKEN_BY:
            return arrived, []
        lost = [sequence for sequence in self.sent if sequence < self.arrived[0]]
        for sequence in lost:
            del self.sent[sequence]
        return arrived, lost

    def count_behind(
        self, message: Acknowledgement, arrived: list[tuple[int, float]], behind: int
    ) -> list[tuple[int, float]]:
        """Of those too far back, as many came as the receiver has counted beyond the others."""
        if self.received_base is None:
            return arrived
        told = (message.received - self.received_base) % WRAP - len(arrived)
        if told <= 0 or told > behind:
            told = 0
        oldest = [(sequence, self.sent[sequence]) for sequence in list(self.sent)[:told]]
        return oldest + arrived

    def note_count(self, message: Acknowledgement, arrived: int) -> None:
        if self.received_base is None:
            self.received_base = message.received
        else:
            self.received_base = (self.received_base + arrived) % WRAP

    def give_up(self) -> int:
        """Nothing was answered for too long: all that is on its way is lost."""
        count = len(self.sent)
        self.sent.clear()
        self.arrived.clear()
        self.received_base = None
        return count


WINDOW_MIN = 1.0
WINDOW_FIRST_MIN = 2.0
WINDOW_MAX = 4096.0
TIMEOUT_MIN = 0.2
"""Seconds that an answer may always take."""
TIMEOUT_MAX = 10.0


class FlowWindow:
    __slots__ = ("deadline", "deviation", "in_flight", "ledger", "limit", "recovers_at", "round_trip", "size", "waits")

    def __init__(self, size: float, round_trip: float) -> None:
        self.size = self.limit = size
        """How many may be on their way; below `limit` it doubles in a round trip."""
        self.in_flight = 0
        self.ledger = FlowLedger()
        self.round_trip, self.deviation = round_trip, round_trip / 2.0
        self.recovers_at = -1
        """Losses up to this number belong to the last halving."""
        self.waits = 1
        """How often the time-out is doubled."""
        self.deadline = math.inf

    @property
    def timeout(self) -> float:
        return min(TIMEOUT_MAX, self.waits * max(TIMEOUT_MIN, self.round_trip + 4.0 * self.deviation))

    def measured(self, sample: float) -> None:
        self.deviation += (abs(sample - self.round_trip) - self.deviation) / 4.0
        self.round_trip += (sample - self.round_trip) / 8.0

    def grow(self, count: int) -> None:
        step = count if self.size < self.limit else count / self.size
        self.size = min(WINDOW_MAX, self.size + step)

    def halve(self) -> None:
        self.limit = max(WINDOW_FIRST_MIN, self.size / 2.0)
        self.size = self.limit

    def begin_again(self) -> None:
        self.limit = max(WINDOW_FIRST_MIN, self.size / 2.0)
        self.size = WINDOW_MIN
        self.in_flight = 0
        self.waits *= 2
        self.ledger.give_up()
        self.deadline = math.inf


class Windows:
    def __init__(self, params: CongestionParams) -> None:
        self.params = params
        self.windows: dict[Key, FlowWindow] = {}

    def added(self, row: LimitedFlow, now: float) -> None:
        size = max(WINDOW_FIRST_MIN, min(WINDOW_MAX, row.quota * row.round_trip))
        self.windows[row.key] = FlowWindow(size, row.round_trip)

    def reported(self, row: LimitedFlow, now: float) -> None:
        pass

    def removed(self, row: LimitedFlow) -> None:
        self.windows.pop(row.key, None)

    def is_ready(self, row: LimitedFlow, now: float) -> bool:
        window = self.windows[row.key]
        return window.in_flight + 1 <= window.size

    def ready_at(self, row: LimitedFlow, now: float) -> float:
        return now if self.is_ready(row, now) else math.inf

    def take(self, row: LimitedFlow, now: float) -> None:
        window = self.windows[row.key]
        window.in_flight += 1
        if window.deadline == math.inf:
            window.deadline = now + window.timeout

    def rate_of(self, row: LimitedFlow) -> float:
        window = self.windows[row.key]
        return window.size / max(window.round_trip, self.params.tick_min)

    def departed(self, row: LimitedFlow, sequence: int, now: float) -> None:
        window = self.windows[row.key]
        window.in_flight -= window.ledger.departed(sequence, now)

    def acknowledged(self, row: LimitedFlow, message: Acknowledgement, now: float) -> None:
        window = self.windows[row.key]
        newest = next(reversed(window.ledger.sent), -1)
        arrived, lost = window.ledger.acknowledge(message)
        window.in_flight = max(0, window.in_flight - len(arrived) - len(lost))
        if arrived:
            window.measured(now - arrived[-1][1])
            window.waits = 1
            window.grow(len(arrived))
            window.deadline = now + window.timeout if window.ledger.sent else math.inf
        if any(sequence > window.recovers_at for sequence in lost):
            window.halve()
            window.recovers_at = newest

    def deadline(self) -> float | None:
        return min((window.deadline for window in self.windows.values()), default=None)

    def check_deadlines(self, now: float) -> list[Key]:
        late = [key for key, window in self.windows.items() if window.deadline <= now]
        for key in late:
            self.windows[key].begin_again()
        return late


BUCKET_MIN = 2.0
"""Tokens that a bucket holds at least."""

WAIT_MIN = 1e-4
"""Seconds to the next question, at least; flows that are faster send several at a time."""


class TokenBuckets:
    def __init__(self, params: CongestionParams) -> None:
        self.params = params
        self.watched: dict[Key, tuple[FlowLedger, LossIntervals]] = {}
        """Flows whose losses are known exactly."""

    def added(self, row: LimitedFlow, now: float) -> None:
        row.bucket = Bucket(now, row.quota, BUCKET_MIN)

    def reported(self, row: LimitedFlow, now: float) -> None:
        """Its quota, or its limiting receiver, is another."""
        self.fill(row, now)

    def removed(self, row: LimitedFlow) -> None:
        self.watched.pop(row.key, None)

    def fill(self, row: LimitedFlow, now: float) -> None:
        bucket = row.bucket
        bucket.rate = self.rate_of(row) if self.watched else row.quota
        bucket.depth = max(BUCKET_MIN, bucket.rate * row.round_trip)
        bucket.fill(now)

    def is_ready(self, row: LimitedFlow, now: float) -> bool:
        if now > row.bucket.filled_at:
            self.fill(row, now)
        return row.bucket.has_token

    def ready_at(self, row: LimitedFlow, now: float) -> float:
        """When to ask again; infinity if only an acknowledgement helps."""
        if self.is_ready(row, now):
            return now
        row.bucket.rate = self.rate_of(row)
        return max(now + WAIT_MIN, row.bucket.next_at)

    def take(self, row: LimitedFlow, now: float) -> None:
        row.bucket.tokens -= 1.0

    def rate_of(self, row: LimitedFlow) -> float:
        watched = self.watched.get(row.key) if self.watched else None
        if watched is None or not row.round_trip:
            return row.quota
        return min(row.quota, allowed_rate(watched[1].loss_event_rate, row.round_trip))

    # Acknowledgements.

    def departed(self, row: LimitedFlow, sequence: int, now: float) -> None:
        if not self.params.acknowledgements:
            return
        if row.key not in self.watched:
            self.watched[row.key] = FlowLedger(), LossIntervals(self.params)
        self.watched[row.key][0].departed(sequence, now)

    def acknowledged(self, row: LimitedFlow, message: Acknowledgement, now: float) -> None:
        watched = self.watched.get(row.key)
        if watched is None:
            return
        ledger, intervals = watched
        arrived, lost = ledger.acknowledge(message)
        self.fill(row, now)
        intervals.open += len(arrived)
        for _ in lost:
            first = 1.0 / loss_rate_at(row.quota / 2.0, row.round_trip) if row.round_trip else None
            intervals.lost(now, row.round_trip, first)

    def deadline(self) -> float | None:
        """When `check_deadlines` must be asked, though nothing happens."""
        return None

    def check_deadlines(self, now: float) -> list[Key]:
        """Rows whose events were given up, so that others may leave."""
        return []


Controller = TokenBuckets | Windows
