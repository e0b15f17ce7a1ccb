"""Dispatchers on a ring, and what their tree should be."""

from collections.abc import Iterable
from functools import partial

from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.overlay.dhtree.dhtree import DhTree, DhTreeParams
from tidings.protocols.overlay.dhtree.neighbours import tree_of
from tidings.protocols.routing.params import RoutingParams
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator

TreeLink = tuple[NodeId, NodeId]


class RingWatcher(Observer):
    """Asserts after every step in which somebody's neighbours have changed that there is no cycle."""

    def __init__(self, world: "RingWorld") -> None:
        self.world = world
        self.neighbours: dict[NodeId, list[NodeId]] = {}

    def on_step(self, now: float, node: SimulatedNode) -> None:
        machine = node.machine
        neighbours = list(machine.overlay.neighbours) if isinstance(machine, Dispatcher) else []
        if neighbours != self.neighbours.get(node.id):
            self.neighbours[node.id] = neighbours
            assert self.world.is_lied_to or not has_cycle(self.world.links()), f"a cycle at {now:.3f}"


class RingWorld:
    """Each joins through a contact that was there before it; `crash` and `join` change who is there."""

    is_lied_to = False
    """Then whoever lies may be in a cycle with itself."""

    def __init__(self, seed: int, count: int, params: DhTreeParams | None = None, checking: bool = True) -> None:
        self.params, self.rng = params or DhTreeParams(), random_stream(seed, "rings")
        self.simulator = Simulator(seed, Constant(0.02), checking=checking, observers=[RingWatcher(self)])
        self.routing = RoutingParams(engine="plain")
        self.names: list[NodeId] = []
        self.living: list[NodeId] = []
        for _ in range(count):
            self.join()

    def join(self) -> NodeId:
        name = f"d{len(self.names)}"
        contact = (self.rng.choice(self.living),) if self.living else ()
        self.names.append(name)
        self.living.append(name)
        self.simulator.add(name, partial(self.make, name, contact))
        return name

    def crash(self, name: NodeId) -> None:
        self.living.remove(name)
        self.simulator.crash(name)

    def make(self, name: NodeId, contact: tuple[NodeId, ...], draws: Draws) -> Dispatcher:
        params = DispatcherParams(links=OpenDoorParams(links=contact), overlay=self.params, routing=self.routing)
        return Dispatcher(name, params, draws("links"))

    def overlays(self) -> dict[NodeId, DhTree]:
        """Of those that live."""
        found = {}
        for name in self.living:
            machine = self.simulator.nodes[name].machine
            assert isinstance(machine, Dispatcher) and isinstance(machine.overlay, DhTree)
            found[name] = machine.overlay
        return found

    def links(self) -> set[TreeLink]:
        """Those that both ends take for one."""
        overlays = self.overlays()
        return {
            (name, other)
            for name, overlay in overlays.items()
            for other in overlay.neighbours
            if name < other and other in overlays and name in overlays[other].neighbours
        }

    def expected(self) -> set[TreeLink]:
        overlays = self.overlays()
        keys = {name: overlay.ring.key for name, overlay in overlays.items()}
        tree = tree_of(next(iter(overlays.values())).reference, keys)
        return {tuple(sorted((name, it.parent.broker))) for name, it in tree.items() if it.parent}  # type: ignore[misc]

    def run_until_right(self, seconds: float, step: float = 0.1) -> float:
        """Until the tree is what it should be, and nobody takes anybody else for a neighbour; how long that took."""
        began = self.simulator.now
        while self.simulator.now < began + seconds:
            self.simulator.run(self.simulator.now + step)
            links = self.links()
            ends = sum(len(overlay.neighbours) for overlay in self.overlays().values())
            if links == self.expected() and ends == 2 * len(links):
                return self.simulator.now - began
        raise AssertionError(f"after {seconds} s: {self.links() ^ self.expected()}")


def has_cycle(links: Iterable[TreeLink]) -> bool:
    above: dict[NodeId, NodeId] = {}

    def uppermost(name: NodeId) -> NodeId:
        while above.get(name, name) != name:
            name = above[name]
        return name

    for one, other in links:
        first, second = uppermost(one), uppermost(other)
        if first == second:
            return True
        above[first] = second
    return False
