"""E25: what guarantees cost. Runs that differ in the system alone are compared seed by seed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.lab.dependable.cloud import Setting, World
from tidings.lab.dependable.measures import delivery_latency_99, messages_per_broker, throughput
from tidings.lab.experiment import Band, Claim, Experiment, Measured, Parameter, Scale, Variant
from tidings.trace.gathering import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

JOINS = (5, 10, 15)
COMMON: dict[str, Parameter] = {"brokers": 6, "kind": "mixed", "history": 120.0}


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    outcome = World(msgspec.convert({**parameters, "seed": seed}, Setting), trace).run()
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


E25 = Experiment(
    id="dependable/E25",
    title="What guarantees cost",
    question=(
        "Receipts, references and history are more messages and more work. How many more messages does a broker send, "
        "does it pass on fewer publications, and do they arrive later? 6 brokers; half of the requests and a tenth of "
        "the publications ask for a receipt, each subscription has one of three guarantees, and 5, 10 or 15 "
        "subscribers join in a second."
    ),
    source="PSDG, section 7.5.4; specification dependable.md 4.5",
    run="tidings.lab.dependable.e25:run",
    variants=tuple(
        Variant(f"{joins} joins/s {system}", {"joins": joins, "system": system})
        for joins in JOINS
        for system in ("guarantees", "plain")
    ),
    scales={
        "small": Scale({**COMMON, "seconds": 50.0, "joining": 10.0}, seeds=5),
        "paper": Scale({**COMMON, "seconds": 300.0, "joining": 30.0}, seeds=10),
    },
    figures=figures,
    claims=(
        Claim(
            figure="messages",
            says="more messages per broker",
            published="+2 to +3 %, less with more subscribers (7.5.4)",
            unit="change",
            band=Band(high=0.05),
            requirement="S-120",
            reason=(
                "the additional messages are receipts of publications (a tenth of them ask for one, and it comes back "
                "on every link that they took) and answers to subscriptions; the shorter a run is and the fewer "
                "subscribers it has, the fewer deliveries there are to divide by"
            ),
        ),
        Claim(
            figure="throughput",
            says="more publications per second and broker",
            published="not less (7.5.4)",
            unit="change",
            band=Band(low=-0.05),
            requirement="S-120",
        ),
        Claim(
            figure="latency",
            says="longer delivery latency, 99th percentile",
            published="similar (7.5.4)",
            unit="change",
            band=Band(low=-0.05, high=0.05),
            requirement="S-120",
        ),
        Claim(figure="throughput, guarantees", says="publications per second and broker", published="grows (7.5.4)"),
        Claim(figure="latency, guarantees", says="delivery latency, 99th percentile", published="", unit="seconds"),
    ),
    plot=plot,
)
