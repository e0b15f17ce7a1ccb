"""A tree that finds itself, in both worlds: where each broker knows one contact alone, there is one tree to find."""

from tests.worlds.both import Draws, host_of, simulator_of, started
from tests.worlds.sockets import play, until
from tidings.model.identity import NodeId
from tidings.net import Host
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.protocols.overlay.lstree.lstree import LsTree
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.routing.params import RoutingParams

CONTACTS: dict[NodeId, tuple[NodeId, ...]] = {"a": (), "b": ("a",), "c": ("a",), "d": ("c",), "e": ("d",), "f": ("c",)}
EXPECTED = {"a": {"b", "c"}, "b": {"a"}, "c": {"a", "d", "f"}, "d": {"c", "e"}, "e": {"d"}, "f": {"c"}}


def make(name: NodeId, draws: Draws) -> BrokerNode:
    overlay = LsTreeParams(contacts=CONTACTS[name], merge_first=0.2, merge_period=1.0)
    return BrokerNode(name, BrokerParams(overlay=overlay, routing=RoutingParams(engine="plain")), draws("access"))


def neighbours_of(machine: object) -> set[NodeId]:
    assert isinstance(machine, BrokerNode) and isinstance(machine.overlay, LsTree)
    return set(machine.overlay.neighbours)


def test_both_worlds_come_to_the_same_tree() -> None:
    simulator = simulator_of(1, CONTACTS, make)
    simulator.run(30.0)
    assert {name: neighbours_of(simulator.nodes[name].machine) for name in CONTACTS} == EXPECTED

    async def on_sockets() -> None:
        hosts: dict[NodeId, Host] = await started([host_of(1, name, make) for name in CONTACTS])
        try:
            await until(lambda: {name: neighbours_of(host.machine) for name, host in hosts.items()} == EXPECTED)
        finally:
            for host in hosts.values():
                await host.stop()

    play(on_sockets())
