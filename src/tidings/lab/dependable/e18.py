"""E18: time and quality of plans as more links change (`planners.py` says what is measured)."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.e15 import growth, measure
from tidings.lab.dependable.e17 import changes
from tidings.lab.dependable.planners import SEARCH, run
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import over_seeds, parameter, union
from tidings.lab.plots import bars

SHARES = (5, 10, 15, 20, 25, 30)

VARIANTS = tuple(Variant(f"{share} %", {"change": share / 100}) for share in SHARES)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    shared = results.withColumn("group", F.col("variant"))
    saved = {"time saved": measure("seconds E") / measure(f"seconds {SEARCH}") - 1}
    named = shared.withColumn("group", F.concat(F.lit("E, "), F.col("variant")))
    return union(
        [
            over_seeds(shared, changes() | saved),
            over_seeds(named, {"seconds": measure("seconds E")}),
            growth(shared.withColumn("size", parameter("change", "double")), "E"),
        ]
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    bars(left, measured, {"seconds": "E"})
    left.set(title="time to plan", ylabel="seconds of processor time")
    bars(right, measured, {"actions, E to search": "E to search", "actions, downhill to E": "downhill to E"}, scale=100)
    right.set(title="actions", ylabel="% more")


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot)
