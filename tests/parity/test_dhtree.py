"""Brokers on a ring in both worlds: each knows one contact, and both come to the same tree, that of their keys."""

from tests.worlds.both import Draws, host_of, simulator_of, started
from tests.worlds.sockets import play, until
from tidings.model.identity import NodeId
from tidings.net import Host
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.protocols.access.params import AccessParams
from tidings.protocols.overlay.dhtree.dhtree import DhTree, DhTreeParams
from tidings.protocols.overlay.dhtree.neighbours import tree_of
from tidings.protocols.overlay.dhtree.ring import RingParams
from tidings.protocols.routing.params import RoutingParams

CONTACTS: dict[NodeId, tuple[NodeId, ...]] = {"a": (), "b": ("a",), "c": ("a",), "d": ("c",), "e": ("b",), "f": ("d",)}
PARAMS = DhTreeParams(ring=RingParams(period=0.2, probe_period=1.0))


def make(name: NodeId, draws: Draws) -> BrokerNode:
    access = AccessParams(links=CONTACTS[name])
    params = BrokerParams(access=access, overlay=PARAMS, routing=RoutingParams(engine="plain"))
    return BrokerNode(name, params, draws("access"))


def overlay_of(machine: object) -> DhTree:
    assert isinstance(machine, BrokerNode) and isinstance(machine.overlay, DhTree)
    return machine.overlay


def expected() -> dict[NodeId, set[NodeId]]:
    keys = {name: DhTree(name, PARAMS).ring.key for name in CONTACTS}
    tree = tree_of(DhTree("a", PARAMS).reference, keys)
    return {name: {owner.broker for owner in places.neighbours} for name, places in tree.items()}


def test_both_worlds_come_to_the_same_tree() -> None:
    simulator = simulator_of(1, CONTACTS, make)
    simulator.run(30.0)
    nodes = {name: simulator.nodes[name].machine for name in CONTACTS}
    assert {name: set(overlay_of(machine).neighbours) for name, machine in nodes.items()} == expected()

    async def on_sockets() -> None:
        hosts: dict[NodeId, Host] = await started([host_of(1, name, make) for name in CONTACTS])
        try:
            await until(
                lambda: {name: set(overlay_of(host.machine).neighbours) for name, host in hosts.items()} == expected()
            )
        finally:
            for host in hosts.values():
                await host.stop()

    play(on_sockets())
