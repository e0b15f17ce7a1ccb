"""E16: which strategy repairs the tree, and whether one tree is left.

Shares are of the metric `repair_time`, by strategy; how many trees there are at the end is measured in the run.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.lstree.churned import (
    CATASTROPHE,
    CHURN,
    PUBLISHED,
    TREES,
    measured_figures,
    run,
    variants,
)
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import summarise, union
from tidings.lab.plots import bars
from tidings.spark.metrics.changes import repair_time

STRATEGIES = ("regional", "ancestors", "downstream", "upstream", "break min degree", "break max degree", "global")


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return union([shares(results, traces), measured_figures(results, "trees", "broken ways")])


def shares(results: DataFrame, traces: DataFrame) -> DataFrame:
    """Of all repairs of a run those of each strategy, also where there were none."""
    from pyspark.sql import functions as F

    by_strategy = repair_time(traces, by=["strategy"]).select("run", "strategy", "reattached")
    counted = by_strategy.groupBy("run").pivot("strategy", list(STRATEGIES)).agg(F.sum("reattached")).fillna(0)
    total = sum((F.col(name) for name in STRATEGIES), F.lit(0))
    each = [F.struct(F.lit(name).alias("figure"), (F.col(name) / total).alias("value")) for name in STRATEGIES]
    exploded = counted.join(results.select("run", "variant"), on="run", how="inner").select(
        F.col("variant").alias("group"), F.explode(F.array(*each)).alias("each")
    )
    return summarise(exploded.select("each.figure", "group", "each.value"))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    shown = canvas.subplots(1, 1)
    bars(shown, measured, {name: name for name in STRATEGIES if name != "ancestors"}, scale=100)
    shown.set(title="repairs by strategy", ylabel="%")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(
        *variants(CATASTROPHE, *PUBLISHED, "Overcast+G"),
        *variants(CHURN, *PUBLISHED, "Overcast+G", "Overcast"),
    ),
    figures=figures,
    plot=plot,
    sweep=TREES,
)
