"""Brokers that look for nearer ones to be below, while everything happens to them that may happen.

`TreeWorld` asserts after every step that places rise, stand still while a request is out, and that there is no circle.
"""

from collections.abc import Callable
from functools import partial
from statistics import mean

import pytest

from tests.worlds.trees import TreeWorld
from tidings.machine.effects import Effect
from tidings.machine.inputs import Fired, Input
from tidings.machine.streams import random_stream
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.routing.params import RepairName, RoutingParams
from tidings.pubsub.client import Arrived, OpenAdvertisement, OpenSubscription
from tidings.pubsub.requests import Publish
from tidings.pubsub.signals import NeighbourDown, NeighbourReplaced, NeighbourUp
from tidings.sim.network.latency import Drawn, Matrix, Pareto

RESTLESS = LsTreeParams(
    request_timeout=0.5, merge_period=5.0, gossip_period=10.0, nearer_first=0.5, nearer_period=2.0, nearer_least=0.0
)
"""They look all the time, and move for next to nothing."""

SITES = 4


def sites(count: int) -> Matrix:
    """Brokers at a few places: 1 ms within one, 40 ms between two of them."""
    names = [f"d{number}" for number in range(count)]
    near = [number % SITES for number in range(count)]
    return Matrix(
        {
            (one, other): 0.001 if near[i] == near[j] else 0.04
            for i, one in enumerate(names)
            for j, other in enumerate(names)
            if i != j
        }
    )


@pytest.mark.parametrize("seed", range(4))
def test_brokers_that_move_all_the_time_never_make_a_circle_and_end_in_one_tree(seed: int) -> None:
    """Delays have no upper end, so that round trips mean nothing and everybody moves for it."""
    draw = random_stream(seed, "restless")
    world = TreeWorld(seed, 20, RESTLESS, network=Drawn(Pareto(0.01, 1.3)))
    for number in range(30):
        world.run(draw.uniform(0.0, 2.0))
        away = [name for name, node in world.simulator.nodes.items() if node.process is None]
        match draw.below(5):
            case 0:
                world.add(f"n{number}")
            case 1 | 2 if len(world.names) > 10:
                world.crash(*draw.sample(world.names, 1 + draw.below(3)), is_silent=draw.random() < 0.3)
            case 3 if away:
                world.simulator.restart(draw.choice(away), keep_state=True)
            case 4 if world.roots:
                # All depths are given out anew, while requests are out.
                world.simulator.inject(world.simulator.now, world.roots[0], Fired(("overlay", "redistribute")))
            case _ if links := world.links():
                world.simulator.break_link(*draw.choice(links), noticed_after=draw.random())
    assert sum(world.trees[name].mover.moves for name in world.names) > 5
    world.run(100.0)
    # Still moving: wait for a moment at which nobody is between two places.
    for _ in range(200):
        world.run(0.05)
        settled = all(world.trees[name].why_unsettled() == "" for name in world.names)
        if settled and len(world.roots) == len(world.acquainted()):
            break
    world.assert_places()
    assert len(world.roots) == len(world.acquainted())


class ToldChanges:
    """What the overlay of each dispatcher told routing, in its order: under a name, whom it lost or gained."""

    def __init__(self, world: TreeWorld) -> None:
        self.world = world
        self.told: dict[NodeId, list[tuple[str, str]]] = {}
        self.lives: dict[NodeId, int] = {}
        self.replaced: list[NeighbourReplaced] = []

    def listen(self) -> None:
        """To those who were there before, and to those who have come since."""
        for name in self.world.names:
            node = self.world.simulator.nodes[name]
            if self.lives.get(name) != id(node.machine):
                self.lives[name] = id(node.machine)
                tree = self.world.trees[name]
                handle = partial(self.hear, name, tree.handle)
                tree.handle = handle  # type: ignore[method-assign]

    def hear(
        self, name: NodeId, handle: Callable[[float, Input], list[Effect]], now: float, input: Input
    ) -> list[Effect]:
        effects = handle(now, input)
        for effect in effects:
            match effect:
                case NeighbourDown() | NeighbourUp() if effect.reconfiguration:
                    self.told.setdefault(name, []).append((effect.reconfiguration, type(effect).__name__))
                case NeighbourReplaced():
                    self.replaced.append(effect)
        return effects


@pytest.mark.spec("D-6")
@pytest.mark.parametrize("seed", range(3))
def test_every_broker_hears_of_a_lost_link_before_it_hears_of_the_one_in_its_place(seed: int) -> None:
    """Whether the one above has died or a nearer one was found."""
    draw = random_stream(seed, "changes")
    world = TreeWorld(seed, 25, RESTLESS, network=sites(25))
    changes = ToldChanges(world)
    world.run(0.1)
    for _ in range(40):
        changes.listen()
        world.run(draw.uniform(0.0, 1.0))
        if draw.random() < 0.3 and len(world.names) > 8:
            world.crash(draw.choice(world.names), is_silent=draw.random() < 0.3)
        elif links := world.links():
            world.simulator.break_link(*draw.choice(links), noticed_after=draw.random())
    both = 0
    for name, told in changes.told.items():
        for reconfiguration in {each for each, _ in told}:
            kinds = [kind for each, kind in told if each == reconfiguration]
            assert kinds in (["NeighbourDown"], ["NeighbourUp"], ["NeighbourDown", "NeighbourUp"]), name
            both += len(kinds) == 2
    assert both > 20 and len(changes.replaced) > 20


def test_brokers_at_four_sites_end_below_one_of_their_own() -> None:
    links = {period: far_links(period) for period in (0.0, 30.0)}
    assert links[0.0] > 20
    assert links[30.0] <= 2 * SITES


def far_links(period: float) -> int:
    params = LsTreeParams(nearer_period=period, gossip_period=20.0)
    world = TreeWorld(3, 40, params, network=sites(40), is_watched=False)
    world.run(200.0)
    world.assert_one_tree()
    assert max(world.degrees().values()) <= params.degree_max
    return sum(int(child[1:]) % SITES != int(parent[1:]) % SITES for child, parent in world.links())


@pytest.mark.parametrize("repair", ["strawman", "resuming", "timed", "notified", "informed"])
def test_tables_are_right_when_brokers_have_moved(repair: RepairName) -> None:
    """A move is to routing what a mended link is; each event reaches all, each of them once."""
    params = LsTreeParams(nearer_period=20.0, nearer_first=2.0)
    routing = RoutingParams(engine="plain", repair=repair)
    world = TreeWorld(4, 24, params, network=sites(24), is_watched=False, routing=routing)
    simulator, draw = world.simulator, random_stream(4, "events")
    world.run(2.0)
    wants = {name: draw.below(4) for name in world.names}
    for name, number in wants.items():
        simulator.inject(simulator.now, name, OpenAdvertisement("a", "TRUE"))
        simulator.inject(simulator.now, name, OpenSubscription("s", f"x = {number}"))
    world.run(60.0)
    assert mean(world.trees[name].mover.moves for name in world.names) > 0.3
    published = [(name, draw.below(4)) for name in draw.sample(world.names, 8)]
    for name, number in published:
        simulator.inject(simulator.now, name, Publish(Event({"x": number})))
    world.run(5.0)
    for name in world.names:
        came = [each for each in simulator.delivered(name) if isinstance(each.item, Arrived)]
        assert len(came) == sum(number == wants[name] for _, number in published), name
