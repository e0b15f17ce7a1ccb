"""E11: more subscriptions."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.popularity.compared import DIVERTING, Growth, plot_pair, with_growth
from tidings.lab.dependable.popularity.followed import SYSTEMS, PopularSetting, run, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured

VALUES = (2000, 2250, 2500)
GROWTH: Growth = {
    "growth of gain": (SYSTEMS, "gain_ratio"),
    "growth of unpopular latency": (DIVERTING, "unpopular_latency_p99"),
    "growth of groups": (("gossip",), "gossip_groups"),
}


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return with_growth(results, traces, "subscriptions", ("2000", "2500"), GROWTH)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_pair(canvas, measured, "gain more", "pure forwards less", "subscriptions")


EXPERIMENT = define(
    __file__, run=run, setting=PopularSetting, variants=variants("subscriptions", VALUES), figures=figures, plot=plot
)
