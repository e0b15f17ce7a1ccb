"""E29 to E34: their runs, very small, and that figures are what the runs show."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidings.lab.dynamic_topologies.witree import e29, e31, e32, e33, e34
from tidings.lab.dynamic_topologies.witree.sweeps import SYSTEMS, TREES
from tidings.lab.dynamic_topologies.witree.walkers import Islands, run, shares
from tidings.trace.writers import RingBuffer, open_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = {"dispatchers": 40, "speed": 3.0, "settle": 20.0, "measured": 12.0, "rate": 10.0}
SCHEMA = "run string, variant string, seed int, parameters string, measures map<string,double>"


def played(repair: str) -> tuple[dict[str, float], list[Any]]:
    trace = RingBuffer(100_000)
    return dict(run("v", {**TINY, "repair": repair}, 1, trace)), trace.records()


@pytest.mark.spec("D-9")
def test_the_same_seed_has_the_same_walks_events_and_figures() -> None:
    (timed, rows), again, (flooded, _) = played("timed"), played("timed"), played("flooding")
    assert (timed, rows) == again and len(rows) > 100
    assert timed["events"] == flooded["events"] > 80
    assert flooded["overlay bytes"] == flooded["routing bytes"] == 0 < timed["overlay bytes"]
    assert flooded["delivered in reach"] > 0.9
    assert timed["delivered"] <= flooded["delivered"] + 0.05


def test_delivered_is_counted_of_all_who_want_it_and_of_those_in_reach() -> None:
    places = {"a": (0.0, 0.0), "b": (100.0, 0.0), "c": (900.0, 0.0)}
    islands = Islands(list(places), lambda name, now: places[name])
    events = [(1.0, "a", "xyz"), (2.0, "a", "q"), (3.0, "b", "x")]
    found = shares(events, {"a": {"x"}, "b": {"y"}, "c": {"z"}}, {("b", "a", 1)}, islands)
    # Due: b and c of the first, a of the third; c is out of reach.
    assert found == {"delivered": 1 / 3, "delivered in reach": 1 / 2}


@pytest.mark.spark
def test_figures_are_those_of_the_runs(spark: "SparkSession", tmp_path: Path) -> None:
    measures: dict[tuple[str, str, str], dict[str, float]] = {}
    rows = []
    for by, values in (("dispatchers", (30, 80)), ("speed", (0.2, 2.0))):
        for value in values:
            for repair in SYSTEMS:
                name = f"{repair} {by} {value}"
                own = {key: each for key, each in TINY.items() if key not in ("dispatchers", "speed")}
                parameters = {**own, by: value, "repair": repair, "settle": 6.0, "measured": 6.0}
                small = {**parameters, "dispatchers": 10 if value == 30 else 14}
                with open_writer(str(tmp_path / f"{name.replace(' ', '-')}.parquet"), name, 1) as trace:
                    found = {key: float(each) for key, each in run(name, small, 1, trace).items()}
                found["reconfigurations"] = max(1.0, found["reconfigurations"])
                measures[by, str(value), repair] = found
                rows.append((name, name, 1, json.dumps(parameters), found))
    results = spark.createDataFrame(rows, SCHEMA)
    traces = spark.read.parquet(str(tmp_path / "*.parquet"))
    by_size = results.where("parameters LIKE '%dispatchers%'")
    by_speed = results.where("parameters LIKE '%speed%'")

    told = {(row.figure, row.group): row.value for row in e32.figures(by_size, traces).collect()}
    for repair in TREES:
        one, flooded = measures["dispatchers", "80", repair], measures["dispatchers", "80", "flooding"]
        assert told[f"delivered, {repair}", "80"] == pytest.approx(one["delivered"])
        share = one["transmissions"] / flooded["transmissions"]
        assert told[f"share of flooding, {repair}", "80"] == pytest.approx(share)
        before = measures["dispatchers", "30", repair], measures["dispatchers", "30", "flooding"]
        expected = share / (before[0]["transmissions"] / before[1]["transmissions"])
        assert told[f"growth of share, {repair}", "30 to 80"] == pytest.approx(expected)

    told = {(row.figure, row.group): row.value for row in e33.figures(by_speed, traces).collect()}
    fall = measures["speed", "2.0", "timed"]["delivered"] - measures["speed", "0.2", "timed"]["delivered"]
    assert told["fall, timed", "0.2 to 2.0"] == pytest.approx(fall)

    told = {(row.figure, row.group): row.value for row in e31.figures(results, traces).collect()}
    one = measures["speed", "2.0", "informed"]
    assert told["overlay, informed", "2.0 m/s"] == pytest.approx(one["overlay bytes"] / one["reconfigurations"])
    assert ("overlay, informed", "80 nodes") in told

    costs = {(row.figure, row.group): row.value for row in e29.figures(by_size, traces).collect()}
    sent = traces.where("kind = 'send'").groupBy("run").count().collect()
    assert sent and any(figure.startswith("cost") for figure, _ in costs)
    assert e34.RATES[0] < e34.RATES[-1]
