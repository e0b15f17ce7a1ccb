"""How many events a second: a count, and what it was at some moments of the last while.

Counting is all that is done for an event. The rate is asked for once in a round trip; then the count of that moment is
kept, and those older than the window go. So the window is as exact as the asking is frequent, and a meter is small.
"""

from collections import deque

MOMENTS_MAX = 64
"""Moments that are kept: more than reports fit in a window; if they come faster, the window is shorter."""

SPAN_MIN = 0.01
"""Seconds below which a count says nothing about a rate."""


class Meter:
    __slots__ = ("count", "moments", "rate")

    def __init__(self, now: float) -> None:
        self.count = 0
        self.moments: deque[tuple[float, int]] = deque([(now, 0)], maxlen=MOMENTS_MAX)
        self.rate = 0.0
        """As of the last measurement."""

    def measure(self, now: float, window: float) -> float:
        """Over the last `window` seconds, or since the meter is there."""
        moments = self.moments
        while len(moments) > 1 and now - moments[1][0] >= window:
            moments.popleft()
        since, count = moments[0]
        if now - since >= SPAN_MIN:
            self.rate = (self.count - count) / (now - since)
        if now > moments[-1][0]:
            moments.append((now, self.count))
        return self.rate
