"""The benchmark of the simulator compares like with like."""

import pytest

from tidings.sim.queue import HeapQueue, LadderQueue

pytest.importorskip("simpy", reason="simpy is a development dependency")

from bench.simulator import (
    MEMORY_DELIVERIES,
    Goal,
    Graph,
    contenders,
    goals,
    hop_on_mailboxes,
    hop_on_queue,
    hop_on_timeouts,
    ping,
)


def test_all_contenders_carry_the_same_tokens() -> None:
    graph = Graph()
    counts = [
        hop_on_queue(HeapQueue, graph, 0.05)[0],
        hop_on_queue(LadderQueue, graph, 0.05)[0],
        hop_on_timeouts(graph, 0.05)[0],
        hop_on_mailboxes(graph, 0.05)[0],
    ]
    assert counts[0] == counts[1] > 5000
    assert counts[2] == pytest.approx(counts[0], rel=0.01)
    assert counts[3] == pytest.approx(counts[0], rel=0.01)


def test_a_trace_and_checks_change_nothing_in_what_is_measured() -> None:
    assert ping(20, 2.0)[0] == ping(20, 2.0, traced=True)[0] == ping(20, 2.0, checking=True)[0] > 300


def test_goals_are_ratios_of_the_same_run() -> None:
    rates = {name: [1.0, 2.0, 3.0] for name in contenders(1.0)}
    assert [goal.measured for goal in goals(rates, 0.5)] == [1.0] * 6 + [0.5]
    assert Goal("fast", 3.0, 2.0, at_least=True).is_reached
    assert not Goal("small", 3.0, 2.0, at_least=False).is_reached
    assert MEMORY_DELIVERIES == 1_000_000
