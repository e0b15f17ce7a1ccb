"""E3: what repairs save in networks of different size."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import TABLES, Setting, run
from tidings.lab.dynamic_topologies.repairs.savings import curves, savings, sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return savings(sides(results, traces, "dispatchers"))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    curves(canvas, measured, "dispatchers")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=Setting,
    variants=variants("dispatchers", (50, 100, 200, 500), symbols=200),
    figures=figures,
    plot=plot,
    sweep=TABLES,
)
