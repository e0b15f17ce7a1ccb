"""Tables that are told a piece at a time, to neighbours that take little at once: in the end they are as always."""

from itertools import product
from random import Random

import pytest

from tests.properties.test_routing import act, change_links
from tests.worlds.routers import RoutingModel
from tidings.protocols.routing.params import ReductionName, StrategyName

STRATEGIES: tuple[StrategyName, ...] = ("subscription", "hierarchical", "advertisement")
REDUCTIONS: tuple[ReductionName, ...] = ("plain", "covering", "merging")
combinations = pytest.mark.parametrize(("strategy", "reduction"), list(product(STRATEGIES, REDUCTIONS)))

SEEDS_MIN = 4


def narrow(rng: Random, strategy: StrategyName, reduction: ReductionName) -> RoutingModel:
    """A walk looks at two entries in a step, one message is on the way while a table is told, and two in all."""
    bounds = {"turn_entries": 2, "tables_window_bytes": 700, "changes_bytes_max": 1300}
    return RoutingModel(rng, strategy, reduction, rng.randint(2, 6), True, None, None, **bounds)


def seeds(examples: int) -> range:
    return range(max(SEEDS_MIN, examples // 20))


@combinations
def test_however_little_a_neighbour_takes_at_once_every_table_is_right_at_rest(
    strategy: StrategyName, reduction: ReductionName, examples: int
) -> None:
    for seed in seeds(examples):
        rng = Random(f"narrow {seed}")
        model = narrow(rng, strategy, reduction)
        for _ in range(rng.randint(5, 30)):
            act(model, rng)
            model.world.run(rng.choice([0, 0, 1, 3]))
        model.world.settle()
        model.check_rest()
        model.check_deliveries()
        assert all(not settled.problem for settled in model.settled.values())


@combinations
def test_links_may_break_in_the_middle_of_a_walk(
    strategy: StrategyName, reduction: ReductionName, examples: int
) -> None:
    for seed in seeds(examples):
        rng = Random(f"narrow links {seed}")
        model = narrow(rng, strategy, reduction)
        for _ in range(rng.randint(5, 30)):
            act(model, rng)
            if rng.random() < 0.3:
                change_links(model, rng)
            for _ in range(rng.choice([0, 0, 1, 3, 10])):
                model.world.go_on()
        model.world.settle()
        model.check_rest()
        model.check_deliveries()
