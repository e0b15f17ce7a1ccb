"""E3: what repairs save in networks of different size."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, PATH, TABLES, TIMED, Setting, run
from tidings.lab.dynamic_topologies.repairs.savings import beside, changes, curves, savings, sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import union


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    pairs = sides(results, traces, "dispatchers")
    return union([savings(pairs), changes(pairs, ("100", "500")), beside(pairs, ((INFORMED, TIMED), (PATH, INFORMED)))])


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
