"""E23: receipts instead of waiting for a fixed time.

The baseline cannot know when a request was carried out, so it waits as long as the slowest ever took. That time is
found by measuring receipts first (their longest, rounded up to a second). A sweep runs everything at once, so here it
is a parameter, and a claim says that it is the right one.

All figures are of the metrics of acknowledgement and of premature deliveries; the latter of those who joined, since who
subscribes before anything is published gets nothing too early.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.cloud import SIZES, joined, run, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import measured, over_seeds, parameter, side_by_side
from tidings.lab.plots import bars
from tidings.spark.metrics.guarantees import acknowledgement_time, premature_deliveries, publications_in_memory


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    table = (
        acknowledgement_time(traces)
        .join(publications_in_memory(traces), on="run", how="inner")
        .join(premature_deliveries(joined(traces)), on="run", how="inner")
        .join(results.select("run", parameter("timeout", "double").alias("timeout")), on="run", how="inner")
    )
    return compared(measured(results, table, *(name for name in table.columns if name != "run")))


def compared(runs: DataFrame) -> DataFrame:
    """With metrics as measures, seed by seed."""
    from pyspark.sql import functions as F

    sides = F.col("sides")
    ours, plain = sides["guarantees"], sides["plain"]
    brokers = parameter("brokers")
    pairs = side_by_side(runs, group=F.concat(brokers, F.lit(" brokers")), side=parameter("system"))
    sizes = side_by_side(runs.where(parameter("system") == "guarantees"), group=F.lit("3 to 10 brokers"), side=brokers)
    growth = sides["10"]["acknowledgement_mean"] / sides["3"]["acknowledgement_mean"] - 1
    plain_sizes = side_by_side(runs.where(parameter("system") == "plain"), group=F.lit("3 to 10 brokers"), side=brokers)
    premature = "premature_per_affected_client"
    return over_seeds(
        pairs,
        {
            "receipt": ours["acknowledgement_mean"],
            "longest receipt": ours["acknowledgement_max"],
            "time-out": F.ceil(ours["acknowledgement_max"]) / plain["timeout"],
            "memory": plain["publications_in_memory"] / ours["publications_in_memory"],
            "too early, plain": plain["premature_clients_share"],
            "too many, plain": F.coalesce(plain[premature], F.lit(0.0)),
            "too early, guarantees": ours["premature_clients_share"],
        },
    ).union(
        over_seeds(sizes, {"growth": growth}).union(
            over_seeds(plain_sizes, {"too many grows, plain": sides["10"][premature] / sides["3"][premature] - 1})
        )
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, middle, right = canvas.subplots(1, 3)
    bars(left, measured, {"receipt": "mean"}, scale=1000)
    left.set(title="time to the receipt of a publication", ylabel="ms")
    bars(middle, measured, {"memory": "measured"}, bound=3.0)
    middle.set(title="publications in memory, time-out to receipts", ylabel="times")
    bars(right, measured, {"too early, plain": "time-out", "too early, guarantees": "receipts"}, scale=100)
    right.set(title="subscribers that got something too early", ylabel="%")


EXPERIMENT = define(
    __file__, run=run, variants=variants("brokers", SIZES, kind="installed"), figures=figures, plot=plot
)
