"""E24: repair and size on a tree of peers."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.peers.peer_traffic import PeerSetting, run, variants
from tidings.lab.dynamic_topologies.peers.savings import peer_figures, plot_by
from tidings.lab.experiment import Canvas, DataFrame, Measured


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return peer_figures(results, "peers")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_by(canvas, measured, "cost", "saved", "nodes at most")


EXPERIMENT = define(
    __file__, run=run, setting=PeerSetting, variants=variants("peers", (60, 120)), figures=figures, plot=plot
)
