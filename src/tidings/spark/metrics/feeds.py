"""How well trees over friends carry updates of feeds.

Three families:

- `stretch`: a fact is an update at a subscriber, as in `delivery.pairs`, with the mean of the round trips that this
  subscriber measured to the publisher (RoundTripMeasured). *Measured stretch* is latency divided by half of that.
- `friendship`: a fact is a note: *coordinate stretch* (PathMeasured), *subscription coverage* (CoverageCounted) and
  *neighbour overlap ratio* (NeighboursCounted).
- `noise`: a fact is an update at a node that it was sent to (a `receive` row of `Update`). Where the node is not a
  subscriber (the pair is not in `expected`) it is *noise*.

Update latency is `latency` in `delivery.py`; control bandwidth and data traffic are in `traffic.py`.

Defined in: peer-to-peer 3L.
"""

from typing import TYPE_CHECKING

from tidings.machine.effects import Note
from tidings.pubsub.notes import CoverageCounted, NeighboursCounted, PathMeasured, RoundTripMeasured
from tidings.spark.metrics.delivery import pairs
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import DELIVER, PUBLISH, due_pairs, fields_of, is_note, note, with_fields
from tidings.spark.metrics.values import MILLION, mean, millionths, percentiles, rounded_mean, share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stretched(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    trips = with_fields(rows.where(is_note(RoundTripMeasured)), fields_of(RoundTripMeasured)).selectExpr(
        "run", "node", "said.publisher AS publisher", f"{millionths('said.rtt')} AS rtt_us"
    )
    measured = trips.groupBy("run", "node", "publisher").agg(
        F.expr(rounded_mean("sum(rtt_us)", "count(rtt_us)")).alias("rtt_us")
    )
    updates = pairs(rows.where(f"NOT {is_note(RoundTripMeasured)}"), None).where("latency_us IS NOT NULL")
    ratio = millionths("try_divide(2 * latency_us, rtt_us)")
    return (
        updates.join(measured, on=["run", "node", "publisher"], how="inner")
        .selectExpr("run", "node", "publisher", f"{ratio} AS stretch")
        .where("stretch IS NOT NULL")
    )


STRETCH = Family(
    "stretch",
    "How much longer updates take than the direct way.",
    reads=(note(RoundTripMeasured), DELIVER, PUBLISH),
    facts=stretched,
    groups=("node", "publisher"),
    aggregates={
        "updates": "count(*)",
        "stretch_total": "sum(stretch)",
        "stretch_percentiles": percentiles("stretch", 0.5, 0.95),
    },
)

measured_stretch = STRETCH.add(
    "measured_stretch",
    "Latency of an update divided by half the measured round trip to its publisher: mean, median, 95th percentile.",
    {
        "measured_stretch_mean": f"{mean('stretch_total', 'updates')} / {MILLION}",
        "measured_stretch_p50": f"stretch_percentiles[0] / {MILLION}",
        "measured_stretch_p95": f"stretch_percentiles[1] / {MILLION}",
    },
)


def told_friendship(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    told = with_fields(rows, fields_of(PathMeasured, CoverageCounted, NeighboursCounted))

    def ratio(kind: type[Note], part: str, whole: str) -> str:
        return f"CASE WHEN {is_note(kind)} THEN {millionths(f'try_divide(said.`{part}`, said.`{whole}`)')} END"

    return told.selectExpr(
        "run",
        "node",
        f"{ratio(PathMeasured, 'path', 'direct')} AS stretch",
        f"{ratio(CoverageCounted, 'covered', 'feeds')} AS coverage",
        f"{ratio(NeighboursCounted, 'roles', 'distinct')} AS overlap",
    )


FRIENDSHIP = Family(
    "friendship",
    "How well neighbours are chosen.",
    reads=(note(PathMeasured), note(CoverageCounted), note(NeighboursCounted)),
    facts=told_friendship,
    groups=("node",),
    aggregates={
        "paths": "count(stretch)",
        "stretch_total": "sum(stretch)",
        "stretch_percentiles": percentiles("stretch", 0.5, 0.95),
        "coverages": "count(coverage)",
        "coverage_total": "sum(coverage)",
        "covered_fully": f"count_if(coverage = {MILLION})",
        "overlaps": "count(overlap)",
        "overlap_total": "sum(overlap)",
        "overlapping": f"count_if(overlap > {MILLION})",
    },
)

coordinate_stretch = FRIENDSHIP.add(
    "coordinate_stretch",
    "Coordinate distances along the tree to the publisher, divided by the direct one: mean, median, 95th percentile.",
    {
        "coordinate_stretch_mean": f"{mean('stretch_total', 'paths')} / {MILLION}",
        "coordinate_stretch_p50": f"stretch_percentiles[0] / {MILLION}",
        "coordinate_stretch_p95": f"stretch_percentiles[1] / {MILLION}",
    },
)
subscription_coverage = FRIENDSHIP.add(
    "subscription_coverage",
    "Feeds of a node that at least one of its friends reads, of all its feeds: mean, and the share of nodes with all.",
    {
        "coverage_mean": f"{mean('coverage_total', 'coverages')} / {MILLION}",
        "coverage_full_share": share("covered_fully", "coverages"),
    },
)
neighbour_overlap = FRIENDSHIP.add(
    "neighbour_overlap",
    "Roles that neighbours of a node play for it, divided by its neighbours: mean, and the share of nodes above one.",
    {
        "overlap_mean": f"{mean('overlap_total', 'overlaps')} / {MILLION}",
        "overlap_above_one_share": share("overlapping", "overlaps"),
    },
)


def received_updates(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    received = rows.where("key IS NOT NULL").groupBy("run", "key", "node").agg(F.count("*").alias("copies"))
    if expected is None:
        return received.withColumn("is_due", F.lit(False))
    return received.join(due_pairs(expected).distinct(), on=["run", "key", "node"], how="left")


NOISE = Family(
    "noise",
    "Updates sent to those who do not read the feed.",
    reads=(("receive", "Update"),),
    facts=received_updates,
    groups=("node",),
    aggregates={
        "received": "sum(copies)",
        "noise": "coalesce(sum(CASE WHEN NOT coalesce(is_due, false) THEN copies END), 0)",
        "noisy_updates": "count_if(NOT coalesce(is_due, false))",
    },
)

noise = NOISE.add(
    "noise",
    "Copies of updates that nodes received without having subscribed, and their share of all copies received.",
    {
        "updates_received": "received",
        "noise": "noise",
        "noise_share": share("noise", "received"),
        "noisy_updates": "noisy_updates",
    },
    needs_expected=True,
)
