"""A network of peers in the simulator, with landmarks that have found their places before anybody comes."""

from functools import partial
from typing import Any

from tidings.machine.effects import Send
from tidings.machine.inputs import Input
from tidings.machine.node import Node
from tidings.model.identity import NodeId
from tidings.nodes.peer import PeerNode, PeerParams
from tidings.protocols.coordinates.coordinates import Coordinates
from tidings.protocols.coordinates.params import CoordinateParams
from tidings.protocols.feeds.messages import FeedUpdate, TreeJoin
from tidings.protocols.feeds.params import TreeParams
from tidings.pubsub.feeds import PublishItem, SubscribeFeed
from tidings.sim.network.internet import Internet
from tidings.sim.node import Draws, SimulatedDelivery, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator

PEERS = tuple(f"p{number:02}" for number in range(60))
LANDMARKS = tuple(f"l{number}" for number in range(6))
COORDINATES = CoordinateParams(landmark_rounds=60)
BEGIN = 15.0


class Watch(Observer):
    """What is sent."""

    def __init__(self) -> None:
        self.joins: list[tuple[float, NodeId, TreeJoin]] = []
        self.updates: dict[NodeId, int] = {}

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Any]) -> None:
        for effect in effects:
            if type(effect) is Send:
                if isinstance(effect.message, TreeJoin):
                    self.joins.append((now, node.id, effect.message))
                elif isinstance(effect.message, FeedUpdate):
                    for id in (node.id, effect.to):
                        self.updates[id] = self.updates.get(id, 0) + 1


class World:
    def __init__(self, peers: int, trees: TreeParams, seed: int = 1) -> None:
        self.watch = Watch()
        self.simulator = Simulator(seed, Internet(), observers=[self.watch])
        self.params = PeerParams(landmarks=LANDMARKS, coordinates=COORDINATES, trees=trees)
        for name in LANDMARKS:
            self.simulator.add(name, partial(self.make_landmark, name))
        for name in PEERS[:peers]:
            self.simulator.add(name, partial(self.make_peer, name), at=BEGIN)

    def make_landmark(self, name: NodeId, draws: Draws) -> Node:
        return Node({"coordinates": Coordinates(name, LANDMARKS, COORDINATES, draws("place"))}, tells=Coordinates.tells)

    def make_peer(self, name: NodeId, draws: Draws) -> PeerNode:
        return PeerNode(name, self.params, draws("peer"))

    def at(self, time: float, node: NodeId, input: Input) -> None:
        self.simulator.inject(time, node, input)

    def publish(self, node: NodeId, feed: str, time: float) -> None:
        self.at(time, node, PublishItem(feed, b"x" * 1000, time))

    def run(self, until: float) -> None:
        self.simulator.run(until)
        self.simulator.check()

    def peer(self, node: NodeId) -> PeerNode:
        machine = self.simulator.nodes[node].machine
        assert isinstance(machine, PeerNode)
        return machine

    def delivered(self, node: NodeId) -> list[SimulatedDelivery]:
        return self.simulator.delivered(node)

    def load(self, node: NodeId) -> int:
        """Copies of updates that it sent and was sent."""
        return self.watch.updates.get(node, 0)

    def words(self, node: NodeId) -> int:
        """Messages that it sent and received, updates aside."""
        it = self.simulator.nodes[node]
        return it.sent + it.received - self.load(node)

    def rates(self, before: dict[NodeId, int], seconds: float) -> list[float]:
        return [(self.words(node) - count) / seconds for node, count in before.items()]

    def watch_joins(self, node: NodeId) -> "Joins":
        return Joins(self.watch, node, len(self.watch.joins))

    def hops_of_join(self, node: NodeId, feed: str, start: NodeId) -> int:
        """Of one who comes now and is told to begin there."""
        began = len(self.watch.joins)
        self.simulator.add(node, partial(self.make_peer, node))
        self.at(self.simulator.now, node, SubscribeFeed(feed, start))
        self.run(self.simulator.now + 60.0)
        assert self.peer(node).forest.trees[feed].parent
        return sum(sender == node for _, sender, _ in self.watch.joins[began:]) - 1


class Joins:
    """First requests to join, one for each feed, as they come."""

    def __init__(self, watch: Watch, node: NodeId, begin: int) -> None:
        self.watch, self.node, self.begin = watch, node, begin

    def __iter__(self) -> Any:
        seen: dict[str, float] = {}
        for at, sender, join in self.watch.joins[self.begin :]:
            if sender == self.node:
                seen.setdefault(join.feed, at)
        return iter([(at, feed) for feed, at in seen.items()])

    def __bool__(self) -> bool:
        return bool(list(self))


def reading(peer: PeerNode) -> list[str]:
    """Feeds in whose trees it is."""
    return sorted((feed for feed, tree in peer.forest.trees.items() if tree.parent), key=lambda it: (len(it), it))
