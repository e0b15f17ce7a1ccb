"""Repairs on random trees whose links are replaced: whatever is deferred, the tables are right in the end."""

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_routing import REDUCTIONS, STRATEGIES, act, change_links
from tests.worlds.brokers import BrokerWorld, Edge, random_tree, side_of
from tests.worlds.routers import RoutingModel, filter_of
from tidings.machine.node import Node
from tidings.protocols.overlay.scripted import ScriptedOverlay, ScriptedParams, rewiring
from tidings.protocols.routing.params import ReductionName, RoutingParams, StrategyName
from tidings.protocols.routing.repairs.choice import MakeRepair
from tidings.protocols.routing.repairs.strawman import Strawman
from tidings.protocols.routing.repairs.timed import TimedRepair
from tidings.protocols.routing.router import Router
from tidings.pubsub.signals import LinkUnwanted, LinkWanted, PeerDown, PeerUp, Want

REPAIRS: tuple[MakeRepair, ...] = (Strawman, TimedRepair)
seeds = st.integers(0, 2**32)
PATTERNS = ("x = 1", "x = 2", "x = 3", "x = 8")

Tables = dict[str, dict[str, list[str]]]


def tables_of(model: RoutingModel) -> Tables:
    """For each broker and neighbour the patterns that are wanted there."""
    return {
        name: {neighbour: sorted(router.tables.texts[neighbour]) for neighbour in sorted(router.links)}
        for name, router in model.routers.items()
    }


def right_tables(model: RoutingModel) -> Tables:
    """INV-R2: a pattern is wanted of a neighbour just when a broker on its side has a client that wants it."""
    near: dict[str, list[str]] = {name: [] for name in model.names}
    for first, second in model.edges:
        near[first].append(second)
        near[second].append(first)
    return {
        name: {
            neighbour: sorted(
                {
                    text
                    for broker, text in model.wants.values()
                    if broker in side_of(model.edges, neighbour, without=name)
                }
            )
            for neighbour in sorted(near[name])
        }
        for name in model.names
    }


def subscribed(rng: Random, size: int, repair: MakeRepair, checks: bool = True) -> RoutingModel:
    """A random tree at rest, in which each broker's clients want some patterns."""
    model = RoutingModel(rng, "subscription", "plain", size, checks=checks, make_repair=repair)
    for name in model.names:
        for number, text in enumerate(PATTERNS):
            if rng.random() < 0.3:
                model.want((name, number), text)
    model.world.rest()
    return model


def draw_substitution(model: RoutingModel, rng: Random) -> tuple[tuple[str, str], tuple[str, str]]:
    """A link of the tree, and another that joins what it joined."""
    old = rng.choice(model.edges)
    rest = [edge for edge in model.edges if edge != old]
    new = rng.choice(side_of(rest, old[0])), rng.choice(side_of(rest, old[1]))
    return old, new


def connect(model: RoutingModel, rng: Random) -> None:
    """Add links until the rest of the tree is a tree again."""
    while len(reached := side_of(model.edges, model.names[0])) < len(model.names):
        first = rng.choice(reached)
        second = rng.choice([name for name in model.names if name not in reached])
        model.world.link(first, second)
        model.edges.append((first, second))


@pytest.mark.spec("D-25")
@given(seeds)
def test_after_any_substitutions_that_end_in_a_tree_every_table_is_right(seed: int) -> None:
    for repair in REPAIRS:
        rng = Random(seed)
        model = subscribed(rng, rng.randint(2, 10), repair)
        for _ in range(rng.randint(1, 6)):
            for edge in rng.sample(model.edges, min(len(model.edges), rng.randint(1, 2))):
                model.world.cut(*edge)
                model.edges.remove(edge)
            model.world.run(rng.choice([0, 3, 50]))
            if model.world.timers and rng.random() < 0.3:
                model.world.fire()
            connect(model, rng)
            model.world.run(rng.choice([0, 3, 50]))
        model.world.settle()
        assert tables_of(model) == right_tables(model)
        assert not any(router.tables.ghosts for router in model.routers.values())


@pytest.mark.spec("D-26")
@given(seeds)
def test_it_does_not_matter_whether_the_loss_or_the_gain_is_told_first(seed: int) -> None:
    for repair in REPAIRS:
        results = []
        for is_loss_first in (True, False):
            rng, changes = Random(seed), Random(seed)
            model = subscribed(rng, rng.randint(3, 9), repair)
            for _ in range(3):
                old, new = draw_substitution(model, changes)
                while set(old) == set(new):
                    old, new = draw_substitution(model, changes)
                if is_loss_first:
                    model.world.cut(*old)
                model.world.link(*new)
                if not is_loss_first:
                    model.world.cut(*old)
                model.edges.remove(old)
                model.edges.append(new)
                model.world.settle()
            assert tables_of(model) == right_tables(model)
            results.append(tables_of(model))
        assert results[0] == results[1]


@pytest.mark.parametrize(("strategy", "reduction"), list(product(STRATEGIES, REDUCTIONS)))
def test_a_repair_that_defers_is_right_with_every_strategy_and_reduction(
    strategy: StrategyName, reduction: ReductionName, examples: int
) -> None:
    for seed in range(max(6, examples // 100)):
        rng = Random(f"deferred {seed}")
        model = RoutingModel(rng, strategy, reduction, rng.randint(2, 7), checks=True, make_repair=TimedRepair)
        for _ in range(rng.randint(5, 30)):
            act(model, rng)
            if rng.random() < 0.3:
                change_links(model, rng)
            model.world.run(rng.choice([0, 0, 1, 3, 30]))
            if model.world.timers and rng.random() < 0.2:
                model.world.fire()
        model.world.settle()
        model.check_rest()
        model.check_deliveries()


def way_between(edges: list[Edge], first: str, last: str) -> list[str]:
    """The brokers from one to the other in a tree, both included."""
    if first == last:
        return [first]
    for second in [b if a == first else a for a, b in edges if first in (a, b)]:
        if last in side_of(edges, second, without=first):
            return [first, *way_between([edge for edge in edges if first not in edge], second, last)]
    raise AssertionError("no way")


class ScriptedNetwork:
    """Brokers of a scripted overlay and routing, all with streams to all; somebody plans where the tree goes."""

    def __init__(self, rng: Random, size: int, repair: MakeRepair) -> None:
        self.names = [f"b{place}" for place in range(size)]
        self.edges = random_tree(self.names, rng)
        self.wants: list[tuple[str, str]] = []
        self.routers = {
            name: Router(name, RoutingParams("subscription", "plain", engine="plain"), repair) for name in self.names
        }
        nodes = {
            name: Node(
                {"overlay": ScriptedOverlay(name, ScriptedParams(self.near(name))), "routing": router},
                tells=(LinkWanted, LinkUnwanted, *Router.tells),
            )
            for name, router in self.routers.items()
        }
        self.world = BrokerWorld(dict(nodes), rng, PeerUp, PeerDown, checks=True)
        for place, name in enumerate(self.names):
            for other in self.names[:place]:
                self.world.link(name, other)

    def near(self, name: str) -> tuple[str, ...]:
        return tuple(b if a == name else a for a, b in self.edges if name in (a, b))

    def check_rest(self) -> None:
        for name, router in self.routers.items():
            assert sorted(router.links) == sorted(self.near(name)) and not router.tables.ghosts
            for neighbour in router.links:
                behind = side_of(self.edges, neighbour, without=name)
                expected = {text for broker, text in self.wants if broker in behind}
                assert router.tables.texts[neighbour].keys() == expected


@given(seeds)
def test_links_replaced_by_a_script_leave_every_table_right(seed: int) -> None:
    for repair in REPAIRS:
        rng = Random(seed)
        network = ScriptedNetwork(rng, rng.randint(3, 7), repair)
        world = network.world
        world.rest()
        for name in network.names:
            for number, text in enumerate(rng.sample(PATTERNS, rng.randrange(3))):
                network.wants.append((name, text))
                world.tell(name, Want((name, number), filter_of(text)))
        for number in range(rng.randint(1, 4)):
            old = rng.choice(network.edges)
            network.edges.remove(old)
            near = rng.choice(side_of(network.edges, old[0]))
            far = rng.choice(side_of(network.edges, old[1]))
            head = way_between(network.edges, old[0], near)
            tail = way_between(network.edges, far, old[1])
            network.edges.append((near, far))
            for phase in rewiring(f"r{number}", head, tail):
                for name, request in phase:
                    world.tell(name, request)
                world.run(rng.choice([0, 5, 100]))
            # The next change is planned when this one is carried out, whatever routing still has to do.
            while set(network.routers[near].links) != set(network.near(near)) or near not in network.routers[far].links:
                assert world.step()
        world.settle()
        network.check_rest()
