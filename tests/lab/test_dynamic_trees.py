"""E16 to E21: their runs, very small, and that figures are what the runs show."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidings.lab.dynamic_topologies.lstree import e16, e18, e19, e21
from tidings.lab.dynamic_topologies.lstree.churned import CATASTROPHE, CHURN, PUBLISHED, links_between, run
from tidings.trace.writers import RingBuffer, open_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = {"nodes": 40, "least": 15, "most": 25, "hours": 0.5, "pings": 1, "instance": "RDGM"}
RECORDS_MAX = 10


def played(scenario: str, **more: Any) -> dict[str, float]:
    return run("v", {**TINY, "scenario": scenario, **more}, 1, RingBuffer(RECORDS_MAX))


def test_a_catastrophe_leaves_one_tree_within_the_degree() -> None:
    measures = played(CATASTROPHE)
    assert measures["nodes"] == 30 and measures["trees"] == 1 and measures["broken ways"] == 0
    assert measures["top degree"] <= 6
    assert measures["messages at the peak"] > measures["messages at rest"]


def test_churn_ends_in_one_tree_and_overcast_alone_in_several() -> None:
    measures = played(CHURN, hours=2.0)
    assert measures["trees"] == 1 and 0 < measures["area one"] <= 1
    alone = played(CHURN, hours=2.0, instance="Overcast")
    assert alone["trees"] > 1


def test_the_links_of_an_area_are_those_between_two_nodes() -> None:
    assert links_between(["c", "g", "r"], ["g", "r"]) == {("c", "g")}
    assert links_between(["c", "s", "g", "r"], ["g", "r"]) == {("c", "s"), ("s", "g")}
    assert links_between(["c", "x", "r"], ["g", "r"]) == {("c", "x"), ("x", "r"), ("g", "r")}


@pytest.mark.spark
def test_shares_and_times_are_those_of_the_notes(spark: "SparkSession", tmp_path: Path) -> None:
    parameters = {**TINY, "scenario": CATASTROPHE}
    with open_writer(str(tmp_path / "v.parquet"), "v", 1) as trace:
        measures = {name: float(value) for name, value in run("v", parameters, 1, trace).items()}
    rows = [("v", "v", 1, json.dumps(parameters), measures)]
    results = spark.createDataFrame(
        rows, "run string, variant string, seed int, parameters string, measures map<string,double>"
    )
    traces = spark.read.parquet(str(tmp_path / "*.parquet"))
    found = {row.figure: row.value for row in e16.figures(results, traces).collect()}
    said = [json.loads(row.detail) for row in traces.where("message = 'reattached' OR kind = 'note'").collect()]
    counted = Counter(each["strategy"] for each in said if "strategy" in each)
    assert found["regional"] == pytest.approx(counted["regional"] / sum(counted.values()))
    assert found["trees"] == 1
    times = sorted(each["seconds"] for each in said if "seconds" in each)
    assert {row.figure: row.value for row in e19.figures(results, traces).collect()}["most"] == pytest.approx(
        times[-1], abs=1e-5
    )


@pytest.mark.spark
def test_instances_and_depths_are_compared_seed_by_seed(spark: "SparkSession") -> None:
    shape = "run string, seed int, parameters string, measures map<string,double>"
    rows = [
        (name, 1, json.dumps({"instance": name, "scenario": CHURN}), {"area one": 0.9 - place / 10})
        for place, name in enumerate(PUBLISHED)
    ]
    found = {row.figure: row.value for row in e18.in_order(spark.createDataFrame(rows, shape)).collect()}
    assert found["more, RMG than RDGM"] == pytest.approx(0.1)
    assert found["more, DRGM than DUmRGM"] == pytest.approx(0.2)
    depths = {
        "real": (False, {"top degree": 5.0, "area one": 0.6}),
        "whole": (True, {"top degree": 9.0, "area one": 0.5}),
    }
    rows = [
        (name, 1, json.dumps({"instance": "DUmRGM", "scenario": CHURN, "integer": integer}), measures)
        for name, (integer, measures) in depths.items()
    ]
    times = spark.createDataFrame([("real", 1.0), ("whole", 1.75)], "run string, repair_p95 double")
    worse = {
        row.figure: (row.group, row.value) for row in e21.worse(spark.createDataFrame(rows, shape), times).collect()
    }
    assert worse["greater degree"] == ("DUmRGM, churn", pytest.approx(4.0))
    assert worse["fewer of area one"] == ("DUmRGM, churn", pytest.approx(0.1))
    assert worse["later"] == ("DUmRGM, churn", pytest.approx(0.75))
