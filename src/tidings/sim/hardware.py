"""What a simulated node is made of: a clock, a disk, and workers that take their time.

The clock of one node: what it shows when the simulation's own time is `now`. A real clock is off by some seconds and
runs a little too fast or too slow. A machine sees only the clock of its node, in every `now` and in every `at` of a
timer; the simulation goes by true time.

The disk of one node: what it saved survives a crash. Requests are served in order, each after `delay` seconds, so that
a save is never overtaken by a later one, and a load sees the saves before it. What was not finished when the node
crashed is not on the disk. A disk may become slow or fail while the run goes on: `simulator.nodes["a"].disk.delay =
2.0`.

How long a broker takes to handle a message. A broker has `workers` that handle messages in parallel. A message that
arrives takes a free worker, or waits for one in a queue of bounded length; the handling takes an exponentially
distributed time, which is the best fit that was found for a content-based router over several workloads (transport
specification, 3.1). Two messages that come one after the other are therefore done in either order: a broker with more
than one worker violates order, which is what the ordering layer above it is for. Over n brokers the variable part of
the delay is a sum of n exponentials (hypoexponential).

What finds the queue full is lost, also if it came over a stream: it had arrived, and a broker that drops on overflow is
what the layers above are made for (T-13).
"""

import math
from collections import deque
from heapq import heapify, heapreplace

import msgspec

from tidings.machine.effects import Load, Save
from tidings.machine.inputs import Loaded, Saved
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.network.rule import check_positive

NO_SPACE = "no space left on the disk"


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


class Disk:
    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.error: str | None = None
        """While this is not None, every request comes back with it."""
        self.is_full = False
        """While it is, nothing more can be saved; what is there can be loaded and removed."""
        self.entries: dict[str, bytes] = {}
        self.done_at = 0.0

    def request(self, now: float) -> float:
        """When a request that is made now is served."""
        self.done_at = max(now + self.delay, self.done_at)
        return self.done_at

    def save(self, save: Save) -> Saved:
        error = NO_SPACE if self.is_full and save.data is not None else self.error
        if error is not None:
            return Saved(save.name, error)
        if save.data is None:
            self.entries.pop(save.name, None)
        else:
            self.entries[save.name] = save.data
        return Saved(save.name)

    def load(self, load: Load) -> Loaded:
        if self.error is not None:
            return Loaded(load.prefix, error=self.error)
        return Loaded(
            load.prefix,
            tuple((name, data) for name, data in sorted(self.entries.items()) if name.startswith(load.prefix)),
        )


class Processing(msgspec.Struct, frozen=True):
    """`Processing(workers=4, mean=0.002)` handles up to 2000 messages a second."""

    workers: int = 1
    mean: float = 0.001
    """Seconds that one message takes one worker, on average."""
    queue_max: int = 1000
    """Messages that may wait; one more is lost."""
    takes: type | None = None
    """What takes a worker; messages of other types are handled at once. None is all."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UsageError(f"workers: {self.workers} would never handle anything; give at least 1")
        if self.queue_max < 0:
            raise UsageError(f"queue_max: {self.queue_max} must not be below 0")
        check_positive("mean", self.mean)

    def begin(self, seed: int, node: NodeId, life: int, jitter: float = 0.0) -> "Station":
        """`jitter` is by how much later than said something may happen."""
        return Station(self, random_stream(seed, "processing", node, life), jitter)


class Station:
    """The workers of one node at work."""

    FULL = "processing queue is full"

    def __init__(self, processing: Processing, rng: RandomStream, jitter: float = 0.0) -> None:
        self.mean, self.queue_max, self.takes = processing.mean, processing.queue_max, processing.takes
        self.rng, self.jitter = rng, jitter
        self.free_at = [-math.inf] * processing.workers
        """When each worker will have done all that it was given; a heap."""
        heapify(self.free_at)
        self.begins_at: deque[float] = deque()
        """When the handling of each waiting message begins, in order."""

    def admit(self, now: float) -> float | None:
        """When the message that arrives now will have been handled; None if there is no room for it."""
        while self.begins_at and self.begins_at[0] <= now:
            self.begins_at.popleft()
        begins_at = max(now, self.free_at[0])
        if begins_at > now:
            if len(self.begins_at) >= self.queue_max:
                return None
            self.begins_at.append(begins_at)
        done_at = begins_at + self.rng.expovariate(1 / self.mean)
        # The next one must not be done before, by whatever little this one comes late.
        heapreplace(self.free_at, done_at + self.jitter)
        return done_at
