"""Latency, loss, duplication, reordering and bandwidth, each by itself and put together."""

import itertools
import math
from collections.abc import Callable
from statistics import mean, median

import pytest

from tidings.machine.effects import Transport
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.sim.network.bandwidth import SEND_QUEUE_BYTES_MAX, Bandwidth, DropTail, by_sender
from tidings.sim.network.latency import (
    Constant,
    Distribution,
    Drawn,
    Exponential,
    Jittered,
    LogNormal,
    Matrix,
    Pareto,
    Uniform,
)
from tidings.sim.network.loss import BurstyLoss, Duplication, Loss, Reordering
from tidings.sim.network.rule import Fates, LostPacket, Rule, reason_of

DATAGRAM, STREAM = Transport.DATAGRAM, Transport.STREAM


def begun(rule: Rule, seed: int = 1) -> Rule:
    rule.begin(seed)
    return rule


def ask(rule: Rule, count: int, transport: Transport = DATAGRAM, gap: float = 0.001, size: int = 100) -> list[Fates]:
    return [rule.fate(number * gap, "a", "b", size, transport) for number in range(count)]


@pytest.mark.parametrize(
    ("distribution", "expected_median"),
    [
        (Uniform(0.01, 0.03), 0.02),
        (Exponential(0.05), 0.05 * math.log(2)),
        (LogNormal(0.04, 0.5), 0.04),
        (Pareto(0.01, 3.0), 0.01 * 2 ** (1 / 3)),
    ],
)
def test_draws_have_the_mean_and_the_median_of_their_distribution(
    distribution: Distribution, expected_median: float
) -> None:
    rng = random_stream(1, "draws")
    draws = [distribution.draw(rng) for _ in range(40_000)]
    assert mean(draws) == pytest.approx(distribution.mean, rel=0.03)
    assert median(draws) == pytest.approx(expected_median, rel=0.03)
    assert min(draws) >= 0


def test_a_pareto_distribution_with_a_heavy_tail_has_no_mean() -> None:
    assert Pareto(1.0, 1.0).mean == math.inf


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Constant(-0.1),
        lambda: Constant(math.inf),
        lambda: Uniform(0.2, 0.1),
        lambda: Exponential(0.0),
        lambda: LogNormal(1.0, -1.0),
        lambda: Pareto(0.0, 1.0),
        lambda: Loss(Constant(0.1), 1.5),
        lambda: BurstyLoss(Constant(0.1), 0.0, 1.0),
        lambda: Jittered(Constant(0.1), -1.0),
        lambda: Matrix({("a", "b"): -1.0}),
        lambda: Bandwidth(Constant(0.1), 0.0),
        lambda: Bandwidth(Constant(0.1), 1e6, queue_bytes_max=-1),
    ],
)
def test_what_makes_no_sense_is_refused_when_a_rule_is_made(wrong: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        wrong()


def test_latency_is_constant_drawn_or_read_from_a_matrix() -> None:
    assert set(ask(begun(Constant(0.05)), 3)) == {(0.05,)}
    assert len(set(ask(begun(Drawn(Uniform(0.01, 0.02))), 100))) == 100
    assert all(0.05 <= delay <= 0.06 for (delay,) in ask(begun(Jittered(Constant(0.05), 0.01)), 100))
    matrix = begun(Matrix({("a", "b"): 0.04, ("b", "a"): 0.05}))
    assert matrix.fate(0.0, "a", "b", 0, DATAGRAM) == (0.04,)
    assert matrix.fate(0.0, "b", "a", 0, DATAGRAM) == (0.05,)
    with pytest.raises(UsageError, match="no delay from 'a' to 'c'"):
        matrix.fate(0.0, "a", "c", 0, DATAGRAM)
    assert Matrix({}, default=0.2).fate(0.0, "x", "y", 0, DATAGRAM) == (0.2,)


def test_the_draws_of_a_sender_do_not_depend_on_who_else_sends() -> None:
    alone = ask(begun(Drawn(Exponential(0.1))), 50)
    crowded = begun(Drawn(Exponential(0.1)))
    together = []
    for number in range(50):
        crowded.fate(number, "other", "b", 0, DATAGRAM)
        together.append(crowded.fate(number, "a", "b", 0, DATAGRAM))
    assert together == alone
    assert ask(begun(Drawn(Exponential(0.1)), seed=2), 50) != alone


def test_two_rules_of_one_kind_around_each_other_draw_apart() -> None:
    fates = ask(begun(Loss(Loss(Constant(0.1), 0.5), 0.5)), 4000)
    assert sum(not fate for fate in fates) / 4000 == pytest.approx(0.75, abs=0.03)


def test_loss_is_as_frequent_as_asked_and_has_a_reason() -> None:
    fates = ask(begun(Loss(Constant(0.05), 0.1)), 20_000)
    lost = [fate for fate in fates if not fate]
    assert len(lost) / 20_000 == pytest.approx(0.1, abs=0.01)
    assert {reason_of(fate) for fate in lost} == {"lost by noise"}
    assert reason_of(()) == "lost"
    assert ask(begun(Loss(Constant(0.05), 0.0)), 10) == [(0.05,)] * 10


def test_a_stream_pays_for_loss_with_retransmissions_and_is_given_up_in_the_end() -> None:
    fates = ask(begun(Loss(Constant(0.05), 0.3)), 5000, STREAM)
    assert all(fates)
    waits = [round(delay - 0.05, 9) for (delay,) in fates]
    assert set(waits) <= {0.0, 0.2, 0.6, 1.4, 3.0, 6.2, 12.6, 25.4, 51.0}
    assert waits.count(0.0) / 5000 == pytest.approx(0.7, abs=0.03)
    assert reason_of(begun(Loss(Constant(0.05), 1.0)).fate(0.0, "a", "b", 0, STREAM)) == (
        "lost again with every retransmission"
    )


def test_bursty_loss_has_the_right_share_and_comes_in_runs() -> None:
    rule = begun(BurstyLoss(Constant(0.05), good_for=0.9, bad_for=0.1))
    fates = ask(rule, 100_000, gap=0.02)
    is_lost = [not fate for fate in fates]
    assert mean(is_lost) == pytest.approx(0.1, abs=0.015)
    after_loss = [later for now, later in itertools.pairwise(is_lost) if now]
    assert mean(after_loss) > 0.7
    assert {reason_of(fate) for fate in fates if not fate} == {"lost in a burst"}


def test_a_stream_waits_until_the_bad_weather_is_over_and_looks_ahead_without_changing_it() -> None:
    weather = [not fate for fate in ask(begun(BurstyLoss(Constant(0.05), 1.0, 0.5)), 300, gap=0.1)]
    rule = begun(BurstyLoss(Constant(0.05), 1.0, 0.5))
    fates = ask(rule, 300, STREAM, gap=0.1)
    assert any(weather)
    assert all(fates)
    assert any(delay > 0.2 for (delay,) in fates)


def test_duplicates_come_as_often_as_asked_and_only_of_datagrams() -> None:
    fates = ask(begun(Duplication(Drawn(Uniform(0.01, 0.02)), 0.2)), 10_000)
    assert sum(len(fate) == 2 for fate in fates) / 10_000 == pytest.approx(0.2, abs=0.02)
    assert all(first != second for first, second in (fate for fate in fates if len(fate) == 2))
    assert all(len(fate) == 1 for fate in ask(begun(Duplication(Constant(0.01), 1.0)), 100, STREAM))
    lost = begun(Duplication(Loss(Constant(0.01), 1.0), 1.0)).fate(0.0, "a", "b", 0, DATAGRAM)
    assert reason_of(lost) == "lost by noise"


def test_reordering_lets_later_packets_overtake() -> None:
    fates = ask(begun(Reordering(Constant(0.01), 0.25, Uniform(0.005, 0.02))), 10_000)
    arrivals = [number * 0.001 + delay for number, (delay,) in enumerate(fates)]
    overtaken = sum(later < earlier for earlier, later in itertools.pairwise(arrivals))
    assert overtaken > 1000


def test_a_packet_waits_for_those_before_it_and_then_for_its_own_bits() -> None:
    rule = Bandwidth(Constant(0.02), rate_bps=8000, queue_bytes_max=3000, headers_bytes=0)
    begun(rule)
    fates = [rule.fate(0.0, "a", "b", 1000, DATAGRAM) for _ in range(4)]
    assert fates[:3] == [(1.02,), (2.02,), (3.02,)]
    assert reason_of(fates[3]) == "queue is full"
    assert rule.fate(0.0, "a", "c", 1000, DATAGRAM) == (1.02,)
    assert rule.fate(10.0, "a", "b", 1000, DATAGRAM)[0] == pytest.approx(1.02)
    assert (rule.link(("a", "b")).accepted, rule.link(("a", "b")).dropped) == (4, 1)


def test_a_stream_waits_in_the_buffer_of_its_sender_when_the_queue_is_full() -> None:
    rule = begun(Bandwidth(Constant(0.0), rate_bps=8e6, queue_bytes_max=2000))
    fates = [rule.fate(0.0, "a", "b", 100_000, STREAM) for _ in range(100)]
    given_up = [fate for fate in fates if not fate]
    assert fates[3][0] == pytest.approx(4 * 0.10004)
    assert {reason_of(fate) for fate in given_up} == {"queue full"}
    assert len(given_up) == 100 - (SEND_QUEUE_BYTES_MAX + 2000) // 100_040


def test_jitter_keeps_the_reason_of_a_loss() -> None:
    rule = begun(Jittered(Loss(Constant(0.01), 1.0), 0.01))
    assert reason_of(rule.fate(0.0, "a", "b", 10, DATAGRAM)) == "lost by noise"


def test_links_may_be_shared_by_all_that_a_node_sends() -> None:
    rule = begun(Bandwidth(Constant(0.0), rate_bps=8000, link_of=by_sender, headers_bytes=0))
    assert [rule.fate(0.0, "a", to, 1000, DATAGRAM) for to in "bcd"] == [(1.0,), (2.0,), (3.0,)]
    assert rule.fate(0.0, "b", "c", 1000, DATAGRAM) == (1.0,)


def test_an_idle_link_takes_a_packet_that_is_larger_than_its_queue() -> None:
    link = DropTail(8000, queue_bytes_max=0)
    assert link.offer(0.0, 1000) == 1.0
    assert link.offer(0.5, 1) is None
    assert link.backlog_bytes(0.5) == 500
    assert link.offer(1.0, 1000) == 1.0


def test_only_rules_that_look_at_sizes_ask_for_them() -> None:
    assert not Loss(Constant(0.1), 0.1).needs_sizes
    assert Loss(Bandwidth(Constant(0.1), 1e6), 0.1).needs_sizes


def test_lost_is_an_empty_tuple_with_a_reason() -> None:
    assert LostPacket("x") == ()
    assert LostPacket("x").reason == "x"
