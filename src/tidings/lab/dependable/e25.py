"""E25: what guarantees cost. Runs that differ in the system alone are compared seed by seed.

Messages are the metric `message_overhead` over the rows of brokers: all of them, without the acknowledgements that a
plain broker would not send; and as throughput those that carry publications, to a broker or to a client. Latency is
the metric `client_latency`, of what was published when a client's subscription was in place.

Processor time and memory of brokers are measured in the run (`metered.py`): they leave no trace for a metric to read.
As with messages, what handling acknowledgements takes does not count for plain brokers.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tidings.lab.definition import define
from tidings.lab.dependable.cloud import (
    BEGIN,
    INSTALLATION_MAX,
    LINKED_BEFORE,
    REGIONS,
    CloudSetting,
    CloudWorld,
    variants,
)
from tidings.lab.dependable.metered import MeteredBroker
from tidings.lab.experiment import Canvas, Column, DataFrame, Measured
from tidings.lab.figures import measured, over_seeds, parameter, side_by_side
from tidings.lab.plots import bars
from tidings.machine.node import Machine
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerParams
from tidings.sim.node import Draws
from tidings.spark.metrics.delivery import client_latency
from tidings.spark.metrics.traffic import message_overhead
from tidings.trace.writer import Writer

JOINS = (5, 10, 15)

ACKNOWLEDGEMENTS = ("Installed", "NotInstalled", "Reached", "NotReached", "Receipt")
"""What a plain broker would not send."""

CARRYING = ("Publications", "Delivery")

COMPARED = {
    "messages": "messages",
    "throughput": "throughput",
    "latency": "client_latency_p99",
    "cpu": "cpu",
    "memory": "memory",
}
"""Figures, and the columns that they compare."""

WEIGHED_EVERY = 10.0
"""Seconds between two looks at the memory of brokers."""

WARM_UP = 3.0


class MeteredWorld(CloudWorld):
    def __init__(self, setting: CloudSetting, trace: Writer) -> None:
        super().__init__(setting, trace)
        self.metered: list[MeteredBroker] = []

    def make_broker(self, name: NodeId, params: BrokerParams, draws: Draws) -> Machine:
        uncounted = ACKNOWLEDGEMENTS if self.setting.system == "plain" else ()
        metered = MeteredBroker(super().make_broker(name, params, draws), uncounted)
        self.metered.append(metered)
        return metered

    def weigh_at(self, at: float) -> None:
        self.simulator.call_at(at, partial(self.weigh, at))

    def weigh(self, at: float) -> None:
        for each in self.metered:
            each.weigh()
        if at + WEIGHED_EVERY < BEGIN + self.setting.seconds:
            self.weigh_at(at + WEIGHED_EVERY)


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: those of `CloudSetting`."""
    setting = msgspec.convert({**parameters, "seed": seed}, CloudSetting)
    # What is compiled on first use is compiled now, so that it counts in no run.
    CloudWorld(msgspec.structs.replace(setting, seconds=WARM_UP, joining=WARM_UP)).run()
    world = MeteredWorld(setting, trace)
    world.weigh_at(BEGIN + WEIGHED_EVERY)
    world.run()
    brokers = world.metered
    return {
        "cpu": sum(each.seconds for each in brokers) / len(brokers),
        "memory": sum(each.bytes_max for each in brokers) / len(brokers) / 1e6,
    }


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    taken = results.select("run", *(F.col("measures")[name].alias(name) for name in ("cpu", "memory")))
    table = sent(results, traces).join(client_latency(settled(traces)), on="run", how="inner")
    table = table.join(taken, on="run", how="inner")
    runs = measured(results, table, "messages", "throughput", "client_latency_p99", "cpu", "memory")
    joins = F.concat(parameter("joins"), F.lit(" joins/s"))
    pairs = side_by_side(runs, group=joins, side=parameter("system"))
    ours, plain = F.col("sides")["guarantees"], F.col("sides")["plain"]
    made: dict[str, Column] = {}
    for name, column in COMPARED.items():
        made |= {
            name: ours[column] / plain[column] - 1,
            f"{name}, plain": plain[column],
            f"{name}, guarantees": ours[column],
        }
    return over_seeds(pairs, made).union(by_joins(runs))


def by_joins(runs: DataFrame) -> DataFrame:
    """What more subscribers change, from the fewest that join in a second to the most."""
    from pyspark.sql import functions as F

    side = F.concat(parameter("joins"), F.lit(" "), parameter("system"))
    sides, fewest, most = F.col("sides"), JOINS[0], JOINS[-1]

    def more_messages(joins: int) -> Column:
        return sides[f"{joins} guarantees"]["messages"] / sides[f"{joins} plain"]["messages"]

    throughput = [sides[f"{joins} guarantees"]["throughput"] for joins in (fewest, most)]
    return over_seeds(
        side_by_side(runs, group=F.lit(f"{fewest} to {most} joins/s"), side=side),
        {
            "messages shrink": more_messages(most) - more_messages(fewest),
            "throughput grows": throughput[1] / throughput[0] - 1,
        },
    )


def sent(results: DataFrame, traces: DataFrame) -> DataFrame:
    """run, messages (of a broker), throughput (publications that a broker sends on or delivers in a second)."""
    from pyspark.sql import functions as F

    by_type = message_overhead(traces.where(F.col("node").isin(*REGIONS)))
    about = results.select(
        "run",
        (parameter("system") == "plain").alias("is_plain"),
        parameter("brokers", "int").alias("brokers"),
        parameter("seconds", "double").alias("seconds"),
    )
    is_counted = ~(F.col("is_plain") & F.col("message").isin(*ACKNOWLEDGEMENTS))
    counted = by_type.join(about, on="run", how="inner").groupBy("run", "brokers", "seconds")
    return counted.agg(
        (F.sum(F.when(is_counted, F.col("messages"))) / F.col("brokers")).alias("messages"),
        (
            F.sum(F.when(F.col("message").isin(*CARRYING), F.col("messages"))) / F.col("seconds") / F.col("brokers")
        ).alias("throughput"),
    ).select("run", "messages", "throughput")


def settled(traces: DataFrame) -> DataFrame:
    """Publications, and deliveries of what was published after the installation of the subscriber."""
    from pyspark.sql import functions as F

    begun = traces.where("kind = 'start'").groupBy("run", "node").agg(F.min("time").alias("begun"))
    told = traces.where("kind = 'deliver' AND message = 'Event'").join(begun, on=["run", "node"], how="inner")
    accepted_at = F.get_json_object("detail", "$.accepted_at").cast("double")
    later = told.where(accepted_at > F.col("begun") + LINKED_BEFORE + INSTALLATION_MAX).drop("begun")
    return later.unionByName(traces.where("kind = 'publish'"))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    more, rate, latency = canvas.subplots(1, 3)
    bars(more, measured, {"messages": "measured"}, scale=100, bound=5.0)
    more.set(title="more messages with guarantees", ylabel="%")
    bars(rate, measured, {"throughput, plain": "plain", "throughput, guarantees": "guarantees"})
    rate.set(title="publications that a broker passes on", ylabel="per second")
    bars(latency, measured, {"latency, plain": "plain", "latency, guarantees": "guarantees"}, scale=1000)
    latency.set(title="delivery latency, 99th percentile", ylabel="ms")


EXPERIMENT = define(__file__, run=run, variants=variants("joins", JOINS), figures=figures, plot=plot)
