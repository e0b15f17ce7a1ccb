"""E17: how good plans are. The runs are those of E15 (`planners.py` says what is measured)."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.e15 import VARIANTS, measure
from tidings.lab.dependable.planners import DOWNHILL, SEARCH, run
from tidings.lab.experiment import Canvas, Column, DataFrame, Measured
from tidings.lab.figures import over_seeds
from tidings.lab.plots import bars

PAIRS = (("E", "N"), ("E", "A"), ("A", "N"), ("E", SEARCH), (DOWNHILL, "E"))


def changes() -> dict[str, Column]:
    """Actions and steps of one planner against those of another, as a share more or less."""
    return {
        f"{what}, {a} to {b}": measure(f"{what} {a}") / measure(f"{what} {b}") - 1
        for what in ("actions", "steps")
        for a, b in PAIRS
    }


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    sized = results.where(F.size("measures") > 0).withColumn("group", F.col("variant"))
    same = {"steps to actions, search": measure(f"steps {SEARCH}") / measure(f"actions {SEARCH}")}
    return over_seeds(sized, changes() | same)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    bars(left, measured, {"actions, E to search": "E to search", "actions, E to A": "E to A"}, scale=100)
    left.set(title="actions", ylabel="% more")
    bars(right, measured, {"steps, E to A": "E to A", "steps, downhill to E": "downhill to E"}, scale=100)
    right.set(title="steps", ylabel="% more")


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot, sweep="dependable/planning")
