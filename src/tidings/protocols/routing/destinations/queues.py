"""What waits for each neighbour: a queue that the link empties at its own pace, and that drops its tail.

A link takes `rate_max` publications a second. What comes faster waits, `queue_max` publications at most; a message that
does not fit is dropped, and nobody is told (T-13). One timer for each neighbour that has something waiting.
"""

from collections import deque

import msgspec

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.model.identity import NodeId
from tidings.protocols.routing.destinations.messages import Directed
from tidings.protocols.routing.destinations.params import DestinationParams

QUEUE_FULL = "the queue to this neighbour is full"
NEIGHBOUR_GONE = "the neighbour it waited for is gone"


class LinkQueue(msgspec.Struct):
    free_at: float = 0.0
    """When the link takes the next message."""
    waiting: deque[Directed] = msgspec.field(default_factory=deque)
    size: int = 0
    """Publications that wait."""


class Queues:
    def __init__(self, params: DestinationParams) -> None:
        self.params = params
        self.by_neighbour: dict[NodeId, LinkQueue] = {}

    def open(self, neighbour: NodeId) -> None:
        self.by_neighbour[neighbour] = LinkQueue()

    def close(self, neighbour: NodeId) -> list[Effect]:
        queue = self.by_neighbour.pop(neighbour)
        return [CancelTimer(("serve", neighbour)), *(Drop(message, NEIGHBOUR_GONE) for message in queue.waiting)]

    def put(self, now: float, neighbour: NodeId, message: Directed) -> list[Effect]:
        queue, count = self.by_neighbour[neighbour], len(message.batch.numbers)
        if not queue.waiting and queue.free_at <= now:
            queue.free_at = now + count / self.params.rate_max
            return [Send(neighbour, message, self.params.transport)]
        if queue.size + count > self.params.queue_max:
            return [Drop(message, QUEUE_FULL)]
        queue.waiting.append(message)
        queue.size += count
        return [SetTimer(("serve", neighbour), queue.free_at)] if len(queue.waiting) == 1 else []

    def serve(self, now: float, neighbour: NodeId) -> list[Effect]:
        queue, effects = self.by_neighbour[neighbour], list[Effect]()
        while queue.waiting and queue.free_at <= now:
            message = queue.waiting.popleft()
            count = len(message.batch.numbers)
            queue.size -= count
            queue.free_at += count / self.params.rate_max
            effects.append(Send(neighbour, message, self.params.transport))
        return [*effects, SetTimer(("serve", neighbour), queue.free_at)] if queue.waiting else effects

    def check(self) -> None:
        for queue in self.by_neighbour.values():
            assert queue.size == sum(len(message.batch.numbers) for message in queue.waiting), "a queue is miscounted"
            assert queue.size <= self.params.queue_max, "a queue is too long"
