"""The arithmetic of congestion control: the response function, loss intervals, rates, shares (transport 3.6, 3.7.3)."""

import math

import pytest

from tidings.protocols.transport.congestion.rates import (
    LossIntervals,
    Meter,
    allowed_rate,
    loss_rate_at,
    share_max_min,
    weights_of,
)
from tidings.protocols.transport.params import CongestionParams

ROUND_TRIPS = (0.01, 0.02, 0.05, 0.1, 0.2)
RATES = {
    0.001: (3838.436, 1919.218, 767.687, 383.844, 191.922),
    0.01: (1123.322, 561.661, 224.664, 112.332, 56.166),
    0.02: (732.490, 366.245, 146.498, 73.249, 36.624),
    0.05: (368.589, 184.294, 73.718, 36.859, 18.429),
    0.1: (177.010, 88.505, 35.402, 17.701, 8.851),
    0.5: (4.174, 2.087, 0.835, 0.417, 0.209),
}


@pytest.mark.spec("T-70")
@pytest.mark.parametrize("p", RATES)
def test_the_response_function_equals_the_table(p: float) -> None:
    for round_trip, rate in zip(ROUND_TRIPS, RATES[p], strict=True):
        assert allowed_rate(p, round_trip) == pytest.approx(rate, abs=5e-4)


@pytest.mark.spec("T-70")
def test_without_losses_there_is_no_limit() -> None:
    assert allowed_rate(0.0, 0.1) == math.inf


@pytest.mark.parametrize("p", [1e-6, 0.001, 0.02, 0.3, 0.9])
def test_a_rate_leads_back_to_its_loss_rate(p: float) -> None:
    assert loss_rate_at(allowed_rate(p, 0.07), 0.07) == pytest.approx(p, rel=1e-6)


def test_a_rate_of_nothing_belongs_to_the_loss_of_everything() -> None:
    assert loss_rate_at(0.0, 0.1) == 1.0


def intervals(**params: object) -> LossIntervals:
    return LossIntervals(CongestionParams(**params))  # type: ignore[arg-type]


@pytest.mark.spec("T-71")
def test_losses_within_one_round_trip_are_one_loss_event() -> None:
    history = intervals()
    history.open = 20.0
    assert history.lost(1.0, 0.1)
    assert not history.lost(1.05, 0.1)
    assert not history.lost(1.099, 0.1)
    assert history.lost(1.1, 0.1)
    assert list(history.closed) == [1.0, 20.0]


@pytest.mark.spec("T-72")
def test_what_an_event_behind_a_gap_counts_depends_on_what_is_known_of_the_gap() -> None:
    history = intervals()
    history.arrived_behind(uncovered=0, relevant=0, rho=0.1)
    assert history.open == 1.0
    history.arrived_behind(uncovered=3, relevant=0, rho=0.1)
    assert history.open == pytest.approx(1.729)
    history.arrived_behind(uncovered=3, relevant=1, rho=0.1)
    assert history.open == pytest.approx(1.729)


@pytest.mark.spec("T-72")
def test_an_event_behind_a_gap_counts_once_what_seemed_lost_has_come() -> None:
    history = intervals()
    history.arrived_behind(uncovered=0, relevant=1, rho=0.1)
    history.arrived_late()
    assert history.open == 2.0


def test_a_loss_event_is_taken_back_when_all_that_seemed_lost_has_come() -> None:
    history = intervals()
    history.open = 50.0
    history.lost(1.0, 0.1, sequence=3)
    history.open = 20.0
    history.lost(2.0, 0.1, sequence=7)
    history.lost(2.01, 0.1, sequence=9)
    history.open += 4.0
    history.take_back(9)
    assert list(history.closed) == [20.0, 50.0]
    history.take_back(7)
    assert list(history.closed) == [50.0]
    assert history.open == 20.0 + 1.0 + 4.0
    assert history.event_at == 1.0


@pytest.mark.spec("T-73")
@pytest.mark.parametrize(
    ("rho", "uncovered", "counts"),
    [
        (0.01, 1, 0.99),
        (0.01, 10, 0.9044),
        (0.01, 50, 0.605),
        (0.05, 1, 0.95),
        (0.05, 10, 0.5987),
        (0.05, 50, 0.0769),
        (0.1, 1, 0.9),
        (0.1, 10, 0.3487),
        (0.1, 50, 0.0052),
        (0.5, 1, 0.5),
        (0.5, 10, 0.001),
        (0.5, 50, 0.0),
    ],
)
def test_an_uncovered_gap_counts_with_the_probability_that_nothing_was_lost(
    rho: float, uncovered: int, counts: float
) -> None:
    history = intervals()
    history.arrived_behind(uncovered, 0, rho)
    assert history.open == pytest.approx(counts, abs=5e-5)


@pytest.mark.spec("T-72")
def test_the_two_baselines_take_an_uncovered_gap_for_nothing_or_for_a_loss() -> None:
    optimistic, pessimistic = intervals(uncovered_gap="optimistic"), intervals(uncovered_gap="pessimistic")
    assert not optimistic.arrived_behind(5, 0, 0.5)
    assert optimistic.open == 1.0
    assert pessimistic.arrived_behind(5, 0, 0.5)


@pytest.mark.spec("T-74")
def test_the_plain_loss_event_rate_is_one_over_the_mean_of_the_last_intervals() -> None:
    history = intervals(intervals="plain", loss_events=3)
    for place, length in enumerate((1000.0, 10.0, 20.0, 30.0)):
        history.open = length
        history.lost(float(place), 0.1)
    history.open = 5000.0
    assert history.loss_event_rate == pytest.approx(1.0 / 20.0)


def test_the_weights_are_those_of_tfrc() -> None:
    assert weights_of(8) == pytest.approx((1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2))


@pytest.mark.spec("T-74")
def test_the_open_interval_counts_as_soon_as_it_raises_the_mean() -> None:
    history = intervals()
    for place in range(8):
        history.open = 10.0
        history.lost(float(place), 0.1)
    assert history.loss_event_rate == pytest.approx(0.1)
    history.open = 70.0
    assert history.loss_event_rate == pytest.approx(1.0 / ((70.0 + 10.0 * 4.8 + 2.0) / 6.0), rel=0.02)


def test_the_first_interval_may_be_given() -> None:
    history = intervals()
    history.open = 12.0
    history.lost(0.0, 0.1, first=400.0)
    history.open = 15.0
    history.lost(1.0, 0.1, first=400.0)
    assert list(history.closed) == [15.0, 400.0]


def test_a_meter_forgets_what_is_older_than_its_window() -> None:
    meter = Meter(0.0)
    for tick in range(1, 21):
        meter.count += 10 if tick <= 10 else 2
        meter.measure(tick * 0.1, 0.5)
    assert meter.rate == pytest.approx(20.0)


def test_a_meter_that_was_asked_too_early_says_nothing() -> None:
    meter = Meter(0.0)
    meter.count = 100
    assert meter.measure(0.001, 0.5) == 0.0


@pytest.mark.spec("T-78")
def test_max_min_cuts_those_that_have_most() -> None:
    assert share_max_min([150.0, 10.0, 40.0], 120.0, [1.0, 1.0, 1.0]) == [70.0, 10.0, 40.0]
    assert share_max_min([50.0, 60.0], 60.0, [1.0, 1.0]) == [30.0, 30.0]
    assert share_max_min([], 60.0, []) == []


def test_a_weight_is_the_size_of_a_part() -> None:
    assert share_max_min([100.0, 100.0], 90.0, [2.0, 1.0]) == pytest.approx([60.0, 30.0])
