"""The clock of one node: what it shows when the simulation's own time is `now`.

A real clock is off by some seconds and runs a little too fast or too slow. A machine sees only the clock of its node,
in every `now` and in every `at` of a timer; the simulation goes by true time.
"""

import math

from tidings.model.errors import UsageError


class Clock:
    """Shows `offset + now * (1 + drift)`; a drift of 50e-6 gains 50 microseconds in a second."""

    def __init__(self, offset: float = 0.0, drift: float = 0.0) -> None:
        if not math.isfinite(offset):
            raise UsageError(f"offset: {offset} is no number of seconds")
        if not -1.0 < drift < math.inf:
            raise UsageError(f"drift: {drift} would stop the clock or turn it back; give a number above -1")
        self.offset, self.rate = offset, 1.0 + drift

    def read(self, now: float) -> float:
        return self.offset + now * self.rate

    def when(self, reading: float) -> float:
        """The first moment at which the clock shows `reading` or more."""
        now = (reading - self.offset) / self.rate
        while self.read(now) < reading:
            # Rounding may leave us a step short, and a timer must not fire before its time.
            now = math.nextafter(now, math.inf)
        return now
