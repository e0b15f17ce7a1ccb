"""E5: brokers that fail as machines of a cluster do, in overlays of several sizes.

Failures are those of the fitted stand-in for the trace of the source (`workloads/machines.py`).
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.failover.comparisons import compared, figures_of, plot_systems, variants
from tidings.lab.dependable.failover.failing_runs import SWEEP, run
from tidings.lab.experiment import Canvas, DataFrame, Measured

SHARES = (0.5, 1.0, 2.0)
"""Of the number of brokers of the scale."""


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return figures_of(compared(results, traces, "share"))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_systems(canvas, measured, "brokers, as a share of those of the scale")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=variants("share", SHARES, failures="machines"),
    figures=figures,
    plot=plot,
    sweep=SWEEP,
)
