"""E21: what real numbers are good for: the same instances with whole numbers (hops) as depths, seed by seed."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.lstree.churned import CATASTROPHE, CHURN, measured_figures, run, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import by_variant, union
from tidings.lab.plots import bars
from tidings.spark.metrics.changes import repair_time


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    times = by_variant(results, repair_time(traces), {"p95": "repair_p95"})
    return union([measured_figures(results, "top degree", "area one"), times])


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    degree, time = canvas.subplots(1, 2)
    bars(degree, measured, {"top degree": "greatest"})
    degree.set(title="greatest degree", ylabel="neighbours")
    bars(time, measured, {"p95": "95th percentile"})
    time.set(title="time of a repair", ylabel="seconds")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(
        each
        for scenario in (CATASTROPHE, CHURN)
        for integer in (False, True)
        for each in variants(scenario, "DUmRGM", "RMG", integer=integer)
    ),
    figures=figures,
    plot=plot,
)
