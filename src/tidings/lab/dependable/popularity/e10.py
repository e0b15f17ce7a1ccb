"""E10: popularity in trees of 100 to 300 brokers."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.popularity.compared import figures_of, plot_pair
from tidings.lab.dependable.popularity.followed import PopularSetting, run, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured

VALUES = (100, 200, 300)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return figures_of(results, traces, "brokers")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_pair(canvas, measured, "gain", "unpopular latency", "brokers")


EXPERIMENT = define(
    __file__, run=run, setting=PopularSetting, variants=variants("brokers", VALUES), figures=figures, plot=plot
)
