"""Hunting and replaying: a failure is found, made small, and had again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.broken import gossip_that_asks_once, gossip_that_forgets
from tidings.model.errors import UsageError
from tidings.sim.faults import Crash, parse_plan
from tidings.sim.library import find
from tidings.sim.order import SHRINK_RUNS_MAX, RunOrder, fulfil, hunt, read_order, replay, run_all
from tidings.sim.scenario import defined
from tidings.trace.record import TraceError

FORGETS, ASKS_ONCE = defined(gossip_that_forgets), defined(gossip_that_asks_once)


def orders(name: str, count: int) -> Iterator[RunOrder]:
    return (RunOrder(scenario=name, seed=seed, check="every") for seed in range(count))


def test_a_hunt_finds_a_crash_that_causes_duplicates_and_leaves_only_the_crash() -> None:
    (found,) = hunt(FORGETS, run_all(FORGETS, orders("forgets", 50)))
    assert not found.result.passed
    assert found.result.problems[0].checker == "no duplicates"
    (fault,) = parse_plan(found.smallest.faults or "").faults
    assert isinstance(fault, Crash)
    assert not fault.forgetting
    assert found.smallest_result.nodes < found.result.nodes
    assert found.smallest_result.problems[0].checker == "no duplicates"
    assert found.runs <= SHRINK_RUNS_MAX
    assert fulfil(found.smallest, FORGETS) == found.smallest_result


def test_a_failure_that_needs_no_fault_is_left_with_none() -> None:
    (found,) = hunt(ASKS_ONCE, run_all(ASKS_ONCE, orders("asks once", 50)))
    assert found.smallest.faults == ""
    assert found.smallest_result.nodes == 2
    assert found.smallest_result.problems[0].checker == "convergence"


def test_a_hunt_stops_at_the_first_failure_or_goes_on() -> None:
    tried: list[int] = []
    outcomes = run_all(FORGETS, orders("forgets", 6))
    first = list(hunt(FORGETS, outcomes, progress=lambda order, result, found: tried.append(order.seed)))
    assert len(first) == 1
    assert tried == list(range(first[0].order.seed + 1))
    everything = list(hunt(FORGETS, run_all(FORGETS, orders("forgets", 3)), find_all=True))
    assert len(everything) > 1
    assert everything[0] == first[0]


def test_a_sound_protocol_is_not_found() -> None:
    assert list(hunt(find("gossip"), run_all(find("gossip"), orders("gossip", 5)))) == []


def test_an_order_is_a_command() -> None:
    order = RunOrder(
        scenario="gossip",
        seed=7,
        settings={"nodes": 4, "churn": True},
        duration=2.5,
        faults="1..2 crash n1",
        check="every",
        frames=False,
    )
    assert order.command() == (
        "tidings sim run gossip --seed 7 --set nodes=4 --set churn=true --duration 2.5 "
        "--faults '1..2 crash n1' --check every --no-frames"
    )
    assert RunOrder(scenario="gossip", seed=7, faults="").command() == "tidings sim run gossip --seed 7 --faults ''"


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_trace_is_replayed_to_the_byte(ending: str, tmp_path: Path) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"run.{ending}"
    order = RunOrder(scenario="gossip", seed=3, settings={"nodes": 5}, faults="1..4 crash n1; 2..9 pause n2")
    result = fulfil(order, find("gossip"), path)
    assert read_order(path) == (order, None)
    again = replay(path)
    assert again.is_same
    assert again.difference is None
    assert again.result == result
    assert again.rows > 100


def test_a_trace_of_a_scenario_file_carries_the_file(tmp_path: Path) -> None:
    file, path = tmp_path / "two.toml", tmp_path / "run.jsonl"
    file.write_text(
        'duration = 5.0\nsettling = 9.0\ncheckers = ["arrival"]\n[topology]\nkind = "ring"\nnodes = 3\n'
        '[[role]]\nprotocol = "gossip"\n[workload]\nevents = 3\nend = 2.0\n'
    )
    fulfil(RunOrder(scenario=str(file), seed=1), find(str(file)), path)
    file.unlink()
    assert replay(path).is_same


def test_the_first_row_that_differs_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    fulfil(RunOrder(scenario="gossip", seed=3, settings={"nodes": 4}), find("gossip"), path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:50], lines[50].replace('"time":', '"time":1'), *lines[51:]]))
    difference = replay(path).difference
    assert difference is not None
    assert difference.row == 51
    assert difference.recorded is not None and difference.replayed is not None
    assert difference.recorded.time > difference.replayed.time
    path.write_text("".join(lines[:60]))
    cut = replay(path)
    assert not cut.is_same
    assert cut.difference is not None
    assert (cut.difference.row, cut.difference.recorded) == (61, None)


def test_a_trace_that_is_no_scenarios_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"time":0.0,"node":"a","kind":"start"}\n')
    with pytest.raises(TraceError, match="no trace of a scenario"):
        replay(path)
    path.write_text('{"time":0.0,"node":"","kind":"note","message":"order","detail":"{}"}\n')
    with pytest.raises(TraceError, match="cannot read the order"):
        replay(path)


def test_a_setting_that_is_unknown_stops_a_hunt() -> None:
    with pytest.raises(UsageError, match="has no setting"):
        list(run_all(FORGETS, [RunOrder(scenario="forgets", seed=1, settings={"loss": 1})]))
