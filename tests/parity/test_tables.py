"""The same script on trees of other kinds, in both worlds: the same machines come to the same links and tables (D-8).

On an LSTree where each dispatcher knows one contact alone there is one tree to find, on a ring that of the keys, and on
a script the one that is asked for: there a link is replaced by another one. Clients subscribe, and some change their
minds. What WiTree does is in `test_witree.py`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from tests.worlds.both import Draws, host_of, simulator_of, started
from tests.worlds.brokers import Edge, side_of
from tests.worlds.sockets import play, until
from tidings.model.identity import NodeId
from tidings.net import Host
from tidings.nodes.choices import OverlayParams
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.overlay.dhtree.dhtree import DhTree, DhTreeParams
from tidings.protocols.overlay.dhtree.neighbours import tree_of
from tidings.protocols.overlay.dhtree.ring import RingParams
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.overlay.scripted import ScriptedParams, rewiring
from tidings.protocols.routing.params import RepairName, RoutingParams
from tidings.pubsub.client import CloseSubscription, OpenSubscription

NAMES = ("a", "b", "c", "d", "e", "f")
CONTACTS: dict[NodeId, tuple[NodeId, ...]] = {"a": (), "b": ("a",), "c": ("a",), "d": ("c",), "e": ("d",), "f": ("c",)}
FOUND: list[Edge] = [("a", "b"), ("a", "c"), ("c", "d"), ("d", "e"), ("c", "f")]
LINE: list[Edge] = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")]
RING = DhTreeParams(ring=RingParams(period=0.2, probe_period=1.0))
OPENED = {"a": "x = 1", "b": "x = 4", "d": "x = 2", "f": "x > 0"}
CLOSED = ("b",)
WANTED = {name: text for name, text in OPENED.items() if name not in CLOSED}
CHANGE = rewiring("r1", ("c", "b", "a"), ("f", "e", "d"))
"""The link between c and d gives way to one between a and f."""

Tables = dict[NodeId, dict[NodeId, set[str]]]


def ring_edges() -> list[Edge]:
    keys = {name: DhTree(name, RING).ring.key for name in NAMES}
    tree = tree_of(DhTree("a", RING).reference, keys)
    return [(places.parent.broker, name) for name, places in tree.items() if places.parent is not None]


class World(NamedTuple):
    overlay: Callable[[NodeId], OverlayParams]
    repair: RepairName
    edges: list[Edge]
    is_linked_first: bool = False
    """Access has the first contacts, and not the overlay."""
    is_changed: bool = False


def near(edges: list[Edge], name: NodeId) -> tuple[NodeId, ...]:
    return tuple(b if a == name else a for a, b in edges if name in (a, b))


def scripted(name: NodeId) -> OverlayParams:
    return ScriptedParams(neighbours=near(LINE, name))


REWIRED = [edge for edge in LINE if edge != ("c", "d")] + [("a", "f")]
WORLDS = {
    "lstree": World(lambda name: LsTreeParams(contacts=CONTACTS[name], merge_first=0.2), "timed", FOUND),
    "dhtree": World(lambda name: RING, "timed", ring_edges(), is_linked_first=True),
    "scripted, timed": World(scripted, "timed", REWIRED, is_changed=True),
    "scripted, informed": World(scripted, "informed", REWIRED, is_changed=True),
    "scripted, path": World(scripted, "path", REWIRED, is_changed=True),
}


def tables_of(machines: Mapping[NodeId, object]) -> Tables:
    found: Tables = {}
    for name, machine in machines.items():
        assert isinstance(machine, Dispatcher)
        routing: Any = machine.routing
        found[name] = {other: set(routing.tables.texts.get(other, ())) for other in machine.overlay.neighbours}
    return found


def right_tables(edges: list[Edge]) -> Tables:
    return {
        name: {
            other: {WANTED[each] for each in side_of(edges, other, without=name) if each in WANTED}
            for other in near(edges, name)
        }
        for name in NAMES
    }


@pytest.mark.spec("D-8")
@pytest.mark.parametrize("kind", WORLDS)
def test_both_worlds_come_to_the_same_links_and_tables(kind: str) -> None:
    world = WORLDS[kind]
    routing = RoutingParams("subscription", "plain", repair=world.repair, engine="plain", advertises=False)

    def make(name: NodeId, draws: Draws) -> Dispatcher:
        links = OpenDoorParams(links=CONTACTS[name] if world.is_linked_first else ())
        params = DispatcherParams(links=links, overlay=world.overlay(name), routing=routing)
        return Dispatcher(name, params, draws("links"))

    simulator = simulator_of(1, NAMES, make)
    for name, text in OPENED.items():
        simulator.inject(1.0, name, OpenSubscription(1, text))
    for name in CLOSED:
        simulator.inject(20.0, name, CloseSubscription(1, 1))
    for place, phase in enumerate(CHANGE if world.is_changed else ()):
        for name, request in phase:
            simulator.inject(30.0 + place, name, request)
    simulator.run(60.0)
    assert tables_of({name: simulator.nodes[name].machine for name in NAMES}) == right_tables(world.edges)

    async def on_sockets() -> None:
        hosts: dict[NodeId, Host] = await started([host_of(1, name, make) for name in NAMES])
        machines = {name: host.machine for name, host in hosts.items()}
        try:
            for name, text in OPENED.items():
                hosts[name].inject(OpenSubscription(1, text))
            for name in CLOSED:
                hosts[name].inject(CloseSubscription(1, 1))
            if world.is_changed:
                await until(lambda: all(set(tables_of(machines)[name]) == {*near(LINE, name)} for name in NAMES))
                broken, linked, told = CHANGE
                for phase in (broken, linked):
                    for name, request in phase:
                        hosts[name].inject(request)
                await until(lambda: "f" in tables_of(machines)["a"] and "a" in tables_of(machines)["f"])
                for name, request in told:
                    hosts[name].inject(request)
            await until(lambda: tables_of(machines) == right_tables(world.edges))
        finally:
            for host in hosts.values():
                await host.stop()

    play(on_sockets())
