"""E23: receipts instead of waiting for a fixed time.

The baseline cannot know when a request was carried out, so it waits as long as the slowest ever took. That time is
found by measuring receipts first (their longest, rounded up to a second). A sweep runs everything at once, so here it
is a parameter, and a claim says that it is the right one.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.lab.definition import define
from tidings.lab.dependable.cloud import SIZES, CloudSetting, CloudWorld
from tidings.lab.dependable.measures import false_positives
from tidings.lab.experiment import Measured, Variant
from tidings.trace.writer import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    outcome = CloudWorld(msgspec.convert({**parameters, "seed": seed}, CloudSetting), trace).run()
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


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(
        Variant(f"{brokers} brokers {system}", {"brokers": brokers, "system": system, "kind": "installed"})
        for brokers in SIZES
        for system in ("guarantees", "plain")
    ),
    figures=figures,
    plot=plot,
)
