"""How much may be on its way to a peer: a window of bytes, opened again by what the peer says it has taken.

The problem. A machine orders `Send` and never hears when a message has left. If it orders more than the queue of a link
holds, the link ends, and whatever waited there is gone.

The idea. What comes in quantities (publications, answers of history, tables) is counted in bytes at both ends of a
link, from 0 at the beginning of its life. The sender sends while less than `window_bytes` are on the way; what has to
wait then waits as something small: a position, a question, a place in a table. The taker tells its total every
`step_bytes`, in a message of its own protocol. Whoever uses windows gives each link one for each kind of traffic; all
of them together, each with the largest message beyond it, stay below the queue of a link (`net/params.py`).

Whoever can wait yields (`YieldingWindow`). On one link everything leaves in one order, so what is said next stands
behind all that is on its way: a mebibyte of it is nothing on a fast link to an idle peer, and 60 ms where the peer has
to work on it. So it is measured how long it takes until something is taken. Where that is longer than it ever was by
more than a little, others wait: the window becomes narrower by what was taken, down to a small part of it, and wider
again by as much when it is quick. It is the idea of LEDBAT (RFC 6817), in bytes of our own. A careful window is narrow
when nothing was on the way for a while, and twice as wide each time that all is taken soon.
"""

from collections import deque


class SendWindow:
    def __init__(self, window_bytes: int) -> None:
        self.window_bytes = window_bytes
        self.sent_bytes = self.taken_bytes = 0

    @property
    def has_room(self) -> bool:
        """For one message of whatever size: so the window is exceeded by one message at most."""
        return self.sent_bytes - self.taken_bytes < self.window_bytes

    def send(self, size_bytes: int) -> None:
        self.sent_bytes += size_bytes

    def hear(self, total_bytes: int) -> bool:
        """The other end has taken so much in all. False where that cannot be: it is ignored."""
        if not self.taken_bytes <= total_bytes <= self.sent_bytes:
            return False
        self.taken_bytes = total_bytes
        return True


LATE_AFTER, LATE_SHARE = 0.01, 0.25
"""Seconds, and share of the shortest time until something was taken, by which it is late."""

IDLE_AFTER = 1.0
"""Seconds after which nobody knows any more how soon something is taken."""

NARROWEST_SHARE = 8
"""The narrowest window is this part of the widest, where nothing else is said."""


class YieldingWindow:
    """A window for what can wait, between `widest_bytes` and that part of it."""

    def __init__(self, widest_bytes: int, narrowest_share: int = NARROWEST_SHARE, is_careful: bool = False) -> None:
        self.widest_bytes, self.narrowest_bytes = widest_bytes, max(1, widest_bytes // narrowest_share)
        self.is_careful = is_careful
        self.window = SendWindow(self.narrowest_bytes if is_careful else widest_bytes)
        self.leaving: deque[tuple[int, float]] = deque()
        """The total of what was sent, each time, and when; of what is still on the way."""
        self.quickest = float("inf")
        """The shortest time in which something was taken."""
        self.heard_at = 0.0
        """When something was last taken."""

    @property
    def window_bytes(self) -> int:
        """As wide as it is now."""
        return self.window.window_bytes

    @property
    def sent_bytes(self) -> int:
        return self.window.sent_bytes

    @property
    def under_way_bytes(self) -> int:
        return self.window.sent_bytes - self.window.taken_bytes

    @property
    def has_room(self) -> bool:
        return self.window.has_room

    def send(self, now: float, size_bytes: int) -> None:
        if self.is_careful and not self.leaving and now - self.heard_at > IDLE_AFTER:
            self.window.window_bytes = self.narrowest_bytes
        self.window.send(size_bytes)
        self.leaving.append((self.window.sent_bytes, now))

    def hear(self, now: float, total_bytes: int) -> bool:
        before = self.window.taken_bytes
        if not self.window.hear(total_bytes):
            return False
        took = None
        while self.leaving and self.leaving[0][0] <= total_bytes:
            _, sent_at = self.leaving.popleft()
            took = now - sent_at
        if took is not None:
            self.heard_at = now
            self.quickest = min(self.quickest, took)
            is_late = took > self.quickest + max(LATE_AFTER, LATE_SHARE * self.quickest)
            width = self.window_bytes + (before - total_bytes if is_late else total_bytes - before)
            self.window.window_bytes = min(self.widest_bytes, max(self.narrowest_bytes, width))
        return True


class TakenBytes:
    """The other end of a window."""

    def __init__(self, step_bytes: int) -> None:
        self.step_bytes = step_bytes
        self.total_bytes = self.told_bytes = 0

    def take(self, size_bytes: int) -> int | None:
        """The total, whenever it is to be told again. A step is at most half of the sender's window, lest both ends
        wait for each other."""
        self.total_bytes += size_bytes
        if self.total_bytes - self.told_bytes < self.step_bytes:
            return None
        self.told_bytes = self.total_bytes
        return self.total_bytes
