"""E24 to E28: their runs, very small, and that figures are what the runs show."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from tidings.lab.dynamic_topologies.peers.peer_traffic import REPAIRS, nodes_named, run
from tidings.lab.dynamic_topologies.peers.savings import peer_figures
from tidings.machine.message import Contact
from tidings.protocols.overlay.lstree.messages import ChildLeave, ColourUpdate, GlobalUpdate
from tidings.protocols.overlay.lstree.order import Colour
from tidings.trace.writers import RingBuffer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = {"peers": 30, "seconds": 900.0, "events_per_minute": 30.0}


def played(repair: str, **more: Any) -> dict[str, float]:
    return run("v", {**TINY, "repair": repair, **more}, 1, RingBuffer(10))


def test_repairs_that_wait_tell_less_than_strawman_of_the_same_changes() -> None:
    plain, timed = played("strawman"), played("timed")
    assert plain["changes"] == timed["changes"] > 0
    assert 0 < timed["cost"] < plain["cost"] and timed["routing bytes"] < plain["routing bytes"]
    assert plain["overlay bytes"] > 0 and timed["overlay bytes"] > 0


def test_events_cost_bytes_and_none_is_misrouted_where_nobody_is_deferred() -> None:
    plain = played("strawman")
    assert plain["event bytes"] > 0 and plain["misrouted"] == 0
    assert played("strawman", events_per_minute=0.0)["event bytes"] == 0


def test_nodes_that_a_message_names_are_contacts_and_roots_of_colours() -> None:
    assert nodes_named(ChildLeave("a/1")) == 0
    assert nodes_named(GlobalUpdate((Contact("a"), Contact("b")))) == 2
    assert nodes_named(ColourUpdate(Colour(1, "a"), 0.5)) == 1


@pytest.mark.spark
def test_savings_are_those_of_the_runs_side_by_side(spark: "SparkSession") -> None:
    runs = {repair: played(repair) for repair in REPAIRS}
    rows = [
        (f"r{place}", repair, 1, json.dumps({"repair": repair, "peers": 30}), measures)
        for place, (repair, measures) in enumerate(runs.items())
    ]
    results = spark.createDataFrame(
        rows, "run string, variant string, seed int, parameters string, measures map<string,double>"
    )
    found = {(row.figure, row.group): row.value for row in peer_figures(results, "peers").collect()}
    saved = 1 - runs["timed"]["cost"] / runs["strawman"]["cost"]
    assert found["saved, timed", "30"] == pytest.approx(saved)
    routing, overlay = runs["timed"]["routing bytes"], runs["timed"]["overlay bytes"]
    assert found["share, timed", "30"] == pytest.approx(routing / (routing + overlay))
    cost = {repair: runs[repair]["cost"] for repair in REPAIRS}
    more = (cost["timed"] - cost["informed"]) / cost["strawman"]
    assert found["saved more, informed", "30"] == pytest.approx(more)
    spikes = runs["timed"]["spike"], runs["strawman"]["spike"]
    assert found["spike beside strawman, timed", "30"] == pytest.approx(spikes[0] / spikes[1])
