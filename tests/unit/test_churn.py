"""Churn: recorded traces, sessions, mass failures; who is exempt; and that a seed decides it."""

import gzip
import math
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.sim.cast import Churn, Span
from tidings.sim.faults import Crash, crashes_of
from tidings.sim.network.latency import Exponential, Pareto, Uniform
from tidings.workloads import churn
from tidings.workloads.churn import (
    FOR_EVER,
    Absence,
    ChurnTrace,
    Weibull,
    mass_failure,
    peer_sessions,
    read_churn,
    session_churn,
    traced_churn,
)

BITS = st.text(alphabet="01", min_size=1, max_size=30)


def names(count: int) -> list[str]:
    return [f"n{place}" for place in range(count)]


def is_there(absences: list[Absence], node: str, time: float) -> bool:
    return not any(absence.node == node and absence.begin <= time < absence.end for absence in absences)


@pytest.mark.spec("P-11")
@given(st.lists(BITS, min_size=1, max_size=5), st.integers(1, 12), st.integers(0, 1000))
def test_each_recorded_transition_lies_in_its_own_interval(rows: list[str], count: int, seed: int) -> None:
    absences = traced_churn(ChurnTrace(tuple(rows)), names(count), seed)
    for place, node in enumerate(names(count)):
        row = rows[place % len(rows)]
        for probe, bit in enumerate(row):
            assert is_there(absences, node, probe * 1200.0) == (bit == "1")
        transitions = sum(a != b for a, b in pairwise(row))
        mine = [absence for absence in absences if absence.node == node]
        ends = [time for absence in mine for time in (absence.begin, absence.end) if 0 < time < FOR_EVER]
        assert len(ends) == transitions
        for time in ends:
            before = int(time // 1200)
            assert row[before] != row[before + 1]


@pytest.mark.spec("P-11")
def test_transitions_are_placed_uniformly_and_independently_when_rows_are_replicated() -> None:
    absences = traced_churn(ChurnTrace(("10",)), names(2000), seed=7)
    places = sorted(absence.begin / 1200 for absence in absences)
    assert len(set(places)) == 2000
    assert mean(places) == pytest.approx(0.5, abs=0.02)
    # The largest distance from the uniform distribution is below 1.63 / sqrt(n) in 99 % of samples (Kolmogorov).
    assert max(abs(place - (rank + 0.5) / 2000) for rank, place in enumerate(places)) < 1.63 / math.sqrt(2000)


@pytest.mark.spec("P-12")
def test_exempt_nodes_are_never_away_and_churn_can_be_off() -> None:
    nodes, exempt = names(20), ("n3", "n7")
    plans = [
        traced_churn(ChurnTrace(("0101",)), nodes, 1, exempt),
        session_churn(nodes, Exponential(10), Exponential(10), 100, 1, exempt),
        mass_failure(nodes, 1.0, 5.0, 1, exempt=exempt),
    ]
    for absences in plans:
        assert {absence.node for absence in absences} == set(nodes) - set(exempt)
    assert Churn(kind="off").crashes(tuple(nodes), 100, 1) == []


def test_adding_a_node_leaves_the_absences_of_the_others() -> None:
    few = session_churn(names(5), Exponential(10), Exponential(10), 100, 3)
    many = session_churn(names(9), Exponential(10), Exponential(10), 100, 3)
    assert few == [absence for absence in many if absence.node in names(5)]


def test_another_seed_gives_other_absences() -> None:
    plans = [session_churn(names(5), Exponential(10), Exponential(10), 100, seed) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]


@pytest.mark.parametrize("there", [Exponential(30), Weibull(20, 0.6), Pareto(10, 1.5)])
def test_sessions_alternate_and_the_share_that_is_there_fits_the_means(there: Exponential | Weibull | Pareto) -> None:
    nodes, away = names(800), Exponential(15.0)
    absences = session_churn(nodes, there, away, 200.0, 11)
    for node in nodes[:50]:
        mine = [absence for absence in absences if absence.node == node]
        assert all(one.end < other.begin for one, other in pairwise(mine))
    expected = there.mean / (there.mean + away.mean)
    for time in (0.0, 100.0, 199.0):
        share = mean(is_there(absences, node, time) for node in nodes)
        # Sessions of a heavy tail come to their share slowly; Pareto(1.5) has no variance.
        assert share == pytest.approx(expected, abs=0.12 if isinstance(there, Pareto) else 0.06)


def test_weibull_draws_have_its_mean_and_its_distribution() -> None:
    weibull, rng = Weibull(10, 0.7), random_stream(1, "test")
    draws = [weibull.draw(rng) for _ in range(20_000)]
    assert mean(draws) == pytest.approx(weibull.mean, rel=0.05)
    assert mean(draw > 10 for draw in draws) == pytest.approx(math.exp(-1), abs=0.015)


@pytest.mark.parametrize("kind", ["exponential", "weibull", "pareto"])
def test_a_span_has_the_mean_that_it_names(kind: str) -> None:
    assert Span(kind, 42.0, 1.7).spread().mean == pytest.approx(42.0)  # type: ignore[arg-type]


def test_a_mass_failure_takes_the_share_at_once() -> None:
    absences = mass_failure(names(10), 0.3, 5.0, seed=2, back_at=9.0)
    assert len(absences) == 3
    assert {(absence.begin, absence.end) for absence in absences} == {(5.0, 9.0)}
    assert mass_failure(names(10), 0.3, 5.0, seed=2)[0].end == FOR_EVER


def test_absences_become_crashes_in_whole_milliseconds() -> None:
    absences = [Absence(1.00049, 2.5, "a"), Absence(3.0, 3.0001, "a"), Absence(4.0, FOR_EVER, "b")]
    assert crashes_of(absences) == [Crash(1.0, 2.5, "a"), Crash(4.0, FOR_EVER, "b")]


def test_churn_that_is_over_leaves_away_who_is_away() -> None:
    churn = Churn(kind="sessions", there=Span("exponential", 10.0), away=Span("exponential", 10.0))
    crashes = churn.crashes(tuple(names(50)), 60.0, 5)
    assert all(crash.until <= 60.0 or crash.until == FOR_EVER for crash in crashes)
    assert 10 < sum(crash.until == FOR_EVER for crash in crashes) < 40


def test_a_trace_is_read_with_or_without_names_and_compressed(tmp_path: Path) -> None:
    text = "# hosts\nh1 1101\n0 0 1 1\nh.example,1,0,0,1\n"
    plain, packed = tmp_path / "churn.txt", tmp_path / "churn.txt.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    for path in (plain, packed):
        assert read_churn(path).rows == ("1101", "0011", "1001")
    plain.write_text("1101\nabc\n")
    with pytest.raises(UsageError, match=r"churn.txt, line 2: write a host's probes as 0 and 1"):
        read_churn(plain)


def test_impossible_churn_is_refused() -> None:
    for wrong in (
        lambda: ChurnTrace(()),
        lambda: ChurnTrace(("12",)),
        lambda: ChurnTrace(("",)),
        lambda: Weibull(1, 0),
    ):
        with pytest.raises(UsageError):
            wrong()
    with pytest.raises(UsageError, match="share: 2"):
        mass_failure(names(3), 2, 1.0, 0)
    with pytest.raises(UsageError, match="no mean"):
        session_churn(names(3), Pareto(1, 1), Exponential(1), 10, 0)


def test_sessions_too_short_for_the_bound_are_refused_while_they_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(churn, "ABSENCES_MAX", 100)
    with pytest.raises(UsageError, match="more than 100 absences; make sessions longer"):
        session_churn(["n0"], Exponential(1e-6), Exponential(1e-6), 1e6, 0)
    with pytest.raises(UsageError, match=r"mean of a session and an absence together: 0.0 must be above 0"):
        session_churn(["n0"], Uniform(0, 0), Uniform(0, 0), 10, 0)


def test_a_churn_trace_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    damaged = tmp_path / "churn.gz"
    damaged.write_bytes(gzip.compress(b"110011")[:-9])
    for path in (tmp_path / "none.txt", damaged):
        with pytest.raises(UsageError, match=f"cannot read the churn trace .*{path.name}"):
            read_churn(path)


def test_sessions_of_peers_keep_their_number_between_two_bounds_and_last_as_long_as_is_said() -> None:
    sessions = peer_sessions(100, 200, median=600.0, sigma=0.8, until=86_400.0, seed=3)
    assert sessions == peer_sessions(100, 200, median=600.0, sigma=0.8, until=86_400.0, seed=3)
    assert len({session.node for session in sessions}) == len(sessions)
    at_night = sum(session.begin <= 1000.0 < session.end for session in sessions)
    at_noon = sum(session.begin <= 43_200.0 < session.end for session in sessions)
    assert 60 < at_night < 140 < at_noon < 260
    lengths = sorted(session.end - session.begin for session in sessions if session.begin > 0)
    assert 540 < lengths[len(lengths) // 2] < 660
    with pytest.raises(UsageError, match="least"):
        peer_sessions(10, 5, median=1.0, sigma=1.0, until=1.0, seed=1)
