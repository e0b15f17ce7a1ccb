"""Dependable E15 to E18: planners side by side, tiny."""

import json

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidings.lab.dependable import e15, e16, e17, e18, executed
from tidings.lab.dependable.planners import run, workload
from tidings.planning.action_sets import actions_in
from tidings.planning.planner import make_plan
from tidings.trace.writers import RingBuffer

LIMITS = {"naive_max": 8, "all_max": 10, "change": 0.3, "seconds_max": 600.0, "states_max": 200}


def test_all_planners_plan_for_the_same_trees_and_are_measured() -> None:
    found = run("", {"brokers": 8, **LIMITS}, 3, RingBuffer(1))
    trees = workload(8, 0.3, 3)
    best = make_plan(trees.today(), trees.goal()).plan
    assert (found["actions E"], found["steps E"]) == (len(best.actions), len(best.steps))
    assert found["steps N"] <= found["steps A"] <= found["steps E"]
    assert found["steps search"] == found["actions search"]
    assert all(found[f"planned {name}"] == 1.0 and found[f"seconds {name}"] >= 0 for name in e15.METHODS)


def test_sets_that_are_too_large_for_a_size_are_left_out_and_so_are_sizes() -> None:
    found = run("", {"brokers": 12, **LIMITS}, 1, RingBuffer(1))
    assert "actions E" in found and "planned A" not in found and "planned N" not in found
    assert run("", {"brokers": 12, "brokers_max": 10, **LIMITS}, 1, RingBuffer(1)) == {}


def test_a_program_without_time_has_no_plan_and_says_so() -> None:
    found = run("", {"brokers": 8, **LIMITS, "seconds_max": 0.0}, 1, RingBuffer(1))
    assert found["planned E"] == 0.0 and "actions E" not in found and found["planned downhill"] == 1.0


def test_the_sizes_of_programs_are_those_of_the_table() -> None:
    found = e16.run("", {"brokers": 60, "change": 0.2}, 1, RingBuffer(1))
    assert (found["actions|N"], found["variables|N"], found["constraints|N"]) == (205_320, 1_355_820, 3_810_515)
    trees = workload(60, 0.2, 1)
    assert found["actions|E"] == len(actions_in("E", trees.today(), trees.goal()))


@pytest.mark.spark
def test_figures_compare_planners_tree_by_tree(spark: SparkSession) -> None:
    rows = []
    for seed in (1, 2):
        for brokers in (20, 60):
            seconds = float(brokers * seed)
            measures = {"planned E": 1.0, "seconds E": seconds, "actions E": 12.0, "steps E": 6.0}
            measures |= {"planned search": 1.0, "seconds search": 3 * seconds, "actions search": 10.0 + 2 * seed}
            measures |= {"steps search": 10.0 + 2 * seed, "planned A": 0.0}
            parameters = json.dumps({"brokers": brokers, "change": brokers / 200})
            rows.append((f"{brokers} brokers", seed, parameters, measures))
        rows.append(("70 brokers", seed, json.dumps({"brokers": 70}), {}))
    results = spark.createDataFrame(rows, "variant string, seed int, parameters string, measures map<string,double>")

    times = values(e15.figures(results, results))
    assert times["search to E", "20 brokers"] == times["search to E", "60 brokers"] == 3.0
    assert times["seconds", "E, 60 brokers"] == 90.0
    assert times["growth", "E"] == 3.0
    assert (times["planned", "E, 20 brokers"], times["planned", "A, 20 brokers"]) == (1.0, 0.0)
    assert not any(group == "70 brokers" for _, group in times)

    plans = values(e17.figures(results, results))
    assert plans["actions, E to search", "20 brokers"] == pytest.approx((12 / 12 - 1 + 12 / 14 - 1) / 2)
    assert plans["steps to actions, search", "60 brokers"] == 1.0

    shares = values(e18.figures(results, results))
    assert shares["time saved", "60 brokers"] == pytest.approx(1 / 3 - 1)
    assert shares["growth", "E"] == 3.0


def values(figures: DataFrame) -> dict[tuple[str, str], float]:
    return {(row.figure, row.group): row.value for row in figures.collect()}


def test_plans_of_both_planners_are_carried_out_while_events_flow() -> None:
    """E19, tiny: the notes that its metrics read are there, and events that the plan did not stop."""
    setting = {"publishers": 2, "rate": 2.0, "subscribers": 6, "begin": 2.0, "seconds_max": 60.0, "states_max": 200}
    for planner in ("E", "search"):
        trace = RingBuffer(200_000)
        found = executed.run("", {"brokers": 8, "change": 0.3, "planner": planner, **setting}, 3, trace)
        rows = trace.records()
        assert found["done"] == 1.0 and found["actions"] >= found["steps"] >= 1.0
        assert sum(row.message == "plan_executed" for row in rows) == 1
        assert sum(row.message == "shifted" for row in rows) == 3 * found["actions"]
        assert any(row.kind == "deliver" and row.message == "Event" for row in rows)
