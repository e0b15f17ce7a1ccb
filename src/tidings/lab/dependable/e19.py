"""E19: carrying a plan out, by size. `executed.py` is the world."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.executed import run
from tidings.lab.dependable.planners import SEARCH
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import measured, over_seeds, parameter, side_by_side
from tidings.lab.plots import bars
from tidings.spark.metrics.changes import plan_execution_time, transformation_latency

SIZES = (20, 40, 60)

VARIANTS = tuple(
    Variant(f"{size} brokers, {planner}", {"brokers": size, "planner": planner})
    for size in SIZES
    for planner in ("E", SEARCH)
)

COLUMNS = ("execution_seconds_max", "affected", "affected_latency_p99", "unaffected_latency_p99")


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    table = plan_execution_time(traces).join(transformation_latency(traces), on="run", how="inner")
    runs = measured(results, table, *COLUMNS)
    group = F.concat(parameter("brokers"), F.lit(" brokers"))
    pairs = side_by_side(runs, group=group, side=parameter("planner"))
    ours, searched = F.col("sides")["E"], F.col("sides")[SEARCH]
    return over_seeds(
        pairs,
        {
            "time": ours["execution_seconds_max"] / searched["execution_seconds_max"] - 1,
            "seconds, E": ours["execution_seconds_max"],
            "seconds, search": searched["execution_seconds_max"],
            "later, E": ours["affected_latency_p99"] - ours["unaffected_latency_p99"],
            "later, search": searched["affected_latency_p99"] - searched["unaffected_latency_p99"],
            "affected to time": (ours["affected"] / searched["affected"])
            / (ours["execution_seconds_max"] / searched["execution_seconds_max"]),
        },
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    bars(left, measured, {"seconds, E": "E", "seconds, search": "search"})
    left.set(title="carrying a plan out", ylabel="seconds")
    bars(right, measured, {"later, E": "E", "later, search": "search"}, scale=1000)
    right.set(title="99th percentile of events meanwhile, above others", ylabel="ms")


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot)
