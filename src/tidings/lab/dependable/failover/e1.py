"""E1: how many brokers of each other level are known."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.failover.comparisons import size_variants, sizes
from tidings.lab.dependable.failover.failing_runs import run
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.plots import COLOURS, points

MEMBERS = (1, 3, 6, 10)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return sizes(results, traces, "level_members", ("1", "6", "10"))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    axes.plot(*points(measured, "delivered"), ".-", color=COLOURS[1])
    axes.set(title="delivered", xlabel="brokers known of each level")


EXPERIMENT = define(__file__, run=run, variants=size_variants("level_members", MEMBERS), figures=figures, plot=plot)
