"""E5: what repairs save as there are more patterns."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import STRAWMAN, TABLES, Setting, run
from tidings.lab.dynamic_topologies.repairs.savings import COST, changes, curves, savings, sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import between, union


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    pairs, ends = sides(results, traces, "symbols"), ("48", "400")
    grown = between(pairs, *ends, {"growth of strawman": F.col("sides")[STRAWMAN][COST]})
    return union([savings(pairs), changes(pairs, ends), grown])


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    curves(canvas, measured, "patterns")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=Setting,
    variants=variants("symbols", (48, 96, 200, 400)),
    figures=figures,
    plot=plot,
    sweep=TABLES,
)
