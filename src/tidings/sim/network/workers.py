"""How long a broker takes to handle a message.

A broker has `workers` that handle messages in parallel. A message that arrives takes a free worker, or waits for one in
a queue of bounded length; the handling takes an exponentially distributed time, which is the best fit that was found
for a content-based router over several workloads (transport specification, 3.1). Two messages that come one after the
other are therefore done in either order: a broker with more than one worker violates order, which is what the ordering
layer above it is for. Over n brokers the variable part of the delay is a sum of n exponentials (hypoexponential).

What finds the queue full is lost, also if it came over a stream: it had arrived, and a broker that drops on overflow is
what the layers above are made for (T-13).
"""

import math
from collections import deque
from heapq import heapify, heapreplace

import msgspec

from tidings.machine.streams import RandomStream, random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.network.rule import check_positive


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
