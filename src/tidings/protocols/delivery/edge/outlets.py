"""The room that a subscription has at the connection of its client: a window and a bounded queue behind it.

At most `window` publications are on the way and not yet taken by the application. What comes meanwhile, or finds the
connection busy, waits in a queue of at most `waiting_max`, in the batches in which it came. What to do when there is no
room is decided elsewhere (`admission.py`).
"""

from collections import deque

from tidings.protocols.delivery.edge.clients import ServedClient
from tidings.protocols.delivery.edge.history import fitting, size_bytes
from tidings.pubsub.publications import Publications, cut


class Outlet:
    __slots__ = ("client", "ledger", "pending_bytes", "queue", "under_way", "waiting", "waiting_max", "window")

    def __init__(self, client: ServedClient, window: int, waiting_max: int) -> None:
        self.client, self.window, self.waiting_max = client, window, waiting_max
        self.under_way = self.waiting = self.pending_bytes = 0
        self.ledger: deque[tuple[int, int, int]] = deque()
        """What is on the way: how many publications, their bytes, and all that was sent to the client before."""
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
        self.ledger.append((count, size, self.client.window.sent_bytes))
        self.count(size)

    def put(self, batch: Publications) -> None:
        self.queue.append(batch)
        self.waiting += len(batch.numbers)
        self.count(size_bytes(batch))

    def count(self, size: int) -> None:
        self.pending_bytes += size
        self.client.pending_bytes += size

    def take_out(self, count: int) -> Publications | None:
        """The first batch of the queue, or as much of it as `count` says; it is no longer pending."""
        if not self.queue or count < 1:
            return None
        batch = self.queue.popleft()
        if len(batch.numbers) > count:
            self.queue.appendleft(cut(batch, slice(count, None), receipt=0))
            batch = cut(batch, slice(count), receipt=0)
        self.waiting -= len(batch.numbers)
        self.count(-size_bytes(batch))
        return batch

    def leave(self) -> Publications | None:
        """What there is room for by now, out of the queue: one batch, or a part of it."""
        batch = self.take_out(self.window - self.under_way) if self.client.has_room else None
        if batch is not None:
            self.send(batch, size_bytes(batch))
        return batch

    def taken(self, count: int) -> int:
        """So many were taken; answers with how many of them were not on the way at all."""
        while count and self.ledger:
            first, size, sent_before = self.ledger.popleft()
            # What the application took has arrived, and so has what was sent before.
            self.client.window.hear(sent_before)
            if first > count:
                part = size * count // first
                self.ledger.appendleft((first - count, size - part, sent_before))
                first, size = count, part
            self.under_way -= first
            self.count(-size)
            count -= first
        return count

    def close(self) -> deque[Publications]:
        """Nothing of it is pending any more. Its queue is left, for to let go of a long one takes a while."""
        self.count(-self.pending_bytes)
        self.ledger.clear()
        queue, self.queue = self.queue, deque()
        self.under_way = self.waiting = 0
        return queue

    def check(self) -> None:
        assert self.under_way == sum(count for count, _, _ in self.ledger) <= self.window, "the window does not hold"
        assert self.waiting == sum(len(batch.numbers) for batch in self.queue), "the queue is miscounted"
        pending_bytes = sum(size for _, size, _ in self.ledger) + sum(map(size_bytes, self.queue))
        assert self.pending_bytes == pending_bytes, "the bytes of an outlet are miscounted"
        # While the window of bytes is full, what the window of publications would let through waits as well.
        assert self.under_way + self.waiting <= self.capacity, "the queue is longer than it may be"
        has_room = self.under_way < self.window and self.client.has_room
        assert not (self.waiting and has_room), "something waits though the windows have room"
