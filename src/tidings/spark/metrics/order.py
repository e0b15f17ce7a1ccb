"""Whether each subscriber gets the events of a publisher in the order in which they were published.

A fact is a pair: a publisher and one subscription of one node. A *violation* is an event handed over after one with a
higher number of the same publisher. Events handed over at the same time count as in order, since a trace does not say
which came first. Repeats of an old event are violations too.

Two *stages* are told apart, in a column of that name: `deliver`, what applications saw (the `deliver` rows), and
`receive`, what arrived before an ordering protocol put it in order (notes of that name, where one runs). What ordering
achieves is the difference.

*Extra delay* is what order costs: the mean over all events of a pair of the time that each was to be held back
(`latch`), and was held back (`hold`); an event without these fields was not held. One value for each pair; percentiles
are over pairs.

    rows read                        fields
    deliver, message Event           publisher, number, subscription; latch, hold (seconds), late
    note receive                     publisher, number, subscription

Group by `publisher` or `node`. Defined in: transport 3.3.1, 3.3.11, 4.0.
"""

from typing import TYPE_CHECKING

from tidings.spark.metrics.family import Family
from tidings.spark.metrics.references.order import order_rows
from tidings.spark.metrics.tables import DELIVER, note, with_fields
from tidings.spark.metrics.values import mean, millionths, percentiles, rounded_mean, seconds, share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIELDS = "publisher STRING, number BIGINT, subscription STRING, latch DOUBLE, hold DOUBLE, late BOOLEAN"
PAIR = ("run", "stage", "publisher", "node", "subscription")


def ordered_pairs(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    is_known = "said.publisher IS NOT NULL AND said.number IS NOT NULL"
    arrivals = with_fields(rows, FIELDS).selectExpr(
        "run",
        "CASE WHEN kind = 'deliver' THEN 'deliver' ELSE 'receive' END AS stage",
        "said.publisher AS publisher",
        "node",
        "coalesce(said.subscription, '') AS subscription",
        "said.number AS number",
        "time_us",
        f"{is_known} AS is_known",
        f"CASE WHEN {is_known} THEN coalesce({millionths('said.latch')}, 0) END AS latch_us",
        f"CASE WHEN {is_known} THEN coalesce({millionths('said.hold')}, 0) END AS hold_us",
        f"{is_known} AND coalesce(said.late, false) AS is_late",
    )
    earlier = Window.partitionBy(*PAIR).orderBy("time_us", "number").rowsBetween(Window.unboundedPreceding, -1)
    judged = arrivals.withColumn("highest", F.max("number").over(earlier))
    pairs = judged.groupBy(*PAIR).agg(
        F.expr("count_if(is_known)").alias("arrived"),
        F.expr("count_if(is_known AND number < highest)").alias("violations"),
        F.expr("count_if(is_late)").alias("late"),
        F.expr(rounded_mean("sum(latch_us)", "count(latch_us)")).alias("latch_us"),
        F.expr(rounded_mean("sum(hold_us)", "count(hold_us)")).alias("hold_us"),
    )
    # Sorting out what is not known before would make Spark parse the text of each row once more.
    return pairs.where("arrived > 0")


ORDER = Family(
    "order",
    "Whether each subscriber gets the events of a publisher in order, and what that costs.",
    reads=(DELIVER, note("receive")),
    facts=ordered_pairs,
    reference=order_rows,
    groups=("publisher", "node"),
    standing=("stage",),
    aggregates={
        "pairs": "count(*)",
        "arrived": "sum(arrived)",
        "violations": "sum(violations)",
        "violating": "count_if(violations > 0)",
        "late": "sum(late)",
        "latch_total": "sum(latch_us)",
        "latch_percentiles": percentiles("latch_us", 0.5, 0.9, 1.0),
        "hold_total": "sum(hold_us)",
        "hold_percentiles": percentiles("hold_us", 0.5, 0.9, 1.0),
    },
)

fifo_violations = ORDER.add(
    "fifo_violations",
    "Events handed over after a later one of the same publisher, summed over pairs of publisher and subscription.",
    {
        "pairs": "pairs",
        "arrived": "arrived",
        "fifo_violations": "violations",
        "fifo_violation_share": share("violations", "arrived"),
        "violating_pairs": "violating",
        "late": "late",
    },
)
extra_delay = ORDER.add(
    "extra_delay",
    "Mean time in seconds for which events of a pair were to be held back, and were: mean and percentiles over pairs.",
    {
        "extra_delay_mean": seconds(mean("latch_total", "pairs")),
        "extra_delay_p50": seconds("latch_percentiles[0]"),
        "extra_delay_p90": seconds("latch_percentiles[1]"),
        "extra_delay_max": seconds("latch_percentiles[2]"),
        "hold_mean": seconds(mean("hold_total", "pairs")),
        "hold_p50": seconds("hold_percentiles[0]"),
        "hold_p90": seconds("hold_percentiles[1]"),
        "hold_max": seconds("hold_percentiles[2]"),
    },
)
