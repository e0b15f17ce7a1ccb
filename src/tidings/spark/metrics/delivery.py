"""Whether events reach those they are owed to, how often, and how late.

A fact is one event at one node: `pairs` has a row for each (run, key, node) where an event was delivered, or is due
(`expected`), and besides a row without a node for each publication. All rows of one event are brought together once;
everything else happens where they then are.

- An event that a client receives for two subscriptions is delivered twice by right. A *repeated* delivery is one to the
  same subscription.
- *Latency* is the time from the `publish` row of the same key, the earliest if there are several, to the first delivery
  at the node. It is not taken from `accepted_at` in the deliver row, although that would save bringing rows together:
  `accepted_at` is a time of day at the publisher's broker, while the times of a trace are those of the clock that runs
  it, and only in the simulator is this the same clock. Events without an id have no key when they are published; they
  count as delivered but have no latency, and are found as deliveries without publication.
- The denominator of the *delivery ratio* is what the workload owes, so subscribers of a broker that is down count.
- `hops` and `repaired` are fields of the deliver row; of several deliveries the fewest hops count, and a delivery is a
  recovery if no copy came without repair.

Group by `node`, `publisher`, or `second`, the second of the run in which the event was published: the delivery ratio
over time is `delivery_ratio(trace, expected, by=["second"])`.

Defined in: dependable 4.1 (delivery ratio, hops, false positives, missed publications, PDL), transport 4.0 (false
negatives per message and subscriber, recovery delay), peer-to-peer 3L (update latency), dynamic topologies 4.2.
"""

from typing import TYPE_CHECKING

from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import (
    DELIVER,
    DELIVERED,
    IS_DELIVER,
    MILLION,
    PUBLISH,
    due_pairs,
    fields_of,
    mean,
    percentile,
    rounded,
    rounded_mean,
    seconds,
    share,
    spread,
    when,
    with_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIELDS = fields_of(DELIVERED, only="subscription hops repaired")


def pairs(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    """One row for each event at each node, and one without a node for each publication."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    told = with_fields(rows.where("key IS NOT NULL"), FIELDS, IS_DELIVER).selectExpr(
        "run",
        "key",
        f"CASE WHEN {IS_DELIVER} THEN node END AS node",
        f"CASE WHEN {IS_DELIVER} THEN NULL ELSE node END AS publisher",
        f"CASE WHEN {IS_DELIVER} THEN NULL ELSE time_us END AS published_us",
        f"CASE WHEN {IS_DELIVER} THEN time_us END AS delivered_us",
        "said.subscription AS subscription",
        "said.hops AS hops",
        f"CASE WHEN {IS_DELIVER} THEN coalesce(said.repaired, false) END AS is_repaired",
        "false AS is_due",
    )
    if expected is not None:
        told = told.unionByName(due_pairs(expected), allowMissingColumns=True)
    # All further steps group by these two columns and more, so this is the only time that rows move.
    together = told.repartition("run", "key")
    at_subscription = together.groupBy("run", "key", "node", "publisher", "subscription").agg(
        F.count("delivered_us").alias("copies"),
        *(F.min(name).alias(name) for name in ("published_us", "delivered_us", "hops", "is_repaired")),
        F.max("is_due").alias("is_due"),
    )
    at_node = at_subscription.groupBy("run", "key", "node", "publisher").agg(
        F.sum("copies").alias("copies"),
        F.sum(F.greatest(F.col("copies") - 1, F.lit(0))).alias("repeated"),
        *(F.min(name).alias(name) for name in ("published_us", "delivered_us", "hops", "is_repaired")),
        F.max("is_due").alias("is_due"),
    )
    of_event = Window.partitionBy("run", "key")
    return at_node.select(
        "run",
        "key",
        "node",
        F.min("publisher").over(of_event).alias("publisher"),
        F.min("published_us").over(of_event).alias("published_us"),
        F.expr("node IS NULL").alias("is_publication"),
        *("copies", "repeated", "delivered_us", "hops", "is_repaired", "is_due"),
    ).selectExpr("*", "delivered_us - published_us AS latency_us", f"floor(published_us / {MILLION}) AS second")


DELIVERY = Family(
    "delivery",
    "Whether events reach those they are owed to, how often, and how late.",
    reads=(DELIVER, PUBLISH),
    facts=pairs,
    groups=("node", "publisher", "second"),
)

DUE, RECEIVED, HIT = "count_if(is_due)", "count_if(copies > 0)", "count_if(copies > 0 AND is_due)"

delivery_ratio = DELIVERY.add(
    "delivery_ratio",
    "Deliveries that were due, divided by all that are due.",
    {"expected": DUE, "delivered_due": HIT, "delivery_ratio": share(HIT, DUE)},
    needs_expected=True,
)
false_negatives = DELIVERY.add(
    "false_negatives",
    "Events that were due at a node and never delivered there, counted for each event and node.",
    {"false_negatives": f"{DUE} - {HIT}", "false_negative_share": share(f"{DUE} - {HIT}", DUE)},
    needs_expected=True,
)
false_positives = DELIVERY.add(
    "false_positives",
    "Events delivered to a node where they were not due, counted for each event and node.",
    {"false_positives": f"{RECEIVED} - {HIT}", "false_positive_share": share(f"{RECEIVED} - {HIT}", RECEIVED)},
    needs_expected=True,
)
deliveries = DELIVERY.add(
    "deliveries",
    "Events published and delivered, deliveries repeated to the same subscription, and those whose publication is not "
    "recorded.",
    {
        "publications": "count_if(is_publication)",
        "delivered": RECEIVED,
        "deliveries": "coalesce(sum(copies), 0)",
        "repeated": "coalesce(sum(repeated), 0)",
        "unpublished": "count_if(copies > 0 AND published_us IS NULL)",
    },
)
latency = DELIVERY.add(
    "latency",
    "Seconds from publication to the first delivery at a node: mean, percentiles and the largest.",
    spread("latency", "latency_us", 50, 95, 99, unit=seconds) | {"latency_max": seconds("max(latency_us)")},
)
recovery_delay = DELIVERY.add(
    "recovery_delay",
    "Seconds from publication to delivery of events that arrived as repairs only.",
    {
        "recoveries": "count_if(is_repaired)",
        **spread("recovery_delay", f"({when('is_repaired', 'latency_us')})", 50, 80, 99, unit=seconds),
    },
)
hop_count = DELIVERY.add(
    "hop_count",
    "Hops between brokers that delivered events made: mean, 99th percentile and most.",
    spread("hops", "hops", 99) | {"hops_max": "max(hops)"},
)


def clients(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    """One row for each node that received an event whose publication is known."""
    from pyspark.sql import functions as F

    timed = pairs(rows, None).where("latency_us IS NOT NULL")
    return timed.groupBy("run", "node").agg(
        F.expr(rounded(percentile("latency_us", 0.99))).alias("p99_us"),
        F.expr(rounded_mean("latency_us")).alias("mean_us"),
    )


CLIENTS = Family(
    "clients",
    "How late events reach the clients, each client counting the same.",
    reads=(DELIVER, PUBLISH),
    facts=clients,
    groups=("node",),
)
client_latency = CLIENTS.add(
    "client_latency",
    "The 99th percentile of latency, and the mean, taken for each client and then averaged over clients, in seconds.",
    {
        "clients": "count(*)",
        "client_latency_p99": seconds(mean("p99_us")),
        "client_latency_mean": seconds(mean("mean_us")),
        "client_latency_p99_max": seconds("max(p99_us)"),
    },
)
