"""Dispatchers on a WiTree in the simulator's radio, watched at every step.

    world = RadioWorld(seed=1, places={"a": (0, 0), "b": (150, 0)})
    world.run(20.0)
    world.assert_trees()

Nodes stand where they are put, or walk (`walkers`). The watcher asserts after every input of every dispatcher that the
links on which both ends agree form no circle.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tests.worlds.brokers import side_of
from tidings.machine.effects import Effect, Note, Send, Transport
from tidings.machine.inputs import Received
from tidings.machine.message import Message
from tidings.machine.node import Node
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.access.open_door import OpenDoor
from tidings.protocols.overlay.witree.messages import RouteReply
from tidings.protocols.overlay.witree.params import WiTreeParams
from tidings.protocols.overlay.witree.witree import WiTree
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.signals import NeighbourDown, NeighbourReplaced, NeighbourUp
from tidings.sim.network.radio import Point, Radio, RadioParams, RandomWaypoint, WaypointParams
from tidings.sim.network.rule import Fates, Rule, Wrapper, later
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator, SimulatorParams

REACH = 200.0
AIR = RadioParams(reach=REACH, sense_reach=REACH, headers_bytes=62, tries=5)
NOTICED = SimulatorParams(jitter=1e-6, silence_timeout=0.05, connect_timeout=0.3)
"""A radio that gets no answer knows so at once."""

Pair = tuple[NodeId, NodeId]


def walkers(seed: int, speed: float, width: float = 1000.0, height: float = 1000.0) -> Callable[[NodeId, float], Point]:
    """Who pause for 5 s at each place."""
    params = WaypointParams(width, height, speed_min=speed, speed_max=speed, pause_max=5.0, pause_min=5.0)
    return RandomWaypoint(params, seed).position


class Slow(Wrapper):
    """Everything takes up to so many seconds longer, each message its own time."""

    def __init__(self, inner: Rule, delay_max: float) -> None:
        super().__init__(inner)
        self.delay_max = delay_max

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        fates = self.inner.fate(now, sender, to, size_bytes, transport)
        return later(fates, self.delay_max * self.draws(sender).random())

    def reach(self, now: float, sender: NodeId, to: NodeId, size_bytes: int) -> list[tuple[NodeId, Fates]] | None:
        reach = self.inner.reach(now, sender, to, size_bytes)
        draws = self.draws(sender)
        return reach and [(name, later(fates, self.delay_max * draws.random())) for name, fates in reach]


class CircleWatcher(Observer):
    """Only a new link can close a circle. Links of a `liar` do not count."""

    def __init__(self, world: "RadioWorld") -> None:
        self.world, self.is_honest = world, True
        self.before: dict[NodeId, tuple[NodeId, ...]] = {}
        self.up: dict[Pair, int] = {}
        self.notes: list[Note] = []
        self.replaced: list[tuple[NodeId, NeighbourReplaced]] = []
        self.downs: dict[NodeId, list[str]] = {}
        self.ups: list[tuple[NodeId, NeighbourUp]] = []
        self.sent: Counter[str] = Counter()

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(_, RouteReply(requester, path=())) if self.is_honest:
                    assert not self.world.is_below(node.id, requester), "a reply from the part that looks for a place"
                case NeighbourUp(other, epoch, reconfiguration):
                    assert (node.id, other) not in self.up, "a neighbour that is one already"
                    self.up[node.id, other] = epoch
                    self.ups.append((node.id, effect))
                case NeighbourDown(other, epoch, _, reconfiguration):
                    assert self.up.pop((node.id, other)) == epoch, "another life of the neighbour"
                    gained = [up.reconfiguration for name, up in self.ups if name == node.id]
                    assert reconfiguration not in gained, "a loss behind the gain"
                    self.downs.setdefault(node.id, []).append(reconfiguration)
                case NeighbourReplaced():
                    assert effect.reconfiguration in self.downs[node.id], "replaced, but never lost"
                    self.replaced.append((node.id, effect))
                case Note():
                    self.notes.append(effect)
            if isinstance(effect, Send):
                self.sent[type(effect.message).__name__] += 1

    def on_step(self, now: float, node: SimulatedNode) -> None:
        tree = self.world.trees.get(node.id)
        if tree is None:
            return
        tree.check()
        near = tuple(sorted(tree.neighbours))
        if near != self.before.get(node.id):
            self.before[node.id] = near
            self.world.assert_no_circle()


class RadioWorld:
    def __init__(
        self,
        seed: int,
        places: Mapping[NodeId, Point] | None = None,
        walking: int = 0,
        speed: float = 1.0,
        width: float = 1000.0,
        height: float | None = None,
        params: WiTreeParams = WiTreeParams(),  # noqa: B008 - a frozen value
        routing: RoutingParams = RoutingParams(engine="plain"),  # noqa: B008 - a frozen value
        is_watched: bool = True,
        is_bare: bool = False,
        checking: bool = False,
        delay_max: float = 0.0,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.params, self.is_bare = DispatcherParams(overlay=params, routing=routing), is_bare
        self.places: dict[NodeId, Point] = dict(places or {})
        names = [*self.places, *(f"n{number:02}" for number in range(walking))]
        self.walk, self.still_at = walkers(seed, speed, width, height or width), math.inf
        self.watcher = CircleWatcher(self)
        self.radio = Radio(names, self.position, AIR)
        self.simulator = Simulator(
            seed,
            Slow(self.radio, delay_max),
            params=NOTICED,
            observers=[*([self.watcher] if is_watched else []), *observers],
            checking=checking,
        )
        for number, name in enumerate(names):
            self.add(name, 0.05 * number)

    def add(self, name: NodeId, at: float | None = None) -> None:
        make = make_bare if self.is_bare else make_dispatcher
        self.simulator.add(name, partial(make, name, self.params), at=at)

    def position(self, name: NodeId, now: float) -> Point:
        return self.places[name] if name in self.places else self.walk(name, min(now, self.still_at))

    def stand_still(self) -> None:
        self.still_at = self.simulator.now

    def run(self, seconds: float) -> None:
        self.simulator.run(self.simulator.now + seconds)

    def say(self, sender: NodeId, to: NodeId, message: Message) -> None:
        """As if it had been said."""
        self.simulator.inject(self.simulator.now, to, Received(sender, message))

    @property
    def trees(self) -> dict[NodeId, WiTree]:
        machines: dict[NodeId, Any] = {
            name: node.machine for name, node in self.simulator.nodes.items() if node.process is not None
        }
        return {name: machine.parts["overlay"] for name, machine in machines.items()}

    def is_below(self, name: NodeId, other: NodeId) -> bool:
        """Whether the way up from the one leads to the other."""
        trees, passed = self.trees, set[NodeId]()
        while name in trees and name not in passed:
            passed.add(name)
            above = trees[name].branches.above
            if above == other or above is None:
                return above == other
            name = above
        return False

    def links(self) -> list[Pair]:
        """Those on which both ends agree."""
        trees = self.trees
        return sorted(
            (name, other)
            for name, tree in trees.items()
            for other in tree.neighbours
            if name < other and other in trees and name in trees[other].neighbours
        )

    def leaders(self) -> list[NodeId]:
        return [name for name, tree in self.trees.items() if tree.branches.is_leader]

    def in_reach(self) -> list[Pair]:
        now, names = self.simulator.now, list(self.trees)
        where = {name: self.position(name, now) for name in names}
        return [(a, b) for a in names for b in names if a < b and math.dist(where[a], where[b]) <= REACH]

    def islands(self) -> list[list[NodeId]]:
        """Those who can hear each other, directly or through others."""
        left, found, edges = dict.fromkeys(self.trees), list[list[NodeId]](), self.in_reach()
        while left:
            found.append(side_of(edges, next(iter(left))))
            left = {name: None for name in left if name not in found[-1]}
        return found

    def assert_no_circle(self) -> None:
        roots: dict[NodeId, NodeId] = {}

        def find(name: NodeId) -> NodeId:
            while (up := roots.get(name, name)) != name:
                name = up
            return name

        for a, b in (pair for pair in self.links() if "liar" not in pair):
            one, other = find(a), find(b)
            assert one != other, f"a circle through {a} and {b} at {self.simulator.now}"
            roots[one] = other

    def assert_symmetric(self) -> None:
        trees = self.trees
        for name, tree in trees.items():
            for other in tree.neighbours:
                assert other in trees and name in trees[other].neighbours, f"{name} has {other}, not the other way"

    def assert_trees(self) -> None:
        """One for each island, with one leader, seen the same from both ends, and at rest."""
        self.assert_symmetric()
        trees, links = self.trees, self.links()
        for island in self.islands():
            leaders = {trees[name].branches.leader for name in island}
            assert len(leaders) == 1 and leaders <= set(island), f"leaders {leaders} of {sorted(island)}"
            own = [pair for pair in links if pair[0] in island]
            assert len(own) == len(island) - 1 and sorted(side_of(own, island[0])) == sorted(island)
            for name in island:
                assert trees[name].why_unsettled() == "" and trees[name].branches.mark is None


def make_bare(name: NodeId, params: DispatcherParams, draws: Draws) -> Node:
    """The tree alone: what it would tell routing is seen."""
    assert isinstance(params.overlay, WiTreeParams)
    rng = draws("links")
    door = OpenDoor(name, params.links, rng)
    heard = (NeighbourUp, NeighbourDown, NeighbourReplaced)
    return Node({"access": door, "overlay": WiTree(name, params.overlay, rng)}, tells=heard)


def make_dispatcher(name: NodeId, params: DispatcherParams, draws: Draws) -> Dispatcher:
    return Dispatcher(name, params, draws("links"))
