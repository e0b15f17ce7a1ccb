"""Peers that bring each other feeds, as a scenario.

Some feeds have a publisher, others are adopted by a reader. Peers come, subscribe, unsubscribe, crash, pause and are
cut off from each other. All the time: no update reaches a peer that does not read its feed (peers check that
themselves), and none is delivered twice. In the end each feed has one tree with all its readers in it, parents are
nearer to the publisher than their children, and nobody lacks an update without having been told.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from tidings.machine.inputs import Input
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.nodes.peer import PeerNode, PeerParams
from tidings.protocols.coordinates.params import CoordinateParams
from tidings.protocols.feeds.params import TreeParams
from tidings.protocols.feeds.tree import Tree
from tidings.pubsub.feeds import FeedId, FeedItem, ItemsMissed, OfferFeed, PublishItem, SubscribeFeed, UnsubscribeFeed
from tidings.sim.cast import RoughNetwork, TimedInput
from tidings.sim.checkers import Checker, Memories, Problem
from tidings.sim.fault_schedule import FaultMix, draw_faults
from tidings.sim.node import Draws, Make, SimulatedNode
from tidings.sim.scenario import Scenario
from tidings.sim.simulator import Simulator
from tidings.sim.topologies import Topology, clique

SUBSCRIBED_BY, BEGIN = 60.0, 90.0
"""Seconds until which peers subscribe, and from which something may go wrong."""

SETTLING = 400.0
"""Joins are tried again every minute, and a publisher says so as often."""


def feeds(
    nodes: int = 24,
    feeds: int = 4,
    adopted: int = 2,
    read: int = 3,
    updates: int = 30,
    crashes: int = 6,
    unsubscribed: int = 4,
    rejoin: float = 120.0,
    internet: bool = True,
) -> Scenario:
    """Peers that read feeds and bring them to each other, while some crash, leave and are cut off."""
    if feeds + adopted < 2 or not 1 <= read <= feeds + adopted or nodes < feeds + 4:
        raise UsageError("feeds: give at least two feeds, peers that read no more than there are, and more peers")
    named, found = ([f"http://{kind}{it}.example/" for it in range(n)] for kind, n in (("f", feeds), ("a", adopted)))
    params = CoordinateParams(landmark_rounds=20)

    def roles(made: Topology) -> dict[NodeId, Make]:
        landmarks = made.nodes[: feeds + 2]

        def make(node: NodeId, draws: Draws) -> PeerNode:
            peer = PeerParams(
                landmarks=landmarks,
                contacts=made.nodes[:1],
                coordinates=params,
                trees=TreeParams(rejoin_period=rejoin),
            )
            return PeerNode(node, peer, draws("peer"))

        return {node: partial(make, node) for node in made.nodes}

    def workload(made: Topology, seed: int) -> list[TimedInput]:
        rng = random_stream(seed, "feeds")
        inputs = [TimedInput(1.0, made.nodes[place], OfferFeed(feed)) for place, feed in enumerate(named)]
        reading: list[tuple[NodeId, FeedId]] = []
        for place, node in enumerate(made.nodes):
            own = named[place] if place < feeds else ""
            for feed in rng.sample([it for it in (*named, *found) if it != own], read):
                publisher = made.nodes[named.index(feed)] if feed in named else ""
                inputs.append(TimedInput(rng.uniform(5.0, SUBSCRIBED_BY), node, SubscribeFeed(feed, publisher)))
                reading.append((node, feed))
        for node, feed in rng.sample(reading[read * feeds :], unsubscribed):
            inputs.append(TimedInput(rng.uniform(BEGIN, DURATION), node, UnsubscribeFeed(feed)))
        for number in range(updates):
            at, place = rng.uniform(SUBSCRIBED_BY, DURATION), rng.below(feeds)
            inputs.append(TimedInput(at, made.nodes[place], PublishItem(named[place], b"%d" % number, at)))
        return sorted(inputs, key=lambda it: it.at)

    def faults(made: Topology, until: float, seed: int) -> Any:
        # A publisher that is gone publishes nothing, and readers that are, ask for nothing: the rest is drawn.
        mix = FaultMix(begin=BEGIN, end=until, length_max=90.0, crashes=crashes, pauses=2, partitions=1)
        return draw_faults(mix, made.nodes[feeds:], seed)

    return Scenario(
        name="feeds",
        topology=lambda seed: clique(nodes),
        roles=roles,
        workload=workload,
        network=RoughNetwork(internet=internet).rules,
        faults=faults,
        checkers=lambda made: [DeliveredOnce(), WholeTrees((*named, *found))],
        duration=DURATION,
        settling=SETTLING,
    )


DURATION = 400.0


class DeliveredOnce(Checker):
    """No peer delivers an update twice while it remembers."""

    name = "delivered once"

    def __init__(self) -> None:
        self.memories, self.count = Memories(), 0

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        if isinstance(item, FeedItem):
            memory, key = self.memories.of(node), (item.feed, item.number)
            self.count += 1
            if key in memory:
                raise self.fail(now, node.id, f"delivers {item.number} of {item.feed} a second time")
            memory[key] = None

    def figures(self) -> dict[str, int]:
        return {"deliveries": self.count}


class WholeTrees(Checker):
    """At the end each feed has one tree: everybody who reads it is in it, and what was missed was told."""

    name = "whole trees"

    def __init__(self, feeds: tuple[FeedId, ...]) -> None:
        self.feeds = feeds
        self.published: dict[FeedId, int] = {}
        self.missed: dict[tuple[NodeId, FeedId], set[int]] = {}
        self.edges = 0

    def requested(self, now: float, node: SimulatedNode, input: Input) -> None:
        if isinstance(input, PublishItem):
            self.published[input.feed] = self.published.get(input.feed, 0) + 1

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        if isinstance(item, ItemsMissed):
            self.missed.setdefault((node.id, item.feed), set()).update(range(item.first, item.last + 1))

    def at_end(self, world: Simulator) -> list[Problem]:
        peers = {
            id: node.machine for id, node in world.nodes.items() if node.process and isinstance(node.machine, PeerNode)
        }
        return [
            Problem(self.name, text, node, world.now) for feed in self.feeds for node, text in self.judge(peers, feed)
        ]

    def judge(self, peers: dict[NodeId, PeerNode], feed: FeedId) -> Iterator[tuple[NodeId, str]]:
        trees = {id: peer.forest.trees[feed] for id, peer in peers.items() if feed in peer.forest.trees}
        roots = [id for id, tree in trees.items() if tree.publisher == id]
        if len(roots) != min(1, len(trees)):
            yield "", f"{feed} has {len(roots)} publishers: {', '.join(roots)}"
            return
        for id, tree in trees.items():
            yield from ((id, f"{feed}: {text}") for text in self.judge_one(peers, trees, id, tree))

    def judge_one(
        self, peers: dict[NodeId, PeerNode], trees: dict[NodeId, Tree], id: NodeId, tree: Tree
    ) -> Iterator[str]:
        forest = peers[id].forest
        if tree.publisher != id:
            if tree.parent not in trees:
                yield f"has no parent ({tree.parent or 'none'})"
                return
            self.edges += 1
            parent = trees[tree.parent]
            if id not in parent.children:
                yield f"is no child of its parent {tree.parent}"
            upper = forest.grove.key(tree, tree.parent, peers[tree.parent].own.place)
            if not upper < forest.grove.own_key(tree):
                yield f"is nearer to the publisher than its parent {tree.parent}"
            steps, at = 0, id
            while trees[at].publisher != at and steps <= len(trees):
                at, steps = trees[at].parent, steps + 1
                if at not in trees:
                    yield f"is below {at}, who does not read it"
                    return
            if steps > len(trees):
                yield "is in a circle"
        if len(tree.children) > forest.params.children_max + sum(it.is_adopted for it in tree.children.values()):
            yield f"has {len(tree.children)} children"
        published = self.published.get(tree.feed, 0)
        if tree.log.latest < published:
            yield f"has up to {tree.log.latest} of {published}"
        if missing := tree.log.missing():
            yield f"lacks {missing}, and was not told"

    def figures(self) -> dict[str, int]:
        return {"edges": self.edges}
