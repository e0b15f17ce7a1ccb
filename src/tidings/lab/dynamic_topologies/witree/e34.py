"""E34: what arrives, and what it takes, when more is published; taken inside the run (`walkers.py`)."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.savings import variants
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

RATES = (2.0, 20.0, 100.0, 200.0)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    pairs, of = runs_by(results, "rate"), measures_of(SYSTEMS)
    falls = {f"fall, {name}": of[name]["delivered"] for name in SYSTEMS}
    gaps = {f"change of gap, {name}": of["flooding"]["delivered"] - of[name]["delivered"] for name in TREES}
    less = {f"more saved, {name}": of["flooding"]["transmissions"] - of[name]["transmissions"] for name in TREES}
    low, high = str(RATES[0]), str(RATES[-1])
    return (
        deliveries(pairs)
        .union(between(pairs, low, high, falls, ratio=False))
        .union(between(pairs, low, high, gaps, ratio=False))
        .union(between(pairs, low, high, less, ratio=False))
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    delivery_curves(canvas, measured, "events a second")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=WalkSetting,
    variants=variants("rate", RATES, SYSTEMS),
    figures=figures,
    plot=plot,
    sweep=SWEEP,
)
