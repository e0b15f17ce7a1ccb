"""E8: branches of 4 or 5 brokers fail together, and ever more of them."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.failover.comparisons import compared, figures_of, plot_systems, variants
from tidings.lab.dependable.failover.failing_runs import SWEEP, run
from tidings.lab.experiment import Canvas, DataFrame, Measured

RATES = (0.02, 0.1, 0.2, 0.4)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return figures_of(compared(results, traces, "rate"))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_systems(canvas, measured, "share of brokers that fail, in branches")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=variants("rate", RATES, failures="clustered"),
    figures=figures,
    plot=plot,
    sweep=SWEEP,
)
