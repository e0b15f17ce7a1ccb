"""Repairs on random trees whose links are replaced: whatever is deferred, the tables are right in the end."""

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.broker_world import side_of
from tests.properties.routing_model import RoutingModel
from tests.properties.test_routing import REDUCTIONS, STRATEGIES, act, change_links, come_to_rest
from tests.worlds.timed_repair import TimedRepair
from tidings.protocols.routing.params import ReductionName, StrategyName
from tidings.protocols.routing.repairs.choice import MakeRepair
from tidings.protocols.routing.repairs.strawman import Strawman

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
        come_to_rest(model)
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
                come_to_rest(model)
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
        come_to_rest(model)
        model.check_rest()
        model.check_deliveries()
