"""E4: how many others a broker turns to in each cycle, with similar brokers and with the tree around.

What is counted is whom a broker turns to (`CycleEnded`): in GEPS everybody whom it asks, tells or reports to; in
deltaFT along each branch all up to the first broker that lives. How many a broker has to know with deltaFT is taken
inside the run, since no message shows it."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.failover.failing_runs import GOSSIP, NEIGHBOURHOOD, outcomes, run
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import over_seeds, parameter, side_by_side
from tidings.lab.plots import bars

DELTAS = (3, 4)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    runs = outcomes(results, traces)
    side = F.concat(parameter("failover"), F.lit(" "), F.coalesce(parameter("delta"), F.lit("")))
    pairs = side_by_side(runs, group=F.lit("10 % failed"), side=side)
    of = {name: F.col("sides")[name] for name in (f"{GOSSIP} ", *(f"{NEIGHBOURHOOD} {delta}" for delta in DELTAS))}
    ours = of[f"{GOSSIP} "]
    known = results.where(parameter("failover") == NEIGHBOURHOOD).withColumn(
        "group", F.concat(F.lit("delta "), parameter("delta"))
    )
    return over_seeds(
        pairs,
        {
            "messages, gossip": ours["view_messages_mean"],
            "most messages, gossip": ours["view_messages_max"],
            "messages more, neighbourhood": of[f"{NEIGHBOURHOOD} 3"]["view_messages_mean"] / ours["view_messages_mean"]
            - 1,
            "messages, delta 4": of[f"{NEIGHBOURHOOD} 4"]["view_messages_mean"],
        },
    ).union(over_seeds(known, {"known": F.col("measures")["known"], "most known": F.col("measures")["most known"]}))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"known": "on average", "most known": "at most"})
    axes.set(title="brokers that a broker must know, deltaFT")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(
        Variant(GOSSIP, {"failover": GOSSIP, "rate": 0.1}),
        *(Variant(f"delta {delta}", {"failover": NEIGHBOURHOOD, "delta": delta, "rate": 0.1}) for delta in DELTAS),
    ),
    figures=figures,
    plot=plot,
)
