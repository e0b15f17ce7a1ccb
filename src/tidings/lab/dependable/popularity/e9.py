"""E9: how much of a broker's capacity is for the tree."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.popularity.compared import figures_of, plot_pair
from tidings.lab.dependable.popularity.followed import PopularSetting, run, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured

VALUES = (0.05, 0.1, 0.5)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return figures_of(results, traces, "phi")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_pair(canvas, measured, "gain more", "pure forwards less", "share of the capacity")


EXPERIMENT = define(
    __file__, run=run, setting=PopularSetting, variants=variants("phi", VALUES), figures=figures, plot=plot
)
