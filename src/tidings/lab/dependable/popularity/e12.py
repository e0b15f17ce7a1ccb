"""E12: from subscriptions that are spread evenly to ones that go to few publishers."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.popularity.compared import figures_of, plot_pair
from tidings.lab.dependable.popularity.followed import PopularSetting, run, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured

VALUES = (0.05, 0.5, 1.0)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return figures_of(results, traces, "zipf")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_pair(canvas, measured, "gain more", "pure forwards less", "Zipf exponent")


EXPERIMENT = define(
    __file__, run=run, setting=PopularSetting, variants=variants("zipf", VALUES), figures=figures, plot=plot
)
