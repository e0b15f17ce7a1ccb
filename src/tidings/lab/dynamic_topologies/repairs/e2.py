"""E2: which messages a repair takes, by kind: their number, and what they weigh."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, NOTIFIED, PATH, TABLES, Setting, run
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import summarise
from tidings.lab.plots import bars

SIGNALS = ("Flush", "PathEdited")
"""A tenth of a filter each (table 7.2)."""


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    from tidings.spark.metrics.changes import reconfiguration_cost
    from tidings.spark.metrics.traffic import message_overhead

    costs = reconfiguration_cost(traces).select("run", "reconfigurations", "cost_per_reconfiguration")
    by_kind = message_overhead(traces).join(costs, on="run", how="inner")
    runs = results.select("run", F.col("variant").alias("group")).join(by_kind, on="run", how="inner")
    each = F.col("messages") / F.col("reconfigurations")
    counts = runs.select(F.concat(F.lit("number, "), "message").alias("figure"), "group", each.alias("value"))
    signals = runs.where(F.col("message").isin(*SIGNALS)).select(
        F.concat(F.lit("share, "), "message").alias("figure"),
        "group",
        (each / 10 / F.col("cost_per_reconfiguration")).alias("value"),
    )
    return summarise(counts.union(signals))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    kinds = sorted({each.figure for each in measured if each.figure.startswith("number")})
    bars(axes, measured, {kind: kind.removeprefix("number, ") for kind in kinds})
    axes.set(title="messages of one reconfiguration", yscale="log")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=Setting,
    variants=tuple(Variant(name, {"repair": name}) for name in (NOTIFIED, INFORMED, PATH)),
    figures=figures,
    plot=plot,
    sweep=TABLES,
)
