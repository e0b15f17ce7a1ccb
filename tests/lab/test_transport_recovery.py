"""E10 to E16 and `loss`: the networks they run on, and what is measured of them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidings.lab.experiment import Experiment, Measured, Variant
from tidings.lab.transport.broker_trees import longest_way
from tidings.lab.transport.recovery import e10, e11, e12, e13, e14, e15, e16, loss, lossy_tree
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer, open_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

numpy = pytest.importorskip("numpy", reason="the workload needs numpy; install tidings[lab]")

TINY = {"seconds": 4.0, "seconds_large": 4.0}
DEFINITIONS = [module.EXPERIMENT for module in (e10, e11, e12, e13, e14, e15, e16)]


def play(variant: Variant, seed: int = 1) -> tuple[dict[str, float], list[Record]]:
    trace = RingBuffer(1_000_000, "run", seed)
    measures = lossy_tree.run(variant.name, {**TINY, **variant.parameters}, seed, trace)
    return measures, trace.records()


def due(records: Iterable[Record]) -> set[tuple[str, str]]:
    """Key and receiver of each event and whoever wants it, one by one."""
    records = list(records)
    wanted = [(each.node, json.loads(each.detail or "")) for each in records if each.message == "interest"]
    found = set()
    for record in records:
        if record.kind == "publish":
            said = json.loads(record.detail or "")
            for node, interest in wanted:
                if record.node == interest["publisher"] and said.get(interest["name"]) == interest["value"]:
                    found.add((str(record.key), node))
    return found


def between(owed: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Without the first and the last of each pair."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for key, node in owed:
        publisher, number = key.split()
        numbers.setdefault((publisher, node), []).append(int(number))
    return {
        (f"{publisher} {number}", node)
        for (publisher, node), found in numbers.items()
        for number in sorted(found)[1:-1]
    }


def delivered(records: Iterable[Record]) -> list[tuple[str, str]]:
    return [(str(each.key), each.node) for each in records if (each.kind, each.message) == ("deliver", "Event")]


@pytest.mark.parametrize(("brokers", "diameter", "clients"), [(12, 5, 60), (46, 11, 230)])
def test_networks_have_the_published_sizes(brokers: int, diameter: int, clients: int) -> None:
    world = lossy_tree.WORLDS[brokers]
    topology = lossy_tree.tree(world)
    assert len(topology.nodes) == brokers and longest_way(topology)[2] == diameter
    homes = list(world.clients(topology).values())
    assert len(homes) == clients
    assert all(homes.count(broker) == 5 for broker in topology.nodes)


def test_an_event_has_ten_attributes_and_comes_in_the_order_of_time() -> None:
    workload = lossy_tree.WORLDS[12].workload(1, 5.0)
    streams = [list(events) for events in lossy_tree.streams(workload)]
    assert len(streams) == 6
    for events in streams:
        assert [at for at, _ in events] == sorted(at for at, _ in events)
        assert all(len(event.attributes) == 2 + 10 for _, event in events), (
            "source and id are not attributes of its own"
        )


@pytest.fixture(scope="module")
def plain() -> list[Record]:
    return play(lossy_tree.variant(12, 0))[1]


@pytest.fixture(scope="module")
def everybody() -> list[Record]:
    return play(lossy_tree.variant(12, 10))[1]


def test_without_recovery_what_is_lost_is_missed(plain: list[Record]) -> None:
    owed, got = due(plain), delivered(plain)
    assert set(got) < owed
    assert len(set(got)) == len(got)
    assert 0.01 < 1 - len(got) / len(owed) < 0.06


def test_with_recovery_less_is_missed_and_nothing_comes_twice(plain: list[Record], everybody: list[Record]) -> None:
    got = delivered(everybody)
    assert len(set(got)) == len(got)
    assert due(everybody) == due(plain), "the same seed is the same workload"
    missed = [len(due(records) - set(delivered(records))) for records in (plain, everybody)]
    assert missed[1] < 0.8 * missed[0]


@pytest.mark.parametrize("answers", [lossy_tree.RECEIVERS, lossy_tree.EVERYBODY, lossy_tree.ADDITIONS])
def test_publishers_do_what_the_variant_says(answers: str) -> None:
    publisher = lossy_tree.transport_of(10, answers, "p0")
    receiver = lossy_tree.transport_of(10, answers, "s0")
    assert receiver.is_reliable
    assert publisher.is_reliable == (answers != lossy_tree.RECEIVERS)
    assert bool(publisher.digest_period) == (answers == lossy_tree.ADDITIONS)


def test_caches_are_noted_each_second(everybody: list[Record]) -> None:
    notes = [json.loads(record.detail or "") for record in everybody if record.message == "caches"]
    assert len(notes) == 4
    assert all(5 <= said["mean"] <= said["largest"] <= 300 for said in notes)
    published = sum(record.kind == "publish" for record in everybody)
    assert sum(said["rate"] for said in notes) == published


def test_all_definitions_share_their_runs() -> None:
    known = {variant.name: variant for variant in lossy_tree.RUNS}
    for experiment in DEFINITIONS:
        assert experiment.sweep == lossy_tree.SWEEP
        assert (experiment.run, experiment.scales) == (DEFINITIONS[0].run, DEFINITIONS[0].scales)
        assert all(known[variant.name] == variant for variant in experiment.variants)


@pytest.mark.spark
def test_figures_are_those_of_plain_python(spark: "SparkSession", tmp_path: Path) -> None:
    variants = [lossy_tree.variant(12, 0), lossy_tree.variant(12, 1), lossy_tree.variant(12, 10)]
    results, traces, records = performed(spark, tmp_path, e11.EXPERIMENT, variants)
    figures = values(e11.figures(results, traces))
    shares = {}
    for variant in variants:
        owed = between(due(records[variant.name]))
        shares[variant.name] = len(owed - set(delivered(records[variant.name]))) / len(owed)
        assert figures["missed", variant.name] == pytest.approx(shares[variant.name])
    none, one, ten = shares.values()
    assert figures["R = 10 against none", lossy_tree.SMALL] == pytest.approx(ten / none)
    assert figures["R = 10 against R = 1", lossy_tree.SMALL] == pytest.approx(ten / one)
    for experiment in DEFINITIONS:
        assert values(experiment.figures(results, traces)), experiment.id
    shift = values(e15.figures(results, traces))["shift of the median", lossy_tree.SMALL]
    assert abs(shift) < 0.2


@pytest.mark.spark
def test_figures_of_losses(spark: "SparkSession", tmp_path: Path) -> None:
    variants = [each for each in loss.VARIANTS if each.name in ("5 %", "5 %, plain")]
    results, traces, records = performed(spark, tmp_path, loss.EXPERIMENT, variants)
    figures = values(loss.figures(results, traces))
    for variant in variants:
        owed, got = due(records[variant.name]), delivered(records[variant.name])
        assert figures["delivered", variant.name] == pytest.approx(len(set(got) & owed) / len(owed))
        assert figures["twice", variant.name] == len(got) - len(set(got)) == 0
    assert figures["inversions", "5 %, plain"] == inversions(records["5 %, plain"])
    repaired = [record for record in records["5 %"] if '"repaired":true' in (record.detail or "")]
    assert figures["inversions", "5 %"] == inversions(records["5 %"])
    assert repaired


def inversions(records: list[Record]) -> int:
    """Deliveries after one of the same publisher with a higher number, repaired ones among them. Those at the same time
    count as in order."""
    rows = [record for record in records if (record.kind, record.message) == ("deliver", "Event")]
    highest: dict[tuple[str, str], int] = {}
    found = 0
    for record in sorted(rows, key=lambda record: (record.time, int(str(record.key).split()[1]))):
        publisher, number = str(record.key).split()
        found += int(number) < highest.get((record.node, publisher), -1)
        highest[record.node, publisher] = max(highest.get((record.node, publisher), -1), int(number))
    return found


def values(figures: "DataFrame") -> dict[tuple[str, str], float]:
    measured = [Measured(*row) for row in figures.select(*Measured.__struct_fields__).collect()]
    return {(each.figure, each.group): each.value for each in measured}


def performed(
    spark: "SparkSession", folder: Path, experiment: Experiment, variants: list[Variant]
) -> tuple["DataFrame", "DataFrame", dict[str, list[Record]]]:
    """Results and traces as a sweep leaves them, of one seed."""
    run = lossy_tree.run if experiment.sweep else loss.run
    rows: list[dict[str, Any]] = []
    records: dict[str, list[Record]] = {}
    for place, variant in enumerate(variants):
        parameters = {**TINY, **variant.parameters}
        writer, ring = open_writer(folder / f"{place}.parquet", f"r{place}", 1), RingBuffer(1_000_000, f"r{place}", 1)
        measures = run(variant.name, parameters, 1, ring)
        for record in ring.records():
            writer.write(record)
        writer.close()
        records[variant.name] = ring.records()
        rows.append(
            {
                "run": f"r{place}",
                "variant": variant.name,
                "seed": 1,
                "parameters": json.dumps(parameters),
                "measures": {name: float(value) for name, value in measures.items()},
            }
        )
    schema = "run STRING, variant STRING, seed BIGINT, parameters STRING, measures MAP<STRING, DOUBLE>"
    from tidings.spark.metrics.traces import read_traces

    return spark.createDataFrame(rows, schema), read_traces(spark, [folder]), records
