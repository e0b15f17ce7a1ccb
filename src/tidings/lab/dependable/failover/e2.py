"""E2: how many siblings are known."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.failover.comparisons import size_variants, sizes
from tidings.lab.dependable.failover.failing_runs import run
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.plots import COLOURS, points

SIBLINGS = (2, 6, 10)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return sizes(results, traces, "siblings", ("2", "6", "10"))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    axes.plot(*points(measured, "delivered"), ".-", color=COLOURS[1])
    axes.set(title="delivered", xlabel="siblings known")


EXPERIMENT = define(__file__, run=run, variants=size_variants("siblings", SIBLINGS), figures=figures, plot=plot)
