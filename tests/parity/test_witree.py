"""A tree over radio, in both worlds: in the simulator radios stand in a row and reach the next one, on sockets each
node hears a configured set of others by UDP. The same machines come to the same links and the same tables (D-8)."""

from functools import partial

import pytest

from tests.worlds.both import Draws, host_of
from tests.worlds.radios import AIR, NOTICED
from tests.worlds.sockets import play, until
from tidings.model.identity import NodeId
from tidings.net import Host
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.overlay.witree.params import WiTreeParams
from tidings.protocols.overlay.witree.witree import WiTree
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import OpenSubscription
from tidings.sim.network.radio import Radio
from tidings.sim.simulator import Simulator

HEARS: dict[NodeId, tuple[NodeId, ...]] = {
    "a": ("b",),
    "b": ("a", "c"),
    "c": ("b", "d", "e"),
    "d": ("c",),
    "e": ("c", "f"),
    "f": ("e",),
}
PLACES = {
    "a": (0.0, 0.0),
    "b": (150.0, 0.0),
    "c": (300.0, 0.0),
    "d": (300.0, 150.0),
    "e": (450.0, 0.0),
    "f": (600.0, 0.0),
}
WANTS = {"a": "x = 1", "d": "x = 2", "f": "x > 0"}

QUICK = WiTreeParams(hello_period=0.3, group_period=0.6, collect_for=0.3, guard_delay=0.05, groups_missed=20)
"""Hellos may come late where the machine is busy; nothing is lost here by being slow."""
ROUTING = RoutingParams(engine="plain", carriage="aired", strategy="subscription", advertises=False, reduction="plain")


def make(name: NodeId, draws: Draws) -> Dispatcher:
    return Dispatcher(name, DispatcherParams(overlay=QUICK, routing=ROUTING), draws("links"))


Tables = dict[NodeId, dict[NodeId, set[str]]]


def tables_of(machines: dict[NodeId, object]) -> Tables:
    """What each broker has from each neighbour."""
    found: Tables = {}
    for name, machine in machines.items():
        assert isinstance(machine, Dispatcher) and isinstance(machine.routing, Router)
        texts = machine.routing.tables.texts
        found[name] = {near: set(texts.get(near, ())) for near in machine.overlay.neighbours}
    return found


def expected() -> Tables:
    """Each neighbour wants what anybody behind it wants."""

    def behind(name: NodeId, but: NodeId) -> set[str]:
        own = {WANTS[name]} if name in WANTS else set()
        return own.union(*(behind(near, name) for near in HEARS[name] if near != but), set())

    return {name: {near: behind(near, name) for near in nears} for name, nears in HEARS.items()}


@pytest.mark.spec("D-8")
def test_both_worlds_come_to_the_same_links_and_tables() -> None:
    radio = Radio(list(PLACES), lambda name, _: PLACES[name], AIR)
    simulator = Simulator(1, radio, params=NOTICED, checking=True)
    for name in HEARS:
        simulator.add(name, partial(make, name))
    for name, text in WANTS.items():
        simulator.inject(1.0, name, OpenSubscription(None, text))
    simulator.run(60.0)
    assert tables_of({name: node.machine for name, node in simulator.nodes.items()}) == expected()

    async def on_sockets() -> None:
        hosts: dict[NodeId, Host] = {}
        for name in HEARS:
            hosts[name] = host_of(1, name, make)
            await hosts[name].start()
        try:
            for name, nears in HEARS.items():
                for near in nears:
                    await hosts[name].learn(near, hosts[near].address)
            for name, text in WANTS.items():
                hosts[name].inject(OpenSubscription(None, text))
            await until(lambda: tables_of({name: host.machine for name, host in hosts.items()}) == expected())
        finally:
            for host in hosts.values():
                await host.stop()

    play(on_sockets())


def test_brokers_with_clients_are_a_tree_over_datagrams_too() -> None:
    def make_broker(name: NodeId, draws: Draws) -> BrokerNode:
        return BrokerNode(name, BrokerParams(overlay=QUICK, routing=RoutingParams(engine="plain")), draws("access"))

    async def on_sockets() -> None:
        hosts: dict[NodeId, Host] = {}
        for name in HEARS:
            hosts[name] = host_of(1, name, make_broker)
            await hosts[name].start()
        try:
            for name, nears in HEARS.items():
                for near in nears:
                    await hosts[name].learn(near, hosts[near].address)
            await until(lambda: neighbours_of(hosts) == {name: set(nears) for name, nears in HEARS.items()})
            # Whoever is gone is missed, and the others are two trees.
            await hosts["c"].stop()
            await until(lambda: neighbours_of(hosts)["b"] == {"a"} and neighbours_of(hosts)["e"] == {"f"})
            leaders = {name: overlay_of(hosts[name]).branches for name in "abdef"}
            await until(lambda: all(branches.is_attached for branches in leaders.values()))
            assert leaders["d"].is_leader and leaders["a"].leader == leaders["b"].leader
        finally:
            for host in hosts.values():
                await host.stop()

    play(on_sockets())


def overlay_of(host: Host) -> WiTree:
    machine = host.machine
    assert isinstance(machine, BrokerNode) and isinstance(machine.overlay, WiTree)
    return machine.overlay


def neighbours_of(hosts: dict[NodeId, Host]) -> dict[NodeId, set[NodeId]]:
    return {name: set(overlay_of(host).neighbours) for name, host in hosts.items()}
