"""E26: repair and rate of events on a tree of peers."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.peers.peer_traffic import PeerSetting, run, variants
from tidings.lab.dynamic_topologies.peers.savings import peer_figures, plot_by
from tidings.lab.experiment import Canvas, DataFrame, Measured


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return peer_figures(results, "events_per_minute")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_by(canvas, measured, "misrouted", "saved", "events a minute")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=PeerSetting,
    variants=variants("events_per_minute", (15, 500)),
    figures=figures,
    plot=plot,
)
