"""E19: how soon orphans have a new parent, after the failure was noticed; the metric `repair_time`."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.lstree.churned import (
    CATASTROPHE,
    CHURN,
    PUBLISHED,
    TREES,
    run,
    variants,
)
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import by_variant
from tidings.lab.plots import bars
from tidings.spark.metrics.changes import repair_time


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    columns = {"p95": "repair_p95", "median": "repair_p50", "most": "repair_max", "requests": "repair_requests_mean"}
    return by_variant(results, repair_time(traces), columns)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    shown = canvas.subplots(1, 1)
    bars(shown, measured, {"median": "median", "p95": "95th percentile"})
    shown.set(title="from the loss of a parent to the next one", ylabel="seconds")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(*variants(CATASTROPHE, *PUBLISHED), *variants(CHURN, *PUBLISHED)),
    figures=figures,
    plot=plot,
    sweep=TREES,
)
