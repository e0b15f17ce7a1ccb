"""E23 to E25: what their figures take from the trace is what the applications saw."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.worlds.cloud import (
    CloudOutcome,
    delivery_latency_99,
    false_positives,
    group_differences,
    messages_per_broker,
    missed_publications,
    play,
    throughput,
)
from tidings.lab.dependable import e23, e24, e25
from tidings.lab.dependable.cloud import CloudSetting
from tidings.lab.dependable.metered import MeteredBroker
from tidings.machine.effects import Effect
from tidings.machine.inputs import Fired, Input, Received
from tidings.pubsub.client import Receipt
from tidings.trace.writers import open_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = {"brokers": 6, "seconds": 13.0, "joining": 2.0, "joins": 40, "timeout": 1.0, "history": 120.0}


def played(spark: "SparkSession", path: Path, kind: str) -> tuple[dict[str, CloudOutcome], "DataFrame", "DataFrame"]:
    """The outcome of both systems, their results and traces."""
    outcomes, rows = dict[str, CloudOutcome](), []
    for system in ("guarantees", "plain"):
        parameters: dict[str, Any] = {**SMALL, "system": system, "kind": kind}
        with open_writer(str(path / f"{system}.parquet"), system, 1) as trace:
            outcomes[system] = play(msgspec.convert(parameters, CloudSetting), trace)
        taken = {"cpu": 3.0, "memory": 11.0} if system == "guarantees" else {"cpu": 2.0, "memory": 10.0}
        rows.append((system, 1, json.dumps(parameters), taken))
    results = spark.createDataFrame(rows, "run string, seed int, parameters string, measures map<string,double>")
    return outcomes, results, spark.read.parquet(str(path / "*.parquet"))


def found(figures: "DataFrame") -> dict[str, float]:
    return {row.figure: row.value for row in figures.collect()}


@pytest.mark.spark
def test_receipts_and_what_comes_too_early(spark: "SparkSession", tmp_path: Path) -> None:
    outcomes, results, traces = played(spark, tmp_path, "installed")
    figures, (share, count) = found(e23.figures(results, traces)), false_positives(outcomes["plain"])
    times = outcomes["guarantees"].ack_times
    assert figures["receipt"] == pytest.approx(sum(times) / len(times), abs=1e-6)
    assert figures["longest receipt"] == pytest.approx(max(times), abs=1e-6)
    assert figures["time-out"] == 1.0
    assert figures["memory"] > 3
    assert (figures["too early, plain"], figures["too many, plain"]) == pytest.approx((share, count))
    assert share > 0 == figures["too early, guarantees"]


@pytest.mark.spark
def test_what_is_missed_and_twins(spark: "SparkSession", tmp_path: Path) -> None:
    outcomes, results, traces = played(spark, tmp_path, "reference")
    figures = found(e24.figures(results, traces))
    missed, differing = missed_publications(outcomes["plain"]), group_differences(outcomes["plain"])
    assert (figures["misses, plain"], figures["missed, plain"]) == pytest.approx(missed)
    assert (figures["twins differ, plain"], figures["difference, plain"]) == pytest.approx(differing)
    assert missed[0] > 0 < differing[0]
    assert figures["misses, guarantees"] == figures["twins differ, guarantees"] == 0


@pytest.mark.spark
def test_what_guarantees_cost(spark: "SparkSession", tmp_path: Path) -> None:
    outcomes, results, traces = played(spark, tmp_path, "mixed")
    figures = found(e25.figures(results, traces))
    for system, outcome in outcomes.items():
        assert figures[f"messages, {system}"] == pytest.approx(messages_per_broker(outcome))
        assert figures[f"throughput, {system}"] == pytest.approx(throughput(outcome))
        assert figures[f"latency, {system}"] == pytest.approx(delivery_latency_99(outcome), abs=1e-5)
    assert (figures["cpu"], figures["memory"]) == pytest.approx((0.5, 0.1))


class Busy:
    """A machine that keeps whatever it is given, and takes its time over it."""

    def __init__(self) -> None:
        self.kept: list[object] = []

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        self.kept += [bytearray(1000) for _ in range(1000)]
        return []

    def check(self) -> None:
        pass


def test_brokers_are_metered_each_by_itself() -> None:
    one, other, plain = MeteredBroker(Busy()), MeteredBroker(Busy()), MeteredBroker(Busy(), ("Receipt",))
    one.handle(0.0, Fired("work"))
    plain.handle(0.0, Received("b", Receipt("publish", 1, (), 0, 0.0, "")))
    for each in (one, other):
        each.weigh()
    assert one.seconds > 0 == other.seconds == plain.seconds
    assert 1_000_000 < one.bytes_max < 1_200_000
    assert other.bytes_max < 10_000
