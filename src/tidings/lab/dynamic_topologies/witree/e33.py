"""E33: what arrives, and what it takes, as nodes walk faster; taken inside the run (`walkers.py`)."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.savings import variants
from tidings.lab.dynamic_topologies.witree.e30 import SPEEDS
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
    pairs, of = runs_by(results, "speed"), measures_of(SYSTEMS)
    falls = between(pairs, "0.2", "2.0", {f"fall, {name}": of[name]["delivered"] for name in TREES}, ratio=False)
    traffic = between(pairs, "0.2", "2.0", {f"growth of traffic, {name}": of[name]["transmissions"] for name in TREES})
    return deliveries(pairs).union(falls).union(traffic)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    delivery_curves(canvas, measured, "metres a second")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=WalkSetting,
    variants=variants("speed", SPEEDS, SYSTEMS),
    figures=figures,
    plot=plot,
    sweep=SWEEP,
)
