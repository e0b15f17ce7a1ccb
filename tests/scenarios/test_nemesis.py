"""Everything goes wrong at once in the simulator, and every promise is judged. `make hunt SEEDS=1000` tries more."""

import pytest

from tidings.sim.library import find
from tidings.sim.order import RunOrder, fulfil, run_all


# Among them are groups, tenants, readings, large events, short histories and readers that are turned out.
@pytest.mark.parametrize("seed", [*range(18), 33, 159, 587])
def test_every_promise_holds_whatever_fails(seed: int) -> None:
    order = RunOrder(scenario="nemesis", seed=seed)
    result = fulfil(order, find("nemesis"))
    assert result.passed, "\n".join([*map(str, result.problems), order.command()])
    assert result.judged["publications"] > 0


def test_the_same_seed_is_the_same_run() -> None:
    order = RunOrder(scenario="nemesis", seed=3)
    (_, first), (_, again) = run_all(find("nemesis"), [order, order])
    assert first == again
