"""How long it takes to collect files from many sources at one sink.

A fact is a job, found by the `key` of its notes JobStarted and BlockStored. The *completion time* of a job is from its
start to its last block. Two variants are compared by `relative_difference` (`repetition.py`). Defined in: peer-to-peer
3L.
"""

from typing import TYPE_CHECKING

from tidings.pubsub.notes import BlockStored, JobStarted
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import TIME_US, is_note, note
from tidings.spark.metrics.values import mean, percentiles, seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def jobs(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    timed = rows.where("key IS NOT NULL").selectExpr("run", "key", "node", "kind", "message", "size_bytes", TIME_US)
    marks = timed.groupBy("run", "key").agg(
        F.expr(f"min(CASE WHEN {is_note(JobStarted)} THEN time_us END)").alias("started_us"),
        F.expr(f"max(CASE WHEN {is_note(BlockStored)} THEN time_us END)").alias("stored_us"),
        F.expr(f"count_if({is_note(BlockStored)})").alias("blocks"),
        F.expr(f"coalesce(sum(CASE WHEN {is_note(BlockStored)} THEN size_bytes END), 0)").alias("bytes"),
    )
    return marks.withColumn("taken_us", F.expr("stored_us - started_us"))


COLLECTION = Family(
    "collection",
    "How long it takes to collect files from many sources at one sink.",
    reads=(note(JobStarted), note(BlockStored)),
    facts=jobs,
    groups=("key",),
    aggregates={
        "jobs": "count(taken_us)",
        "taken_total": "sum(taken_us)",
        "taken_percentiles": percentiles("taken_us", 0.5),
        "taken_largest": "max(taken_us)",
        "blocks": "sum(blocks)",
        "bytes": "sum(bytes)",
    },
)

completion_time = COLLECTION.add(
    "completion_time",
    "Seconds from the start of a job to its last block at the sink: mean, median and most; and what was moved.",
    {
        "jobs": "jobs",
        "completion_mean": seconds(mean("taken_total", "jobs")),
        "completion_p50": seconds("taken_percentiles[0]"),
        "completion_max": seconds("taken_largest"),
        "blocks": "blocks",
        "block_bytes": "bytes",
    },
)
