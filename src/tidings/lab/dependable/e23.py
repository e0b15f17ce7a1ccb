"""E23: receipts instead of waiting for a fixed time.

The baseline cannot know when a request was carried out, so it waits as long as the slowest ever took. That time is
found by measuring receipts first (their longest, rounded up to a second). A sweep runs everything at once, so here it
is a parameter, and a claim says that it is the right one.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.lab.dependable.cloud import SIZES, Setting, World
from tidings.lab.dependable.measures import false_positives
from tidings.lab.experiment import Band, Claim, Experiment, Measured, Scale, Variant
from tidings.trace.gathering import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

TIMEOUT = 1.0


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    outcome = World(msgspec.convert({**parameters, "seed": seed}, Setting), trace).run()
    share, count = false_positives(outcome)
    return {
        "ack_time_mean": fmean(outcome.ack_times),
        "ack_time_max": max(outcome.ack_times),
        "timeout": outcome.setting.timeout,
        "in_memory": fmean(outcome.in_memory),
        "false_positive_share": share,
        "false_positive_count": count,
    }


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    from tidings.lab.figures import over_seeds, parameter, side_by_side

    sides = F.col("sides")
    brokers = parameter("brokers")
    pairs = side_by_side(results, group=F.concat(brokers, F.lit(" brokers")), side=parameter("system"))
    ours, plain = sides["guarantees"], sides["plain"]
    sizes = side_by_side(
        results.where(parameter("system") == "guarantees"), group=F.lit("3 to 10 brokers"), side=brokers
    )
    return over_seeds(
        pairs,
        {
            "receipt": ours["ack_time_mean"],
            "longest receipt": ours["ack_time_max"],
            "time-out": F.ceil(ours["ack_time_max"]) / plain["timeout"],
            "memory": plain["in_memory"] / ours["in_memory"],
            "too early, plain": plain["false_positive_share"],
            "too many, plain": plain["false_positive_count"],
            "too early, guarantees": ours["false_positive_share"],
        },
    ).union(over_seeds(sizes, {"growth": sides["10"]["ack_time_mean"] / sides["3"]["ack_time_mean"] - 1}))


def plot(canvas: "Figure", measured: Sequence[Measured]) -> None:
    from tidings.lab.plots import bars

    left, middle, right = canvas.subplots(1, 3)
    bars(left, measured, {"receipt": "mean"}, scale=1000)
    left.set_title("time to the receipt of a publication")
    left.set_ylabel("ms")
    bars(middle, measured, {"memory": "measured"}, bound=3.0)
    middle.set_title("publications in memory, time-out to receipts")
    middle.set_ylabel("times")
    bars(right, measured, {"too early, plain": "time-out", "too early, guarantees": "receipts"}, scale=100)
    right.set_title("subscribers that got something too early")
    right.set_ylabel("%")


E23 = Experiment(
    id="dependable/E23",
    title="Receipts instead of waiting",
    question=(
        "A client that subscribes, or publishes something that must not be lost, wants to know when that is done. "
        "With guarantees its broker sends a receipt when every broker concerned has answered. Without, it can only "
        "wait for a fixed time that is long enough for the slowest request. What does waiting cost: in publications "
        "that are kept in memory until they count as safe, and in events that come before a subscription counts as "
        "being in place? Brokers stand in 3, 6 and 10 cloud regions; subscribers join while others publish."
    ),
    source="PSDG, section 7.5.2; specification dependable.md 4.5",
    run="tidings.lab.dependable.e23:run",
    variants=tuple(
        Variant(f"{brokers} brokers {system}", {"brokers": brokers, "system": system, "kind": "installed"})
        for brokers in SIZES
        for system in ("guarantees", "plain")
    ),
    scales={
        "small": Scale({"seconds": 50.0, "joining": 30.0, "joins": 5, "history": 0.0, "timeout": TIMEOUT}, seeds=5),
        "paper": Scale({"seconds": 300.0, "joining": 30.0, "joins": 5, "history": 0.0, "timeout": TIMEOUT}, seeds=10),
    },
    figures=figures,
    claims=(
        Claim(figure="receipt", says="mean time to the receipt of a publication", published="", unit="seconds"),
        Claim(
            figure="growth",
            says="how much longer with more brokers",
            published="up to +54 % (7.5.2)",
            unit="change",
        ),
        Claim(
            figure="memory",
            says="publications in memory, time-out to receipts",
            published="up to 10 times (7.5.2)",
            unit="times",
            band=Band(above=3.0),
            requirement="S-118",
        ),
        Claim(
            figure="too early, plain",
            says="subscribers that get something too early, plain",
            published="up to 40 % (7.5.2)",
            unit="share",
            groups=("3 brokers",),
        ),
        Claim(
            figure="too early, plain",
            says="subscribers that get something too early, plain",
            published="up to 40 % (7.5.2)",
            unit="share",
            groups=("6 brokers", "10 brokers"),
            band=Band(above=0.0),
            requirement="S-118",
        ),
        Claim(
            figure="too many, plain",
            says="how many events each of them gets too early",
            published="grows by up to 17 % (7.5.2)",
        ),
        Claim(
            figure="too early, guarantees",
            says="subscribers that get something too early, guarantees",
            published="0 (7.5.2)",
            unit="share",
            band=Band(high=0.0),
            requirement="S-118",
        ),
        Claim(
            figure="time-out",
            says="longest receipt, in whole seconds, to the time-out",
            published="1 by definition (7.5)",
            band=Band(low=1.0, high=1.0),
            reason="the time-out that the plain clients were given is not the one that the source prescribes",
        ),
    ),
    plot=plot,
)
