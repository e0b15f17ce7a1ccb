"""Fits: golden values of the specification, known distributions found again, and what delays over brokers look like."""

import math

import pytest

from tidings.lab.transport.network.chain import PARAMS, RATE, subscriber
from tidings.lab.transport.network.e3 import measure
from tidings.machine.streams import random_stream

numpy = pytest.importorskip("numpy", reason="fits need numpy; install tidings[lab]")
pytest.importorskip("scipy", reason="fits need scipy; install tidings[lab]")

from tidings.lab.transport.network.fits import (  # noqa: E402 - it needs what is looked for above
    Hypoexponential,
    TwoLaplace,
    chance_of,
    distance,
    fit_exponential,
    fit_gamma,
    fit_hypoexponential,
    fit_power_law,
    fit_two_laplace,
)


@pytest.mark.parametrize(
    ("violations", "quantile"),
    [
        (0.5, 0.0),
        (0.2, 1.466203),
        (0.1, 2.397276),
        (0.05, 3.271812),
        (0.02, 4.378692),
        (0.01, 5.191820),
        (0.001, 7.804280),
    ],
)
def test_quantiles_of_two_laplace_variables_are_those_of_the_specification(violations: float, quantile: float) -> None:
    """Table of 3.3.3, exact form."""
    model = TwoLaplace(1.0)
    assert model.quantile(1 - violations) == pytest.approx(quantile, abs=1e-6)
    assert model.cumulative(model.quantile(1 - violations)) == pytest.approx(1 - violations)


def test_density_and_distribution_of_two_laplace_variables_belong_together() -> None:
    model, at = TwoLaplace(2.0), numpy.linspace(-100, 100, 200_001)
    shares = numpy.cumsum(model.density(at)) * (at[1] - at[0])
    assert numpy.max(numpy.abs(shares - model.cumulative(at))) < 1e-3
    assert numpy.mean(numpy.abs(at) * model.density(at)) * 200 == pytest.approx(3.0, rel=1e-3)


def test_the_scale_is_two_thirds_of_the_mean_size() -> None:
    assert fit_two_laplace(numpy.array([-3.0, 3.0, 6.0])).b == pytest.approx(8 / 3)


def test_a_hypoexponential_of_two_phases_is_as_its_formula_says() -> None:
    made, at = Hypoexponential([1.0, 3.0], 20.0), numpy.linspace(0, 15, 50)
    expected = (numpy.exp(-at / 3) - numpy.exp(-at)) / 2
    assert numpy.max(numpy.abs(made.density(at) - expected)) < 1e-4


def test_a_hypoexponential_of_equal_phases_is_an_erlang() -> None:
    made, at = Hypoexponential([2.0] * 4, 60.0), numpy.linspace(0, 50, 50)
    expected = (at / 2) ** 3 * numpy.exp(-at / 2) / (2 * math.factorial(3))
    assert numpy.max(numpy.abs(made.density(at) - expected)) < 1e-4


def test_phases_that_differ_are_found_again_and_no_other_distribution_fits() -> None:
    generator = numpy.random.default_rng(1)
    samples = sum(generator.exponential(mean, 6500) for mean in (2.0, 2.0, 10.0))
    fitted, gamma, power = fit_hypoexponential(samples, 3), fit_gamma(samples), fit_power_law(samples)
    assert fitted.parameters[-1] == pytest.approx(10.0, rel=0.1)
    assert chance_of(fitted.distance, 6500) > 0.05
    assert chance_of(gamma.distance, 6500) < 0.001
    assert chance_of(power.distance, 6500) < 0.001
    assert fitted.likelihood > gamma.likelihood > power.likelihood


def test_phases_that_are_alike_are_a_gamma_distribution_too() -> None:
    samples = numpy.random.default_rng(2).gamma(5, 2.0, 6500)
    fitted, gamma = fit_hypoexponential(samples, 5), fit_gamma(samples)
    assert min(chance_of(fit.distance, 6500) for fit in (fitted, gamma)) > 0.05
    assert fitted.likelihood == pytest.approx(gamma.likelihood, abs=1e-3)


def test_the_distance_is_the_largest_gap_between_samples_and_distribution() -> None:
    assert distance(numpy.array([0.1, 0.2, 0.9]), lambda x: x) == pytest.approx(2 / 3 - 0.2)


def delays_over_brokers(brokers: int, messages: int) -> list[list[float]]:
    """Delays over 1, 2, ... brokers, from the brokers' workers alone: messages go from one to the next."""
    rng, at, sent = random_stream(5, "publisher"), 0.0, []
    for _ in range(messages):
        at += rng.expovariate(RATE)
        sent.append(at)
    arrived = [(at, number) for number, at in enumerate(sent)]
    delays = []
    for place in range(brokers):
        station = PARAMS.processing().begin(5, f"n{place}", 0)
        done = [(station.admit(at), number) for at, number in sorted(arrived)]
        arrived = [(at, number) for at, number in done if at is not None]
        found = {number: at - sent[number] for at, number in arrived}
        delays.append([found[number] for number in range(messages)])
    return delays


@pytest.mark.spec("T-103")
def test_tails_of_delay_differences_beyond_the_fitted_quantile_are_4_to_6_percent_over_1_to_15_brokers() -> None:
    delays = delays_over_brokers(brokers=15, messages=12_000)
    nodes = [subscriber(place + 1) for place, some in enumerate(delays) for _ in some[1:]]
    differences = numpy.concatenate([numpy.diff(some) for some in delays])
    figures: dict[tuple[str, str], float] = {
        (name, group): value for name, group, value in measure({"node": numpy.array(nodes), "difference": differences})
    }
    tails = [value for (name, _), value in figures.items() if name == "tail beyond 0.95"]
    assert len(tails) == 15
    assert all(0.04 <= tail <= 0.06 for tail in tails)
    assert all(value < 0.05 for (name, _), value in figures.items() if name == "distance")


def test_handling_in_one_broker_is_exponential() -> None:
    (delays,) = delays_over_brokers(brokers=1, messages=6500)
    fitted = fit_exponential(numpy.array(delays))
    assert fitted.parameters[0] == pytest.approx(PARAMS.handling, rel=0.05)
    assert chance_of(fitted.distance, 6500) > 0.05
