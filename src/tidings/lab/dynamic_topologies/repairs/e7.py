"""E7: what a reconfiguration costs as they overlap. RP does not allow for that and is left out."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import REPAIRS, TABLES, run
from tidings.lab.dynamic_topologies.repairs.savings import curves, savings, sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return savings(sides(results, traces, "changes_rate"), REPAIRS[:4])


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    curves(canvas, measured, "reconfigurations a second")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=variants("changes_rate", (1.0, 3.0, 10.0, 30.0, 100.0, 200.0, 400.0), repairs=REPAIRS[:4]),
    figures=figures,
    plot=plot,
    sweep=TABLES,
)
