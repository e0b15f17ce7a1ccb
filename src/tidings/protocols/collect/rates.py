"""How fast blocks are acknowledged: an average over the last seconds that stands still while nothing is to be sent.

A rate is blocks over the time that they took, from the acknowledgement before the first of them to the last one.
Counting those of the last five seconds would, at one block in two seconds, say 0.4 or 0.6 by turns. Where the next one
is overdue the time since the last counts as well, so a path that stopped is seen to.

It is frozen while there is nothing for this receiver, or nothing to send: how fast a path is cannot be seen then. A new
plan lets it run again (Patel thesis, section 7.1).
"""

from collections import deque


class AckRate:
    def __init__(self, seconds: float, now: float) -> None:
        self.seconds = seconds
        self.began_at = now
        """When the first block could have been on its way."""
        self.acks: deque[float] = deque()
        """Of the last seconds, and the one before."""
        self.frozen: float | None = None
        self.is_frozen = False

    def acknowledge(self, now: float) -> None:
        if self.is_frozen:
            return
        self.acks.append(now)
        while len(self.acks) > 2 and self.acks[1] < now - self.seconds:
            self.acks.popleft()

    def freeze(self, now: float) -> None:
        if not self.is_frozen:
            self.frozen, self.is_frozen = self.running(now), True

    def thaw(self, now: float) -> None:
        """A new plan begins, with something to send."""
        self.frozen, self.is_frozen = None, False
        self.began_at = now
        self.acks.clear()

    def running(self, now: float) -> float | None:
        acks = list(self.acks)
        while len(acks) > 1 and acks[1] < now - self.seconds:
            acks.pop(0)
        if acks and acks[0] >= now - self.seconds:
            acks.insert(0, self.began_at)
        if len(acks) < 2 or acks[-1] <= acks[0]:
            # Nothing came for longer than a rate is measured: that is a rate too.
            waited = now - (acks[-1] if acks else self.began_at)
            return 1.0 / waited if waited > self.seconds else None
        took, count = acks[-1] - acks[0], len(acks) - 1
        overdue = now - acks[-1] - took / count
        return count / (took + max(0.0, overdue))

    def rate(self, now: float) -> float | None:
        """Blocks a second; None where nothing can be said yet."""
        return self.frozen if self.is_frozen else self.running(now)


class PeakRate:
    """The highest average over some seconds, of all that passes an access."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.passed: deque[tuple[float, float]] = deque()
        self.sum = self.peak = 0.0
        self.began_at: float | None = None

    def add(self, now: float, amount: float) -> None:
        if self.began_at is None:
            self.began_at = now
        self.passed.append((now, amount))
        self.sum += amount
        while self.passed[0][0] < now - self.seconds:
            self.sum -= self.passed.popleft()[1]
        if now - self.began_at >= self.seconds:
            self.peak = max(self.peak, self.sum / self.seconds)
