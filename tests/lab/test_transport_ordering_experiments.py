"""E6 to E9 and E17: orderers on recorded arrivals, detection of losses, the response function."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.references.order import order_rows
from tidings.lab.transport.broker_trees import longest_way, low_degree
from tidings.lab.transport.congestion import e17
from tidings.lab.transport.ordering import comparison, e6, e7, e8, e9
from tidings.lab.transport.ordering.orderers import (
    Orderer,
    OrderReplay,
    PublishedAt,
    Recording,
    compare,
    headers_of,
    probabilistic,
    static,
)
from tidings.lab.transport.samples import subscriber_name
from tidings.lab.transport.substrate import WARM_UP
from tidings.machine.streams import random_stream
from tidings.model.language.parser import parse
from tidings.pubsub.publications import encode_head
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer, open_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

numpy = pytest.importorskip("numpy", reason="figures need numpy; install tidings[lab]")
pytest.importorskip("scipy", reason="figures need scipy; install tidings[lab]")

EVERYTHING = 1_000_000
WANTED = parse("kind = 1")


def a_recording(events: int = 4000, rate: float = 600.0, match: float = 0.7) -> Recording:
    """One pair over four brokers without a queue: every event takes a sum of four exponential times."""
    rng, at, recording = random_stream(1, "recording"), 10.0, Recording()
    arrived = []
    for number in range(events):
        at += rng.expovariate(rate)
        is_wanted = rng.random() < match
        recording.published.setdefault("p", []).append(PublishedAt(at, encode_head({"kind": int(is_wanted)})))
        if is_wanted:
            arrived.append((at + 0.1 + sum(rng.expovariate(1 / 0.00275) for _ in range(4)), number))
    recording.arrived["p"] = {"s": sorted(arrived)}
    return recording


def compared(recording: Recording, *orderers: Orderer) -> dict[str, dict[str, Any]]:
    """By orderer, what the metrics of order say of the one pair."""
    found = {}
    for orderer, publisher, _, deliveries in compare(recording, {"s": WANTED}, orderers, 1.0):
        records = [comparison.delivery(orderer, publisher, 1, one) for one in deliveries]
        (found[orderer.label],) = order_rows(records, frozenset())
    return found


def test_every_orderer_hands_over_what_arrived_once() -> None:
    recording = a_recording()
    arrived = recording.arrived["p"]["s"]
    for orderer in (static(30), probabilistic(".05", 0), probabilistic(".05", 5), probabilistic(".2", 25, "exact")):
        params = orderer.stretched(1.0)
        replay = OrderReplay(params, WANTED)
        made = list(replay.deliveries("p", headers_of(params, recording.published["p"]), arrived))
        assert sorted(one.number for one in made) == sorted(number for _, number in arrived)
        times = {number: at for at, number in arrived}
        assert all(one.at == pytest.approx(times[one.number] + one.held) for one in made)


@pytest.mark.spec("T-37")
def test_a_smaller_share_of_errors_leaves_fewer_violations_and_a_longer_record_costs_less() -> None:
    pairs = compared(
        a_recording(),
        *(probabilistic(violation, record) for violation in (".05", ".2", ".5") for record in (0, 5, 25)),
    )
    for record in (0, 5, 25):
        left = [pairs[f"P-{violation}-{record}"]["fifo_violations"] for violation in (".05", ".2", ".5")]
        assert left == sorted(left)
    for violation in (".05", ".2"):
        costs = [pairs[f"P-{violation}-{record}"]["extra_delay_mean"] for record in (25, 5, 0)]
        assert costs == sorted(costs)


def test_ordering_removes_nearly_all_violations_at_less_delay_than_a_constant_hold() -> None:
    """Shape only: slowed down 250 times."""
    figures = eight_brokers(slowdown=250.0, follow=10)
    assert figures["removed", "P-.2-5 exact"] < figures["removed", "P-.2-5"]
    assert figures["violations", ""] > 1_000_000


@pytest.mark.long
@pytest.mark.spec("T-105")
@pytest.mark.spec("T-106")
def test_ordering_removes_nearly_all_violations_of_eight_brokers_as_fast_as_the_lab_runs_them() -> None:
    """Rates and times are scaled as the specification says (4.0)."""
    eight_brokers(**e6.EXPERIMENT.scale("small").parameters)


def eight_brokers(**parameters: Any) -> dict[tuple[str, str], float]:
    trace, parameters = RingBuffer(EVERYTHING, "run", 1), {"seconds": 300.0, **parameters}
    e6.run("", parameters, 1, trace)
    figures = figures_of(trace, parameters)
    for label in e6.PROBABLE:
        assert figures["removed", label] >= 0.95
    for label in ("P-.2-0", "P-.2-5", "P-.2-25"):
        assert figures["removed", label] >= 0.8
    assert figures["25 against 5", "P-.05"] <= 1.0
    assert figures["5 against none", "P-.05"] <= 1.0
    assert figures["25 against CST-30", "P-.05"] < 1.0
    return figures


@pytest.mark.long
@pytest.mark.spec("T-107")
def test_over_many_brokers_a_record_spares_most_pairs_any_delay() -> None:
    """Rates and times are scaled as the specification says (4.0), as far as the lab does."""
    trace, parameters = RingBuffer(EVERYTHING, "run", 1), dict(e7.EXPERIMENT.scale("small").parameters)
    e7.run("", parameters, 1, trace)
    figures = figures_of(trace, parameters)
    assert figures["median against largest", "P-.05"] < 0.05
    assert figures["extra delay, 90 %", "P-.05-25"] < 0.19
    assert figures["removed", "P-.05-25"] > 0.95


def figures_of(trace: RingBuffer, parameters: dict[str, Any]) -> dict[tuple[str, str], float]:
    """What `comparison.figures` has Spark select, and what is measured of it."""
    nodes: dict[str, list[Record]] = {}
    pairs: dict[tuple[str, str, str], list[Record]] = {}
    for record in trace.records():
        if record.kind == "deliver":
            said = json.loads(record.detail or "")
            is_orderer = record.node.startswith(comparison.ORDERED_BY)
            node = record.node if is_orderer else subscriber_name(record.node, said["subscription"])
            nodes.setdefault(node, []).append(record)
            pairs.setdefault((node, said["publisher"], str(said["subscription"])), []).append(record)
    metrics = {node: order_rows(records, frozenset())[0] for node, records in nodes.items()}
    rows = []
    for (node, _, _), records in pairs.items():
        (of,) = order_rows(records, frozenset())
        pair = {"arrived": of["arrived"], "violations": of["fifo_violations"], "latch": of["extra_delay_mean"]}
        rows.append(
            {"node": node, **pair, "held": of["hold_mean"], **{it: metrics[node][it] for it in comparison.METRICS}}
        )
    columns = {name: numpy.array([row[name] for row in rows]) for name in rows[0]}
    columns["parameters"] = numpy.array([json.dumps(parameters)])
    return {(name, group): value for name, group, value in comparison.measure(columns)}


def test_an_orderer_is_stretched_with_the_network() -> None:
    params = static(30).stretched(20.0)
    assert params.ordering.static_latch == pytest.approx(0.6)
    assert params.ordering.latch_max == pytest.approx(40.0)


@pytest.mark.parametrize(("brokers", "diameter"), [(46, 15), (46, 11), (12, 5)])
def test_a_tree_has_the_size_and_the_longest_way_that_are_asked_for(brokers: int, diameter: int) -> None:
    tree = low_degree(brokers, diameter)
    assert len(tree.nodes) == brokers
    assert tree.is_tree
    assert tree.degree_max <= 3
    assert longest_way(tree)[2] == diameter


def test_the_intense_streams_of_e7_go_from_end_to_end() -> None:
    layout = e7.layout()
    one, other, _ = longest_way(layout.topology)
    assert [(stream.publisher.partition(".")[0], stream.listeners_at) for stream in e7.streams()] == [
        (one, other),
        (other, one),
    ]
    assert len(set(layout.slow)) == 48


def test_basic_ordering_holds_more_events_than_the_one_with_records() -> None:
    trace = RingBuffer(EVERYTHING, "run", 1)
    e8.run("", {"seconds": 8.0}, 1, trace)
    held = [json.loads(record.detail or "") for record in trace.records() if record.message == "held"]
    counts = {orderer.label: sum(said["orderer"] == orderer.label for said in held) for orderer in e8.ORDERERS}
    assert counts[e8.BASIC.label] > counts[e8.ENHANCED.label] > 0
    assert all(0 <= said["violation"] <= 0.5 for said in held)


@pytest.mark.spec("T-46")
def test_losses_are_seen_as_often_as_the_formula_says() -> None:
    for record, match, loss in ((1, 0.5, 0.01), (10, 0.05, 0.01), (25, 0.01, 0.1), (50, 0.1, 0.2), (5, 0.9, 0.5)):
        rng, count = random_stream(1, "detection", record), 3000
        share, beyond = e9.share_seen(e9.Trials(record), match, loss, count, rng)
        assert e9.distance(share, e9.detection(match, loss, record), count) <= 3
        assert beyond == 0


@pytest.mark.spec("T-46")
def test_the_formula_gives_the_values_of_the_specification() -> None:
    for match, values in {0.01: (0.0099, 0.0947, 0.2202, 0.6303), 0.05: (0.0495, 0.3981, 0.7189, 0.9938)}.items():
        for record, value in zip((1, 10, 25, 100), values, strict=True):
            assert e9.detection(match, 0.01, record) == pytest.approx(value, abs=5e-5)


@pytest.mark.spec("T-47")
def test_shared_losses_are_seen_more_often_with_more_sharers_and_longer_records() -> None:
    found = e9.try_sharing(1, 4000)
    assert found["grows with sharers|"] > 0
    assert found["grows with the record|"] > 0
    assert found["deviation, shared|"] < 4
    assert e9.shared_detection(0.05, 0.01, 10, 0) == pytest.approx(e9.detection(0.05, 0.01, 10))


def test_the_response_function_has_the_values_and_the_shape_that_are_published() -> None:
    assert e17.distance_to_table() == 0.0
    assert e17.fall_with_loss(0.2) < e17.fall_with_loss(0.01)
    assert e17.fall_with_round_trip(0.001) > e17.fall_with_round_trip(0.1)


def test_the_tcp_of_the_simulator_is_about_as_fast_as_the_function_says() -> None:
    found = e17.beside_function(0.01, 1, 300.0)
    assert found["simulated TCP|1 % lost"] == pytest.approx(1.0, abs=0.25)
    assert found["simulated TCP|1 % lost"] < found["simulated TCP, by losses|1 % lost"]


@pytest.mark.spark
def test_spans_and_pairs_come_out_of_their_parquet(spark: "SparkSession", tmp_path: Path) -> None:
    path, parameters = str(tmp_path / "trace.parquet"), {"seconds": 20.0}
    records = RingBuffer(EVERYTHING, "run", 1)
    e8.run("", parameters, 1, records)
    with open_writer(path, "run", 1) as trace:
        for record in records.records():
            trace.write(record)
    counted = {(row.series, row.span): row.value for row in e8.spans(spark.read.parquet(path)).collect()}
    published = [record.time - WARM_UP for record in records.records() if record.kind == "publish"]
    for span in range(20):
        assert counted.get(("published", span), 0) == sum(span <= at < span + 1 for at in published)
    held = [json.loads(record.detail or "") for record in records.records() if record.message == "held"]
    latches = sum(said["latch"] for said in held if said["orderer"] == e8.BASIC.label)
    assert sum(value for (series, _), value in counted.items() if series == f"latch, {e8.BASIC.label}") == (
        pytest.approx(latches)
    )


@pytest.mark.spark
def test_orderers_are_judged_by_the_metrics_of_order(spark: "SparkSession", tmp_path: Path) -> None:
    path, parameters = str(tmp_path / "trace.parquet"), {"seconds": 120.0, "slowdown": 250.0, "follow": 10}
    records = RingBuffer(EVERYTHING, "run", 1)
    e6.run("", parameters, 1, records)
    with open_writer(path, "run", 1) as trace:
        for record in records.records():
            trace.write(record)
    results = spark.createDataFrame(
        [("run", "side by side", json.dumps(parameters))], "run string, variant string, parameters string"
    )
    found = {
        (row.figure, row.group): row.value for row in comparison.figures(results, spark.read.parquet(path)).collect()
    }
    assert found == pytest.approx(figures_of(records, parameters), nan_ok=True, abs=1e-6)


@pytest.mark.spark
def test_what_runs_measured_becomes_figures(spark: "SparkSession") -> None:
    from tidings.lab.figures import measured_in_runs

    rows = [("r1", {"seen|R = 1": 0.5, "beyond|": 0.0}), ("r2", {"seen|R = 1": 0.7, "beyond|": 0.0})]
    results = spark.createDataFrame(rows, "run string, measures map<string,double>")
    found = {(row.figure, row.group): (row.value, row.runs) for row in measured_in_runs(results, results).collect()}
    assert found == {("seen", "R = 1"): (pytest.approx(0.6), 2), ("beyond", ""): (0.0, 2)}
