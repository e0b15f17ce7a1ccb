"""E25: what guarantees cost. Runs that differ in the system alone are compared seed by seed.

Messages are the metric `message_overhead` over the rows of brokers: all of them, without the acknowledgements that a
plain broker would not send; and as throughput those that carry publications, to a broker or to a client. Latency is
the metric `client_latency`, of what was published when a client's subscription was in place.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.cloud import INSTALLATION_MAX, LINKED_BEFORE, REGIONS, run, variants
from tidings.lab.experiment import Canvas, Column, DataFrame, Measured
from tidings.lab.figures import measured, over_seeds, parameter, side_by_side
from tidings.lab.plots import bars
from tidings.spark.metrics.delivery import client_latency
from tidings.spark.metrics.traffic import message_overhead

JOINS = (5, 10, 15)

ACKNOWLEDGEMENTS = ("Installed", "NotInstalled", "Reached", "NotReached", "Receipt")
"""What a plain broker would not send."""

CARRYING = ("Publications", "Delivery")


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    table = sent(results, traces).join(client_latency(settled(traces)), on="run", how="inner")
    runs = measured(results, table, "messages", "throughput", "client_latency_p99")
    joins = F.concat(parameter("joins"), F.lit(" joins/s"))
    pairs = side_by_side(runs, group=joins, side=parameter("system"))
    ours, plain = F.col("sides")["guarantees"], F.col("sides")["plain"]
    made: dict[str, Column] = {}
    for name, column in (("messages", "messages"), ("throughput", "throughput"), ("latency", "client_latency_p99")):
        made |= {
            name: ours[column] / plain[column] - 1,
            f"{name}, plain": plain[column],
            f"{name}, guarantees": ours[column],
        }
    return over_seeds(pairs, made)


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
