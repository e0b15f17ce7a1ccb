"""E4: the same as E3 on random trees, drawn anew for each seed."""

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
    variants=variants("dispatchers", (50, 100, 200), symbols=200, is_random_tree=True),
    figures=figures,
    plot=plot,
    sweep=TABLES,
)
