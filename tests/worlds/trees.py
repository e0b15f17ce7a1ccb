"""Dispatchers on an LSTree in the simulator, watched at every step.

    world = TreeWorld(seed=1, count=30)
    world.run(10.0)
    world.crash("d3", "d7")
    world.run(20.0)
    world.assert_one_tree()

Each begins with a few of those that were there before. The watcher asserts after every input of every dispatcher what
holds at every instant: places rise towards the root and over time (L-INV1, L-INV2), stand still while a request is out
(L-INV3), and there is no circle. A pointer to an earlier life of a broker is a link that has broken, and is none.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from tests.worlds.brokers import side_of
from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.overlay.lstree.lstree import LsTree
from tidings.protocols.overlay.lstree.order import BrokerPlace, may_be_below
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.routing.params import RoutingParams
from tidings.sim.network.latency import Constant, Jittered
from tidings.sim.network.rule import Rule
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator, SimulatorParams

PUBLISHED = LsTreeParams(
    request_timeout=0.5,
    patience_min=0.5,
    ahead_after=0,
    busy_wait=0.3,
    merge_first=0.5,
    merge_soon=30.0,
    nearer_period=0.0,
)
"""With the times that the source and its specification give."""


def internet() -> Rule:
    """20 to 80 ms one way."""
    return Jittered(Constant(0.02), 0.06)


class TreeWatcher(Observer):
    def __init__(self) -> None:
        self.places: dict[tuple[NodeId, int], BrokerPlace] = {}
        self.lives: dict[NodeId, tuple[NodeId, int]] = {}
        """Who each node is below, in which life of it."""
        self.world: TreeWorld | None = None

    def on_step(self, now: float, node: SimulatedNode) -> None:
        world = self.world
        assert world is not None
        tree = world.tree(node.id)
        if tree is None:
            return
        self.assert_rising(node, tree)
        above = tree.kin.above
        if above is None:
            self.lives.pop(node.id, None)
        elif self.lives.get(node.id, ("", 0))[0] != above.contact.node:
            self.lives[node.id] = above.contact.node, world.simulator.nodes[above.contact.node].lives
        for child in (node.id, *tree.kin.below):
            self.assert_below(child)
        self.assert_no_circle(node.id)

    def assert_rising(self, node: SimulatedNode, tree: LsTree) -> None:
        kin, key = tree.kin, (node.id, node.lives)
        before = self.places.get(key, BrokerPlace())
        has_begun_anew = not kin.has_led and not kin.place.colour
        assert kin.place == before or has_begun_anew or may_be_below(before, kin.place), "a place that fell"
        self.places[key] = kin.place
        asked = None if tree.seeker.search is None else tree.seeker.search.asked
        if kin.is_moving or (asked is not None and asked.is_sent):
            assert kin.place == before or has_begun_anew, "a place that changed while a request was out"

    def above(self, name: NodeId) -> NodeId | None:
        assert self.world is not None
        tree, known = self.world.tree(name), self.lives.get(name)
        if tree is None or tree.kin.above is None or known is None:
            return None
        above, life = known
        node = self.world.simulator.nodes[above]
        return above if node.process is not None and node.lives == life else None

    def assert_below(self, name: NodeId) -> None:
        above = self.above(name)
        if above is not None:
            assert self.world is not None
            one, other = self.world.trees[name], self.world.trees.get(above)
            is_below = other is None or may_be_below(one.kin.place, other.kin.place)
            assert is_below, f"{name} is not below {above}"

    def assert_no_circle(self, name: NodeId) -> None:
        passed, current = {name}, self.above(name)
        while current is not None:
            assert current not in passed, f"a circle through {current}"
            passed.add(current)
            current = self.above(current)


class TreeWorld:
    def __init__(
        self,
        seed: int,
        count: int = 0,
        params: LsTreeParams = PUBLISHED,
        network: Rule | None = None,
        spacing: float = 0.05,
        is_watched: bool = True,
        bootstrap: int = 3,
        routing: RoutingParams = RoutingParams(engine="plain"),  # noqa: B008 - a frozen value
        checking: bool = False,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.params, self.routing, self.bootstrap, self.spacing = params, routing, bootstrap, spacing
        self.draws = random_stream(seed, "world")
        watcher = TreeWatcher()
        watcher.world = self
        self.simulator = Simulator(
            seed,
            network or internet(),
            params=SimulatorParams(jitter=1e-6),
            observers=[watcher, *observers] if is_watched else observers,
            checking=checking,
        )
        known: list[NodeId] = []
        for number in range(count):
            contacts = tuple(sorted(self.draws.sample(known, bootstrap)))
            known.append(f"d{number}")
            self.add(known[-1], contacts, at=number * spacing)

    def add(self, name: NodeId, contacts: tuple[NodeId, ...] | None = None, at: float | None = None) -> None:
        if contacts is None:
            contacts = tuple(sorted(self.draws.sample(self.names or list(self.simulator.nodes), self.bootstrap)))
        overlay = replace(self.params, contacts=contacts)
        params = DispatcherParams(overlay=overlay, routing=self.routing)
        self.simulator.add(name, partial(make_dispatcher, name, params), at=at)

    def run(self, seconds: float) -> None:
        self.simulator.run(self.simulator.now + seconds)

    def crash(self, *names: NodeId, is_silent: bool = False) -> None:
        for name in names:
            self.simulator.crash(name, is_silent=is_silent)

    def tree(self, name: NodeId) -> LsTree | None:
        return self.trees.get(name)

    @property
    def trees(self) -> "LivingTrees":
        return LivingTrees(self.simulator)

    @property
    def names(self) -> list[NodeId]:
        """Those that are up and have a tree."""
        trees = self.trees
        return [name for name in self.simulator.nodes if trees.get(name) is not None]

    @property
    def roots(self) -> list[NodeId]:
        return [name for name in self.names if self.trees[name].kin.above is None]

    def links(self) -> list[tuple[NodeId, NodeId]]:
        """Child and parent, as the child sees it."""
        found = ((name, self.trees[name].kin.above) for name in self.names)
        return [(name, above.contact.node) for name, above in found if above is not None]

    def degrees(self) -> dict[NodeId, int]:
        return {name: len(self.trees[name].neighbours) for name in self.names}

    def acquainted(self) -> list[list[NodeId]]:
        """Those who know each other, directly or through others, by what anybody has kept of anybody alive."""
        alive, edges = set(self.names), list[tuple[NodeId, NodeId]]()
        for name in self.names:
            tree = self.trees[name]
            known = {*tree.exchange.cache.entries, *tree.exchange.cache.former, *tree.params.contacts}
            known |= {*tree.neighbours, *tree.kin.regional.names()}
            edges += [(name, other) for other in sorted(known & alive)]
        left, circles = dict.fromkeys(self.names), list[list[NodeId]]()
        while left:
            circles.append(side_of(edges, next(iter(left))))
            left = {name: None for name in left if name not in circles[-1]}
        return circles

    def assert_one_tree(self) -> None:
        self.assert_trees(1)

    def assert_trees(self, count: int) -> None:
        """Seen the same from both ends, each in one colour, and at rest."""
        assert len(self.roots) == count, f"{len(self.roots)} roots"
        self.assert_symmetric()
        assert len({self.trees[name].kin.place.colour for name in self.names}) == count, "several colours"
        self.assert_places()
        for name in self.names:
            assert self.trees[name].why_unsettled() == ""

    def assert_places(self) -> None:
        for name in self.names:
            self.trees[name].check()

    def assert_symmetric(self) -> None:
        for name in self.names:
            for other in self.trees[name].neighbours:
                assert name in self.trees[other].neighbours, f"{name} has the neighbour {other}, and not the other way"


class LivingTrees:
    """The overlays of those that are up, by name."""

    def __init__(self, simulator: Simulator) -> None:
        self.nodes = simulator.nodes

    def get(self, name: NodeId) -> LsTree | None:
        node = self.nodes[name]
        machine: Any = node.machine if node.process is not None else None
        return getattr(machine, "overlay", None)

    def __getitem__(self, name: NodeId) -> LsTree:
        tree = self.get(name)
        assert tree is not None, f"{name} is down"
        return tree


def make_dispatcher(name: NodeId, params: DispatcherParams, draws: Draws) -> Dispatcher:
    return Dispatcher(name, params, draws("links"))
