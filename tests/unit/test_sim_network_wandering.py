"""Latency that drifts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.machine.effects import Transport
from tidings.model.errors import UsageError
from tidings.sim.network.latency import Constant, Wandering

DATAGRAM = Transport.DATAGRAM


def arrivals(rule: Wandering, times: list[float], sender: str = "a", to: str = "b") -> list[float]:
    return [at + rule.fate(at, sender, to, 100, DATAGRAM)[0] for at in times]


@given(st.integers(0, 2**32), st.lists(st.floats(0, 500), min_size=2, max_size=50))
def test_it_stays_within_its_spread_and_nothing_overtakes(seed: int, times: list[float]) -> None:
    rule = Wandering(Constant(0.05), spread=0.005, period=10.0)
    rule.begin(seed)
    arrived = arrivals(rule, sorted(times))
    assert arrived == sorted(arrived)
    assert all(0.045 <= at - sent <= 0.055 + 1e-9 for sent, at in zip(sorted(times), arrived, strict=True))


def test_two_packets_sent_close_to_each_other_take_equally_long() -> None:
    rule = Wandering(Constant(0.05), spread=0.005, period=10.0)
    rule.begin(1)
    first, second = arrivals(rule, [3.0, 3.001])
    assert second - first == pytest.approx(0.001, rel=0.002)


def test_each_direction_drifts_by_itself_and_the_same_seed_drifts_the_same() -> None:
    one, other = (Wandering(Constant(0.05), 0.005, 10.0) for _ in range(2))
    one.begin(7)
    other.begin(7)
    times = [float(second) for second in range(0, 100, 5)]
    there = arrivals(one, times)
    assert there == arrivals(other, times)
    assert there != arrivals(one, times, "b", "a")


def test_a_latency_below_the_spread_never_becomes_negative() -> None:
    rule = Wandering(Constant(0.001), spread=0.005, period=10.0)
    rule.begin(3)
    times = [float(second) for second in range(200)]
    assert all(at >= sent for sent, at in zip(times, arrivals(rule, times), strict=True))


def test_a_period_too_short_for_the_spread_is_refused() -> None:
    with pytest.raises(UsageError, match="period"):
        Wandering(Constant(0.05), spread=1.0, period=2.0)
