"""E15: how many dispatchers a repair concerns, as there are more patterns and as more dispatchers subscribe."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.e6 import DENSITIES
from tidings.lab.dynamic_topologies.repairs.rewired import REPAIRS, TABLES, Setting, run
from tidings.lab.dynamic_topologies.repairs.savings import curves, savings, sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import between, union

PATTERNS = 48, 96, 200, 400


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    by_patterns = sides(results.where(F.col("variant").contains("symbols")), traces, "symbols")
    by_density = sides(results.where(F.col("variant").contains("density")), traces, "density")
    return union([savings(by_patterns), grown(by_patterns, "48", "400"), grown(by_density, "0.05", "1.0")])


def grown(pairs: DataFrame, first: str, last: str) -> DataFrame:
    """By how much more of all dispatchers are involved at the last value than at the first."""
    from pyspark.sql import functions as F

    involved = {f"grown, {repair}": F.col("sides")[repair]["involved_mean"] / 100 for repair in REPAIRS}
    return between(pairs, first, last, involved, ratio=False)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    titles = ("involved, % of all", "fewer than with STRAWMAN, %")
    curves(canvas, measured, "patterns", left="involved", right="spared", titles=titles)


EXPERIMENT = define(
    __file__,
    run=run,
    setting=Setting,
    variants=(*variants("symbols", PATTERNS), *variants("density", DENSITIES)),
    figures=figures,
    plot=plot,
    sweep=TABLES,
)
