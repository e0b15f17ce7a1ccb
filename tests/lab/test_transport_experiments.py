"""E1 to E5: what is measured of a run, and that Spark selects what it is measured of."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidings.lab.registry import built
from tidings.lab.transport.network import chain, e1, e2, e3, e4, e5, rising_load
from tidings.lab.transport.samples import Columns, Figure
from tidings.lab.transport.substrate import WARM_UP, SubstrateParams
from tidings.machine.streams import RandomStream, random_stream
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer, open_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

numpy = pytest.importorskip("numpy", reason="figures need numpy; install tidings[lab]")
pytest.importorskip("scipy", reason="figures need scipy; install tidings[lab]")

SMALL = {"system": "best effort", "streams": "both sides", "slowdown": 100.0, "seconds": 300.0}


@pytest.fixture(scope="module")
def congested() -> list[Record]:
    """E1 on the best-effort network, with a hundredth of its messages."""
    trace = RingBuffer(1_000_000, "run", 1)
    rising_load.run("best effort", SMALL, 1, trace)
    return trace.records()


def deliveries(records: list[Record]) -> Iterator[tuple[Record, dict[str, Any]]]:
    return ((record, json.loads(record.detail or "")) for record in records if record.kind == "deliver")


def values(figures: list[Figure]) -> dict[tuple[str, str], float]:
    return {(name, group): value for name, group, value in figures}


def about(columns: Columns, variant: str, **parameters: Any) -> Columns:
    return {**columns, "variant": numpy.array([variant]), "parameters": numpy.array([json.dumps(parameters)])}


def counts_of(records: list[Record]) -> dict[tuple[str, int], int]:
    """What `e1.counts` counts, one thing after the other."""
    found: dict[tuple[str, int], int] = {}

    def count(series: str, at: float) -> None:
        if 0 <= at < 300:
            found[series, int(at // e1.SPAN)] = found.get((series, int(at // e1.SPAN)), 0) + 1

    wanted = [json.loads(record.detail or "") for record in records if record.message == "interest"]
    withheld = {record.key for record in records if record.kind == "drop" and record.message == "Event"}
    for record in records:
        at, said = record.time - WARM_UP, json.loads(record.detail or "{}")
        if record.kind == "drop" and record.message == "Event":
            count("withheld", at)
        if record.kind == "publish":
            count("published", at)
            if record.key not in withheld:
                for interest in wanted:
                    if is_wanted(said, interest):
                        count("wanted", at)
    highest: dict[tuple[str, str, str], int] = {}
    for record, said in deliveries(records):
        count("delivered", record.time - WARM_UP)
        count("reached", said["accepted_at"] - WARM_UP)
        pair = record.node, said["subscription"], said["publisher"]
        if said["number"] < highest.get(pair, -1):
            count("violations", record.time - WARM_UP)
        highest[pair] = max(highest.get(pair, -1), said["number"])
    return found


def is_wanted(event: dict[str, Any], interest: dict[str, Any]) -> bool:
    if "topic" in interest:
        return bool(event["topic"] == interest["topic"])
    return bool(event["publisher"] == interest["publisher"]) and bool(event["level"] <= interest["share"])


def series_of(counts: dict[tuple[str, int], int]) -> Columns:
    return {
        "series": numpy.array([name for name, _ in counts]),
        "span": numpy.array([span for _, span in counts]),
        "number": numpy.array(list(counts.values())),
    }


def test_the_best_effort_network_follows_the_load_and_then_stays_at_its_limit(congested: list[Record]) -> None:
    figures = values(e1.measure(about(series_of(counts_of(congested)), e1.BEST_EFFORT, slowdown=100.0)))
    assert figures["follows", e1.BEST_EFFORT] > 0.99
    assert 190 <= figures["losses begin", e1.BEST_EFFORT] <= 230
    assert 0.85 < figures["flat", e1.BEST_EFFORT] < 1.15
    assert figures["violations follow", e1.BEST_EFFORT] > 0.8


def delays_through_congestion(slowdown: float, seconds: float) -> list[float]:
    """The intense pair of E5 without the rest of the network: four brokers' workers one after the other, and at the two
    hubs in the middle other messages too; so many from the half of the time on that they cannot all be handled."""
    params, rng = SubstrateParams(slowdown=slowdown), random_stream(1, "congestion")
    sent = poisson(rng, 1200 / slowdown, 0.0, seconds)
    arrived = [(at, number) for number, at in enumerate(sent)]
    for place, broker in enumerate(("a1", "A", "B", "b1")):
        others: list[tuple[float, int]] = []
        if broker in ("A", "B"):
            early = poisson(rng, 700 / slowdown, 0.0, seconds / 2)
            others = [(at, -1) for at in early + poisson(rng, 1900 / slowdown, seconds / 2, seconds)]
        station = params.processing().begin(1, broker, 0)
        done = [(station.admit(at), number) for at, number in sorted(arrived + others)]
        link = params.link_delay if place < 3 else 0.0
        arrived = [(at + link, number) for at, number in done if at is not None and number >= 0]
    return [at - sent[number] for at, number in sorted(arrived, key=lambda each: each[1])]


def poisson(rng: RandomStream, rate: float, begin: float, end: float) -> list[float]:
    times = [begin + rng.expovariate(rate)]
    while times[-1] < end:
        times.append(times[-1] + rng.expovariate(rate))
    return times[:-1]


@pytest.mark.spec("T-104")
def test_delays_vary_as_much_in_long_queues_as_in_short_ones() -> None:
    delays = numpy.array(delays_through_congestion(slowdown=10.0, seconds=120.0))
    figures = values(e5.measure(about({"delay": delays[1:], "previous": delays[:-1]}, "best effort", slowdown=10.0)))
    assert figures["chance", ""] > 0.05
    assert 0.8 < figures["spread", ""] < 1.25
    assert figures["correlation", ""] > 0.9
    assert min(figures["pairs", group] for group in (e5.SHORT, e5.LONG)) > 3000


def test_a_network_that_stands_still_is_told_from_one_that_does_not() -> None:
    spans = range(e1.SPANS)
    falling = {("delivered", span): 100 if span < 25 else 1 for span in spans}
    published = {("published", span): 10 for span in spans} | {("wanted", span): 100 for span in spans}
    stopped = {("withheld", span): 9 if span >= 27 else 0 for span in spans}
    columns = series_of(falling | published | stopped | {("reached", span): 100 for span in range(25)})
    figures = values(e1.measure(about(columns, e1.STORING, slowdown=10.0)))
    assert figures["peak", e1.STORING] == 100.0
    assert figures["falls", e1.STORING] == 250.0
    assert figures["blocked after", e1.STORING] == 20.0
    assert figures["left", e1.STORING] == 0.01
    steady = series_of({("delivered", span): 100 for span in spans} | published)
    assert numpy.isnan(values(e1.measure(about(steady, e1.ONE_SIDE, slowdown=10.0)))["falls", e1.ONE_SIDE])


def test_peaks_of_a_histogram_are_counted_and_small_ones_are_not() -> None:
    numbers = numpy.array([9, 5, 1, 0, 3, 8, 3, 0, 2, 1.9, 2.2, 1, 6, 9])
    assert e4.peaks(numbers) == [0, 5, 10, 13]
    assert e4.peaks(numpy.array([9, 5, 1, 0.2, 0.3, 0.2])) == [0]


def test_links_between_brokers_are_those_of_the_network() -> None:
    around = rising_load.HUBS.neighbours()
    for one in rising_load.HUBS.nodes:
        reached, ring, links = {one}, [one], 0
        while ring:
            assert all(e4.links_between(one, other) == links for other in ring)
            ring = [far for near in ring for far in around[near] if far not in reached]
            reached.update(ring)
            links += 1


def test_every_claim_has_its_own_words_and_the_picture_draws_without_any_figure() -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="plots need matplotlib; install tidings[lab]")
    for experiment in built().values():
        says = [(claim.says, claim.groups, claim.figure) for claim in experiment.claims]
        assert len(set(says)) == len(says)
        experiment.plot(figure.Figure(), [])


@pytest.mark.spark
def test_spark_counts_what_is_in_the_trace(spark: "SparkSession", tmp_path: Path) -> None:
    parameters = {"system": "best effort", "streams": "both sides", "slowdown": 400.0, "seconds": 300.0}
    path = str(tmp_path / "trace.parquet")
    records = RingBuffer(1_000_000, "run", 1)
    rising_load.run("best effort", parameters, 1, records)
    with open_writer(path, "run", 1) as trace:
        for record in records.records():
            trace.write(record)
    counted = {(row.series, row.span): row.number for row in e1.counts(spark.read.parquet(path)).collect()}
    assert counted == counts_of(records.records())


@pytest.mark.spark
def test_figures_of_a_chain_come_out_of_its_parquet(spark: "SparkSession", tmp_path: Path) -> None:
    path = str(tmp_path / "trace.parquet")
    parameters = {"brokers": 10, "messages": 300, "alike": True}
    with open_writer(path, "run", 1) as trace:
        chain.run("", parameters, 1, trace)
    traces = spark.read.parquet(path)
    row = ("run", e2.ALIKE, json.dumps(parameters), 1)
    results = spark.createDataFrame([row], "run string, variant string, parameters string, seed long")
    found = {module.EXPERIMENT.id: rows_of(module.figures(results, traces)) for module in (e2, e3)}
    smallest = found["transport/E2"]["smallest delay", "3 brokers, alike"]
    assert 0.1 < smallest < 0.11
    tails = [group for name, group in found["transport/E3"] if name == "tail beyond 0.95"]
    assert len(tails) == 10


def rows_of(figures: "DataFrame") -> dict[tuple[str, str], float]:
    return {(row.figure, row.group): row.value for row in figures.collect()}
