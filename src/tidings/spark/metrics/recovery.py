"""How lost events are asked for and repaired.

A fact is one event, found by its key in the rows of all who lost, asked for, or repaired it.

    note read       written by                        fields
    loss_detected   who noticed that it lacks it
    request         who asks others for it
    repair          who answers a request with it
    suppress        who refrains, since another asked or answered
    cache           who looks for it in its cache     hit (boolean), size (entries in the cache now)

A *recovery* is a `deliver` row of an event with the field `repaired`. A request is *answered* if anybody sent a repair
of that event. Requests and repairs beyond the first of an event are *duplicates*.

How long recovery takes from publication on is `recovery_delay`, in `delivery.py`. Defined in: transport 4.0, E13, E14,
E16.
"""

from typing import TYPE_CHECKING

from tidings.spark.metrics.family import Family
from tidings.spark.metrics.references.recovery import recovery_rows
from tidings.spark.metrics.tables import DELIVER, IS_DELIVER, is_note, note, with_fields
from tidings.spark.metrics.values import mean, percentiles, seconds, share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def lost_events(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    # Most deliveries are no repairs; their text need not be parsed.
    wanted = rows.where(f"NOT ({IS_DELIVER}) OR contains(detail, 'repaired')").where(
        f"key IS NOT NULL OR {is_note('cache')}"
    )
    told = with_fields(wanted, "hit BOOLEAN, size BIGINT, repaired BOOLEAN", f"{IS_DELIVER} OR {is_note('cache')}")
    counted = {
        "losses": f"count_if({is_note('loss_detected')})",
        "requests": f"count_if({is_note('request')})",
        "repairs": f"count_if({is_note('repair')})",
        "suppressed": f"count_if({is_note('suppress')})",
        "recoveries": f"count_if({IS_DELIVER} AND said.repaired)",
        "lookups": f"count_if({is_note('cache')} AND said.hit IS NOT NULL)",
        "hits": f"count_if({is_note('cache')} AND said.hit)",
        "sizes": f"count(CASE WHEN {is_note('cache')} THEN said.size END)",
        "size_total": f"sum(CASE WHEN {is_note('cache')} THEN said.size END)",
        "size_largest": f"max(CASE WHEN {is_note('cache')} THEN said.size END)",
        "requested_us": f"min(CASE WHEN {is_note('request')} THEN time_us END)",
        "repaired_us": f"min(CASE WHEN {is_note('repair')} THEN time_us END)",
    }
    grouped = told.groupBy("run", "key").agg(*(F.expr(sql).alias(name) for name, sql in counted.items()))
    return grouped.withColumn("delay_us", F.expr("repaired_us - requested_us"))


RECOVERY = Family(
    "recovery",
    "How lost events are asked for and repaired.",
    reads=(note("request"), note("repair"), note("loss_detected"), note("suppress"), note("cache"), DELIVER),
    facts=lost_events,
    reference=recovery_rows,
    aggregates={
        **{name: f"sum({name})" for name in ("losses", "requests", "repairs", "suppressed", "recoveries")},
        "requested": "count_if(requests > 0)",
        "repaired": "count_if(repairs > 0)",
        "answered": "coalesce(sum(CASE WHEN repairs > 0 THEN requests END), 0)",
        **{name: f"sum({name})" for name in ("lookups", "hits", "sizes", "size_total")},
        "size_largest": "max(size_largest)",
        "delays": "count(delay_us)",
        "delay_total": "sum(delay_us)",
        "delay_percentiles": percentiles("delay_us", 0.5, 0.8, 0.99),
    },
)

request_repair_delay = RECOVERY.add(
    "request_repair_delay",
    "Seconds from the first request for an event to the first repair of it: mean and percentiles over events.",
    {
        "request_repair_delay_mean": seconds(mean("delay_total", "delays")),
        "request_repair_delay_p50": seconds("delay_percentiles[0]"),
        "request_repair_delay_p80": seconds("delay_percentiles[1]"),
        "request_repair_delay_p99": seconds("delay_percentiles[2]"),
    },
)
recovery_traffic = RECOVERY.add(
    "recovery_traffic",
    "Losses detected, requests, repairs and recoveries, and which share of requests and repairs were duplicates.",
    {
        "losses": "losses",
        "requests": "requests",
        "duplicate_requests": "requests - requested",
        "duplicate_request_share": share("requests - requested", "requests"),
        "repairs": "repairs",
        "duplicate_repairs": "repairs - repaired",
        "duplicate_repair_share": share("repairs - repaired", "repairs"),
        "suppressed": "suppressed",
        "repair_deliveries": "recoveries",
        "deliveries_per_repair": share("recoveries", "repairs"),
    },
)
hit_ratio = RECOVERY.add(
    "hit_ratio",
    "Requests that anybody answered, of all, and look-ups in caches that found the event, of all.",
    {
        "network_hit_ratio": share("answered", "requests"),
        "cache_hit_ratio": share("hits", "lookups"),
        "cache_size_mean": mean("size_total", "sizes"),
        "cache_size_max": "size_largest",
    },
)
