"""Heavy batches: publications that take longer to match than one step may.

The problem. Somebody subscribes with patterns and publishes strings of 64 KiB. Each alone is harmless; together they
take a broker half a second for one event, in which it does nothing else.

The idea. What matching a batch costs at most is known in advance: the weight of all patterns in the tables
(`model/weight.py`) for the length of its heads. Where that is little, and it nearly always is, the batch is carried at
once; otherwise it is tried for a moment, since most of those patterns may be for strings that it does not have. One
that is heavy indeed waits, and those of the same publisher that come behind it, so that its order is kept. At the timer
"heavy" a few publications are carried, as many as one step may; of a publication that is too heavy alone the strings
are searched for some patterns at a time, and filters without a normal form are asked a few at a time, and what was
found is remembered until all is known. Publishers take turns.

A batch may also be heavy because very many want it (`finder.py`). That is found out when it is carried: then its
beginning goes at once, and the rest waits here.

Everybody else's publications pass by.

Bounds. What waits of one publisher has a bound in bytes, and so has all that waits. What comes beyond is left out and
marked, as where a link takes too little (`parcels.py`): whoever must not miss it asks for history.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tidings.machine.effects import Effect, SetTimer
from tidings.model.work import UNITS_PER_MS, WORK
from tidings.protocols.routing.finder import Finder
from tidings.protocols.routing.parcels import size_of
from tidings.protocols.routing.requests import PendingRequest
from tidings.protocols.routing.tables import LiveHop, Tables
from tidings.pubsub.publications import Publications, cut

TIMER = "heavy"

HEAVY_AFTER = 0.0005
"""Seconds between two steps."""

STEP_UNITS_MAX = 8 * UNITS_PER_MS
"""Work of one step. It is reckoned for the worst case, and seldom takes as long."""

STEP_HEADS_MAX = 256
"""Publications of one step: they are looked at though some of them have to wait for the next."""

TRIAL_UNITS_MAX = UNITS_PER_MS
"""Work for finding out that a batch is not heavy, whatever its weight."""

PUBLISHER_BYTES_MAX, HEAVY_BYTES_MAX = 2 * 1024 * 1024, 32 * 1024 * 1024
"""What waits of one publisher, and altogether."""

Carry = Callable[[float, LiveHop, Publications, PendingRequest | None], list[Effect]]


class HeavyBatch(NamedTuple):
    source: LiveHop
    batch: Publications
    request: PendingRequest | None


class HeavyBatches:
    """`carry` carries a batch, or a part of one, in this step."""

    def __init__(self, tables: Tables, finder: Finder, carry: Carry) -> None:
        self.tables, self.finder, self.carry = tables, finder, carry
        self.waiting: dict[str, deque[HeavyBatch]] = {}
        """By publisher; whose turn it is stands first."""
        self.bytes_of: dict[str, int] = {}
        self.is_timed = False

    def start(self) -> None:
        """There is no timer any more, and nobody waits."""
        self.waiting.clear()
        self.bytes_of.clear()
        self.is_timed = False

    def units_of(self, source: LiveHop, heads: tuple[bytes, ...]) -> list[int]:
        """What matching each may cost; nothing where that is known already."""
        weight = self.tables.link_index.weight.plus(self.tables.local_index.weight)
        known = self.finder.memos.get(source, {})
        return [0 if head in known else weight.units(len(head)) for head in heads]

    def must_wait(self, source: LiveHop, batch: Publications) -> bool:
        if batch.publisher in self.waiting:
            return True
        if not (self.tables.link_index.has_weight or self.tables.local_index.has_weight):
            return False
        return sum(self.units_of(source, batch.heads)) > STEP_UNITS_MAX and not self.is_light(batch.heads)

    def is_light(self, heads: tuple[bytes, ...]) -> bool:
        until = WORK.units + TRIAL_UNITS_MAX
        indexes = self.tables.link_index, self.tables.local_index
        return all(index.is_light(head, until) for head in dict.fromkeys(heads) for index in indexes)

    def put(self, now: float, each: HeavyBatch, is_first: bool = False) -> list[Effect] | None:
        """None if there is no room for it. Whose beginning was carried already comes first."""
        publisher, size = each.batch.publisher, size_of(each.batch)
        waiting_bytes = self.bytes_of.get(publisher, 0) + size
        if waiting_bytes > PUBLISHER_BYTES_MAX or sum(self.bytes_of.values()) + size > HEAVY_BYTES_MAX:
            return None
        if each.request is not None:
            # It is answered when the last part of the batch was carried, and not before.
            each.request.unanswered += 1
        queue = self.waiting.setdefault(publisher, deque())
        if is_first:
            queue.appendleft(each)
        else:
            queue.append(each)
        self.bytes_of[publisher] = waiting_bytes
        return self.arm(now)

    def arm(self, now: float) -> list[Effect]:
        if not self.waiting or self.is_timed:
            return []
        self.is_timed = True
        return [SetTimer(TIMER, now + HEAVY_AFTER)]

    def fired(self, now: float) -> list[Effect]:
        self.is_timed = False
        effects: list[Effect] = []
        if self.waiting:
            publisher = next(iter(self.waiting))
            queue = self.waiting[publisher]
            count = min(self.count_ready(queue[0]), STEP_HEADS_MAX)
            if count:
                first = queue.popleft()
                self.bytes_of[publisher] -= size_of(first.batch)
                effects += self.carry_part(now, first, count, queue)
                del self.waiting[publisher]
                if queue:
                    self.waiting[publisher] = queue
                else:
                    del self.bytes_of[publisher]
        return effects + self.arm(now)

    def count_ready(self, first: HeavyBatch) -> int:
        """How many of its publications can be carried in this step; 0 where the first has to be searched further."""
        left, count = STEP_UNITS_MAX, 0
        for units in self.units_of(first.source, first.batch.heads):
            left -= units
            if left < 0:
                break
            count += 1
        else:
            return len(first.batch.heads)
        return count or int(self.is_searched(first.batch.heads[0]))

    def is_searched(self, head: bytes) -> bool:
        """Whether all patterns were looked for, after some more were."""
        until = WORK.units + STEP_UNITS_MAX
        return self.tables.link_index.search(head, until) and self.tables.local_index.search(head, until)

    def carry_part(self, now: float, first: HeavyBatch, count: int, queue: deque[HeavyBatch]) -> list[Effect]:
        batch, request = first.batch, first.request
        if count < len(batch.heads):
            rest = HeavyBatch(first.source, cut(batch, slice(count, None), batch.receipt), request)
            queue.appendleft(rest)
            self.bytes_of[batch.publisher] += size_of(rest.batch)
            batch = cut(batch, slice(count), batch.receipt)
        elif request is not None:
            request.unanswered -= 1
        return self.carry(now, first.source, batch, request)

    def check(self) -> None:
        assert self.is_timed or not self.waiting, "nobody looks at what waits"
        assert self.waiting.keys() == self.bytes_of.keys()
        for publisher, queue in self.waiting.items():
            assert queue and self.bytes_of[publisher] == sum(size_of(each.batch) for each in queue)
