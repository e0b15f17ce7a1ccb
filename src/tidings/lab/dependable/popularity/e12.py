"""E12: from subscriptions that are spread evenly to ones that go to few publishers."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.popularity.compared import Growth, plot_pair, with_growth
from tidings.lab.dependable.popularity.followed import SYSTEMS, PopularSetting, run, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured

VALUES = (0.05, 0.5, 1.0)
GROWTH: Growth = {
    "growth of gain": (SYSTEMS, "gain_ratio"),
    "growth of pure forwards": (SYSTEMS, "pure_forwards"),
    "growth of false positives": (("gossip",), "gossip_false_positive_ratio"),
    "growth of matches": (("gossip",), "match_per_gossip"),
    "growth of groups": (("gossip",), "gossip_groups"),
    "growth of copies": (("direct",), "direct_forwards_p99"),
}


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return with_growth(results, traces, "zipf", ("0.05", "1.0"), GROWTH)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_pair(canvas, measured, "gain more", "pure forwards less", "Zipf exponent")


EXPERIMENT = define(
    __file__, run=run, setting=PopularSetting, variants=variants("zipf", VALUES), figures=figures, plot=plot
)
