"""E6: how many of 400 brokers fail together, drawn uniformly."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.failover.comparisons import compared, figures_of, plot_systems, variants
from tidings.lab.dependable.failover.failing_runs import GOSSIP, SWEEP, run
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import between, union

RATES = (0.05, 0.1, 0.3, 0.4)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    pairs = compared(results, traces, "rate").cache()
    ours = F.col("sides")[GOSSIP]
    overhead = {"growth of overhead": ours["messages"]}
    share = {"growth of the share of gossip": F.try_divide(ours["gossip"], ours["messages"])}
    few, some, more, most = map(str, RATES)
    grown = [
        between(pairs, few, some, overhead),
        between(pairs, some, most, overhead),
        between(pairs, more, most, share),
    ]
    return union([figures_of(pairs), *grown])


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_systems(canvas, measured, "share of brokers that fail")


EXPERIMENT = define(__file__, run=run, variants=variants("rate", RATES), figures=figures, plot=plot, sweep=SWEEP)
