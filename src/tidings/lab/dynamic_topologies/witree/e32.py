"""E32: what arrives, and what it takes, in networks of different size; taken inside the run (`walkers.py`)."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.savings import variants
from tidings.lab.dynamic_topologies.witree.e29 import SIZES
from tidings.lab.dynamic_topologies.witree.sweeps import (
    SYSTEMS,
    TREES,
    deliveries,
    delivery_curves,
    measures_of,
    runs_by,
)
from tidings.lab.dynamic_topologies.witree.walkers import SWEEP, WalkSetting, run
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import between


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    pairs, of = runs_by(results, "dispatchers"), measures_of(SYSTEMS)
    shares = {f"growth of share, {name}": of[name]["transmissions"] / of["flooding"]["transmissions"] for name in TREES}
    return deliveries(pairs).union(between(pairs, "30", "80", shares))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    delivery_curves(canvas, measured, "dispatchers")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=WalkSetting,
    variants=variants("dispatchers", SIZES, SYSTEMS),
    figures=figures,
    plot=plot,
    sweep=SWEEP,
)
