"""E10: popularity in trees of 100 to 300 brokers."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.popularity.compared import Growth, plot_pair, with_growth
from tidings.lab.dependable.popularity.followed import SYSTEMS, PopularSetting, run, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured

VALUES = (100, 200, 300)
GROWTH: Growth = {
    "growth of gain": (SYSTEMS, "gain_ratio"),
    "growth of pure forwards": (SYSTEMS, "pure_forwards"),
    "growth of unpopular latency": (("direct", "gossip"), "unpopular_latency_p99"),
}


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return with_growth(results, traces, "brokers", ("100", "300"), GROWTH)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_pair(canvas, measured, "gain", "unpopular latency", "brokers")


EXPERIMENT = define(
    __file__, run=run, setting=PopularSetting, variants=variants("brokers", VALUES), figures=figures, plot=plot
)
