"""Events that wait until their flows let them go.

An event that belongs to several flows needs leave of each, and takes it from all of them or from none. Each flow keeps
its order: an event waits while an older one waits in any of its flows, and is overtaken only by events that share no
flow with it (G-22). So one order of arrival, `waiting`, and for each flow the queue of those of them that belong to it.

An event at the head of all its queues is at the *front*; it leaves as soon as all its flows are ready. `due` is a heap
of times at which to ask for one of them; entries that are no longer true are passed over.

Each queue is bounded. Beyond it the oldest event goes, or the newest, and is *withheld*: it was never sent and has no
number, so no receiver misses it (G-23). Requests and repairs are given up only where nothing else waits.
"""

from collections import deque
from heapq import heapify, heappop, heappush

from tidings.protocols.transport.congestion.control import Controller
from tidings.protocols.transport.congestion.flows import FlowTable, LimitedFlow
from tidings.protocols.transport.limits import Valve
from tidings.protocols.transport.marks import Kind
from tidings.protocols.transport.signals import Leaving, Unneeded

STALE_MAX = 256
"""Entries of the heap beyond three for each waiting event, after which it is built anew."""


class Waiting:
    __slots__ = ("order", "outgoing", "rows")

    def __init__(self, order: int, outgoing: Leaving, rows: list[LimitedFlow]) -> None:
        self.order, self.outgoing, self.rows = order, outgoing, rows

    def is_front(self) -> bool:
        return all(row.queue and row.queue[0] is self for row in self.rows)


class Queueing:
    def __init__(self, table: FlowTable, controller: Controller, now: float) -> None:
        self.table, self.controller = table, controller
        self.waiting: dict[int, Waiting] = {}
        self.due: list[tuple[float, int]] = []
        """Times and orders."""
        self.order = 0
        self.valve = Valve(now)
        """Of all flows together."""

    # Leaving.

    def offer(self, now: float, rows: tuple[LimitedFlow, ...]) -> None:
        """The application sends an event of these flows: valves count it."""
        timeout = self.table.params.flow_timeout
        self.valve.offer(now, timeout)
        for row in rows:
            if row.valve is not None:
                row.valve.offer(now, timeout)

    def may_leave(self, now: float, rows: tuple[LimitedFlow, ...] | list[LimitedFlow]) -> bool:
        if self.valve.credit >= 1.0:
            return True
        controller = self.controller
        return all(controller.is_ready(row, now) or (row.valve is not None and row.valve.credit >= 1.0) for row in rows)

    def leave(self, now: float, rows: tuple[LimitedFlow, ...] | list[LimitedFlow]) -> None:
        """Take what each flow gives: its token, or the credit of its valve, or that of the table's."""
        is_regular = True
        for row in rows:
            if self.controller.is_ready(row, now):
                self.controller.take(row, now)
                if row.valve is not None:
                    row.valve.passed += 1
                continue
            is_regular = False
            if row.valve is not None and row.valve.credit >= 1.0:
                row.valve.credit -= 1.0
            else:
                self.valve.credit -= 1.0
        if is_regular:
            self.valve.passed += 1

    def is_free(self, rows: tuple[LimitedFlow, ...]) -> bool:
        """Does nothing wait in these flows?"""
        return not self.waiting or not any(row.queue for row in rows)

    # Waiting.

    def put(self, now: float, outgoing: Leaving, rows: tuple[LimitedFlow, ...]) -> list[Leaving]:
        """It waits; returns what is withheld instead."""
        params = self.table.params
        withheld: list[Leaving] = []
        for row in rows:
            if row.queue is not None and len(row.queue) >= params.queue_max:
                if params.overflow == "drop_newest" and outgoing.kind is Kind.DATA:
                    return [*withheld, outgoing]
                withheld.append(self.give_up(now, row))
        self.order += 1
        item = self.waiting[self.order] = Waiting(self.order, outgoing, list(rows))
        for row in rows:
            self.enter(now, row, item)
        self.schedule(now, item)
        return withheld

    def enter(self, now: float, row: LimitedFlow, item: Waiting) -> None:
        if row.queue is None:
            row.queue = deque()
        if row.valve is None:
            row.valve = Valve(now)
        row.queue.append(item)

    def give_up(self, now: float, row: LimitedFlow) -> Leaving:
        """The oldest event of the flow; a request or repair only if there is nothing else."""
        queue = row.queue
        assert queue
        item = next((item for item in queue if item.outgoing.kind is Kind.DATA), queue[0])
        self.take_out(now, item)
        return item.outgoing

    def take_back(self, now: float, unneeded: Unneeded) -> None:
        """A request or repair that waits."""
        for item in self.waiting.values():
            if item.outgoing.ticket == unneeded.ticket and item.outgoing.kind is unneeded.kind:
                return self.take_out(now, item)

    def take_out(self, now: float, item: Waiting) -> None:
        del self.waiting[item.order]
        for row in item.rows:
            queue = row.queue
            assert queue
            if queue[0] is item:
                queue.popleft()
                if queue:
                    self.schedule(now, queue[0])
            else:
                queue.remove(item)

    def schedule(self, now: float, item: Waiting) -> None:
        """When to ask for it, if it is at the front."""
        if not item.is_front():
            return
        at = self.ready_at(now, item)
        if at < float("inf"):
            heappush(self.due, (at, item.order))
            if len(self.due) > STALE_MAX + 3 * len(self.waiting):
                self.rebuild(now)

    def rebuild(self, now: float) -> None:
        self.due = [(self.ready_at(now, item), order) for order, item in self.waiting.items() if item.is_front()]
        heapify(self.due)

    def ready_at(self, now: float, item: Waiting) -> float:
        return max((self.controller.ready_at(row, now) for row in item.rows), default=now)

    def drain(self, now: float) -> list[Waiting]:
        """Those that leave now, in order of their turn."""
        gone: list[Waiting] = []
        again: list[Waiting] = []
        while self.due and self.due[0][0] <= now:
            _, order = heappop(self.due)
            item = self.waiting.get(order)
            if item is None or not item.is_front():
                continue
            if self.may_leave(now, item.rows):
                self.leave(now, item.rows)
                self.take_out(now, item)
                gone.append(item)
            else:
                again.append(item)
        for item in again:
            self.schedule(now, item)
        return gone

    def wake(self, now: float, rows: list[LimitedFlow] | tuple[LimitedFlow, ...]) -> None:
        """These flows may be ready earlier than was thought."""
        for row in rows:
            if row.queue:
                self.schedule(now, row.queue[0])

    def press(self, now: float, rows: tuple[LimitedFlow, ...]) -> None:
        """An open valve may let go what waits longest in these flows."""
        for row in rows:
            if row.queue and row.queue[0].is_front() and self.may_leave(now, row.queue[0].rows):
                heappush(self.due, (now, row.queue[0].order))

    def due_at(self) -> float | None:
        return self.due[0][0] if self.due else None

    # The table changes.

    def row_added(self, now: float, row: LimitedFlow) -> None:
        """What waits already and belongs to the new flow waits in it too, in its order."""
        for item in self.waiting.values():
            if row in self.table.matching(item.outgoing):
                item.rows.append(row)
                self.enter(now, row, item)

    def row_removed(self, now: float, row: LimitedFlow) -> None:
        """Its events wait in their other flows; those that have none leave."""
        items, row.queue = row.queue or (), None
        for item in items:
            item.rows.remove(row)
            self.schedule(now, item)

    def check(self) -> None:
        for order, item in self.waiting.items():
            assert item.order == order
            assert all(row.queue and item in row.queue for row in item.rows)
        for row in self.table.rows.values():
            if row.queue:
                orders = [item.order for item in row.queue]
                assert orders == sorted(orders), "a flow keeps its order"
                assert all(order in self.waiting for order in orders)
