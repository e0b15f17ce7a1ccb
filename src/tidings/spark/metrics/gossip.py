"""What gossiping brokers cost, and what treating popular and unpopular publications differently brings.

Three families:

- `views`: a fact is one note: CycleEnded or ViewCompared. Group by `cycle` to see views converge, or by `node`.
- `gain`: a fact is a broker: its mean gain over the publications that it passed on with a gain (Forwarded), and its
  *pure forwards*, copies sent by tree where no client of its own matched.
- `popularity`: a fact is a row: a note (Forwarded, GossipTaken, Queued) or a delivery. One by another way than the tree
  (no `via` is the tree) is one of an *unpopular* publication.

The latency of popular and unpopular deliveries is taken from the acceptance at the publisher's broker, `accepted_at`:
both groups are apart in the rows themselves, so no rows need be brought together. It holds in the simulator, where all
clocks are one.

Defined in: dependable 4.1 (view maintenance cost, convergence ratio, gain ratio to average queue size).
"""

from typing import TYPE_CHECKING

from tidings.pubsub.notes import CycleEnded, Forwarded, GossipTaken, Queued, ViewCompared
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import (
    DELIVER,
    DELIVERED,
    IS_DELIVER,
    fields_of,
    fraction,
    is_note,
    mean,
    millionths,
    note,
    percentile,
    percentiles,
    rounded_mean,
    seconds,
    share,
    spread,
    when,
    with_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def views(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    share_of_best = millionths("try_divide(said.common, said.optimal)")
    told = with_fields(rows, fields_of(CycleEnded, ViewCompared))
    return told.selectExpr(
        "run",
        "node",
        "said.cycle AS cycle",
        f"{when(is_note(CycleEnded), 'said.messages')} AS messages",
        f"{when(is_note(ViewCompared), share_of_best)} AS converged",
    )


VIEWS = Family(
    "views",
    "What membership views of gossiping brokers cost, and how good they are.",
    reads=(note(CycleEnded), note(ViewCompared)),
    facts=views,
    groups=("cycle", "node"),
)
view_cost = VIEWS.add(
    "view_cost",
    "Messages that a broker sends in a maintenance cycle: mean, median, 90th percentile and most.",
    spread("view_messages", "messages", 50, 90) | {"view_messages_max": "max(messages)"},
)
convergence_ratio = VIEWS.add(
    "convergence_ratio",
    "Members of a view that belong to the best possible view, of all that belong to that: mean and least over views.",
    {"convergence_ratio": fraction(mean("converged")), "convergence_ratio_min": fraction("min(converged)")},
)


FIELDS = fields_of(Forwarded, GossipTaken, Queued, DELIVERED, only="via publisher links matches length accepted_at")
IS_TREE = "coalesce(said.via, 'tree') = 'tree'"


def brokers(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    told = with_fields(rows, fields_of(Forwarded)).withColumn("gain", F.expr(millionths("said.gain")))
    return told.groupBy("run", "node").agg(
        F.expr(rounded_mean("gain")).alias("gain"),
        F.expr(f"coalesce(sum({when(IS_TREE, 'said.links')}), 0)").alias("forwards"),
        F.expr(f"coalesce(sum(CASE WHEN {IS_TREE} AND said.local = 0 THEN said.links END), 0)").alias("pure"),
    )


GAIN = Family(
    "gain",
    "What a copy of a publication brings on the tree.",
    reads=(note(Forwarded),),
    facts=brokers,
    groups=("node",),
)
gain_ratio = GAIN.add(
    "gain_ratio",
    "The mean gain of publications that a broker passed on, averaged over brokers.",
    {"gain_ratio": fraction(mean("gain"))},
)
pure_forwards = GAIN.add(
    "pure_forwards",
    "Copies sent on the tree by brokers none of whose clients matched, and their share of all copies on the tree.",
    {
        "forwards": "sum(forwards)",
        "pure_forwards": "sum(pure)",
        "pure_forward_share": share("sum(pure)", "sum(forwards)"),
    },
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
)
unpopular_deliveries = POPULARITY.add(
    "unpopular_deliveries",
    "Deliveries by direct sends, batches or gossip rather than by the tree, and their share of all.",
    {
        "unpopular_deliveries": "count_if(is_unpopular)",
        "unpopular_delivery_share": share("count_if(is_unpopular)", "count_if(is_delivery)"),
    },
)
popularity_latency = POPULARITY.add(
    "popularity_latency",
    "Seconds from acceptance to delivery, 90th and 99th percentile, of popular and unpopular publications.",
    {
        f"{way}_latency_{name}": seconds(f"{percentiles(f'{way}_us', 0.9, 0.99)}[{place}]")
        for way in ("popular", "unpopular")
        for place, name in enumerate(("p90", "p99"))
    },
)
gossip_matches = POPULARITY.add(
    "gossip_matches",
    "Gossiped publications that matched no client of the broker they came to, of all, and deliveries for each.",
    {
        "gossip_false_positive_ratio": share("count_if(matches = 0)", "count(matches)"),
        "match_per_gossip": mean("matches"),
        "gossip_groups": "size(collect_set(group_of))",
    },
)
direct_forwards = POPULARITY.add(
    "direct_forwards",
    "Copies sent of a publication that goes to its receivers directly, 99th percentile.",
    {"direct_forwards_p99": percentile("direct", 0.99)},
)
queue_size = POPULARITY.add(
    "queue_size",
    "Length of a broker's queue whenever a publication had to wait in it, mean.",
    {"queue_size_mean": mean("queue")},
)
