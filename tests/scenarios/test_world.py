"""What holds in every run, read off its trace: time goes forward, and who is down does nothing."""

import pytest

from tidings.sim.fault_schedule import downtimes
from tidings.sim.faults import parse_plan
from tidings.sim.library.gossip import gossip_chaos, gossip_churn, ping
from tidings.sim.scenario import Scenario, run_scenario
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer

ROWS_MAX = 200_000
DOING = ("publish", "send", "receive", "deliver", "timer", "note", "link")


def trace_of(scenario: Scenario, seed: int) -> tuple[list[str], list[Record]]:
    ring = RingBuffer(ROWS_MAX)
    result = run_scenario(scenario, seed, trace=ring)
    records = ring.records()
    assert 1000 < len(records) < ROWS_MAX
    return result.faults, records


@pytest.mark.spec("P-6")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_time_never_goes_back(seed: int) -> None:
    _, records = trace_of(gossip_chaos(), seed)
    times = [record.time for record in records]
    assert times == sorted(times)


@pytest.mark.spec("P-10")
@pytest.mark.parametrize("scenario", [gossip_churn(), ping(), gossip_chaos()], ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_who_is_down_sends_receives_and_executes_nothing(scenario: Scenario, seed: int) -> None:
    faults, records = trace_of(scenario, seed)
    down = downtimes(parse_plan("; ".join(faults)))
    assert down
    for record in records:
        if record.kind in DOING:
            for span in down.get(record.node, ()):
                assert not span.begin < record.time < span.end, f"{record} while down {span}"


@pytest.mark.spec("P-10")
def test_timers_that_were_set_before_a_crash_never_fire() -> None:
    scenario, plan = ping(nodes=3, loss=0.0), parse_plan("5.25..5.26 crash n1 forgetting")
    ring = RingBuffer(ROWS_MAX)
    run_scenario(scenario, 1, plan, trace=ring)
    rounds = [record.time for record in ring.records() if record.node == "n1" and record.kind == "timer"]
    before = [time for time in rounds if time < 5.25]
    after = [time for time in rounds if time > 5.26]
    assert before and after
    # The new life draws its own phase; the old one would have gone on in its step of a second.
    assert not any(abs((time - before[-1]) % 1.0) < 1e-9 for time in after)


def test_faults_stand_in_the_trace_with_their_beginning_and_end() -> None:
    ring = RingBuffer(ROWS_MAX)
    run_scenario(ping(nodes=4), 1, parse_plan("5..9 partition n1,n2; 6..7 pause n3"), trace=ring)
    rows = [(row.time, row.node, row.message, row.reason) for row in ring.records() if row.kind == "fault"]
    assert rows == [
        (5.0, "n1", "partition", "begins"),
        (5.0, "n2", "partition", "begins"),
        (6.0, "n3", "pause", "begins"),
        (7.0, "n3", "pause", "is over"),
        (9.0, "n1", "partition", "is over"),
        (9.0, "n2", "partition", "is over"),
    ]
