"""E25: repair and density on a tree of peers."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.peers.peer_traffic import run, variants
from tidings.lab.dynamic_topologies.peers.savings import peer_figures, plot_by
from tidings.lab.experiment import Canvas, DataFrame, Measured


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return peer_figures(results, "density")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_by(canvas, measured, "cost", "saved", "share of nodes that subscribe")


EXPERIMENT = define(__file__, run=run, variants=variants("density", (0.05, 0.2, 0.4, 1.0)), figures=figures, plot=plot)
