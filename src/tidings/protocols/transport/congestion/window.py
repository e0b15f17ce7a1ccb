"""The other way to find a rate: the publisher keeps a window for each flow, as TCP does (F-6).

The limiting receiver of a flow acknowledges each of its events (`acknowledgements.py`). As many events of the flow may
be on their way as its window says. The window grows by one in a round trip, by one for each acknowledgement as long as
it is below the threshold; when something is lost it is halved, once in a round trip; when nothing is answered for a
time-out it begins again at one.

Who limits a flow is found as with the equation: receivers report what they can take, and the lowest limits. A new row
begins with the window that belongs to the reported rate.

Compared with the equation this needs an acknowledgement for each event of the flow and swings more, but knows every
loss and reacts within a round trip.

Source: the transport specification, F-6, after PGMCC.
"""

import math

from tidings.protocols.transport.congestion.acknowledgements import Ledger
from tidings.protocols.transport.congestion.flows import Key, Row
from tidings.protocols.transport.formats import Acknowledgement
from tidings.protocols.transport.params import CongestionParams

WINDOW_MIN = 1.0
WINDOW_FIRST_MIN = 2.0
WINDOW_MAX = 4096.0
TIMEOUT_MIN = 0.2
"""Seconds that an answer may always take."""
TIMEOUT_MAX = 10.0


class Window:
    __slots__ = ("deadline", "deviation", "in_flight", "ledger", "limit", "recovers_at", "round_trip", "size", "waits")

    def __init__(self, size: float, round_trip: float) -> None:
        self.size = self.limit = size
        """How many may be on their way; below `limit` it doubles in a round trip."""
        self.in_flight = 0
        self.ledger = Ledger()
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
        self.windows: dict[Key, Window] = {}

    def added(self, row: Row, now: float) -> None:
        size = max(WINDOW_FIRST_MIN, min(WINDOW_MAX, row.quota * row.round_trip))
        self.windows[row.key] = Window(size, row.round_trip)

    def reported(self, row: Row, now: float) -> None:
        pass

    def removed(self, row: Row) -> None:
        self.windows.pop(row.key, None)

    def is_ready(self, row: Row, now: float) -> bool:
        window = self.windows[row.key]
        return window.in_flight + 1 <= window.size

    def ready_at(self, row: Row, now: float) -> float:
        return now if self.is_ready(row, now) else math.inf

    def take(self, row: Row, now: float) -> None:
        window = self.windows[row.key]
        window.in_flight += 1
        if window.deadline == math.inf:
            window.deadline = now + window.timeout

    def rate_of(self, row: Row) -> float:
        window = self.windows[row.key]
        return window.size / max(window.round_trip, self.params.tick_min)

    def departed(self, row: Row, sequence: int, now: float) -> None:
        window = self.windows[row.key]
        window.in_flight -= window.ledger.departed(sequence, now)

    def acknowledged(self, row: Row, message: Acknowledgement, now: float) -> int:
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
        return len(lost)

    def deadline(self) -> float | None:
        return min((window.deadline for window in self.windows.values()), default=None)

    def check_deadlines(self, now: float) -> list[Key]:
        late = [key for key, window in self.windows.items() if window.deadline <= now]
        for key in late:
            self.windows[key].begin_again()
        return late
