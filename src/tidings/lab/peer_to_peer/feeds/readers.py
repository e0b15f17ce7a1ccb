"""One publisher and its readers in the simulator: the setting of most experiments on feeds, and what is read off it.

The nodes are those that ship (`nodes/peer.py`), with landmarks that have found their places before anybody comes.
Measured inside the run: a trace of every message of hours takes longer to write than the run.

    latency    of an update at a reader: from when it was published until it is delivered
    stretch    the distances between coordinates along the way from the publisher, by the direct one
"""

from collections.abc import Mapping
from functools import partial
from statistics import median
from typing import Any

import msgspec

from tidings.machine.node import Node
from tidings.model.identity import NodeId
from tidings.nodes.peer import PeerNode, PeerParams
from tidings.protocols.coordinates.coordinates import Coordinates
from tidings.protocols.coordinates.params import CoordinateParams
from tidings.protocols.feeds.params import TreeParams
from tidings.pubsub.feeds import FeedItem, OfferFeed, PublishItem, SubscribeFeed, distance
from tidings.sim.network.internet import Internet
from tidings.sim.network.latency import Fluctuating
from tidings.sim.network.rule import Rule
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator

LANDMARKS = tuple(f"l{number}" for number in range(18))
PUBLISHER = "publisher"
FEED = "http://feed.example/"
COMES_AT, FIRST_READER_AT = 22.0, 30.0
"""Seconds; when landmarks have their places, and when readers begin to come."""

ITEM_BYTES = 1000
MILLISECONDS = 1000.0


class ReaderSetting(msgspec.Struct, frozen=True, kw_only=True):
    readers: int = 250
    children_max: int = 5
    seconds: float = 14_400.0
    update_period: float = 60.0
    joins_per_second: float = 10.0
    rejoin_period: float = 600.0


class Readers:
    def __init__(self, setting: ReaderSetting, seed: int, network: Rule | None = None) -> None:
        self.setting = setting
        self.names = tuple(f"r{number}" for number in range(setting.readers))
        self.world = Simulator(seed, network or Fluctuating(Internet()))
        trees = TreeParams(children_max=setting.children_max, rejoin_period=setting.rejoin_period)
        self.params = PeerParams(landmarks=LANDMARKS, trees=trees)
        for name in LANDMARKS:
            self.world.add(name, partial(landmark, name))
        self.world.add(PUBLISHER, partial(self.peer, PUBLISHER), at=COMES_AT)
        self.world.inject(COMES_AT, PUBLISHER, OfferFeed(FEED))
        for place, name in enumerate(self.names):
            at = FIRST_READER_AT + place / setting.joins_per_second
            self.world.add(name, partial(self.peer, name), at=at)
            self.world.inject(at, name, SubscribeFeed(FEED, PUBLISHER))
        self.published: list[float] = []
        at = FIRST_READER_AT + setting.readers / setting.joins_per_second + setting.update_period
        while at < setting.seconds - setting.update_period:
            self.publish(at)
            at += setting.update_period

    def peer(self, name: NodeId, draws: Draws) -> PeerNode:
        return PeerNode(name, self.params, draws("peer"))

    def machine(self, name: NodeId) -> PeerNode:
        machine = self.world.nodes[name].machine
        assert isinstance(machine, PeerNode)
        return machine

    def publish(self, at: float) -> None:
        self.published.append(at)
        self.world.inject(at, PUBLISHER, PublishItem(FEED, bytes(ITEM_BYTES), at))

    def latencies(self) -> dict[float, list[float]]:
        """For each update those of all who have it, in order."""
        found: dict[float, list[float]] = {at: [] for at in self.published}
        for name in self.names:
            for delivery in self.world.delivered(name):
                if isinstance(delivery.item, FeedItem):
                    found[delivery.item.at].append(delivery.at - delivery.item.at)
        return {at: sorted(each) for at, each in found.items()}

    def stretches(self) -> list[tuple[float, float]]:
        """Of each reader in the tree: the direct distance, and the stretch."""
        root = self.machine(PUBLISHER).own.place
        found: list[tuple[float, float]] = []
        for name in self.names:
            peer = self.machine(name)
            tree = peer.forest.trees.get(FEED)
            direct = distance(peer.own.place, root) if peer.own.place else 0.0
            if self.world.nodes[name].process is None or tree is None or not tree.parent or direct <= 0:
                continue
            way, place = 0.0, peer.own.place
            for ancestor in tree.chain:
                above = self.machine(ancestor).own.place
                way, place = way + distance(place, above), above
            found.append((direct, way / direct))
        return sorted(found)

    def noise(self) -> int:
        return sum(self.machine(name).forest.updates.noise for name in (*self.names, PUBLISHER))


def landmark(name: NodeId, draws: Draws) -> Node:
    return Node(
        {"coordinates": Coordinates(name, LANDMARKS, CoordinateParams(), draws("place"))}, tells=Coordinates.tells
    )


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


def middle(values: list[float]) -> float:
    return median(values) if values else float("nan")


def setting_of(parameters: Mapping[str, Any]) -> ReaderSetting:
    known = {name: value for name, value in parameters.items() if name in ReaderSetting.__struct_fields__}
    return msgspec.convert(known, ReaderSetting)
