"""E5: what repairs save as there are more patterns."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import TABLES, Setting, run
from tidings.lab.dynamic_topologies.repairs.savings import curves, savings, sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return savings(sides(results, traces, "symbols"))


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
