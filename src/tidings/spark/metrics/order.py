"""Whether each subscriber gets the events of a publisher in the order in which they were published.

A fact is a pair: a publisher and one subscription of one node. A *violation* is an event handed over after one with a
higher number of the same publisher. Events handed over at the same time count as in order, since a trace does not say
which came first. Repeats of an old event are violations too.

*Violations at arrival* are the same for the order in which events came, before an ordering protocol put them in order:
one that was held back for `hold` seconds came so much earlier. What ordering achieves is the difference.

*Extra delay* is what order costs: the mean over all events of a pair of the time that each was to be held back
(`latch`), and was held back (`hold`); an event without these fields was not held. One value for each pair; percentiles
are over pairs. Everything is in the `deliver` rows of events.

Group by `publisher` or `node`. Defined in: transport 3.3.1, 3.3.11, 4.0.
"""

from typing import TYPE_CHECKING

from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import DELIVER, DELIVERED, fields_of, with_fields
from tidings.spark.metrics.values import mean, millionths, percentiles, rounded_mean, seconds, share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIELDS = fields_of(DELIVERED, only="publisher number subscription latch hold late")
PAIR = ("run", "publisher", "node", "subscription")


def ordered_pairs(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    is_known = "said.publisher IS NOT NULL AND said.number IS NOT NULL"
    arrivals = with_fields(rows, FIELDS).selectExpr(
        "run",
        "said.publisher AS publisher",
        "node",
        "said.subscription AS subscription",
        "said.number AS number",
        "time_us",
        f"{millionths('time - coalesce(said.hold, 0)')} AS arrived_us",
        f"{is_known} AS is_known",
        f"CASE WHEN {is_known} THEN coalesce({millionths('said.latch')}, 0) END AS latch_us",
        f"CASE WHEN {is_known} THEN coalesce({millionths('said.hold')}, 0) END AS hold_us",
        f"{is_known} AND coalesce(said.late, false) AS is_late",
    )
    judged = arrivals
    for moment, name in (("time_us", "highest"), ("arrived_us", "highest_arrived")):
        earlier = Window.partitionBy(*PAIR).orderBy(moment, "number").rowsBetween(Window.unboundedPreceding, -1)
        judged = judged.withColumn(name, F.max("number").over(earlier))
    pairs = judged.groupBy(*PAIR).agg(
        F.expr("count_if(is_known)").alias("arrived"),
        F.expr("count_if(is_known AND number < highest)").alias("violations"),
        F.expr("count_if(is_known AND number < highest_arrived)").alias("arrival_violations"),
        F.expr("count_if(is_late)").alias("late"),
        F.expr(rounded_mean("sum(latch_us)", "count(latch_us)")).alias("latch_us"),
        F.expr(rounded_mean("sum(hold_us)", "count(hold_us)")).alias("hold_us"),
    )
    # Sorting out what is not known before would make Spark parse the text of each row once more.
    return pairs.where("arrived > 0")


ORDER = Family(
    "order",
    "Whether each subscriber gets the events of a publisher in order, and what that costs.",
    reads=(DELIVER,),
    facts=ordered_pairs,
    groups=("publisher", "node"),
    aggregates={
        "pairs": "count(*)",
        "arrived": "sum(arrived)",
        "violations": "sum(violations)",
        "violating": "count_if(violations > 0)",
        "arrival_violations": "sum(arrival_violations)",
        "late": "sum(late)",
        "latch_total": "sum(latch_us)",
        "latch_percentiles": percentiles("latch_us", 0.5, 0.9, 1.0),
        "hold_total": "sum(hold_us)",
        "hold_percentiles": percentiles("hold_us", 0.5, 0.9, 1.0),
    },
)

fifo_violations = ORDER.add(
    "fifo_violations",
    "Events handed over after a later one of the same publisher, and that came after one, summed over pairs of "
    "publisher and subscription.",
    {
        "pairs": "pairs",
        "arrived": "arrived",
        "fifo_violations": "violations",
        "fifo_violation_share": share("violations", "arrived"),
        "violating_pairs": "violating",
        "arrival_violations": "arrival_violations",
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
