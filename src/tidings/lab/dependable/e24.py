"""E24: subscriptions from a point in the past, and twins that must see the same.

Half of the subscriptions ask for everything from the moment of subscribing on, the other half for everything behind a
given number of each publisher; each has a twin at another broker that asks for the same.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.lab.definition import define
from tidings.lab.dependable.cloud import SIZES, CloudSetting, CloudWorld
from tidings.lab.dependable.measures import group_differences, missed_publications
from tidings.lab.experiment import Measured, Variant
from tidings.trace.writer import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

STEPS = (("3", "10"), ("3", "6"), ("6", "10"))
"""The first is judged."""


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    outcome = CloudWorld(msgspec.convert({**parameters, "seed": seed}, CloudSetting), trace).run()
    missed_share, missed_count = missed_publications(outcome)
    difference_share, difference_count = group_differences(outcome)
    return {
        "missed_share": missed_share,
        "missed_count": missed_count,
        "difference_share": difference_share,
        "difference_count": difference_count,
    }


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    from tidings.lab.figures import over_seeds, parameter, side_by_side

    sides = F.col("sides")
    brokers, system = parameter("brokers"), parameter("system")
    ours, plain = sides["guarantees"], sides["plain"]
    every = over_seeds(
        side_by_side(results, group=F.concat(brokers, F.lit(" brokers")), side=system),
        {
            "misses, plain": plain["missed_share"],
            "missed, plain": plain["missed_count"],
            "twins differ, plain": plain["difference_share"],
            "difference, plain": plain["difference_count"],
            "misses, guarantees": ours["missed_share"],
            "twins differ, guarantees": ours["difference_share"],
        },
    )
    for one, two in STEPS:
        step = side_by_side(results.where(system == "plain"), group=F.lit(f"{one} to {two} brokers"), side=brokers)
        more = {
            "more misses, plain": sides[two]["missed_share"] - sides[one]["missed_share"],
            "more twins differ, plain": sides[two]["difference_share"] - sides[one]["difference_share"],
        }
        every = every.union(over_seeds(step, more))
    return every


def plot(canvas: "Figure", measured: Sequence[Measured]) -> None:
    from tidings.lab.plots import bars

    left, right = canvas.subplots(1, 2)
    bars(left, measured, {"misses, plain": "plain", "misses, guarantees": "guarantees"}, scale=100)
    left.set_title("subscribers that miss something")
    left.set_ylabel("%")
    bars(right, measured, {"twins differ, plain": "plain", "twins differ, guarantees": "guarantees"}, scale=100)
    right.set_title("twins that see different events")
    right.set_ylabel("%")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(
        Variant(f"{brokers} brokers {system}", {"brokers": brokers, "system": system, "kind": "reference"})
        for brokers in SIZES
        for system in ("guarantees", "plain")
    ),
    figures=figures,
    plot=plot,
)
