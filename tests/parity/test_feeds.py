"""Peers agree in both worlds: the same node, in the simulator and on loopback, delivers the same items to the same."""

import pytest

from tests.worlds.both import Draws, draws_of, simulator_of
from tests.worlds.sockets import PATIENT, QUIET, play, until
from tidings.machine.node import Machine
from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.net.feeds.peer_host import PeerHost
from tidings.net.feeds.service import free_port
from tidings.nodes.peer import PeerNode, PeerParams
from tidings.protocols.feeds.params import FeedSessionParams, FriendshipParams, TreeParams
from tidings.pubsub.feeds import FeedItem, OfferFeed, PublishItem, SubscribeFeed

FEEDS = ("http://f/", "http://g/")
NUMBERS = range(12)
Delivered = dict[int, list[tuple[str, int]]]


def make(name: NodeId, draws: Draws) -> Machine:
    # Everybody is at the same place, so trees are in the order of names, whatever the network measures.
    params = PeerParams(
        friendship=FriendshipParams(audit_period=0.2, continual_pause=0.05),
        trees=TreeParams(children_max=2, retry_first=0.2, rejoin_period=5.0),
        session=FeedSessionParams(spacing=0.1, settling=1.0),
    )
    return PeerNode(name, params, draws("peer"))


def requests(names: list[NodeId]) -> list[tuple[NodeId, OfferFeed | SubscribeFeed]]:
    offers: list[tuple[NodeId, OfferFeed | SubscribeFeed]] = [(names[it], OfferFeed(FEEDS[it])) for it in range(2)]
    reads = [(place, feed) for place in NUMBERS for feed in range(2) if place != feed and (place + feed) % 3]
    return offers + [(names[place], SubscribeFeed(FEEDS[feed], names[feed])) for place, feed in reads]


def wanted(names: list[NodeId]) -> set[tuple[int, str]]:
    return {(names.index(name), it.feed) for name, it in requests(names) if isinstance(it, SubscribeFeed)}


def in_the_simulator(names: list[NodeId]) -> Delivered:
    simulator = simulator_of(1, names, make)
    for name, request in requests(names):
        simulator.inject(0.0, name, request)
    for number in range(10):
        for feed in range(2):
            simulator.inject(20.0 + number / 10, names[feed], PublishItem(FEEDS[feed], b"%d" % number, 0.0))
    simulator.run(60.0)
    simulator.check()
    found = {name: [it.item for it in simulator.delivered(name)] for name in names}
    return {place: sorted(items_of(found[name])) for place, name in enumerate(names)}


def items_of(items: list[object]) -> list[tuple[str, int]]:
    return [(it.feed, it.number) for it in items if isinstance(it, FeedItem)]


def on_sockets(names: list[NodeId]) -> Delivered:
    async def scenario() -> Delivered:
        hosts: dict[NodeId, PeerHost] = {}
        for name in names:
            listen = ("127.0.0.1", int(name.partition(":")[2]))
            machine = make(name, draws_of(1, name))
            hosts[name] = PeerHost(name, machine, listen=listen, params=PATIENT, log=QUIET, rng=random_stream(1, name))
            await hosts[name].start()
        for name, request in requests(names):
            hosts[name].inject(request)

        def peer(name: NodeId) -> PeerNode:
            machine = hosts[name].machine
            assert isinstance(machine, PeerNode)
            return machine

        await until(lambda: all(peer(names[place]).forest.trees[feed].parent for place, feed in wanted(names)))
        for number in range(10):
            for feed in range(2):
                hosts[names[feed]].inject(PublishItem(FEEDS[feed], b"%d" % number, 0.0))

        def has_all(place: int, feed: str) -> bool:
            return all(map(peer(names[place]).forest.trees[feed].log.has, range(1, 11)))

        await until(lambda: all(has_all(place, feed) for place, feed in wanted(names)))
        for host in hosts.values():
            await host.stop()
            host.machine.check()
        return {place: sorted(items_of(hosts[name].items.take_all())) for place, name in enumerate(names)}

    return play(scenario())


@pytest.mark.spec("P-5")
def test_twelve_peers_bring_each_other_two_feeds_in_both_worlds() -> None:
    names = [f"127.0.0.1:{free_port('127.0.0.1')}" for _ in NUMBERS]
    simulated, real = in_the_simulator(names), on_sockets(names)
    assert simulated == real
    readers = {(place, feed) for place, items in real.items() for feed, _ in items}
    assert readers == wanted(names) | {(0, FEEDS[0]), (1, FEEDS[1])}
    assert all(len(items) in (0, 10, 20) for items in real.values())
