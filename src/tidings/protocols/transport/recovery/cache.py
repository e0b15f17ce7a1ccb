"""What a receiver keeps to repair others' losses with: for each publisher its last events, as many as are of use.

A ring of K events, the oldest overwritten. An event is of use from its arrival until the requests for it have come: the
requester must see a later event, wait, and be heard. With `rate` events a second of this publisher that we receive,
that are

    a = (request_wait + distance + peer_distance) * rate + 1

request_wait is (C1 + C2 / 2) d of the requesters and distance their d, both told in requests; peer_distance is ours to
them. Where requests get lost they come again after doubled waits, which are added up: what is asked for in a later
round must have been kept for longer. Once in a period K is set anew (`Ring.review`): whoever repairs for this publisher
takes a, or grows by a tenth while requests come too late for what it keeps; all others shrink by a tenth. So few keep
much, and most keep little.

Who repairs is who sent a repair in the last seconds and did not mostly find that others were quicker (G-14). Where
everybody keeps little nobody would ever begin: so a receiver also takes the part of a repairer when it was asked for
something that it had overwritten, and nobody was heard to answer.

Bounds. K lies between cache_min and cache_max. All rings of a node together hold at most `cache_total` events of
`cache_bytes` bytes (`CacheRoom`): beyond it rings give up their oldest event in turn.

Source: the transport specification, 3.5.8, X-7, G-13, G-14.
"""

import math
from collections import deque

from tidings.protocols.transport.headers import Data
from tidings.protocols.transport.params import RecoveryParams
from tidings.protocols.transport.signals import CarriedEvent

GROWTH, SHRINKAGE = 1.1, 0.9
REPAIRER_SECONDS = 10.0
"""How long after its last repair a node still counts as one who repairs."""

GAIN = 0.25
OVERWRITTEN_MAX = 1000
"""Numbers of events that we had, by which a request that comes too late is told from one that is not for us."""

MISSED_MAX = 64
"""Requests that came too late, of which we wait to hear whether somebody else answers."""

WAIT_CLAIMED_MAX = 30.0
"""Seconds that we believe a requester to have waited."""

ROUNDS_CLAIMED_MAX = 8

Kept = tuple[Data, CarriedEvent, int]
"""Header, event, Bloom row (0 where it is not known)."""


def size_needed(request_wait: float, distance: float, peer_distance: float, rate: float) -> float:
    return (request_wait + distance + peer_distance) * rate + 1.0


class CacheRoom:
    """What all rings of a node hold together."""

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self.count_max, self.bytes_max = count_max, bytes_max
        self.count = self.size_bytes = 0
        self.rings: deque[Ring] = deque()
        """Those that hold something, and perhaps some that were emptied since."""

    @property
    def is_exceeded(self) -> bool:
        return self.count > self.count_max or self.size_bytes > self.bytes_max

    def keep(self) -> None:
        while self.is_exceeded:
            ring = self.rings.popleft()
            ring.is_listed = False
            if ring.order:
                ring.drop_oldest()
                ring.list_again()


class Ring:
    """The last events of one publisher, and what was asked of them."""

    def __init__(self, budget: CacheRoom, size: float) -> None:
        self.budget, self.size = budget, size
        self.capacity = math.ceil(size)
        self.entries: dict[int, Kept] = {}
        self.order: deque[int] = deque()
        self.overwritten: dict[int, None] = {}
        self.is_listed = False
        self.heard = 0
        """Events since the last review."""
        self.rate = 0.0
        self.requests = self.hits = 0
        """Since the last review."""
        self.missed: dict[int, None] = {}
        """Numbers that were asked for too late, and that nobody has repaired."""
        self.request_wait = self.distance = self.peer_distance = 0.0
        self.repairs_sent = self.repairs_suppressed = 0.0
        self.repaired_at = -math.inf

    def put(self, sequence: int, kept: Kept) -> None:
        if sequence in self.entries:
            return
        self.entries[sequence] = kept
        self.order.append(sequence)
        budget, content = self.budget, kept[1]
        budget.count += 1
        budget.size_bytes += len(content.head) + len(content.payload)
        if len(self.order) > self.capacity:
            self.drop_oldest()
        if not self.is_listed:
            self.list_again()
        if budget.count > budget.count_max or budget.size_bytes > budget.bytes_max:
            budget.keep()

    def drop_oldest(self) -> None:
        oldest = self.order.popleft()
        _, content, _ = self.entries.pop(oldest)
        overwritten = self.overwritten
        overwritten[oldest] = None
        if len(overwritten) > OVERWRITTEN_MAX:
            self.overwritten = dict.fromkeys(list(overwritten)[OVERWRITTEN_MAX // 2 :])
        self.budget.count -= 1
        self.budget.size_bytes -= len(content.head) + len(content.payload)

    def list_again(self) -> None:
        self.is_listed = True
        self.budget.rings.append(self)

    def resize(self, size: float) -> None:
        """Growing keeps what is there; shrinking drops the oldest (T-68)."""
        self.size, self.capacity = size, math.ceil(size - 1e-9)
        while len(self.order) > self.capacity:
            self.drop_oldest()

    def clear(self) -> None:
        while self.order:
            self.drop_oldest()

    # What is asked of it.

    def had(self, sequence: int) -> bool:
        return sequence in self.entries or sequence in self.overwritten

    def look_up(self, sequence: int) -> Kept | None:
        """Something that we had."""
        kept = self.entries.get(sequence)
        self.requests += 1
        if kept is not None:
            self.hits += 1
        elif len(self.missed) < MISSED_MAX:
            self.missed[sequence] = None
        return kept

    def learn(self, request_wait: float, distance: float, peer_distance: float, round_: int = 0) -> None:
        """What a request says of its requester; the first one is believed as it is."""
        waits = 2 ** (min(round_, ROUNDS_CLAIMED_MAX) + 1) - 1
        request_wait = min(WAIT_CLAIMED_MAX, waits * request_wait)
        if not self.request_wait:
            self.request_wait, self.distance, self.peer_distance = request_wait, distance, peer_distance
            return
        self.request_wait += GAIN * (request_wait - self.request_wait)
        self.distance += GAIN * (distance - self.distance)
        self.peer_distance += GAIN * (peer_distance - self.peer_distance)

    def sent_repair(self, now: float) -> None:
        self.repaired_at = now
        self.repairs_sent += 1

    def heard_repair(self, sequence: int, is_suppressed: bool) -> None:
        self.missed.pop(sequence, None)
        self.repairs_suppressed += is_suppressed

    # Once in a period.

    def is_repairer(self, now: float) -> bool:
        if self.missed:
            return True
        return now - self.repaired_at <= REPAIRER_SECONDS and self.repairs_sent >= self.repairs_suppressed

    def review(self, now: float, params: RecoveryParams) -> None:
        self.rate += 0.5 * (self.heard / params.cache_period - self.rate)
        if self.is_repairer(now):
            size = size_needed(self.request_wait, self.distance, self.peer_distance, self.rate)
            if self.requests and self.hits / self.requests < params.cache_hits:
                size = max(size, GROWTH * self.size)
        else:
            size = SHRINKAGE * self.size
        self.resize(min(float(params.cache_max), max(float(params.cache_min), size)))
        self.heard = self.requests = self.hits = 0
        self.missed.clear()
        self.repairs_sent *= SHRINKAGE
        self.repairs_suppressed *= SHRINKAGE

    def check(self) -> None:
        assert len(self.order) == len(self.entries) <= self.capacity, "a ring holds more than it has room for"
        assert len(self.overwritten) <= OVERWRITTEN_MAX, "more numbers are remembered than OVERWRITTEN_MAX"
        assert not self.order or self.is_listed, "a ring that holds something is not counted"
