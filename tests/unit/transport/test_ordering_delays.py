"""The distribution of delay differences, its quantiles, and the estimate of its scale."""

import math
from random import Random

import pytest

from tidings.model.errors import UsageError
from tidings.protocols.transport.ordering.rules import (
    DelayDifferences,
    chebyshev_quantile,
    empirical_quantile,
    latch_factor,
    lower_lambert,
    model_of,
    probability,
    quantile,
)
from tidings.protocols.transport.params import OrderingParams

VECTORS = {
    0.5: (0.000000, 4.0000),
    0.2: (1.466203, 5.4662),
    0.1: (2.397276, 6.3973),
    0.05: (3.271812, 7.2718),
    0.02: (4.378692, 8.3787),
    0.01: (5.191820, 9.1918),
    0.001: (7.804280, 11.8043),
}


@pytest.mark.spec("T-24")
@pytest.mark.parametrize("scale", [1.0, 0.003, 40.0])
def test_distribution_and_quantile_are_inverse(scale: float) -> None:
    for step in range(5000):
        p = 0.5 + 0.4999 * step / 4999
        assert abs(probability(quantile(p, scale), scale) - p) < 1e-9


@pytest.mark.spec("T-24")
def test_distribution_is_symmetric_and_its_density_integrates_to_it() -> None:
    width = 1e-4
    for x in (0.1, 0.7, 2.0, 6.0):
        assert probability(-x, 1.0) == pytest.approx(1.0 - probability(x, 1.0), abs=1e-12)
        density = (x + 1.0) / 4.0 * math.exp(-x)
        slope = (probability(x + width, 1.0) - probability(x - width, 1.0)) / (2 * width)
        assert slope == pytest.approx(density, rel=1e-6)


@pytest.mark.spec("T-25")
@pytest.mark.parametrize("violation", VECTORS)
def test_latch_factors_are_those_of_the_specification(violation: float) -> None:
    exact, appendix = VECTORS[violation]
    assert latch_factor(violation, "exact") == pytest.approx(exact, abs=1e-5)
    assert latch_factor(violation, "appendix") == pytest.approx(appendix, abs=1e-4)


def test_lower_branch_of_the_lambert_function_solves_its_equation() -> None:
    for exponent in range(1, 300):
        z = -math.exp(-1.0 - exponent / 10)
        w = lower_lambert(z)
        assert w <= -1.0
        assert w * math.exp(w) == pytest.approx(z, rel=1e-12)


@pytest.mark.spec("T-26")
def test_scale_is_two_thirds_of_the_mean_size_before_and_after_the_ring_is_full() -> None:
    delays, rng, pushed = DelayDifferences(25), Random(3), []
    assert delays.scale == 0.0
    for _ in range(200):
        pushed.append(rng.gauss(0.0, 0.01))
        delays.push(pushed[-1])
        newest = [abs(x) for x in pushed[-25:]]
        assert delays.scale == pytest.approx(2 / (3 * len(newest)) * sum(newest), rel=1e-12)
        assert sorted(delays.values) == sorted(newest)


@pytest.mark.spec("T-26")
def test_estimate_of_the_scale_has_the_spread_that_theory_gives_it() -> None:
    rng, estimates = Random(5), []
    for _ in range(2000):
        delays = DelayDifferences(25)
        for _ in range(25):
            first, second = rng.expovariate(1.0) - rng.expovariate(1.0), rng.expovariate(1.0) - rng.expovariate(1.0)
            delays.push(first + second)
        estimates.append(delays.scale)
    mean = sum(estimates) / len(estimates)
    deviation = math.sqrt(sum((one - mean) ** 2 for one in estimates) / len(estimates))
    assert mean == pytest.approx(1.0, abs=0.02)
    assert deviation == pytest.approx(0.179, abs=0.02)


@pytest.mark.spec("T-36")
@pytest.mark.parametrize("violation", [0.500001, 1.0, 0.0, -0.1, math.nan])
def test_share_of_violations_above_one_half_is_refused(violation: float) -> None:
    with pytest.raises(UsageError, match="violation"):
        OrderingParams(violation=violation)
    assert OrderingParams(violation=0.5).violation == 0.5


def test_clock_that_was_set_leaves_no_trace_in_the_scale() -> None:
    delays = DelayDifferences(25)
    for _ in range(25):
        delays.push(0.01)
    before = delays.scale
    delays.push(3600.0)
    delays.push(-3600.0)
    assert delays.scale == before
    delays.push(0.01)
    delays.push(86400.0)
    assert delays.scale == before


def test_network_that_really_is_so_slow_is_believed_in_the_end() -> None:
    delays = DelayDifferences(5)
    for _ in range(5):
        delays.push(0.001)
    for _ in range(30):
        delays.push(20.0)
    assert delays.scale == pytest.approx(2 / 3 * 20.0)


def test_resized_ring_keeps_the_newest_samples() -> None:
    delays = DelayDifferences(4)
    for number in range(1, 7):
        delays.push(number / 1000)
    smaller, larger = delays.resized(2), delays.resized(10)
    assert smaller.values == [0.005, 0.006]
    assert larger.values == [0.003, 0.004, 0.005, 0.006]
    larger.push(0.007)
    assert larger.scale == pytest.approx(2 / 3 * 0.005)
    smaller.push(0.007)
    assert smaller.scale == pytest.approx(2 / 3 * 0.0065)


@pytest.mark.parametrize("violation", [0.05, 0.2])
def test_every_model_keeps_to_the_share_of_violations_it_was_given(violation: float) -> None:
    """Chebyshev holds for any distribution and so allows far less; the other two are near to it."""
    rng = Random(9)
    draws = [
        rng.expovariate(1.0) - rng.expovariate(1.0) + rng.expovariate(1.0) - rng.expovariate(1.0) for _ in range(20_000)
    ]
    sizes = [abs(x) for x in draws]
    for bound, least in ((chebyshev_quantile, 0.0), (empirical_quantile, 0.8 * violation)):
        latch = bound(sizes, violation)
        share = sum(x > latch for x in draws) / len(draws)
        assert least <= share <= 1.05 * violation


@pytest.mark.parametrize("model", ["laplace2", "chebyshev", "empirical"])
def test_models_hold_for_nothing_before_the_first_sample(model: str) -> None:
    params = OrderingParams(latch_model=model)  # type: ignore[arg-type]
    assert model_of(params)(DelayDifferences(25)) == 0.0
