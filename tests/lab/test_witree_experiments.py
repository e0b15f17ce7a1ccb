"""E29 to E34: their runs, very small, and that figures are what the runs show."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidings.lab.dynamic_topologies.witree import e29, e30, e31, e32, e33, e34
from tidings.lab.dynamic_topologies.witree.sweeps import SYSTEMS, TREES
from tidings.lab.dynamic_topologies.witree.walkers import SWEEP, Islands, run, shares
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
    assert (timed, rows) == again and len(rows) > 20
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
    """Two sizes, which are called 30 and 80 here."""
    measures: dict[tuple[str, str], dict[str, float]] = {}
    traced: dict[tuple[str, str], list[Any]] = {}
    rows = []
    for label, dispatchers in ((30, 30), (80, 34)):
        for repair in SYSTEMS:
            name = f"{repair}-{label}"
            chosen = {**TINY, "speed": 6.0, "settle": 12.0, "measured": 10.0, "repair": repair}
            with open_writer(str(tmp_path / f"{name}.parquet"), name, 1) as trace:
                found = dict(run(name, {**chosen, "dispatchers": dispatchers}, 1, trace))
            assert repair == "flooding" or found["reconfigurations"] > 0
            measures[repair, str(label)] = found
            rows.append((name, name, 1, json.dumps({**chosen, "dispatchers": label}), found))
    results = spark.createDataFrame(rows, SCHEMA)
    traces = spark.read.parquet(str(tmp_path / "*.parquet"))
    for row in traces.select("run", "kind", "message", "detail").collect():
        repair, label = row.run.split("-")
        traced.setdefault((repair, label), []).append(row)

    told = {(row.figure, row.group): row.value for row in e32.figures(results, traces).collect()}
    share = {
        label: measures["timed", label]["transmissions"] / measures["flooding", label]["transmissions"]
        for label in ("30", "80")
    }
    assert told["delivered, timed", "80"] == pytest.approx(measures["timed", "80"]["delivered"])
    assert told["share of flooding, timed", "80"] == pytest.approx(share["80"])
    assert told["growth of share, timed", "30 to 80"] == pytest.approx(share["80"] / share["30"])

    cost = {
        label: sum(row.kind == "send" for row in traced["strawman", label])
        / len({json.loads(row.detail)["reconfiguration"] for row in traced["strawman", label]})
        for label in ("30", "80")
    }
    told = {(row.figure, row.group): row.value for row in e29.figures(results, traces).collect()}
    assert told["cost, strawman", "80"] == pytest.approx(cost["80"])
    assert told["growth, strawman", "30 to 80"] == pytest.approx(cost["80"] / cost["30"])


def test_the_overlay_beside_routing_has_a_figure_for_each_size_and_speed() -> None:
    claimed = {claim.figure for claim in e31.EXPERIMENT.claims}
    assert {f"overlay beside routing, {name}" for name in TREES} <= claimed
    assert len(e31.EXPERIMENT.variants) == len(e29.EXPERIMENT.variants) + len(e30.EXPERIMENT.variants)
    shared = {(variant.name, str(variant.parameters)) for each in (e29, e30) for variant in each.EXPERIMENT.variants}
    assert {(variant.name, str(variant.parameters)) for variant in e31.EXPERIMENT.variants} == shared
    assert {each.EXPERIMENT.sweep for each in (e29, e30, e31, e32, e33, e34)} == {SWEEP}
