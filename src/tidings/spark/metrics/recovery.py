"""How lost events are asked for and repaired.

A fact is one event, found by its key in the notes of all who lost it, asked for it, repaired it, refrained from that,
or looked for it in their cache: LossDetected, RepairRequested, RepairSent, Suppressed, CacheSearched.

A *recovery* is a `deliver` row of an event with the field `repaired`. A request is *answered* if anybody sent a repair
of that event. Requests and repairs beyond the first of an event are *duplicates*.

How long recovery takes from publication on is `recovery_delay`, in `delivery.py`. Defined in: transport 4.0, E13, E14,
E16.
"""

from typing import TYPE_CHECKING

from tidings.pubsub.notes import CacheSearched, LossDetected, RepairRequested, RepairSent, Suppressed
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import DELIVER, DELIVERED, IS_DELIVER, fields_of, is_note, note, with_fields
from tidings.spark.metrics.values import mean, percentiles, seconds, share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


FIELDS = fields_of(CacheSearched, DELIVERED, only="hit size repaired")


def lost_events(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    # Most deliveries are no repairs; their text need not be parsed.
    wanted = rows.where(f"NOT ({IS_DELIVER}) OR contains(detail, 'repaired')").where(
        f"key IS NOT NULL OR {is_note(CacheSearched)}"
    )
    told = with_fields(wanted, FIELDS, f"{IS_DELIVER} OR {is_note(CacheSearched)}")
    counted = {
        "losses": f"count_if({is_note(LossDetected)})",
        "requests": f"count_if({is_note(RepairRequested)})",
        "repairs": f"count_if({is_note(RepairSent)})",
        "suppressed": f"count_if({is_note(Suppressed)})",
        "recoveries": f"count_if({IS_DELIVER} AND said.repaired)",
        "lookups": f"count_if({is_note(CacheSearched)} AND said.hit IS NOT NULL)",
        "hits": f"count_if({is_note(CacheSearched)} AND said.hit)",
        "sizes": f"count(CASE WHEN {is_note(CacheSearched)} THEN said.size END)",
        "size_total": f"sum(CASE WHEN {is_note(CacheSearched)} THEN said.size END)",
        "size_largest": f"max(CASE WHEN {is_note(CacheSearched)} THEN said.size END)",
        "requested_us": f"min(CASE WHEN {is_note(RepairRequested)} THEN time_us END)",
        "repaired_us": f"min(CASE WHEN {is_note(RepairSent)} THEN time_us END)",
    }
    grouped = told.groupBy("run", "key").agg(*(F.expr(sql).alias(name) for name, sql in counted.items()))
    return grouped.withColumn("delay_us", F.expr("repaired_us - requested_us"))


RECOVERY = Family(
    "recovery",
    "How lost events are asked for and repaired.",
    reads=(note(RepairRequested), note(RepairSent), note(LossDetected), note(Suppressed), note(CacheSearched), DELIVER),
    facts=lost_events,
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
