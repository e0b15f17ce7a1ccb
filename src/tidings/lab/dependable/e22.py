"""E22: how far the queues of brokers grow while a link is shifted. `executed.py` is the world, with plans of set E.

One parameter after the other is larger than in the first variant: brokers, the share of links that change, and
subscribers, of whom there are five times as many.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.executed import run
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import measured, over_seeds, union
from tidings.lab.plots import bars
from tidings.spark.metrics.changes import queue_growth

FIRST: dict[str, bool | int | float | str] = {"brokers": 20, "change": 0.1, "subscribers": 40, "planner": "E"}

VARIANTS = (
    Variant("first", FIRST),
    Variant("more brokers", FIRST | {"brokers": 40}),
    Variant("more change", FIRST | {"change": 0.3}),
    Variant("more subscribers", FIRST | {"subscribers": 200}),
)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    runs = measured(results, queue_growth(traces), "queue_growth_p99").withColumn("group", F.col("variant"))
    grown = F.col("measures")["queue_growth_p99"]
    first = runs.where("variant = 'first'").select("seed", grown.alias("before"))
    beside = runs.where("variant != 'first'").join(first, on="seed", how="inner")
    return union([over_seeds(runs, {"growth": grown}), over_seeds(beside, {"to the first": grown / F.col("before")})])


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"growth": "queue"})
    axes.set(title="what a queue gains in a shift", ylabel="publications, 99th percentile")


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot)
