"""Figures of sweeps over one parameter of the walkers, seed by seed: the same walks with each way of repair.

delivered, SYSTEM              share of the deliveries that were due
delivered in reach, SYSTEM     of those that radios could have made
transmissions, SYSTEM          packets in the air for each event
share of flooding, SYSTEM      transmissions beside those of flooding
overlay / routing, SYSTEM      bytes for each link that was lost
"""

from collections.abc import Iterable, Sequence

from tidings.lab.experiment import Axes, Canvas, Column, DataFrame, Measured
from tidings.lab.figures import over_seeds, parameter, side_by_side
from tidings.lab.plots import COLOURS, points

TREES = ("strawman", "timed", "informed")
OPTIMISED = ("timed", "informed")
FLOODING = "flooding"
SYSTEMS = (*TREES, FLOODING)


def measures_of(systems: Iterable[str]) -> dict[str, Column]:
    from pyspark.sql import functions as F

    return {system: F.col("sides")[system] for system in systems}


def runs_by(results: DataFrame, by: str) -> DataFrame:
    """For each value of that parameter and seed what every system measured of itself."""
    return side_by_side(results, group=parameter(by), side=parameter("repair"))


def deliveries(pairs: DataFrame) -> DataFrame:
    of = measures_of(SYSTEMS)
    flooded, plain = of[FLOODING], of["strawman"]
    trees = {name: of[name] for name in TREES}
    return over_seeds(
        pairs,
        {
            **{f"delivered, {name}": side["delivered"] for name, side in of.items()},
            **{f"delivered in reach, {name}": side["delivered in reach"] for name, side in of.items()},
            **{f"transmissions, {name}": side["transmissions"] / side["events"] for name, side in of.items()},
            **{
                f"share of flooding, {name}": side["transmissions"] / flooded["transmissions"]
                for name, side in trees.items()
            },
            **{f"behind flooding, {name}": flooded["delivered"] - side["delivered"] for name, side in trees.items()},
            **{f"ahead of strawman, {name}": of[name]["delivered"] - plain["delivered"] for name in OPTIMISED},
            "ahead of timed, informed": of["informed"]["delivered"] - of["timed"]["delivered"],
        },
    )


def delivery_curves(canvas: Canvas, measured: Sequence[Measured], label: str) -> None:
    panels = canvas.subplots(1, 2)
    curves(panels[0], measured, "delivered", SYSTEMS, 100.0)
    panels[0].set(title="delivered, %", xlabel=label)
    curves(panels[1], measured, "transmissions", SYSTEMS)
    panels[1].set(title="packets in the air for each event", xlabel=label)
    if panels[0].lines:
        panels[0].legend()


def curves(axes: Axes, measured: Sequence[Measured], figure: str, names: Iterable[str], scale: float = 1.0) -> None:
    for name, colour in zip(names, COLOURS, strict=False):
        at, values = points(measured, f"{figure}, {name}", scale)
        if at:
            axes.plot(at, values, ".-", color=colour, label=name)
