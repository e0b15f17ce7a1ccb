"""One routing over four overlays, unchanged (D-1), and none of them with a broker that the others cannot do without."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.brokers import side_of
from tests.worlds.radios import RadioWorld
from tests.worlds.rewired import RewiredTree
from tests.worlds.rings import RingWorld
from tests.worlds.trees import TreeWorld
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher
from tidings.protocols import overlay, routing
from tidings.protocols.overlay.dhtree.dhtree import DhTreeParams
from tidings.protocols.overlay.dhtree.ring import RingParams
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import OpenSubscription
from tidings.pubsub.requests import Publish
from tidings.sim.simulator import Simulator

ROUTING = RoutingParams(strategy="subscription", reduction="plain", repair="timed", engine="plain")
COUNT = 6
SETTLE = 40.0
LINE = [("d0", "d1"), ("d1", "d2"), ("d2", "d3"), ("d3", "d4"), ("d4", "d5")]
NEAR = {f"d{number}": (30.0 * number, 0.0) for number in range(COUNT)}
"""Everybody hears everybody."""


def of_ring() -> Simulator:
    world = RingWorld(1, 0, DhTreeParams(ring=RingParams(period=0.2, probe_period=1.0)))
    world.routing = ROUTING
    for _ in range(COUNT):
        world.join()
    return world.simulator


WORLDS: dict[str, Callable[[], Simulator]] = {
    "scripted": lambda: RewiredTree(LINE, ROUTING).simulator,
    "lstree": lambda: TreeWorld(1, COUNT, routing=ROUTING).simulator,
    "dhtree": of_ring,
    "witree": lambda: RadioWorld(1, NEAR, routing=ROUTING).simulator,
}


class OverlayPlay:
    """Every dispatcher wants what is said by its own number, and all of them what is said by none."""

    def __init__(self, kind: str) -> None:
        self.simulator = WORLDS[kind]()
        self.rest()
        for place, name in enumerate(self.living):
            for text in (f"x = {place}", "x > 100"):
                self.simulator.inject(self.simulator.now, name, OpenSubscription(None, text))
        self.wants = {name: {f"x = {place}", "x > 100"} for place, name in enumerate(self.living)}
        self.rest()

    def rest(self) -> None:
        self.simulator.run(self.simulator.now + SETTLE)

    @property
    def living(self) -> list[NodeId]:
        return sorted(name for name, node in self.simulator.nodes.items() if node.process is not None)

    def dispatcher(self, name: NodeId) -> Dispatcher:
        machine: Any = self.simulator.nodes[name].machine
        assert isinstance(machine, Dispatcher)
        return machine

    def assert_right(self) -> None:
        """The overlay is a tree, the same from both ends, and every table is right for it (INV-R2)."""
        names = self.living
        near = {name: set(self.dispatcher(name).overlay.neighbours) for name in names}
        assert all(name in near[other] for name in names for other in near[name])
        edges = [(name, other) for name in names for other in near[name] if name < other]
        assert len(edges) == len(names) - 1 and len(side_of(edges, names[0])) == len(names)
        for name in names:
            router = self.dispatcher(name).routing
            assert type(router) is Router and router.params == ROUTING and set(router.links) == near[name]
            for other in near[name]:
                behind = side_of(edges, other, without=name)
                assert set(router.tables.texts[other]) == set().union(*(self.wants[each] for each in behind))

    def assert_delivers(self) -> None:
        """What each living dispatcher publishes comes to all of them, once."""
        names = self.living
        before = {name: len(self.simulator.delivered(name)) for name in names}
        for place, name in enumerate(names):
            self.simulator.inject(self.simulator.now + 0.1 * place, name, Publish(Event({"x": 101 + place})))
        self.rest()
        for name in names:
            assert len(self.simulator.delivered(name)) - before[name] == len(names), name


@pytest.mark.spec("D-1")
@pytest.mark.parametrize("kind", WORLDS)
def test_the_same_routing_runs_over_every_overlay(kind: str) -> None:
    play = OverlayPlay(kind)
    play.assert_right()
    play.assert_delivers()


@pytest.mark.spec("D-1")
def test_overlay_and_routing_do_not_know_each_other() -> None:
    for package, other in ((overlay, "tidings.protocols.routing"), (routing, "tidings.protocols.overlay")):
        for path in Path(package.__path__[0]).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom):
                    assert not (node.module or "").startswith(other), path


@pytest.mark.spec("D-144")
@pytest.mark.parametrize("kind", ["lstree", "dhtree", "witree"])
def test_nobody_is_needed_not_even_the_first(kind: str) -> None:
    """One after the other dies, the first of all (contact, root, leader) before the others."""
    play = OverlayPlay(kind)
    for victim in play.living[: COUNT - 3]:
        play.simulator.crash(victim)
        play.rest()
        play.assert_right()
        play.assert_delivers()
