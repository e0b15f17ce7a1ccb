"""How lost events are asked for and repaired."""

from typing import Any

from tests.spark.references.values import (
    events,
    flag,
    largest,
    mean,
    notes,
    percentile,
    ratio,
    seconds,
    time_us,
    whole,
)
from tidings.pubsub.notes import CacheSearched, LossDetected, RepairRequested, RepairSent, Suppressed
from tidings.trace.record import Record


def recovery_rows(records: list[Record], expected: frozenset[tuple[str, str]]) -> list[dict[str, Any]]:
    keyed = [record for record in records if record.key is not None]
    losses, requests, repairs, suppressed = (
        notes(keyed, kind) for kind in (LossDetected, RepairRequested, RepairSent, Suppressed)
    )
    told = [record for record in events(keyed, "deliver") if "repaired" in (record.detail or "")]
    recoveries = [record for record in told if flag(record, "repaired")]
    caches = notes(records, CacheSearched)
    if not (losses or requests or repairs or suppressed or told or caches):
        return []
    requested, repaired = {each.key for each in requests}, {each.key for each in repairs}
    delays = [first_time(repairs, key) - first_time(requests, key) for key in requested & repaired]
    hits = [hit for each in caches if (hit := flag(each, "hit")) is not None]
    sizes = [size for each in caches if (size := whole(each, "size")) is not None]
    return [
        {
            "request_repair_delay_mean": seconds(mean(delays)),
            "request_repair_delay_p50": seconds(percentile(delays, 0.5)),
            "request_repair_delay_p80": seconds(percentile(delays, 0.8)),
            "request_repair_delay_p99": seconds(percentile(delays, 0.99)),
            "losses": len(losses),
            "requests": len(requests),
            "duplicate_requests": len(requests) - len(requested),
            "duplicate_request_share": ratio(len(requests) - len(requested), len(requests)),
            "repairs": len(repairs),
            "duplicate_repairs": len(repairs) - len(repaired),
            "duplicate_repair_share": ratio(len(repairs) - len(repaired), len(repairs)),
            "suppressed": len(suppressed),
            "repair_deliveries": len(recoveries),
            "deliveries_per_repair": ratio(len(recoveries), len(repairs)),
            "network_hit_ratio": ratio(sum(each.key in repaired for each in requests), len(requests)),
            "cache_hit_ratio": ratio(sum(hits), len(hits)),
            "cache_size_mean": mean(sizes),
            "cache_size_max": largest(sizes),
        }
    ]


def first_time(rows: list[Record], key: str | None) -> int:
    return min(time_us(each) for each in rows if each.key == key)
