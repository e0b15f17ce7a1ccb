"""How much of its time a broker looks at what is stored, and for whom.

The problem. To look at what is stored, for a question of another broker or of a client here, takes as long as a hundred
small requests. Whoever asks for all of the history all the time would keep this broker busy, and everything that others
say would wait for it. And where the time for it is short, somebody whose subscriptions never come to an end must not
take all of what there is: a client that has to look once, before its first event comes, would wait for ever.

The idea. Looking takes a share of the time (`LookTime`); then what is to be looked at waits for a timer. Clients that
wait have turns (`LookTurns`), a question each, and next is always the one that was looked for least. Whoever comes, or
comes again after a pause, is counted as the one that was served last: nothing is saved up, neither patience nor greed.
What was looked at while nobody had to wait took nothing from anybody, and is held against nobody.

State. When the time that was taken will have been its share; who waits, and what was done for each.
"""

from heapq import heappop, heappush

from tidings.model.work import UNITS_PER_MS
from tidings.protocols.delivery.edge.clients import ServedClient

BUSY_SHARE, BUSY_MAX = 0.5, 0.01
"""Of the time, what looking at what is stored may take; and how many seconds of it may be taken in advance."""


class LookTime:
    def __init__(self) -> None:
        self.busy_until = 0.0
        """When all that was looked at so far will have had its share of the time."""

    def are_used_up(self, now: float) -> bool:
        return self.busy_until - now > BUSY_MAX

    def spend(self, now: float, units: int) -> None:
        self.busy_until = max(now, self.busy_until) + units / (BUSY_SHARE * 1000 * UNITS_PER_MS)


class LookTurns:
    def __init__(self) -> None:
        self.waiting: dict[ServedClient, None] = {}
        self.order: list[tuple[int, int, ServedClient]] = []
        """Those that wait, as a heap: by the work done for them, then by who has waited longer."""
        self.tickets = 0
        self.served_units = 0
        """The work that had been done for the one that had the last turn."""
        self.most_units = 0
        """The most that was done for one."""

    def __len__(self) -> int:
        return len(self.waiting)

    def clear(self) -> None:
        self.waiting.clear()
        self.order.clear()

    def has_priority_over(self, client: ServedClient) -> bool:
        """Whether others wait for whom less was done."""
        return bool(self.waiting) and client.looked_units > self.served_units

    def spend(self, client: ServedClient, units: int) -> None:
        client.looked_units += units
        self.most_units = max(self.most_units, client.looked_units)

    def wait(self, client: ServedClient) -> None:
        if client in self.waiting:
            return
        if not self.waiting:
            self.served_units = self.most_units
        client.looked_units = max(client.looked_units, self.served_units)
        self.waiting[client] = None
        self.tickets += 1
        heappush(self.order, (client.looked_units, self.tickets, client))

    def next(self) -> ServedClient:
        client = heappop(self.order)[2]
        del self.waiting[client]
        self.served_units = max(self.served_units, client.looked_units)
        return client

    def check(self) -> None:
        assert len(self.order) == len(self.waiting) == len({id(client) for _, _, client in self.order}), (
            "somebody waits twice, or for nothing"
        )
