"""Timers by name on an asyncio loop.

The machine sets and cancels timers by name; setting one again replaces it. They fire in the order (time, ticket), as in
the simulator: the loop alone would leave the order of timers that are due together open. So the names and the order are
kept here, and the loop is asked to wake us once, for the earliest.

Messages come first. In each turn the loop first hands out the bytes that have arrived, then wakes whoever is due; and
one wake-up fires only the timers that were set and due when it began. A timer that sets itself again for "now" waits
for the next turn, behind the messages that came meanwhile, so neither can starve the other.
"""

import asyncio
import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush

from tidings.machine.inputs import TimerKey

STALE_MAX = 64
"""Replaced and cancelled entries that may lie in the heap beside twice as many as there are live ones."""

Entry = tuple[float, int, TimerKey]

LOOKS_AT_CLOCKS = 5


def clock_offset(clock: Callable[[], float] = time.monotonic, day: Callable[[], float] = time.time) -> float:
    """What is added to the clock of a host to get the time of day. A process may be interrupted between its looks at
    the two, and would be late for as long as it lives; so it looks a few times, and the quickest look counts."""
    looks = [(clock(), day(), clock()) for _ in range(LOOKS_AT_CLOCKS)]
    before, at, after = min(looks, key=lambda look: look[2] - look[0])
    return at - (before + after) / 2


class Timers:
    """`fire(at, key)` is called for each timer that comes due."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fire: Callable[[float, TimerKey], None]) -> None:
        self.loop, self.fire = loop, fire
        self.live: dict[TimerKey, int] = {}
        self.heap: list[Entry] = []
        self.ticket = 0
        self.wake: asyncio.TimerHandle | None = None
        self.wake_at = 0.0

    def set(self, key: TimerKey, at: float) -> None:
        self.ticket += 1
        self.live[key] = self.ticket
        heappush(self.heap, (at, self.ticket, key))
        if len(self.heap) > 2 * len(self.live) + STALE_MAX:
            self.heap = [entry for entry in self.heap if self.live.get(entry[2]) == entry[1]]
            heapify(self.heap)
        if self.wake is None or at < self.wake_at:
            self.wait_for(at)

    def cancel(self, key: TimerKey) -> None:
        self.live.pop(key, None)

    def clear(self) -> None:
        self.live.clear()
        self.heap.clear()
        if self.wake is not None:
            self.wake.cancel()
            self.wake = None

    def wait_for(self, at: float) -> None:
        if self.wake is not None:
            self.wake.cancel()
        self.wake_at = at
        self.wake = self.loop.call_at(at, self.woken)

    def woken(self) -> None:
        # Loops wake up to a clock tick early. The timer this was for is due all the same.
        until = max(self.loop.time(), self.wake_at)
        self.wake = None
        newest = self.ticket
        later: list[Entry] = []
        while self.heap and self.heap[0][0] <= until:
            entry = heappop(self.heap)
            at, ticket, key = entry
            if self.live.get(key) != ticket:
                continue
            if ticket > newest:
                later.append(entry)
                continue
            del self.live[key]
            self.fire(at, key)
        for entry in later:
            heappush(self.heap, entry)
        if self.heap and (self.wake is None or self.heap[0][0] < self.wake_at):
            self.wait_for(self.heap[0][0])
