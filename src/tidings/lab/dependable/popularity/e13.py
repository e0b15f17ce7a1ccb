"""E13: brokers that have more to forward than they can."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.popularity.compared import figures_of, plot_pair
from tidings.lab.dependable.popularity.followed import PopularSetting, run, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured

VALUES = (3000, 4000, 5000)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return figures_of(results, traces, "subscriptions")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_pair(canvas, measured, "queue less", "popular latency", "subscriptions")


EXPERIMENT = define(
    __file__, run=run, setting=PopularSetting, variants=variants("subscriptions", VALUES), figures=figures, plot=plot
)
