"""Whether events reach those they are owed to, how often, and how late.

A fact is one event at one node: `pairs` has a row for each (run, key, node) where an event was delivered, or is due
(`expected`), and besides a row without a node for each event that was published, with the number of its publishers.
All rows of one event are brought together once; everything else happens where they then are.

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

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidings.spark.metrics.family import ALIKE, Alike, Family
from tidings.spark.metrics.tables import (
    DELIVER,
    DELIVERED,
    IS_DELIVER,
    MILLION,
    PUBLISH,
    TIME_US,
    cut,
    due_pairs,
    fields_of,
    mean,
    percentile,
    percentiles,
    rounded,
    rounded_mean,
    seconds,
    share,
    when,
    with_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIELDS = fields_of(DELIVERED, only="subscription hops repaired")


def pairs(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    """One row for each event at each node, and one without a node for each event that was published."""
    from pyspark.sql import functions as F

    keyed = rows.where("key IS NOT NULL")
    told = with_fields(keyed.where(IS_DELIVER), FIELDS).selectExpr(
        *("run", "key", "node"),
        "time_us AS delivered_us",
        "said.subscription AS subscription",
        "said.hops AS hops",
        "coalesce(said.repaired, false) AS is_repaired",
    )
    # Whatever is due, delivered or published moves to where the rest of its event is, once: all further steps group by
    # these two columns and more, or join by them.
    together = told.repartition("run", "key")
    firsts = [F.min(name).alias(name) for name in ("delivered_us", "hops", "is_repaired")]
    seen = (
        together.groupBy("run", "key", "node", "subscription")
        .agg(F.count("delivered_us").alias("copies"), *firsts)
        .withColumn("is_due", F.lit(False))
    )
    if expected is not None:
        seen = seen.unionByName(due_pairs(expected).repartition("run", "key"), allowMissingColumns=True)
    at_node = seen.groupBy("run", "key", "node").agg(
        F.expr("coalesce(sum(copies), 0)").alias("copies"),
        F.sum(F.greatest(F.col("copies") - 1, F.lit(0))).alias("repeated"),
        *firsts,
        F.max("is_due").alias("is_due"),
    )
    published = publications(keyed.where(f"NOT {IS_DELIVER}"))
    # Publications are few beside deliveries: a table of those of one part of the shuffle is made in memory.
    received = at_node.join(published.hint("shuffle_hash"), on=["run", "key"], how="left").selectExpr(
        *("run", "key", "node", "publisher", "published_us", "0L AS publications"),
        *("copies", "repeated", "delivered_us", "hops", "is_repaired", "is_due"),
    )
    # There is no delivery, and so no latency; but a null that is made of the same columns lets Spark move publications
    # once for both.
    each = published.selectExpr(
        *("run", "key", "CAST(NULL AS STRING) AS node", "publisher", "published_us", "publishers AS publications"),
        *("0L AS copies", "0L AS repeated", "CASE WHEN published_us IS NULL THEN published_us END AS delivered_us"),
        *("CAST(NULL AS BIGINT) AS hops", "CAST(NULL AS BOOLEAN) AS is_repaired", "false AS is_due"),
    )
    return received.unionByName(each).selectExpr(
        "*", "delivered_us - published_us AS latency_us", f"floor(published_us / {MILLION}) AS second"
    )


def publications(rows: "DataFrame") -> "DataFrame":
    """One row for each event: who published it first by name, when it was published first, and by how many."""
    from pyspark.sql import functions as F

    told = rows.selectExpr("run", "key", "node AS publisher", TIME_US).withColumnRenamed("time_us", "published_us")
    by_publisher = (
        told.repartition("run", "key")
        .groupBy("run", "key", "publisher")
        .agg(F.min("published_us").alias("published_us"))
    )
    return by_publisher.groupBy("run", "key").agg(
        F.min("publisher").alias("publisher"),
        F.min("published_us").alias("published_us"),
        F.count(F.lit(1)).alias("publishers"),
    )


ALIKE_PAIRS = Alike(
    traits={
        "is_due": "is_due",
        "is_received": "copies > 0",
        "is_unpublished": "copies > 0 AND published_us IS NULL",
        "is_repaired": "is_repaired",
        "hops": "hops",
        "latency_cut": cut("latency_us"),
    },
    sums={
        "publications": "sum(publications)",
        "copies": "sum(copies)",
        "repeated": "sum(repeated)",
        "latency_us": "sum(latency_us)",
        "latency_us_max": "max(latency_us)",
    },
)

DELIVERY = Family(
    "delivery",
    "Whether events reach those they are owed to, how often, and how late.",
    reads=(DELIVER, PUBLISH),
    facts=pairs,
    groups=("node", "publisher", "second"),
    alike=ALIKE_PAIRS,
)


def number_of(condition: str) -> str:
    """Of facts for which it holds."""
    return f"coalesce(sum({when(condition, ALIKE)}), 0)"


def spread_of(
    name: str, trait: str, total: str, *per_cent: int, among: str, unit: Callable[[str], str] = str
) -> dict[str, str]:
    """As `spread`, of a trait of facts that are alike and among these; `total` is what it comes to for all of them."""
    found = percentiles(when(among, trait), *(each / 100 for each in per_cent), times=ALIKE)
    mean_of = share(f"sum({when(among, total)})", f"sum({when(f'{among} AND {trait} IS NOT NULL', ALIKE)})")
    return {
        f"{name}_mean": unit(mean_of),
        **{f"{name}_p{each}": unit(f"{found}[{place}]") for place, each in enumerate(per_cent)},
    }


DUE, RECEIVED, HIT = number_of("is_due"), number_of("is_received"), number_of("is_received AND is_due")

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
        "publications": "coalesce(sum(publications), 0)",
        "delivered": RECEIVED,
        "deliveries": "coalesce(sum(copies), 0)",
        "repeated": "coalesce(sum(repeated), 0)",
        "unpublished": number_of("is_unpublished"),
    },
)
latency = DELIVERY.add(
    "latency",
    "Seconds from publication to the first delivery at a node: mean, percentiles and the largest.",
    spread_of("latency", "latency_cut", "latency_us", 50, 95, 99, among="true", unit=seconds)
    | {"latency_max": seconds("max(latency_us_max)")},
)
recovery_delay = DELIVERY.add(
    "recovery_delay",
    "Seconds from publication to delivery of events that arrived as repairs only.",
    {
        "recoveries": number_of("is_repaired"),
        **spread_of("recovery_delay", "latency_cut", "latency_us", 50, 80, 99, among="is_repaired", unit=seconds),
    },
)
hop_count = DELIVERY.add(
    "hop_count",
    "Hops between brokers that delivered events made: mean, 99th percentile and most.",
    spread_of("hops", "hops", f"hops * {ALIKE}", 99, among="true") | {"hops_max": "max(hops)"},
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
