"""Latency between hosts of an internet, and latency that varies as it was measured."""

import itertools
import math
from pathlib import Path
from statistics import mean, median

import pytest

from tidings.machine.effects import Transport
from tidings.model.errors import UsageError
from tidings.sim.network.internet import LATENCY_CLASSES, MIXED, STUBS, TRANSITS, Internet
from tidings.sim.network.latency import Constant, Fluctuating, LatencyTrace, Matrix, MeasuredPair, read_matrix

DATAGRAM = Transport.DATAGRAM
HOSTS = [f"h{number}" for number in range(80)]


def internet(seed: int) -> Internet:
    rule = Internet()
    rule.begin(seed)
    return rule


@pytest.mark.spec("P-13")
def test_the_latencies_of_links_fall_into_their_three_classes() -> None:
    rule = internet(1)
    latencies = [latency for links in rule.links for _, latency in links]
    for share, low, high in LATENCY_CLASSES:
        inside = [latency for latency in latencies if low <= latency < high]
        assert len(inside) / len(latencies) == pytest.approx(share, abs=0.03)
        assert mean(inside) == pytest.approx((low + high) / 2, rel=0.08)
    assert len(latencies) / 2 == pytest.approx(5200, rel=0.05)


@pytest.mark.spec("P-14")
def test_hosts_stand_in_stub_as_drawn_uniformly() -> None:
    rule = internet(1)
    homes = [rule.home(f"h{number}") - TRANSITS - MIXED for number in range(20_000)]
    assert min(homes) >= 0
    assert max(homes) < STUBS
    counts = [0] * 20
    for home in homes:
        counts[home * 20 // STUBS] += 1
    chi_square = sum((count - 1000) ** 2 / 1000 for count in counts)
    # 19 degrees of freedom: above 43.8 in one of a thousand cases.
    assert chi_square < 43.8


def test_the_round_trips_between_hosts_are_those_of_the_specification() -> None:
    """Experiment E8 without the trace: 25, 58, 93, 131 and 195 ms, within 15 %, as the mean of several graphs."""
    percentiles = []
    for seed in range(5):
        rule = internet(seed)
        round_trips = sorted(2 * rule.latency(one, two) for place, one in enumerate(HOSTS) for two in HOSTS[:place])
        percentiles.append([round_trips[int(share * len(round_trips))] for share in (0.05, 0.25, 0.5, 0.75, 0.95)])
    for measured, expected in zip(zip(*percentiles, strict=True), (25, 58, 93, 131, 195), strict=True):
        assert 1000 * mean(measured) == pytest.approx(expected, rel=0.15)


def test_latency_is_symmetric_and_the_same_for_the_same_seed_whoever_is_asked_for_first() -> None:
    rule, again = internet(3), internet(3)
    assert again.latency("h9", "h4") == rule.latency("h4", "h9") == rule.fate(0.0, "h9", "h4", 0, DATAGRAM)[0]
    again.latency("h1", "h2")
    assert again.latency("h5", "h6") == rule.latency("h5", "h6") != internet(4).latency("h5", "h6")


def small_trace() -> LatencyTrace:
    pairs = [
        MeasuredPair([0.0, 10.0, 20.0], [0.010, 0.011, 0.015]),
        MeasuredPair([5.0, 15.0], [0.100, 0.120]),
        MeasuredPair([0.0], [0.050]),
    ]
    return LatencyTrace(pairs, 30.0)


@pytest.mark.spec("P-15")
def test_a_pair_is_tied_to_the_measured_pair_of_nearest_median_and_replays_it_over_time() -> None:
    matrix = Matrix({("a", "b"): 0.012, ("a", "c"): 0.09, ("a", "d"): 3.0, ("a", "e"): 0.0})
    rule = Fluctuating(matrix, small_trace())
    rule.begin(1)
    seen = [rule.fate(float(second), "a", "b", 0, DATAGRAM)[0] for second in range(60)]
    assert set(seen) == {0.010, 0.011, 0.015}
    assert seen[:30] == seen[30:]
    assert {seen.count(delay) for delay in set(seen)} == {20}
    assert sum(one != other for one, other in itertools.pairwise(seen)) in (5, 6)
    for to, delays in (("c", {0.1, 0.12}), ("d", {0.1, 0.12}), ("e", {0.010, 0.011, 0.015})):
        assert {rule.fate(float(second), "a", to, 0, DATAGRAM)[0] for second in range(30)} == delays


@pytest.mark.spec("P-15")
def test_pairs_tied_to_the_same_measurements_begin_at_moments_of_their_own() -> None:
    rule = Fluctuating(Constant(0.011), small_trace())
    rule.begin(1)
    begins = {rule.tied[pair][1] for pair in [("a", to) for to in HOSTS] if rule.fate(0.0, *pair, 0, DATAGRAM)}
    assert len(begins) == len(HOSTS)


def test_without_a_trace_latency_stays_near_the_median_with_bursts_up_to_tenfold() -> None:
    rule = Fluctuating(Constant(0.1))
    rule.begin(1)
    delays = [rule.fate(0.0, "a", "b", 0, DATAGRAM)[0] for _ in range(20_000)]
    assert median(delays) == pytest.approx(0.1, rel=0.01)
    assert max(delays) <= 1.0
    assert sum(delay > 0.145 for delay in delays) / 20_000 == pytest.approx(0.03, abs=0.01)


def test_a_trace_is_made_from_matrices_of_round_trips_without_what_is_missing() -> None:
    slices = [[[0.0, 0.2], [0.2, 0.0]], [[0.0, math.nan], [math.nan, 0.0]], [[0.0, 0.4], [0.4, 0.0]]]
    trace = LatencyTrace.from_matrices(slices, period=60.0)
    assert [(pair.times, pair.delays) for pair in trace.pairs] == [([0.0, 120.0], [0.1, 0.2])]
    assert trace.length == 180.0


def test_traces_without_content_or_out_of_order_are_refused() -> None:
    with pytest.raises(UsageError, match="without any pair"):
        LatencyTrace([], 1.0)
    with pytest.raises(UsageError, match="times in order"):
        MeasuredPair([2.0, 1.0], [0.1, 0.1])


def test_measured_round_trips_of_planetlab_can_be_replayed(data_folder: Path) -> None:
    paths = [data_folder / "latency" / f"PlanetLabData_{number}.tsv.gz" for number in (1, 6)]
    slices = [[[cell / 1000 for cell in row[:60]] for row in read_matrix(path)[:60]] for path in paths]
    trace = LatencyTrace.from_matrices(slices, period=3600.0)
    assert len(trace.pairs) == pytest.approx(60 * 59 / 2, rel=0.05)
    rule = Fluctuating(Internet(), trace)
    rule.begin(7)
    first = [rule.fate(0.0, "a", to, 0, DATAGRAM)[0] for to in HOSTS]
    later = [rule.fate(3600.0, "a", to, 0, DATAGRAM)[0] for to in HOSTS]
    assert all(0 < delay < 2 for delay in first)
    assert first != later
