"""E25: what guarantees cost. Runs that differ in the system alone are compared seed by seed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.lab.definition import define
from tidings.lab.dependable.cloud import CloudSetting, CloudWorld
from tidings.lab.dependable.measures import delivery_latency_99, messages_per_broker, throughput
from tidings.lab.experiment import Measured, Variant
from tidings.trace.writer import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

JOINS = (5, 10, 15)


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    outcome = CloudWorld(msgspec.convert({**parameters, "seed": seed}, CloudSetting), trace).run()
    return {
        "messages_per_broker": messages_per_broker(outcome),
        "throughput": throughput(outcome),
        "delivery_latency_99": delivery_latency_99(outcome),
    }


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    from tidings.lab.figures import over_seeds, parameter, side_by_side

    joins = F.concat(parameter("joins"), F.lit(" joins/s"))
    pairs = side_by_side(results, group=joins, side=parameter("system"))
    ours, plain = F.col("sides")["guarantees"], F.col("sides")["plain"]
    return over_seeds(
        pairs,
        {
            "messages": ours["messages_per_broker"] / plain["messages_per_broker"] - 1,
            "throughput": ours["throughput"] / plain["throughput"] - 1,
            "latency": ours["delivery_latency_99"] / plain["delivery_latency_99"] - 1,
            "messages, plain": plain["messages_per_broker"],
            "messages, guarantees": ours["messages_per_broker"],
            "throughput, plain": plain["throughput"],
            "throughput, guarantees": ours["throughput"],
            "latency, plain": plain["delivery_latency_99"],
            "latency, guarantees": ours["delivery_latency_99"],
        },
    )


def plot(canvas: "Figure", measured: Sequence[Measured]) -> None:
    from tidings.lab.plots import bars

    more, rate, latency = canvas.subplots(1, 3)
    bars(more, measured, {"messages": "measured"}, scale=100, bound=5.0)
    more.set_title("more messages with guarantees")
    more.set_ylabel("%")
    bars(rate, measured, {"throughput, plain": "plain", "throughput, guarantees": "guarantees"})
    rate.set_title("publications that a broker passes on")
    rate.set_ylabel("per second")
    bars(latency, measured, {"latency, plain": "plain", "latency, guarantees": "guarantees"}, scale=1000)
    latency.set_title("delivery latency, 99th percentile")
    latency.set_ylabel("ms")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(
        Variant(f"{joins} joins/s {system}", {"joins": joins, "system": system})
        for joins in JOINS
        for system in ("guarantees", "plain")
    ),
    figures=figures,
    plot=plot,
)
