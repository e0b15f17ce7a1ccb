"""E24: subscriptions from a point in the past, and twins that must see the same.

Half of the subscriptions ask for everything from the moment of subscribing on, the other half for everything behind a
given number of each publisher; each has a twin at another broker that asks for the same.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.lab.dependable.cloud import SIZES, Setting, World
from tidings.lab.dependable.measures import group_differences, missed_publications
from tidings.lab.experiment import Band, Claim, Experiment, Measured, Scale, Variant
from tidings.trace.gathering import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

STEPS = (("3", "10"), ("3", "6"), ("6", "10"))
"""The first is judged."""

SOONER = (
    "a subscription is in place after one way through the network here, where it took seconds in the published runs; "
    "so a plain client misses little, and the difference between overlays is of the size of chance"
)


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    outcome = World(msgspec.convert({**parameters, "seed": seed}, Setting), trace).run()
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


E24 = Experiment(
    id="dependable/E24",
    title="Subscriptions from a point in the past",
    question=(
        "A subscriber names the point from which it wants everything: the moment of subscribing, or the last event it "
        "has of each publisher. With guarantees the network sends what was published since, from its history. Without, "
        "a client can only throw away what is too old. How many subscribers miss something, and how many of two that "
        "ask for the same at different brokers see something different?"
    ),
    source="PSDG, section 7.5.3; specification dependable.md 4.5",
    run="tidings.lab.dependable.e24:run",
    variants=tuple(
        Variant(f"{brokers} brokers {system}", {"brokers": brokers, "system": system, "kind": "reference"})
        for brokers in SIZES
        for system in ("guarantees", "plain")
    ),
    scales={
        "small": Scale({"seconds": 30.0, "joining": 15.0, "joins": 5, "history": 120.0}, seeds=6),
        "paper": Scale({"seconds": 300.0, "joining": 30.0, "joins": 5, "history": 120.0}, seeds=10),
    },
    figures=figures,
    claims=(
        Claim(
            figure="misses, plain",
            says="subscribers that miss something, plain",
            published="50 % at 3 brokers, up to 60 % (7.5.3)",
            unit="share",
            band=Band(above=0.0),
            requirement="S-119",
        ),
        Claim(figure="missed, plain", says="how many events each of them misses", published="28 to 38 (7.5.3)"),
        Claim(
            figure="more misses, plain",
            says="how many more miss something",
            published="grows from 3 to 10 brokers (7.5.3)",
            unit="points",
            groups=("3 to 10 brokers",),
            band=Band(above=0.0),
            requirement="S-119",
            reason=SOONER,
        ),
        Claim(
            figure="more misses, plain",
            says="how many more miss something",
            published="grows (7.5.3)",
            unit="points",
            groups=("3 to 6 brokers", "6 to 10 brokers"),
        ),
        Claim(
            figure="twins differ, plain",
            says="twins that differ, plain",
            published="10 to 20 % (7.5.3)",
            unit="share",
            band=Band(above=0.0),
            requirement="S-119",
        ),
        Claim(figure="difference, plain", says="by how many events these differ", published="23 to 92 (7.5.3)"),
        Claim(
            figure="more twins differ, plain",
            says="how many more twins differ",
            published="grows from 3 to 10 brokers (7.5.3)",
            unit="points",
            groups=("3 to 10 brokers",),
            band=Band(above=0.0),
            requirement="S-119",
            reason=SOONER,
        ),
        Claim(
            figure="more twins differ, plain",
            says="how many more twins differ",
            published="grows (7.5.3)",
            unit="points",
            groups=("3 to 6 brokers", "6 to 10 brokers"),
        ),
        Claim(
            figure="misses, guarantees",
            says="subscribers that miss something, guarantees",
            published="0 (7.5.3)",
            unit="share",
            band=Band(high=0.0),
            requirement="S-119",
        ),
        Claim(
            figure="twins differ, guarantees",
            says="twins that differ, guarantees",
            published="0 (7.5.3)",
            unit="share",
            band=Band(high=0.0),
            requirement="S-119",
        ),
    ),
    plot=plot,
)
