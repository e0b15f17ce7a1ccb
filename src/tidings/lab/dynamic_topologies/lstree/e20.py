"""E20: messages of maintenance for each node and second, beacons not counted; taken inside the run, where messages are
counted as they are sent, because a trace of every message of thousands of nodes would take longer than the run.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.lstree.churned import (
    CATASTROPHE,
    CHURN,
    TREES,
    measured_figures,
    run,
    variants,
)
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.plots import bars

PHASES = ("messages at rest", "messages at the peak", "messages at the end")


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return measured_figures(results, *PHASES, "messages")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    shown = canvas.subplots(1, 1)
    bars(shown, measured, {name: name.removeprefix("messages ") for name in PHASES})
    shown.set(title="messages for each node and second", ylabel="messages")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(*variants(CATASTROPHE, "RMG"), *variants(CHURN, "RMG")),
    figures=figures,
    plot=plot,
    sweep=TREES,
)
