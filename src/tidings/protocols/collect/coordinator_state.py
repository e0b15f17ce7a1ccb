"""What a coordinator knows of one collection, and what it plans on."""

from collections.abc import Container, Iterator

from tidings.machine.effects import Job
from tidings.model.identity import NodeId
from tidings.planning.flows.graph import CollectionGraph, Handback
from tidings.planning.flows.plan import CollectionPlan
from tidings.protocols.collect.estimates import Estimates, Pair
from tidings.protocols.collect.messages import CollectRequest, StatusUpdate
from tidings.protocols.collect.params import CollectParams

GENERATION = 2**32
"""Plans of one coordinator, so that those of the next one are later."""


class PlanJob(Job, frozen=True):
    graph: CollectionGraph
    sink: NodeId

    @property
    def seconds(self) -> float:
        return 0.05

    def run(self) -> CollectionPlan:
        # With numpy, which is not there where nobody plans.
        from tidings.planning.flows.quickest import quickest

        return quickest(self.graph, self.sink)


class Coordinated:
    def __init__(self, sink: NodeId, request: CollectRequest, params: CollectParams) -> None:
        self.sink, self.request, self.job = sink, request, request.job
        self.sizes = dict(request.sources)
        self.hosts = [node for node in dict.fromkeys((*self.sizes, *request.helpers)) if node != sink]
        self.everybody = [*self.hosts, sink]
        self.is_direct = request.strategy == "direct"
        self.block_bits = request.block_bytes * 8.0
        self.plan = 0
        self.is_planning = False
        self.rates: dict[Pair, float] = {}
        """Planned, in blocks a second."""
        self.awaited: dict[NodeId, None] = {}
        self.statuses: dict[NodeId, StatusUpdate] = {}
        self.lost: dict[NodeId, None] = {}
        self.gone: dict[NodeId, None] = {}
        """Whose link was lost and is not back, since however long."""
        self.idle = 0
        """Rounds in a row in which nobody had anything to send."""
        self.round = 0
        self.unheard: dict[NodeId, None] = {}
        """Who has not said yet what it has."""
        self.found: dict[NodeId, set[int]] = {}
        self.spares: dict[tuple[NodeId, int], NodeId] = {}
        self.waiting: list[NodeId] = []
        self.active: dict[NodeId, None] = {}
        self.unsent: dict[NodeId, int] = {}

    @property
    def number(self) -> int:
        """Of the latest plan, among those of all coordinators."""
        return self.request.generation * GENERATION + self.plan

    def held_now(self) -> dict[NodeId, int]:
        return {
            node: sum(count for _, count in status.held)
            for node, status in self.statuses.items()
            if node not in self.lost
        }

    def learn(self, estimates: Estimates, node: NodeId, status: StatusUpdate, slack: float) -> None:
        bits, rates = self.block_bits, dict(status.rates)
        for (sender, receiver), planned in self.rates.items():
            if sender == node:
                reached = rates.get(receiver)
                estimates.learn(sender, receiver, planned * bits, None if reached is None else reached * bits, slack)
        estimates.see_access(node, status.up_rate * bits, status.down_rate * bits)

    def pairs(self, estimates: Estimates, hosts: list[NodeId], peers: int) -> Iterator[Pair]:
        """The paths over which a plan may go: those that are known, and from every host straight to the sink where
        everybody is a peer of everybody, or nothing is known of a host's paths. Nobody relays over a path of which
        nothing is known: it may be no better than the one that it is to spare."""
        known = set(hosts)
        yield from (pair for pair in estimates.paths if known.issuperset(pair))
        measured = {sender for sender, _ in estimates.paths} if len(hosts) > peers + 1 else set()
        yield from (
            (node, self.sink)
            for node in hosts
            if node not in measured and node != self.sink and (node, self.sink) not in estimates.paths
        )

    def graph(
        self,
        estimates: Estimates,
        held: dict[NodeId, int],
        hosts: list[NodeId],
        linked: Container[NodeId],
        peers: int,
    ) -> CollectionGraph:
        if self.sink not in hosts:
            hosts = [*hosts, self.sink]
        cut = {(node, receiver) for node, status in self.statuses.items() for receiver in status.unreachable}
        pairs = [pair for pair in self.pairs(estimates, hosts, peers) if pair not in cut and pair[0] != self.sink]
        there = set(hosts)
        handbacks = [
            Handback(holder, origin, count)
            for holder, status in self.statuses.items()
            if holder in there and holder not in self.lost
            for origin, count in status.held
            if origin != holder and origin in there and origin != self.sink
        ]
        sources = {node: count for node, count in held.items() if node in there}
        return estimates.graph(sources, hosts, pairs, self.block_bits, handbacks)
