"""How much may be on its way to a peer: a window of bytes, opened again by what the peer says it has taken.

The problem. A machine orders `Send` and never hears when a message has left. If it orders more than the queue of a link
holds, the link ends, and whatever waited there is gone.

The idea. What comes in quantities (publications, answers of history, tables) is counted in bytes at both ends of a
link, from 0 at the beginning of its life. The sender sends while less than `window_bytes` are on the way; what has to
wait then waits as something small: a position, a question, a place in a table. The taker tells its total every
`step_bytes`, in a message of its own protocol. Whoever uses windows gives each link one for each kind of traffic; all
of them together, each with the largest message beyond it, stay below the queue of a link (`net/params.py`).
"""


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
