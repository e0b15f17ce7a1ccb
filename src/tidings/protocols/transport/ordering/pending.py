"""What one stream holds back, and what it waits for."""

import math
from heapq import heappop, heappush

import msgspec

from tidings.protocols.transport.signals import Content, Way


class Held(msgspec.Struct, frozen=True):
    """An event that came before one that may still come; it goes out at `deadline` at the latest, unless one with a
    lower number is held too."""

    content: Content
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


class Pending:
    """Events that are held back, by number."""

    __slots__ = ("heap",)

    def __init__(self) -> None:
        self.heap: list[tuple[int, Held]] = []

    def __len__(self) -> int:
        return len(self.heap)

    def push(self, number: int, held: Held) -> None:
        heappush(self.heap, (number, held))

    def pop(self) -> tuple[int, Held]:
        return heappop(self.heap)

    @property
    def head(self) -> tuple[int, Held]:
        return self.heap[0]

    def next_deadline(self, number: int) -> float:
        """When the first event above `number` goes out at the latest."""
        above = [entry for entry in self.heap if entry[0] > number]
        return min(above, key=lambda entry: entry[0])[1].deadline if above else math.inf


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
