"""One collection at one host: which blocks it answers for, where each is to go, and what is on its way.

A block that a host answers for is in one place: unsent of its own (`own`), of others and without a receiver (`loose`),
of others and queued for a receiver (`queues`), on its way (`in_flight`), or handed back to its origin and not
confirmed (`handed`). A budget says how many blocks a receiver is still to be given; those of others are assigned as
they come, with the chance of each receiver its budget less what is queued for it, and own ones are pulled by whoever
has room.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from math import ceil
from random import Random

from tidings.model.bounds import FILES_MAX, FILES_TOLD_MAX, TEXT_CHARS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.collect.messages import Directive, FilesTold, HoldingsTold
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.rates import AckRate
from tidings.protocols.collect.runs import parts_of, runs_of
from tidings.protocols.collect.shelf import BlockShelf, BlockTable

BlockKey = tuple[NodeId, int]
"""Origin and number."""


class MovedJob:
    def __init__(self, node_id: NodeId, job: str, sink: NodeId, params: CollectParams, block_bytes: int) -> None:
        self.node_id, self.job, self.sink = node_id, job, sink
        self.params, self.block_bytes = params, block_bytes
        self.coordinator: NodeId = sink
        self.plan = -1
        self.table: BlockTable | None = None
        """Of our own files; None until all of them were told."""
        self.own: deque[int] = deque()
        self.own_unsent: set[int] = set()
        self.loose: dict[BlockKey, None] = {}
        self.queues: dict[NodeId, deque[BlockKey]] = {}
        self.budgets: dict[NodeId, int] = {}
        self.planned: dict[NodeId, float] = {}
        self.in_flight: dict[NodeId, dict[BlockKey, None]] = {}
        self.handed: dict[NodeId, dict[int, None]] = {}
        self.spare: dict[BlockKey, int] = {}
        """Kept although somebody else answers for them, with their sizes."""
        self.sizes: dict[BlockKey, int] = {}
        """Of blocks of others that are here."""
        self.rates: dict[NodeId, AckRate] = {}
        self.next_at: dict[NodeId, float] = {}
        """When the next block may leave for a receiver, where it is paced."""
        self.is_final = False
        self.arrived: dict[NodeId, set[int]] = {}
        """At the sink, what came."""
        self.expected: dict[NodeId, int] = {}
        """At the sink, how many there are of each origin."""
        self.acknowledged = 0

    @property
    def is_sink(self) -> bool:
        return self.sink == self.node_id

    @property
    def own_count(self) -> int:
        return self.table.count if self.table is not None else 0

    # What is here.

    def answer_for_own(self, numbers: Iterable[int]) -> None:
        under_way = {seq for each in self.in_flight.values() for origin, seq in each if origin == self.node_id}
        for seq in numbers:
            if seq < self.own_count and seq not in self.own_unsent and seq not in under_way:
                self.own_unsent.add(seq)
                self.own.append(seq)

    def has(self, key: BlockKey) -> bool:
        """Whether we answer for this block of somebody else."""
        return key in self.sizes and key not in self.spare

    def take(self, key: BlockKey, size_bytes: int, rng: Random) -> None:
        self.sizes[key] = size_bytes
        self.spare.pop(key, None)
        self.assign(key, rng)

    def assign(self, key: BlockKey, rng: Random) -> None:
        """To a receiver, with the chance of its budget less what is queued for it."""
        weights = [
            (receiver, budget - len(self.queues.get(receiver, ())))
            for receiver, budget in self.budgets.items()
            if receiver != key[0] and budget > len(self.queues.get(receiver, ()))
        ]
        whole = sum(weight for _, weight in weights)
        if whole == 0:
            if self.is_final:
                self.queues.setdefault(self.sink, deque()).append(key)
            else:
                self.loose[key] = None
            return
        drawn, place = rng.random() * whole - weights[0][1], 0
        while drawn >= 0 and place + 1 < len(weights):
            place += 1
            drawn -= weights[place][1]
        self.queues.setdefault(weights[place][0], deque()).append(key)

    def held(self) -> dict[NodeId, int]:
        """How many of each origin we answer for and have not given away; what is on its way is not counted."""
        counts: dict[NodeId, int] = {}
        if self.own:
            counts[self.node_id] = len(self.own)
        for origin, _ in self.unsent_of_others():
            counts[origin] = counts.get(origin, 0) + 1
        return counts

    def unsent_of_others(self) -> Iterator[BlockKey]:
        yield from self.loose
        for queue in self.queues.values():
            yield from queue

    def holdings(self) -> tuple[dict[NodeId, set[int]], dict[NodeId, set[int]]]:
        """All we answer for, what is on its way included, and what is kept besides; by origin."""
        answered: dict[NodeId, set[int]] = {}
        spare: dict[NodeId, set[int]] = {}
        if self.is_sink:
            return {origin: set(numbers) for origin, numbers in self.arrived.items()}, {}
        if self.own_unsent:
            answered[self.node_id] = set(self.own_unsent)
        keys = [*self.unsent_of_others(), *(key for each in self.in_flight.values() for key in each)]
        keys += [(origin, seq) for origin, numbers in self.handed.items() for seq in numbers]
        for origin, seq in keys:
            answered.setdefault(origin, set()).add(seq)
        for origin, seq in self.spare:
            spare.setdefault(origin, set()).add(seq)
        return answered, spare

    def told_holdings(self, round: int) -> Iterator[HoldingsTold]:
        """The same as messages."""
        answered, spare = self.holdings()
        for origin in sorted({*answered, *spare}):
            ours, kept = parts_of(runs_of(answered.get(origin, ()))), parts_of(runs_of(spare.get(origin, ())))
            for place in range(max(len(ours), len(kept))):
                runs = ours[place] if place < len(ours) else ()
                yield HoldingsTold(self.job, round, origin, runs, kept[place] if place < len(kept) else (), False)
        yield HoldingsTold(self.job, round, "", (), (), True)

    # A new plan.

    def direct(self, now: float, directive: Directive, rng: Random) -> None:
        self.plan, self.is_final = directive.plan, directive.is_final
        self.budgets = {share.receiver: share.blocks for share in directive.shares if share.blocks}
        self.planned = {share.receiver: share.rate for share in directive.shares}
        for receiver in self.planned:
            rate = self.rates.setdefault(receiver, AckRate(self.params.rate_seconds, now))
            rate.thaw(now)
        waiting = list(self.unsent_of_others())
        self.queues, self.loose = {}, {}
        for key in waiting:
            self.assign(key, rng)

    def hand_back(self, origin: NodeId, most: int) -> list[int]:
        """The first so many blocks of that origin that are here and were not given away."""
        numbers = sorted(seq for each, seq in self.unsent_of_others() if each == origin)[:most]
        chosen = set(numbers)
        for key in [key for key in self.loose if key[0] == origin and key[1] in chosen]:
            del self.loose[key]
        for receiver, queue in self.queues.items():
            self.queues[receiver] = deque(key for key in queue if key[0] != origin or key[1] not in chosen)
        self.handed.setdefault(origin, {}).update(dict.fromkeys(numbers))
        return numbers

    def take_back_handed(self, origin: NodeId, rng: Random) -> None:
        """The origin is gone, or did not answer: we answer for them as before."""
        for seq in self.handed.pop(origin, {}):
            self.assign((origin, seq), rng)

    # Sending.

    def window(self, receiver: NodeId) -> int:
        """Blocks that may be on the way."""
        planned = ceil(self.planned.get(receiver, 0.0) * self.params.window_seconds)
        return max(1, min(planned, self.params.window_bytes_max // self.block_bytes))

    def receivers(self) -> list[NodeId]:
        """To whom something is to be sent, and to whom it may be."""
        names = [name for name, budget in self.budgets.items() if budget > 0 and (self.own or self.queues.get(name))]
        if self.is_final and self.sink not in names and (self.queues.get(self.sink) or self.is_left_over):
            names.append(self.sink)
        return [name for name in names if len(self.in_flight.get(name, ())) < self.window(name)]

    @property
    def is_left_over(self) -> bool:
        """Own blocks, and nobody to whom they are planned."""
        return bool(self.own) and not any(self.budgets.values())

    def next_for(self, receiver: NodeId) -> BlockKey | None:
        queue, budget = self.queues.get(receiver), self.budgets.get(receiver, 0)
        goes_anyway = self.is_final and receiver == self.sink
        if queue and (budget > 0 or goes_anyway):
            return queue.popleft()
        if self.own and (budget > 0 or (goes_anyway and self.is_left_over)):
            seq = self.own.popleft()
            self.own_unsent.discard(seq)
            return self.node_id, seq
        return None

    def sent(self, now: float, receiver: NodeId, key: BlockKey) -> None:
        self.in_flight.setdefault(receiver, {})[key] = None
        if self.params.is_paced and self.planned.get(receiver, 0.0) > 0:
            self.next_at[receiver] = max(now, self.next_at.get(receiver, now)) + 1 / self.planned[receiver]
        if self.budgets.get(receiver, 0) > 0:
            self.budgets[receiver] -= 1
        rate = self.rates.get(receiver)
        if rate is not None and rate.is_frozen and rate.frozen is None:
            rate.thaw(now)

    def freeze(self, now: float) -> None:
        """Rates stand still where nothing is to be sent."""
        for receiver, rate in self.rates.items():
            if not self.budgets.get(receiver) or not (self.own or self.queues.get(receiver)):
                rate.freeze(now)

    def acknowledge(self, now: float, receiver: NodeId, key: BlockKey) -> bool:
        """Whether it was on its way there; what of others is over with is no longer ours."""
        flying = self.in_flight.get(receiver, {})
        if key not in flying:
            return False
        del flying[key]
        self.acknowledged += 1
        if (rate := self.rates.get(receiver)) is not None:
            rate.acknowledge(now)
        return True

    def give_up(self, receiver: NodeId, key: BlockKey, rng: Random) -> None:
        """It did not get there, as far as we know: we answer for it again."""
        if self.in_flight.get(receiver, {}).pop(key, 0) is None:
            self.put_back(key, rng)

    def put_back(self, key: BlockKey, rng: Random) -> None:
        origin, seq = key
        if origin == self.node_id:
            if seq not in self.own_unsent:
                self.own_unsent.add(seq)
                self.own.appendleft(seq)
        else:
            self.assign(key, rng)

    def lose_receiver(self, receiver: NodeId, rng: Random) -> None:
        """Its link is gone, with all that was on its way: it is to be given as many again."""
        flying = list(self.in_flight.pop(receiver, {}))
        if receiver in self.budgets:
            self.budgets[receiver] += len(flying)
        for key in flying:
            self.put_back(key, rng)
        self.take_back_handed(receiver, rng)

    def check(self) -> None:
        assert all(budget >= 0 for budget in self.budgets.values()), "a budget is never below 0"
        assert set(self.own) == self.own_unsent and len(self.own) == len(self.own_unsent)
        keys = list(self.unsent_of_others())
        keys += [key for each in self.in_flight.values() for key in each if key[0] != self.node_id]
        keys += [(origin, seq) for origin, numbers in self.handed.items() for seq in numbers]
        assert len(keys) == len(set(keys)), "a block is in one place"
        assert sum(self.held().values()) == len(self.own) + sum(1 for _ in self.unsent_of_others())


def files_told(shelf: BlockShelf, job: str, patterns: tuple[str, ...]) -> list[FilesTold]:
    """The files here that match, in as many messages as it takes."""
    files = shelf.shared(patterns)
    if not isinstance(files, str) and len(files) > FILES_MAX:
        files = f"{len(files)} files match, and at most {FILES_MAX} are collected at a time; ask for fewer"
    if isinstance(files, str):
        return [FilesTold(job, (), True, files[:TEXT_CHARS_MAX])]
    places = range(0, len(files), FILES_TOLD_MAX) or range(1)
    return [FilesTold(job, files[place : place + FILES_TOLD_MAX], place == places[-1]) for place in places]
