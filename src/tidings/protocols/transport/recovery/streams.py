"""What recovery knows of one publisher: its last events, who takes part, and how long to wait."""

from collections import deque
from collections.abc import Iterable

import msgspec

from tidings.protocols.transport.params import RecoveryParams
from tidings.protocols.transport.recovery.cache import Budget, Ring
from tidings.protocols.transport.recovery.tuning import (
    GROUP_MAX,
    GROUP_MIN,
    REQUEST_FIRST_MAX,
    SPREAD_MIN,
    Tuner,
    repair_first_max,
)
from tidings.protocols.transport.signals import Stream

NUMBERS_MAX = 512
"""Last events whose numbers, ours and the carrier's, are remembered; a loss is noticed within fewer."""

DOUBT_GAIN, DOUBTFUL = 0.125, 0.5

LATE_ECHO = 600.0
"""Seconds after which a repair is too old to tell a distance: clocks drift."""


class LastRepair(msgspec.Struct, frozen=True):
    """Brought back in the next request, so that the repairer knows how far away we are."""

    repairer: int = 0
    sent: float = 0.0
    heard_at: float = 0.0


class StreamState:
    def __init__(self, stream: Stream, params: RecoveryParams, budget: Budget, size: int) -> None:
        self.stream = stream
        self.ring = Ring(budget, size)
        self.requests = Tuner(params.c1, params.c2, not params.tuning)
        self.repairs = Tuner(repair_first_max(GROUP_MIN), SPREAD_MIN, not params.tuning)
        if params.tuning:
            self.requests.keep_bounds(REQUEST_FIRST_MAX, GROUP_MIN)
        self.group: dict[int, None] = {}
        """Others that were heard asking or answering."""
        self.first = -1
        """The number from which on we follow it; -1 before."""
        self.numbers: deque[tuple[int, int]] = deque(maxlen=NUMBERS_MAX)
        self.doubt = 0.0
        """The share of what seemed lost lately and was not for us, as its repair showed."""
        self.last_repair = LastRepair()
        self.requests_heard = self.hits = 0

    def configure(self, params: RecoveryParams) -> None:
        for tuner in (self.requests, self.repairs):
            tuner.is_fixed = not params.tuning
        if params.tuning:
            self.requests.keep_bounds(REQUEST_FIRST_MAX, self.group_size)
        else:
            self.requests.first, self.requests.spread = params.c1, params.c2

    def joined(self, node: int) -> None:
        if len(self.group) < GROUP_MAX:
            self.group[node] = None

    @property
    def group_size(self) -> int:
        """With ourselves."""
        return max(GROUP_MIN, len(self.group) + 1)

    def repaired(self, is_for_us: bool) -> None:
        self.doubt += DOUBT_GAIN * ((not is_for_us) - self.doubt)

    @property
    def is_doubtful(self) -> bool:
        return self.doubt > DOUBTFUL

    def adapt_requests(self) -> None:
        self.requests.adapt(REQUEST_FIRST_MAX, self.group_size)

    def adapt_repairs(self) -> None:
        self.repairs.adapt(repair_first_max(self.group_size), self.group_size)

    def numbers_around(self, sequence: int) -> tuple[int, int]:
        """The carrier's numbers of the nearest events before and behind; 0 where none is known."""
        return nearest(self.numbers, sequence)

    def echo(self, now: float) -> tuple[int, float, float]:
        """Repairer, when it sent, how long ago we heard it."""
        last = self.last_repair
        held = now - last.heard_at
        return (last.repairer, last.sent, held) if last.repairer and held <= LATE_ECHO else (0, 0.0, 0.0)

    def check(self) -> None:
        assert len(self.group) <= GROUP_MAX, "the group is larger than GROUP_MAX"
        self.ring.check()
        if not self.requests.is_fixed:
            assert 0.5 <= self.requests.first <= REQUEST_FIRST_MAX, "C1 is out of bounds"
            assert 1.0 <= self.requests.spread <= self.group_size, "C2 is out of bounds"
            assert 0.5 <= self.repairs.first <= repair_first_max(self.group_size), "D1 is out of bounds"
            assert 1.0 <= self.repairs.spread <= self.group_size, "D2 is out of bounds"


def nearest(numbers: Iterable[tuple[int, int]], sequence: int) -> tuple[int, int]:
    below, above = (-1, 0), (-1, 0)
    for known, number in numbers:
        if known < sequence:
            if known > below[0]:
                below = known, number
        elif known > sequence and (above[0] < 0 or known < above[0]):
            above = known, number
    return below[1], above[1]
