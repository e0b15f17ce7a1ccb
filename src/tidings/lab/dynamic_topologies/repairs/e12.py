"""E12: how long to wait before unsubscribing where many events are published."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, NOTIFIED, TIMED, Setting
from tidings.lab.dynamic_topologies.repairs.savings import variants
from tidings.lab.dynamic_topologies.repairs.witness import run
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import measured as measures_of
from tidings.lab.figures import over_seeds, parameter, side_by_side
from tidings.lab.plots import COLOURS, points

SHOWN = (TIMED, NOTIFIED, INFORMED)
TIMES = ("0.09", "0.11", "0.15", "0.5")


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    from tidings.spark.metrics.changes import reconfiguration_cost

    runs = measures_of(results, reconfiguration_cost(traces), "cost_per_reconfiguration")
    by_time = side_by_side(runs, group=parameter("unsubscribe_after"), side=parameter("repair"))
    cost = "cost_per_reconfiguration"
    by_repair = side_by_side(runs, group=parameter("repair"), side=parameter("unsubscribe_after"))
    at = {time: F.col("sides")[time][cost] for time in TIMES}
    steps = {"step": at["0.11"] / at["0.09"] - 1, "growth": at["0.5"] / at["0.15"] - 1}
    return over_seeds(by_time, {f"cost, {name}": F.col("sides")[name][cost] for name in SHOWN}).union(
        over_seeds(by_repair, steps)
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    for name, colour in zip(SHOWN, COLOURS[1:], strict=False):
        axes.plot(*points(measured, f"cost, {name}"), ".-", color=colour, label=name)
    axes.set(title="cost of one reconfiguration, with many events", xlabel="seconds before unsubscribing")
    axes.legend()


EXPERIMENT = define(
    __file__,
    run=run,
    setting=Setting,
    variants=variants("unsubscribe_after", map(float, TIMES), SHOWN),
    figures=figures,
    plot=plot,
)
