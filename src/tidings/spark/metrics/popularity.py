"""What treating popular and unpopular publications differently brings.

Two families. In `gain` a fact is a broker: its mean gain over the publications that it passed on with a gain
(Forwarded), and its *pure forwards*, copies sent by tree where no client of its own matched. In `popularity` a fact is
a row: a note (Forwarded, GossipTaken, Queued) or a delivery. One by another way than the tree (no `via` is the tree) is
one of an *unpopular* publication.

The latency of popular and unpopular deliveries is taken from the acceptance at the publisher's broker, `accepted_at`:
both groups are apart in the rows themselves, so no rows need be brought together. It holds in the simulator, where all
clocks are one.

Defined in: dependable 4.1 (gain ratio to average queue size).
"""

from typing import TYPE_CHECKING

from tidings.pubsub.notes import Forwarded, GossipTaken, Queued
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import DELIVER, DELIVERED, IS_DELIVER, fields_of, is_note, note, with_fields
from tidings.spark.metrics.values import MILLION, mean, millionths, percentiles, rounded_mean, seconds, share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIELDS = fields_of(Forwarded, GossipTaken, Queued, DELIVERED, only="via publisher links matches length accepted_at")
IS_TREE = "coalesce(said.via, 'tree') = 'tree'"


def brokers(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    told = with_fields(rows, fields_of(Forwarded)).withColumn("gain", F.expr(millionths("said.gain")))
    return told.groupBy("run", "node").agg(
        F.expr(rounded_mean("sum(gain)", "count(gain)")).alias("gain"),
        F.expr(f"coalesce(sum(CASE WHEN {IS_TREE} THEN said.links END), 0)").alias("forwards"),
        F.expr(f"coalesce(sum(CASE WHEN {IS_TREE} AND said.local = 0 THEN said.links END), 0)").alias("pure"),
    )


GAIN = Family(
    "gain",
    "What a copy of a publication brings on the tree.",
    reads=(note(Forwarded),),
    facts=brokers,
    groups=("node",),
    aggregates={
        "brokers": "count(gain)",
        "gain_total": "sum(gain)",
        "forwards": "sum(forwards)",
        "pure": "sum(pure)",
    },
)

gain_ratio = GAIN.add(
    "gain_ratio",
    "The mean gain of publications that a broker passed on, averaged over brokers.",
    {"gain_ratio": f"{mean('gain_total', 'brokers')} / {MILLION}"},
)
pure_forwards = GAIN.add(
    "pure_forwards",
    "Copies sent on the tree by brokers none of whose clients matched, and their share of all copies on the tree.",
    {"forwards": "forwards", "pure_forwards": "pure", "pure_forward_share": share("pure", "forwards")},
)


def rows_of_each_way(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    told = with_fields(rows, FIELDS)
    latency = f"time_us - {millionths('said.accepted_at')}"
    return told.selectExpr(
        "run",
        "node",
        f"CASE WHEN {IS_DELIVER} AND {IS_TREE} THEN {latency} END AS popular_us",
        f"CASE WHEN {IS_DELIVER} AND NOT {IS_TREE} THEN {latency} END AS unpopular_us",
        f"{IS_DELIVER} AND NOT {IS_TREE} AS is_unpopular",
        f"{IS_DELIVER} AS is_delivery",
        f"CASE WHEN {is_note(GossipTaken)} THEN said.matches END AS matches",
        f"CASE WHEN {is_note(Forwarded)} AND said.via = 'direct' THEN said.links END AS direct",
        f"CASE WHEN {is_note(Forwarded)} AND said.via = 'gossip' THEN said.publisher END AS group_of",
        f"CASE WHEN {is_note(Queued)} THEN said.length END AS queue",
    )


POPULARITY = Family(
    "popularity",
    "How unpopular publications travel, and what that does to the popular ones.",
    reads=(note(Forwarded), note(GossipTaken), note(Queued), DELIVER),
    facts=rows_of_each_way,
    groups=("node",),
    aggregates={
        "deliveries": "count_if(is_delivery)",
        "unpopular": "count_if(is_unpopular)",
        "popular_percentiles": percentiles("popular_us", 0.9, 0.99),
        "unpopular_percentiles": percentiles("unpopular_us", 0.9, 0.99),
        "gossips": "count(matches)",
        "gossip_matches": "sum(matches)",
        "gossip_misses": "count_if(matches = 0)",
        "direct_percentiles": percentiles("direct", 0.99),
        "groups": "size(collect_set(group_of))",
        "queue_samples": "count(queue)",
        "queue_total": "sum(queue)",
    },
)

unpopular_deliveries = POPULARITY.add(
    "unpopular_deliveries",
    "Deliveries by direct sends, batches or gossip rather than by the tree, and their share of all.",
    {"unpopular_deliveries": "unpopular", "unpopular_delivery_share": share("unpopular", "deliveries")},
)
popularity_latency = POPULARITY.add(
    "popularity_latency",
    "Seconds from acceptance to delivery, 90th and 99th percentile, of popular and unpopular publications.",
    {
        "popular_latency_p90": seconds("popular_percentiles[0]"),
        "popular_latency_p99": seconds("popular_percentiles[1]"),
        "unpopular_latency_p90": seconds("unpopular_percentiles[0]"),
        "unpopular_latency_p99": seconds("unpopular_percentiles[1]"),
    },
)
gossip_matches = POPULARITY.add(
    "gossip_matches",
    "Gossiped publications that matched no client of the broker they came to, of all, and deliveries for each.",
    {
        "gossip_false_positive_ratio": share("gossip_misses", "gossips"),
        "match_per_gossip": share("gossip_matches", "gossips"),
        "gossip_groups": "groups",
    },
)
direct_forwards = POPULARITY.add(
    "direct_forwards",
    "Copies sent of a publication that goes to its receivers directly, 99th percentile.",
    {"direct_forwards_p99": "direct_percentiles[0]"},
)
queue_size = POPULARITY.add(
    "queue_size",
    "Length of a broker's queue whenever a publication had to wait in it, mean.",
    {"queue_size_mean": mean("queue_total", "queue_samples")},
)
