"""E6: how many of 400 brokers fail together, drawn uniformly."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.failover.comparisons import compared, figures_of, plot_systems, variants
from tidings.lab.dependable.failover.failing_runs import SWEEP, run
from tidings.lab.experiment import Canvas, DataFrame, Measured

RATES = (0.05, 0.1, 0.3, 0.4)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return figures_of(compared(results, traces, "rate"))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_systems(canvas, measured, "share of brokers that fail")


EXPERIMENT = define(__file__, run=run, variants=variants("rate", RATES), figures=figures, plot=plot, sweep=SWEEP)
