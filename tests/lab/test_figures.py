"""Figures of an experiment against the same computed from its Parquet without Spark and without the lab's code."""

from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.lab.folders import interval, read_rows, write_results
from tidings.lab.dependable import e23, e24
from tidings.lab.experiment import Experiment
from tidings.lab.figures import T_975, summarise
from tidings.lab.run import RUNS, LabOrder, judge_place
from tidings.machine.streams import random_stream
from tidings.spark.place import place_of
from tidings.spark.sweeps.run import Run

pytestmark = pytest.mark.spark

SEEDS = 3
E23 = msgspec.structs.replace(e23.EXPERIMENT, figures=lambda results, traces: e23.compared(results))
E24 = msgspec.structs.replace(e24.EXPERIMENT, figures=lambda results, traces: e24.compared(results))
"""With measures that are drawn, in place of what metrics say of a trace."""

Pair = tuple[dict[str, float], dict[str, float]]


def drawn(*names: str) -> Callable[[Run], dict[str, float]]:
    def measures(run: Run) -> dict[str, float]:
        draw = random_stream(run.seed, run.variant)
        return {name: draw.uniform(0.1, 1.0 if name.endswith("_share") else 2.0) for name in names}

    return measures


def judged_values(spark: SparkSession, experiment: Experiment, place: Path) -> dict[tuple[str, str], Any]:
    order = LabOrder(experiment=experiment.id, scale="small", seeds=SEEDS)
    judged = judge_place(spark, experiment, order, place_of(place))
    assert (len(judged.performed), judged.missing) == (SEEDS * len(experiment.variants), 0)
    return {(each.figure, each.group): (each.value, each.low, each.high) for each in judged.measured}


def pairs(place: Path, brokers: int, handling: float = 0.0) -> list[Pair]:
    """(guarantees, plain) for each seed."""
    found = {
        (row["parameters"]["system"], row["seed"]): row["measures"]
        for row in read_rows(place / RUNS)
        if row["parameters"]["brokers"] == brokers and row["parameters"].get("handling", 0.0) == handling
    }
    return [(found["guarantees", seed], found["plain", seed]) for seed in range(1, SEEDS + 1)]


def test_figures_of_e23_are_those_of_plain_python(spark: SparkSession, tmp_path: Path) -> None:
    names = (
        "acknowledgement_mean",
        "acknowledgement_max",
        "timeout",
        "publications_in_memory",
        "premature_clients_share",
        "premature_per_affected_client",
    )
    order = LabOrder(experiment=E23.id, scale="small", seeds=SEEDS)
    write_results(place_of(tmp_path), E23, order, drawn(*names))
    found = judged_values(spark, E23, tmp_path)
    expected: dict[str, Callable[[dict[str, float], dict[str, float]], float]] = {
        "receipt": lambda ours, plain: ours["acknowledgement_mean"],
        "longest receipt": lambda ours, plain: ours["acknowledgement_max"],
        "time-out": lambda ours, plain: ceil(ours["acknowledgement_max"]) / plain["timeout"],
        "memory": lambda ours, plain: plain["publications_in_memory"] / ours["publications_in_memory"],
        "too early, plain": lambda ours, plain: plain["premature_clients_share"],
        "too many, plain": lambda ours, plain: plain["premature_per_affected_client"],
        "too early, guarantees": lambda ours, plain: ours["premature_clients_share"],
    }
    for brokers in (3, 6, 10):
        for name, of in expected.items():
            values = [of(*pair) for pair in pairs(tmp_path, brokers)]
            assert found.pop((name, f"{brokers} brokers")) == pytest.approx(interval(values))
    both = zip(pairs(tmp_path, 3), pairs(tmp_path, 10), strict=True)
    growth = [large["acknowledgement_mean"] / small["acknowledgement_mean"] - 1 for (small, _), (large, _) in both]
    assert found.pop(("growth", "3 to 10 brokers")) == pytest.approx(interval(growth))
    both = zip(pairs(tmp_path, 3), pairs(tmp_path, 10), strict=True)
    name = "premature_per_affected_client"
    more = [large[name] / small[name] - 1 for (_, small), (_, large) in both]
    assert found.pop(("too many grows, plain", "3 to 10 brokers")) == pytest.approx(interval(more))
    assert found == {}


def test_figures_of_e24_are_those_of_plain_python(spark: SparkSession, tmp_path: Path) -> None:
    order = LabOrder(experiment=E24.id, scale="small", seeds=SEEDS)
    names = {"missed_share": "misses", "missed_count": "missed", "difference_share": "twins differ"}
    write_results(place_of(tmp_path), E24, order, drawn(*names, "difference_count"))
    found = judged_values(spark, E24, tmp_path)
    for brokers in (3, 6, 10):
        group = f"{brokers} brokers"
        for name, figure in {**names, "difference_count": "difference"}.items():
            values = [plain[name] for _, plain in pairs(tmp_path, brokers)]
            assert found.pop((f"{figure}, plain", group)) == pytest.approx(interval(values))
        for name, figure in (("missed_share", "misses"), ("difference_share", "twins differ")):
            values = [ours[name] for ours, _ in pairs(tmp_path, brokers)]
            assert found.pop((f"{figure}, guarantees", group)) == pytest.approx(interval(values))
    for one, two in ((3, 6), (6, 10), (3, 10)):
        for name, figure in (("missed_share", "misses"), ("difference_share", "twins differ")):
            both = zip(pairs(tmp_path, one), pairs(tmp_path, two), strict=True)
            values = [large[name] - small[name] for (_, small), (_, large) in both]
            assert found.pop((f"more {figure}, plain", f"{one} to {two} brokers")) == pytest.approx(interval(values))
    for handling in e24.SLOW:
        slow, group = pairs(tmp_path, 3, handling), f"{round(handling * 1000)} ms"
        expected = {
            "misses, slow, plain": [plain["missed_share"] for _, plain in slow],
            "missed, slow, plain": [plain["missed_count"] for _, plain in slow],
            "misses, slow, guarantees": [ours["missed_share"] for ours, _ in slow],
            "twins differ, slow, guarantees": [ours["difference_share"] for ours, _ in slow],
        }
        for figure, values in expected.items():
            assert found.pop((figure, group)) == pytest.approx(interval(values))
    assert found == {}


def test_a_mean_has_the_same_last_digit_however_rows_are_spread(spark: SparkSession) -> None:
    draw = random_stream(1, "values")
    rows = [("f", "g", draw.uniform(0, 1) * 10 ** draw.randrange(6)) for _ in range(200)]
    answers = set()
    for partitions, order in ((1, rows), (2, rows[::-1]), (5, sorted(rows))):
        frame = spark.createDataFrame(order, "figure string, group string, value double").repartition(partitions)
        answers.add(tuple(summarise(frame).collect()))
    assert len(answers) == 1


def test_one_value_has_no_interval_and_no_value_no_figure(spark: SparkSession) -> None:
    rows = [
        ("one", "", 2.0),
        ("none", "", None),
        ("not a number", "", float("nan")),
        ("two", "", 1.0),
        ("two", "", 3.0),
    ]
    frame = spark.createDataFrame(rows, "figure string, group string, value double")
    found = {row.figure: (row.value, row.low, row.high, row.runs) for row in summarise(frame).collect()}
    assert found.keys() == {"one", "two"}
    assert found["one"] == (2.0, None, None, 1)
    assert found["two"] == pytest.approx((2.0, 2.0 - T_975[0], 2.0 + T_975[0], 2))
