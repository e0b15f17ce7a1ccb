"""E24: subscriptions from a point in the past, and twins that must see the same.

Half of the subscriptions ask for everything from the moment of subscribing on, the other half for everything behind a
given number of each publisher; each has a twin at another broker that asks for the same.

A plain client misses little, because a subscription is in place here after one way through the network. How long did
the brokers of the source take, that theirs missed 28 to 38 events each? They are not described. So ours are made slower
until the effect appears (`SLOW`): each message takes a broker some time, one after the other, and near the limit of
what it can do the queue before it becomes seconds long.

What is missed is the metric `false_negatives` by subscriber, against what the run notes as due; no metric counts the
subscribers that miss anything, so that is done here. Twins are the metric `group_difference`.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.cloud import SIZES, joined, run, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import measured, over_seeds, parameter, side_by_side
from tidings.lab.plots import bars
from tidings.spark.metrics.delivery import false_negatives
from tidings.spark.metrics.guarantees import group_difference

SLOW = (0.008, 0.01, 0.012)
"""Seconds that a broker takes over a message, with 3 brokers."""

STEPS = (("3", "10"), ("3", "6"), ("6", "10"))
"""The first is judged."""


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    table = missed(traces).join(differing(traces), on="run", how="inner")
    return compared(measured(results, table, "missed_share", "missed_count", "difference_share", "difference_count"))


def compared(runs: DataFrame) -> DataFrame:
    """With what is counted of a run as its measures, seed by seed."""
    from pyspark.sql import functions as F

    handling = F.coalesce(parameter("handling", "double"), F.lit(0.0))
    return at_full_speed(runs.where(handling == 0)).union(slowed(runs.where(handling > 0)))


def slowed(runs: DataFrame) -> DataFrame:
    """The same where brokers take their time."""
    from pyspark.sql import functions as F

    handling = F.concat((parameter("handling", "double") * 1000).cast("int"), F.lit(" ms"))
    ours, plain = F.col("sides")["guarantees"], F.col("sides")["plain"]
    return over_seeds(
        side_by_side(runs, group=handling, side=parameter("system")),
        {
            "misses, slow, plain": plain["missed_share"],
            "missed, slow, plain": plain["missed_count"],
            "misses, slow, guarantees": ours["missed_share"],
            "twins differ, slow, guarantees": ours["difference_share"],
        },
    )


def at_full_speed(runs: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    sides = F.col("sides")
    brokers, system = parameter("brokers"), parameter("system")
    ours, plain = sides["guarantees"], sides["plain"]
    every = over_seeds(
        side_by_side(runs, group=F.concat(brokers, F.lit(" brokers")), side=system),
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
        step = side_by_side(runs.where(system == "plain"), group=F.lit(f"{one} to {two} brokers"), side=brokers)
        more = {
            "more misses, plain": sides[two]["missed_share"] - sides[one]["missed_share"],
            "more twins differ, plain": sides[two]["difference_share"] - sides[one]["difference_share"],
        }
        every = every.union(over_seeds(step, more))
    return every


def missed(traces: DataFrame) -> DataFrame:
    """run, missed_share, missed_count: those who joined and miss something, and how much each of them misses."""
    from pyspark.sql import functions as F

    due = traces.where("kind = 'note' AND message = 'due'").select("run", "key", "node")
    lost = false_negatives(traces, due, by=["node"]).where("false_negatives > 0")
    # Who is owed nothing misses nothing, and counts.
    members = traces.where("kind = 'start' AND startswith(node, 's')").select("run", "node").distinct()
    counted = members.join(lost, on=["run", "node"], how="left").groupBy("run")
    return counted.agg(
        F.expr("count(false_negatives) / count(*)").alias("missed_share"),
        F.expr("coalesce(avg(false_negatives), 0)").alias("missed_count"),
    )


def differing(traces: DataFrame) -> DataFrame:
    """run, difference_share, difference_count: groups that differ, and by how much each of them does."""
    return group_difference(joined(traces)).selectExpr(
        "run",
        "differing_group_share AS difference_share",
        "coalesce(try_divide(group_difference_mean, differing_group_share), 0) AS difference_count",
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    bars(left, measured, {"misses, plain": "plain", "misses, guarantees": "guarantees"}, scale=100)
    left.set(title="subscribers that miss something", ylabel="%")
    bars(right, measured, {"twins differ, plain": "plain", "twins differ, guarantees": "guarantees"}, scale=100)
    right.set(title="twins that see different events", ylabel="%")


SLOW_VARIANTS = tuple(
    Variant(
        f"3 brokers {1000 * handling:g} ms {system}",
        {"brokers": 3, "system": system, "kind": "reference", "handling": handling},
    )
    for handling in SLOW
    for system in ("guarantees", "plain")
)

EXPERIMENT = define(
    __file__,
    run=run,
    variants=(*variants("brokers", SIZES, kind="reference"), *SLOW_VARIANTS),
    figures=figures,
    plot=plot,
)
