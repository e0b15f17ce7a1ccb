"""Hosts that collect from each other, in a simulator whose links are shared by bulk transfers as fluids."""

from collections.abc import Mapping

from tidings.machine.message import Contact
from tidings.nodes.collector import CollectorNode, CollectorParams
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.collect.messages import Enlisted
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.shelf import MemoryShelf
from tidings.protocols.collect.signals import (
    CollectionEnded,
    CollectionListed,
    MembersKnown,
    ProceedCollection,
    StartCollection,
)
from tidings.sim.network.flows import Shared
from tidings.sim.network.latency import Constant
from tidings.sim.simulator import Simulator

MEGABIT = 1e6


def fluid(
    rates_bps: Mapping[tuple[str, str], float], access_bps: Mapping[str, tuple[float, float]], latency: float = 0.02
) -> Shared:
    """Paths of these rates between hosts with this access, (down, up)."""
    capacities: dict[tuple[str, ...], float] = {("path", *pair): rate for pair, rate in rates_bps.items()}
    for name, (down, up) in access_bps.items():
        capacities |= {("down", name): down, ("up", name): up}

    def path(sender: str, to: str) -> list[tuple[str, ...]]:
        links = [("up", sender), ("path", sender, to), ("down", to)]
        return [link for link in links if link in capacities]

    return Shared(Constant(latency), capacities, path, in_pipes=True)


class CollectWorld:
    def __init__(
        self,
        shelves: Mapping[str, MemoryShelf],
        rates_bps: Mapping[tuple[str, str], float],
        access_bps: Mapping[str, tuple[float, float]] | None = None,
        params: CollectParams | None = None,
        seed: int = 1,
        believed_bps: Mapping[tuple[str, str], float] | None = None,
        latency: float = 0.02,
        checking: bool = False,
        contact: str = "",
    ) -> None:
        """`believed_bps` is what a sink is told of paths. With a `contact` everybody else enlists there."""
        self.shelves, self.params = dict(shelves), params or CollectParams(probe_period=0)
        self.access = dict(access_bps or {})
        self.believed = dict(rates_bps if believed_bps is None else believed_bps)
        self.simulator = Simulator(seed, fluid(rates_bps, self.access, latency), checking=checking)
        self.contact = contact
        for name in self.shelves:
            self.add(name)
        self.simulator.run(until=0.0)

    def add(self, name: str) -> None:
        links = (self.contact,) if self.contact and name != self.contact else ()
        params = CollectorParams(access=OpenDoorParams(links=links), collect=self.params)
        shelf = self.shelves[name]
        self.simulator.add(name, lambda draws: CollectorNode(name, params, shelf, draws("collect")))

    def node(self, name: str) -> CollectorNode:
        process = self.simulator.nodes[name].process
        assert process is not None
        machine = process.machine
        assert isinstance(machine, CollectorNode)
        return machine

    def known(self) -> MembersKnown:
        def limit(rate: float) -> float:
            return 0.0 if rate == float("inf") else rate

        members = []
        for name, shelf in self.shelves.items():
            down, up = self.access.get(name, (0.0, 0.0))
            members.append(Enlisted(Contact(name), bool(shelf.files or shelf.sizes), limit(up), limit(down)))
        return MembersKnown(tuple(members), tuple((x, y, rate) for (x, y), rate in self.believed.items()))

    def start(
        self,
        sink: str,
        job: str = "job",
        at: float = 0.0,
        patterns: tuple[str, ...] = ("*",),
        coordinator: str = "",
        strategy: str = "planned",
        pool: int = 0,
        sources: tuple[str, ...] = (),
    ) -> None:
        """The sink, and whoever coordinates, knows who is there as from a directory."""

        def introduce() -> None:
            for name in {sink, coordinator or sink}:
                node = self.node(name)
                node.gatherer.handle(at, self.known())
                node.coordinator.handle(at, self.known())

        self.simulator.call_at(at, introduce)
        request = StartCollection(job, patterns, sources, coordinator, strategy, pool)
        self.simulator.inject(at, sink, request)

    def run(self, sink: str, job: str = "job", until: float = 100_000.0, step: float = 5.0) -> CollectionEnded:
        """Go on with what is listed, until it has ended."""
        simulator, proceeded = self.simulator, False
        while simulator.now < until:
            simulator.run(until=simulator.now + step)
            items = [each.item for each in simulator.delivered(sink)]
            for item in items:
                if isinstance(item, CollectionListed) and item.job == job and not proceeded:
                    proceeded = True
                    simulator.inject(simulator.now, sink, ProceedCollection(job))
                if isinstance(item, CollectionEnded) and item.job == job:
                    return item
        raise AssertionError(f"not over after {until} s: {self.node(sink).gatherer.jobs[job].progress(until)}")

    def set_rate(self, pair: tuple[str, str], rate_bps: float) -> None:
        transfers = self.simulator.transfers.flows
        assert transfers is not None
        transfers.set_capacity(("path", *pair), rate_bps)
