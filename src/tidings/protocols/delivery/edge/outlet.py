"""How publications of one subscription leave for its client: a window, and behind it a bounded queue.

At most `window` publications are on the way and not yet taken by the application; the client says with `Taken` how many
it took. What comes meanwhile waits in a queue of at most `waiting_max`. Everything is kept in the batches in which it
came, so that the usual case, a batch that fits the window as a whole, costs the same for one publication or for many.

All outlets of a client share its bound on bytes (`ServedClient.pending_bytes`). What happens to a publication for which
there is no room is not decided here but by the policy of the subscription.
"""

from collections import deque

from tidings.protocols.delivery.edge.batches import fitting, size_bytes
from tidings.protocols.delivery.edge.clients import ServedClient
from tidings.pubsub.publications import Publications, cut


class Outlet:
    __slots__ = ("client", "ledger", "queue", "under_way", "waiting", "waiting_max", "window")

    def __init__(self, client: ServedClient, window: int, waiting_max: int) -> None:
        self.client, self.window, self.waiting_max = client, window, waiting_max
        self.under_way = self.waiting = 0
        self.ledger: deque[tuple[int, int]] = deque()
        """What is on the way: how many publications, and their bytes."""
        self.queue: deque[Publications] = deque()

    @property
    def capacity(self) -> int:
        return self.window + self.waiting_max

    @property
    def room(self) -> int:
        return self.capacity - self.under_way - self.waiting

    def count_fitting(self, batch: Publications, pending_bytes_max: int) -> int:
        """How many of its first publications there is room for."""
        count, room_bytes = min(self.room, len(batch.numbers)), pending_bytes_max - self.client.pending_bytes
        return count if size_bytes(batch) <= room_bytes else min(count, fitting(batch, room_bytes))

    def send(self, batch: Publications, size: int) -> None:
        """A batch for which the window has room, and that no other waits before, is on the way."""
        count = len(batch.numbers)
        self.under_way += count
        self.ledger.append((count, size))
        self.client.pending_bytes += size

    def put(self, batch: Publications) -> None:
        self.queue.append(batch)
        self.waiting += len(batch.numbers)
        self.client.pending_bytes += size_bytes(batch)

    def take_out(self, count: int) -> Publications | None:
        """The first batch of the queue, or as much of it as `count` says; it is no longer pending."""
        if not self.queue or count < 1:
            return None
        batch = self.queue.popleft()
        if len(batch.numbers) > count:
            self.queue.appendleft(cut(batch, slice(count, None), receipt=0))
            batch = cut(batch, slice(count), receipt=0)
        self.waiting -= len(batch.numbers)
        self.client.pending_bytes -= size_bytes(batch)
        return batch

    def flow(self) -> list[Publications]:
        """What the window has room for by now, out of the queue."""
        leaving = []
        while (batch := self.take_out(self.window - self.under_way)) is not None:
            self.send(batch, size_bytes(batch))
            leaving.append(batch)
        return leaving

    def taken(self, count: int) -> int:
        """So many were taken; answers with how many of them were not on the way at all."""
        while count and self.ledger:
            first, size = self.ledger.popleft()
            if first > count:
                part = size * count // first
                self.ledger.appendleft((first - count, size - part))
                first, size = count, part
            self.under_way -= first
            self.client.pending_bytes -= size
            count -= first
        return count

    def close(self) -> None:
        """Nothing of it is pending any more."""
        self.client.pending_bytes -= sum(size for _, size in self.ledger) + sum(map(size_bytes, self.queue))
        self.ledger.clear()
        self.queue.clear()
        self.under_way = self.waiting = 0

    def check(self) -> None:
        assert self.under_way == sum(count for count, _ in self.ledger) <= self.window, "the window does not hold"
        assert self.waiting == sum(len(batch.numbers) for batch in self.queue), "the queue is miscounted"
        assert self.waiting <= self.waiting_max, "the queue is longer than it may be"
        assert not self.waiting or self.under_way == self.window, "something waits though the window has room"
