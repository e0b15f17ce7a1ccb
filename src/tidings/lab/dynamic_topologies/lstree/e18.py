"""E18: how far from the failure links change.

The area of a repair is about the whole tree, and is taken inside the run (`churned.py`).
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.lstree.churned import CHURN, PUBLISHED, measured_figures, run, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.plots import bars


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return measured_figures(results, "area one", "area below 1.5", "area below 2", "area below 3")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    shown = canvas.subplots(1, 1)
    bars(shown, measured, {"area one": "1", "area below 2": "below 2", "area below 3": "below 3"}, scale=100)
    shown.set(title="repairs by their area", ylabel="%")


EXPERIMENT = define(__file__, run=run, variants=variants(CHURN, *PUBLISHED), figures=figures, plot=plot)
