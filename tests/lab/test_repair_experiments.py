"""Experiments on repairs, very small, against plain Python; and the cost model that they count by."""

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions

from tidings.lab.dynamic_topologies.repairs.e4 import beside_balanced
from tidings.lab.dynamic_topologies.repairs.rewired import REPAIRS, CostRows, Rewired, Setting, counted, run
from tidings.lab.dynamic_topologies.repairs.savings import changes, reduced
from tidings.lab.dynamic_topologies.repairs.witness import Witness, play
from tidings.lab.dynamic_topologies.repairs.witness import run as run_with_events
from tidings.lab.figures import over_seeds
from tidings.machine.inputs import Input, Received
from tidings.protocols.routing.messages import SubscriptionAdded, SubscriptionRemoved, TableChanges, TablesTold
from tidings.protocols.routing.repairs.messages import Activate, Flush, PathEdit, PathEdited
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer
from tidings.workloads.patterns import Patterns
from tidings.workloads.substitutions import substitutions

SMALL: dict[str, Any] = {"dispatchers": 20, "symbols": 24}


def rows_of(repair: str, seed: int = 1, **parameters: Any) -> list[Record]:
    buffer = RingBuffer(100_000)
    run(repair, {"repair": repair, **SMALL, **parameters}, seed, buffer)
    return list(buffer.records())


def cost_of(rows: list[Record]) -> float:
    """Weighed messages of one reconfiguration (2.7)."""
    weight = 0.0
    for row in rows:
        if row.kind == "send":
            patterns = json.loads(row.detail or "{}").get("patterns")
            weight += 0.1 if row.message in ("Flush", "PathEdited") else 1.0 if patterns is None else max(0.1, patterns)
    return weight / len({row.detail for row in rows if row.kind == "note"})


@pytest.mark.spec("D-66")
def test_messages_count_as_many_filters_as_they_carry() -> None:
    changes = TableChanges(
        subscriptions_added=(SubscriptionAdded(0, "x = 1"), SubscriptionAdded(0, "x = 2")),
        subscriptions_removed=(SubscriptionRemoved(0, "x = 3"),),
    )
    assert Counter(name for name, _ in counted(changes)) == {"SubscriptionAdded": 2, "SubscriptionRemoved": 1}
    assert counted(Flush("r", "a")) == [("Flush", -1)] and counted(PathEdited("r", False)) == [("PathEdited", -1)]
    assert counted(Activate("r", "a", bytes(16), bytes(8))) == [("Activate", 3)]
    assert counted(PathEdit("r", ("a", "b"), 0, ("x = 1",), ("x = 1",))) == [("PathEdit", 2)]
    assert counted(TablesTold()) == []


@pytest.mark.spec("D-67")
@pytest.mark.parametrize(
    ("law", "density"),
    [
        ({"subscriber_density": 0.2}, 0.0988),
        ({"subscriber_density": 0.03}, 0.0148),
        ({"subscriber_density": 1.0}, 0.4941),
        ({"symbols": 400, "event_symbols": 40, "subscriber_density": 0.2}, 0.1013),
    ],
)
def test_an_event_has_as_many_receivers_as_the_formula_says(law: dict[str, Any], density: float) -> None:
    patterns = Patterns(dispatchers=1000, duration=3.0, **law)
    assert patterns.receiver_density == pytest.approx(density, abs=0.00006)
    wanted: dict[int, set[str]] = {}
    for row in patterns.subscriptions().rows():
        wanted.setdefault(int(row["place"]), set()).add(str(row["pattern"]))
    events = [set(str(row["symbols"])) for row in patterns.events().rows()][:1000]
    received = sum(1 for event in events for own in wanted.values() if own & event)
    assert received / len(events) / 1000 == pytest.approx(density, rel=0.03)


@pytest.mark.spec("D-68")
@pytest.mark.parametrize("repair", REPAIRS)
def test_what_clients_ask_for_is_not_counted(repair: str) -> None:
    rows = rows_of(repair)
    assert rows and all(row.time >= 3.0 for row in rows), "clients subscribe before links are replaced"
    assert not rows_of(repair, changes_rate=0.1)


class Everything(Observer):
    """Who received which kind of message since the first change, one change of links after the other."""

    def __init__(self, costs: CostRows) -> None:
        self.costs = costs
        self.received: dict[str, dict[str, set[str]]] = {}

    def on_input(self, now: float, node: SimulatedNode, input: Input) -> None:
        if isinstance(input, Received) and self.costs.reconfiguration:
            kinds = self.received.setdefault(self.costs.reconfiguration, {}).setdefault(node.id, set())
            kinds.add(type(input.message).__name__)


@pytest.mark.spec("D-69")
@pytest.mark.parametrize("repair", ["timed", "notified"])
def test_who_sees_only_signals_and_events_gone_astray_is_not_involved(repair: str) -> None:
    buffer = RingBuffer(100_000)
    setting = Setting(repair=repair, event_rate=20.0, **SMALL)
    witness = Witness(buffer, setting)
    everything = Everything(witness)
    play(Rewired(setting, 2, (witness, everything)), witness)
    rows, spared = list(buffer.records()), 0
    for reconfiguration, received in everything.received.items():
        of = [row for row in rows if json.loads(row.detail or "{}")["reconfiguration"] == reconfiguration]
        ends = {row.node for row in of if row.message == "link_changed"}
        involved = ends | {row.node for row in of if row.kind == "receive"}
        changing = {name for name, kinds in received.items() if kinds & {"SubscriptionAdded", "SubscriptionRemoved"}}
        packed = {name for name, kinds in received.items() if "TableChanges" in kinds}
        assert ends | changing <= involved <= ends | changing | packed
        spared += len([name for name, kinds in received.items() if name not in involved and kinds])
    astray = [row for row in rows if row.message == "misrouted"]
    assert spared and (repair == "notified" or astray)
    assert all(row.kind in ("send", "receive", "note") for row in rows)
    assert not any(row.kind == "receive" and row.message in ("Flush", "Publications") for row in rows)


def test_without_events_the_witness_sees_what_a_run_on_tables_alone_does() -> None:
    # As in `patience`, whose settings have events or none.
    buffer = RingBuffer(100_000)
    measures = run_with_events("timed", {"repair": "timed", "event_rate": 0.0, **SMALL}, 1, buffer)
    assert list(buffer.records()) == rows_of("timed")
    assert measures["events"] == measures["event hops"] == 0


def behind(edges: list[tuple[str, str]], near: str, far: str) -> set[str]:
    found, waiting = {far}, [far]
    while waiting:
        name = waiting.pop()
        for one, other in [*edges, *((b, a) for a, b in edges)]:
            if one == name and other not in found and {one, other} != {near, far}:
                found.add(other)
                waiting.append(other)
    return found


def test_the_witness_knows_who_is_behind_a_link() -> None:
    setting = Setting(is_random_tree=True, **SMALL)
    witness, rewired = Witness(RingBuffer(10), setting), Rewired(setting, 5, ())
    witness.know(rewired)
    edges = list(rewired.edges)
    for change in (None, *rewired.plan[:3]):
        if change is not None:
            witness.unlink(*change.old)
            witness.link(*change.new)
            edges = [edge for edge in edges if {*edge} != {*change.old}] + [change.new]
        for near, far in edges:
            names = {name for name, bit in witness.bits.items() if witness.side(near, far) & bit}
            assert names == behind(edges, near, far)


@pytest.mark.parametrize("repair", REPAIRS)
def test_everything_is_delivered_and_nothing_astray_once_links_stay(repair: str) -> None:
    """Of D-122 shape only: 20 dispatchers."""
    parameters = {"repair": repair, "event_rate": 10.0, "core": 0.5, "density": 0.5, "changes_rate": 20.0, **SMALL}
    measures = run_with_events(repair, parameters, 3, RingBuffer(100_000))
    assert measures["delivered before"] == measures["due before"] > 0
    assert measures["delivered after"] == measures["due after"] > 0
    assert 0 < measures["delivered during"] < measures["due during"]
    assert measures["misrouted after"] == 0


def test_waiting_sends_events_astray_and_strawman_does_not() -> None:
    astray = {}
    for repair in ("strawman", "timed"):
        buffer = RingBuffer(100_000)
        run_with_events(repair, {"repair": repair, "event_rate": 20.0, **SMALL}, 2, buffer)
        astray[repair] = sum(row.message == "misrouted" for row in buffer.records())
    assert astray["timed"] > astray["strawman"]


@pytest.mark.spec("D-9")
def test_the_same_seed_leaves_the_same_rows() -> None:
    assert rows_of("informed") == rows_of("informed") != rows_of("informed", seed=2)


@pytest.mark.spec("D-28")
def test_not_waiting_at_all_is_strawman_message_by_message() -> None:
    strawman, timed = rows_of("strawman", changes_rate=30.0), rows_of("timed", changes_rate=30.0, unsubscribe_after=0.0)
    assert strawman == timed


def test_repairs_save_what_they_are_for() -> None:
    costs = {repair: sum(cost_of(rows_of(repair, seed)) for seed in range(1, 6)) for repair in REPAIRS}
    # In so small a network waiting alone saves nothing.
    assert costs["informed"] < min(costs["timed"], costs["strawman"]) > costs["path"]


def test_substitutions_keep_the_tree_a_tree_and_degrees_bounded() -> None:
    edges = Setting(dispatchers=30).tree(seed=3)
    present = {frozenset(pair) for pair in edges}
    for each in substitutions(edges, [place / 10 for place in range(1, 200)], 0.05, seed=3):
        present = present - {frozenset(each.old)} | {frozenset(each.new)}
        way = (*each.head, *each.tail)
        inner = [frozenset(pair) for pair in pairwise(way)]
        assert len(present) == 29 and all(pair in present for pair in inner)
        degrees = Counter(end for pair in present for end in pair)
        assert max(degrees.values()) <= 4


def test_a_new_link_may_have_an_end_of_the_old_one() -> None:
    edges = Setting(dispatchers=30).tree(seed=3)
    times = [place / 10 for place in range(1, 100)]
    assert all({*each.old} & {*each.new} for each in substitutions(edges, times, 0.05, seed=3, shares_end=True))
    assert not all({*each.old} & {*each.new} for each in substitutions(edges, times, 0.05, seed=3))


def test_what_is_saved_is_said_of_the_means_and_not_of_single_seeds(spark: SparkSession) -> None:
    rows = [
        ("100", 1, {"strawman": {"cost": 10.0}, "timed": {"cost": 20.0}}),
        ("100", 2, {"strawman": {"cost": 90.0}, "timed": {"cost": 30.0}}),
    ]
    pairs = spark.createDataFrame(rows, "group string, seed int, sides map<string,map<string,double>>")
    sides = functions.col("sides")
    ours, theirs = sides["timed"]["cost"], sides["strawman"]["cost"]
    (row,) = over_seeds(*reduced(pairs, {"saved": (ours, theirs)})).collect()
    assert row["value"] == pytest.approx(0.5), "1 - 25 / 50; the mean of the two ratios is below zero"
    assert row["low"] < 0.5 < row["high"] and row["runs"] == 2


def sides_of(spark: SparkSession, costs: dict[tuple[str, int], tuple[float, float]]) -> Any:
    """What STRAWMAN costs in a group, for a seed, and what all others do."""
    rows = []
    for (group, seed), (plain, other) in costs.items():
        each = {name: {"cost_per_reconfiguration": plain if name == "strawman" else other} for name in REPAIRS}
        rows.append((group, seed, each))
    return spark.createDataFrame(rows, "group string, seed int, sides map<string,map<string,double>>")


def test_random_trees_are_compared_with_balanced_ones_by_the_means(spark: SparkSession) -> None:
    random = sides_of(spark, {("50", 1): (20.0, 4.0), ("50", 2): (40.0, 8.0)})
    balanced = sides_of(spark, {("50", 1): (10.0, 4.0), ("50", 2): (10.0, 6.0)})
    figures = {row["figure"]: row["value"] for row in beside_balanced(random, balanced).collect()}
    assert figures["beside balanced, strawman"] == pytest.approx(60 / 20)
    assert figures["beside balanced, path"] == pytest.approx(12 / 10)
    assert figures["saved more, informed"] == pytest.approx((1 - 12 / 60) - (1 - 10 / 20))


def test_savings_of_a_group_are_compared_with_those_of_the_one_before(spark: SparkSession) -> None:
    costs = {("a", 1): (10.0, 2.0), ("a", 2): (30.0, 6.0), ("b", 1): (10.0, 7.0), ("b", 2): (10.0, 5.0)}
    rows = changes(sides_of(spark, costs), ["a", "b"]).collect()
    assert {row["group"] for row in rows} == {"a to b"}
    assert {row["figure"] for row in rows} == {f"change, {name}" for name in REPAIRS if name != "strawman"}
    assert all(row["value"] == pytest.approx((1 - 12 / 20) - (1 - 8 / 40)) for row in rows)
