"""E6: what repairs save as more dispatchers subscribe."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import TABLES, Setting, run
from tidings.lab.dynamic_topologies.repairs.savings import changes, curves, savings, sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import union

DENSITIES = (0.05, 0.2, 0.5, 1.0)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    pairs = sides(results, traces, "density")
    return union([savings(pairs), changes(pairs, [str(density) for density in DENSITIES])])


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    curves(canvas, measured, "share of dispatchers that subscribe")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=Setting,
    variants=variants("density", DENSITIES),
    figures=figures,
    plot=plot,
    sweep=TABLES,
)
