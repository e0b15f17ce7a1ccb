"""E31: bytes of the overlay beside those of routing for each lost link; taken inside the run (`walkers.py`)."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.savings import variants
from tidings.lab.dynamic_topologies.witree.e29 import SIZES
from tidings.lab.dynamic_topologies.witree.e30 import SPEEDS
from tidings.lab.dynamic_topologies.witree.sweeps import TREES, curves, measures_of, runs_by
from tidings.lab.dynamic_topologies.witree.walkers import SWEEP, WalkSetting, run
from tidings.lab.experiment import Canvas, Column, DataFrame, Measured
from tidings.lab.figures import between, over_seeds, parameter


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    of = measures_of(TREES)
    by_size = runs_by(results.where(parameter("dispatchers").isNotNull()), "dispatchers")
    by_speed = runs_by(results.where(parameter("speed").isNotNull()), "speed")
    overlay, routing = bytes_of(of, "overlay bytes"), bytes_of(of, "routing bytes")
    named = {
        **{f"overlay, {name}": overlay[name] for name in TREES},
        **{f"routing, {name}": routing[name] for name in TREES},
        **{f"overlay beside routing, {name}": overlay[name] / routing[name] for name in TREES},
    }
    growth = {
        **{f"growth of overlay, {name}": overlay[name] for name in TREES},
        **{f"growth of routing, {name}": routing[name] for name in TREES},
    }
    tables = [
        over_seeds(with_unit(by_size, "nodes"), named),
        over_seeds(with_unit(by_speed, "m/s"), named),
        between(by_size, "30", "80", growth),
        between(by_speed, "0.2", "2.0", growth),
    ]
    first, *others = tables
    for table in others:
        first = first.union(table)
    return first


def with_unit(pairs: DataFrame, unit: str) -> DataFrame:
    from pyspark.sql import functions as F

    return pairs.withColumn("group", F.concat("group", F.lit(f" {unit}")))


def bytes_of(of: dict[str, Column], kind: str) -> dict[str, Column]:
    return {name: side[kind] / side["reconfigurations"] for name, side in of.items()}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    panels = canvas.subplots(1, 2)
    for axes, unit in zip(panels, ("nodes", "m/s"), strict=True):
        shown = [each for each in measured if each.group.endswith(unit)]
        curves(axes, shown, "overlay", TREES, 0.001)
        for line in axes.lines:
            line.set_label(f"overlay, {line.get_label()}")
        before = len(axes.lines)
        curves(axes, shown, "routing", TREES, 0.001)
        for line in axes.lines[before:]:
            line.set(linestyle="--", label=f"routing, {line.get_label()}")
        axes.set(title="kB for each lost link", xlabel=unit)
    if panels[0].lines:
        panels[0].legend()


EXPERIMENT = define(
    __file__,
    run=run,
    setting=WalkSetting,
    variants=(*variants("dispatchers", SIZES, TREES), *variants("speed", SPEEDS, TREES)),
    figures=figures,
    plot=plot,
    sweep=SWEEP,
)
