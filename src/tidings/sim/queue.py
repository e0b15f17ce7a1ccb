"""The event queue: what happens next, in exact order of (time, ticket).

A simulation spends its life asking "what is due next?" and adding "this happens at that time". Two things that are due
at the same moment happen in the order in which they were added: each gets a ticket, and tickets only grow. So the order
of a run is a function of what was added, and of nothing else.

`HeapQueue` is the plain answer: a binary heap of tuples. `LadderQueue` gives the same order at about two thirds of the
cost. It cuts time into buckets of equal width and appends an entry to the list of its bucket, unsorted; only when a
bucket's turn comes is it sorted, by one call that runs at the speed of C. What is added to the bucket that is open goes
into a small heap beside it, and the two are merged. The width does not matter for the order, only for the cost: with
buckets too wide the small heap does all the work, with buckets too narrow each holds one entry. The queue watches how
full the buckets are and changes the width by itself.

An entry is (time, ticket, action, argument), and its turn is the call `action(time, argument)`. Queues own the loop
around that call, since handing entries out one by one would cost as much again.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Any, Protocol

from tidings.model.errors import UsageError

Action = Callable[[float, Any], object]
Entry = tuple[float, int, Action, Any]

WIDTH_FIRST = 2.0**-10
WIDTH_MIN, WIDTH_MAX = 2.0**-30, 2.0**20
"""Width of a bucket in seconds. Widths are powers of two, so that one found twice is the same number."""

FILL_MIN, FILL_AIM, FILL_MAX = 8, 32, 128
"""Entries of an average bucket: outside of these bounds the width is changed, towards the aim."""

BUCKETS_BETWEEN_LOOKS, ENTRIES_BETWEEN_LOOKS = 64, 4096
"""The filling is looked at after so many buckets, or after fewer that hold so many entries."""

LATE_MAX = 1024
"""Entries added to the open bucket while it is worked off; with more it is closed again and cut into narrower ones."""

SAME_MOMENT_MAX = 4_000_000
"""Entries in a row that are due at the same moment. With more, somebody waits for no time at all, for ever."""


class Standstill(AssertionError):
    """Time does not go on, because somebody keeps asking for what is due at once. It says who, where that is known."""


class Queue(Protocol):
    """What the simulator needs of a queue."""

    now: float
    done: int

    def push(self, time: float, action: Action, argument: Any) -> None: ...
    def run(self, until: float) -> None: ...
    def entries(self) -> Iterator[Entry]: ...
    def discard(self, is_stale: Callable[[Entry], bool]) -> None: ...
    def __len__(self) -> int: ...


class HeapQueue:
    """The plain twin: one heap."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ticket = 0
        self.done = 0
        """Entries that had their turn."""
        self.heap: list[Entry] = []
        self.is_running = False

    def push(self, time: float, action: Action, argument: Any) -> None:
        """Call `action(time, argument)` at `time`, which is not before `now`."""
        self.ticket = ticket = self.ticket + 1
        heappush(self.heap, (time, ticket, action, argument))

    def run(self, until: float) -> None:
        """Work off everything that is due up to and including `until`; then it is `until`."""
        if self.is_running:
            raise already_running()
        self.is_running = True
        heap, same_moment = self.heap, 0
        try:
            while heap and heap[0][0] <= until:
                time, _, action, argument = heappop(heap)
                same_moment = same_moment + 1 if time == self.now else 0
                if same_moment > SAME_MOMENT_MAX:
                    raise standstill(time)
                self.now = time
                self.done += 1
                action(time, argument)
        finally:
            self.is_running = False
        if until < math.inf:
            self.now = max(self.now, until)

    def entries(self) -> Iterator[Entry]:
        """Everything that waits, in no particular order."""
        return iter(self.heap)

    def discard(self, is_stale: Callable[[Entry], bool]) -> None:
        """Forget entries that would do nothing, to have their memory back."""
        self.heap[:] = [entry for entry in self.heap if not is_stale(entry)]
        heapify(self.heap)

    def __len__(self) -> int:
        return len(self.heap)


class LadderQueue:
    """The fast one; every method does what that of `HeapQueue` does."""

    def __init__(self, width: float = WIDTH_FIRST) -> None:
        self.now = 0.0
        self.ticket = 0
        self.done = 0
        self.per_second = 1.0 / width
        self.buckets: dict[int, list[Entry]] = {}
        self.numbers: list[int] = []
        """The keys of `buckets`, as a heap."""
        self.open = -1
        """The bucket that is being worked off, taken out of `buckets`; entries for it, or before it, go to `late`."""
        self.late: list[Entry] = []
        """A heap."""
        self.discarded = 0
        self.opened, self.done_before = 0, 0
        """Buckets opened since the filling was looked at, and what `done` was then."""
        self.moment, self.closings = -1.0, 0
        """When a bucket was last closed early, and how often this happened without time going on."""

    def push(self, time: float, action: Action, argument: Any) -> None:
        self.ticket = ticket = self.ticket + 1
        number = int(time * self.per_second)
        bucket = self.buckets.get(number)
        if bucket is not None:
            bucket.append((time, ticket, action, argument))
        elif number > self.open:
            self.buckets[number] = [(time, ticket, action, argument)]
            heappush(self.numbers, number)
        else:
            heappush(self.late, (time, ticket, action, argument))

    def run(self, until: float) -> None:
        if self.open >= 0:
            raise already_running()
        while self.numbers:
            last = until if until == math.inf else int(until * self.per_second)
            if self.numbers[0] > last:
                break
            self.open = number = heappop(self.numbers)
            bucket = self.buckets.pop(number)
            if number == last:
                self.work_off_last(bucket, until)
                break
            self.work_off(bucket)
            self.opened += 1
            if self.opened == BUCKETS_BETWEEN_LOOKS or self.done - self.done_before >= ENTRIES_BETWEEN_LOOKS:
                self.look_at_filling()
        if until < math.inf:
            self.now = max(self.now, until)

    def work_off(self, bucket: list[Entry]) -> None:
        """A bucket all of which is due."""
        late, late_count = self.late, 0
        bucket.sort()
        rest = iter(bucket)
        try:
            for entry in rest:
                while late and late[0] < entry:
                    time, _, action, argument = heappop(late)
                    late_count += 1
                    self.now = time
                    action(time, argument)
                time, _, action, argument = entry
                self.now = time
                action(time, argument)
            while late:
                time, _, action, argument = heappop(late)
                late_count += 1
                self.now = time
                action(time, argument)
                if late_count > LATE_MAX:
                    self.note_closing()
                    break
        finally:
            unfinished = list(rest)
            self.done += len(bucket) + late_count - len(unfinished)
            self.close(unfinished)
        if late_count > LATE_MAX:
            self.set_width(1 / self.per_second / 4)

    def work_off_last(self, bucket: list[Entry], until: float) -> None:
        """The bucket that `until` falls into: no more of it than is due."""
        self.late = late = bucket
        heapify(late)
        try:
            while late and late[0][0] <= until:
                time, _, action, argument = heappop(late)
                if time != self.moment:
                    self.moment, self.closings = time, 0
                self.closings += 1
                if self.closings > SAME_MOMENT_MAX:
                    raise standstill(time)
                self.now = time
                self.done += 1
                action(time, argument)
        finally:
            self.close([])

    def close(self, unfinished: list[Entry]) -> None:
        """Put back what did not have its turn."""
        self.open = -1
        if unfinished or self.late:
            waiting, self.late = [*unfinished, *self.late], []
            self.file(waiting)

    def file(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            number = int(entry[0] * self.per_second)
            if number in self.buckets:
                self.buckets[number].append(entry)
            else:
                self.buckets[number] = [entry]
                heappush(self.numbers, number)

    def note_closing(self) -> None:
        self.closings = self.closings + 1 if self.now == self.moment else 0
        self.moment = self.now
        if self.closings * LATE_MAX > SAME_MOMENT_MAX:
            raise standstill(self.now)

    def look_at_filling(self) -> None:
        fill = max(self.done - self.done_before, 1) / self.opened
        waiting = self.ticket - self.done - self.discarded
        if not FILL_MIN <= fill <= FILL_MAX and self.done - self.done_before >= waiting / 4:
            # Not further than eightfold at once: what was seen may be a passing burst.
            self.set_width(1 / self.per_second * min(max(FILL_AIM / fill, 1 / 8), 8))
        self.opened, self.done_before = 0, self.done

    def set_width(self, width: float) -> None:
        width = 2.0 ** round(math.log2(min(max(width, WIDTH_MIN), WIDTH_MAX)))
        if width * self.per_second != 1.0:
            waiting = list(self.entries())
            self.per_second = 1 / width
            self.buckets.clear()
            self.numbers.clear()
            self.file(waiting)

    def entries(self) -> Iterator[Entry]:
        return chain(self.late, *self.buckets.values())

    def discard(self, is_stale: Callable[[Entry], bool]) -> None:
        before = len(self)
        self.late[:] = [entry for entry in self.late if not is_stale(entry)]
        heapify(self.late)
        for bucket in self.buckets.values():
            bucket[:] = [entry for entry in bucket if not is_stale(entry)]
        self.discarded += before - len(self)

    def __len__(self) -> int:
        return len(self.late) + sum(len(bucket) for bucket in self.buckets.values())


def already_running() -> UsageError:
    return UsageError("run was called from inside a run; let the first one return before starting another")


def standstill(time: float) -> Standstill:
    return Standstill(f"time stands still at {time}: something keeps asking for what is due at once")
