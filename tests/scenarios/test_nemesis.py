"""Everything goes wrong at once in the simulator, and every promise is judged. `make hunt SEEDS=1000` tries more."""

import pytest

from tidings.sim.library import find
from tidings.sim.order import RunOrder, fulfil, run_all

SETTINGS: dict[str, bool | int | float | str] = {"tables": False, "writers_max": 300}


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 5, 9, 10, 11, 12, 14, 15, 16, 17, 20, 21, 22, 23, 24, 26, 28])
def test_every_promise_holds_whatever_fails(seed: int) -> None:
    order = RunOrder(scenario="nemesis", seed=seed, settings=SETTINGS)
    result = fulfil(order, find("nemesis"))
    assert result.passed, "\n".join([*map(str, result.problems), order.command()])
    assert result.judged["publications"] > 0


def test_the_same_seed_is_the_same_run() -> None:
    order = RunOrder(scenario="nemesis", seed=3, settings=SETTINGS)
    (_, first), (_, again) = run_all(find("nemesis"), [order, order])
    assert first == again
