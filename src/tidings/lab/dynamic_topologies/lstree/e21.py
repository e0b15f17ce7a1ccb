"""E21: what real numbers are good for: the same instances with whole numbers (hops) as depths, seed by seed."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.lstree.churned import (
    CATASTROPHE,
    CHURN,
    TREES,
    measured_figures,
    run,
    variants,
)
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import by_variant, measured, over_seeds, parameter, side_by_side, union
from tidings.lab.plots import bars
from tidings.spark.metrics.changes import repair_time


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    table = repair_time(traces)
    times = by_variant(results, table, {"p95": "repair_p95"})
    return union([measured_figures(results, "top degree", "area one"), times, worse(results, table)])


def worse(results: DataFrame, table: DataFrame) -> DataFrame:
    """Seed by seed, what is lost with whole numbers, for each instance and scenario."""
    from pyspark.sql import functions as F

    group = F.concat_ws(", ", parameter("instance"), parameter("scenario"))
    side = F.when(parameter("integer", "boolean"), F.lit("whole")).otherwise(F.lit("real"))
    taken, timed = (
        side_by_side(runs, group=group, side=side) for runs in (results, measured(results, table, "repair_p95"))
    )

    def beside(pairs: DataFrame, figure: str, name: str, sign: int) -> DataFrame:
        whole, real = (F.col("sides")[place][name] for place in ("whole", "real"))
        return over_seeds(pairs, {figure: sign * (whole - real)})

    return union(
        [
            beside(taken, "greater degree", "top degree", 1),
            beside(taken, "fewer of area one", "area one", -1),
            beside(timed, "later", "repair_p95", 1),
        ]
    )


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
    sweep=TREES,
)
