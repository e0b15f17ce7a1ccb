"""How well peers carry updates of feeds to friends, and collect files at one sink.

Four families:

- `stretch`: a fact is an update at a subscriber, as in `delivery.pairs`, with the mean of the round trips that this
  subscriber measured to the publisher (RoundTripMeasured). *Measured stretch* is latency divided by half of that.
- `friendship`: a fact is a note: *coordinate stretch* (PathMeasured), *subscription coverage* (CoverageCounted) and
  *neighbour overlap ratio* (NeighboursCounted).
- `noise`: a fact is an update at a node that it was sent to (a `receive` row of `Update`). Where the node is not a
  subscriber (the pair is not in `expected`) it is *noise*.
- `collection`: a fact is a job, found by the `key` of its notes JobStarted and BlockStored. The *completion time* of a
  job is from its start to its last block. Two variants are compared by `relative_difference`.

Update latency is `latency` in `delivery.py`; control bandwidth and data traffic are in `traffic.py`.

Defined in: peer-to-peer 3L.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidings.machine.effects import Note
from tidings.pubsub.notes import (
    BlockStored,
    CoverageCounted,
    JobStarted,
    NeighboursCounted,
    PathMeasured,
    RoundTripMeasured,
)
from tidings.spark.metrics.delivery import pairs
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import (
    DELIVER,
    MILLION,
    PUBLISH,
    TIME_US,
    due_pairs,
    fields_of,
    fraction,
    is_note,
    mean,
    millionths,
    note,
    rounded_mean,
    seconds,
    share,
    spread,
    when,
    with_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stretched(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    trips = with_fields(rows.where(is_note(RoundTripMeasured)), fields_of(RoundTripMeasured)).selectExpr(
        "run", "node", "said.publisher AS publisher", f"{millionths('said.rtt')} AS rtt_us"
    )
    measured = trips.groupBy("run", "node", "publisher").agg(F.expr(rounded_mean("rtt_us")).alias("rtt_us"))
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
)
measured_stretch = STRETCH.add(
    "measured_stretch",
    "Latency of an update divided by half the measured round trip to its publisher: mean, median, 95th percentile.",
    spread("measured_stretch", "stretch", 50, 95, unit=fraction),
)


def told_friendship(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    told = with_fields(rows, fields_of(PathMeasured, CoverageCounted, NeighboursCounted))

    def ratio(kind: type[Note], part: str, whole: str) -> str:
        return when(is_note(kind), millionths(share(f"said.`{part}`", f"said.`{whole}`")))

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
)
coordinate_stretch = FRIENDSHIP.add(
    "coordinate_stretch",
    "Coordinate distances along the tree to the publisher, divided by the direct one: mean, median, 95th percentile.",
    spread("coordinate_stretch", "stretch", 50, 95, unit=fraction),
)
subscription_coverage = FRIENDSHIP.add(
    "subscription_coverage",
    "Feeds of a node that at least one of its friends reads, of all its feeds: mean, and the share of nodes with all.",
    {
        "coverage_mean": fraction(mean("coverage")),
        "coverage_full_share": share(f"count_if(coverage = {MILLION})", "count(coverage)"),
    },
)
neighbour_overlap = FRIENDSHIP.add(
    "neighbour_overlap",
    "Roles that neighbours of a node play for it, divided by its neighbours: mean, and the share of nodes above one.",
    {
        "overlap_mean": fraction(mean("overlap")),
        "overlap_above_one_share": share(f"count_if(overlap > {MILLION})", "count(overlap)"),
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
)
NOISY = f"coalesce(sum({when('NOT coalesce(is_due, false)', 'copies')}), 0)"

noise = NOISE.add(
    "noise",
    "Copies of updates that nodes received without having subscribed, and their share of all copies received.",
    {
        "updates_received": "sum(copies)",
        "noise": NOISY,
        "noise_share": share(NOISY, "sum(copies)"),
        "noisy_updates": "count_if(NOT coalesce(is_due, false))",
    },
    needs_expected=True,
)


def jobs(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    timed = rows.where("key IS NOT NULL").selectExpr("run", "key", "node", "kind", "message", "size_bytes", TIME_US)
    marks = timed.groupBy("run", "key").agg(
        F.expr(f"min({when(is_note(JobStarted), 'time_us')})").alias("started_us"),
        F.expr(f"max({when(is_note(BlockStored), 'time_us')})").alias("stored_us"),
        F.expr(f"count_if({is_note(BlockStored)})").alias("blocks"),
        F.expr(f"coalesce(sum({when(is_note(BlockStored), 'size_bytes')}), 0)").alias("bytes"),
    )
    return marks.withColumn("taken_us", F.expr("stored_us - started_us"))


COLLECTION = Family(
    "collection",
    "How long it takes to collect files from many sources at one sink.",
    reads=(note(JobStarted), note(BlockStored)),
    facts=jobs,
    groups=("key",),
)
completion_time = COLLECTION.add(
    "completion_time",
    "Seconds from the start of a job to its last block at the sink: mean, median and most; and what was moved.",
    {
        "jobs": "count(taken_us)",
        **spread("completion", "taken_us", 50, unit=seconds),
        "completion_max": seconds("max(taken_us)"),
        "blocks": "sum(blocks)",
        "block_bytes": "sum(bytes)",
    },
)


def relative_difference(
    table: "DataFrame", value: str, *, variant: str, base: str, match: Sequence[str] = ()
) -> "DataFrame":
    """Each row of another variant against the row of the base that agrees in `match`: (other - base) / base, negative
    where the other has less, with `base_value` beside it; null where the base lacks."""
    from pyspark.sql import functions as F

    keys = list(match)
    bases = table.where(F.col(variant) == base).select(*keys, F.col(value).alias("base_value"))
    others = table.where(F.col(variant) != base)
    joined = others.join(bases, on=keys, how="left") if keys else others.crossJoin(bases)
    return joined.selectExpr("*", f"try_divide(`{value}` - base_value, base_value) AS relative_difference")
