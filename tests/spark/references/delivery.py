"""Whether events reach those they are owed to, how often, and how late."""

from collections import Counter
from typing import Any

from tests.spark.references.values import (
    events,
    flag,
    grouped,
    largest,
    mean,
    percentile,
    ratio,
    rounded,
    seconds,
    text,
    time_us,
    whole,
)
from tidings.trace.record import Record


def publish_times(records: list[Record]) -> dict[str, int]:
    """When each event was first published, by its key."""
    times: dict[str, int] = {}
    for record in events(records, "publish"):
        if record.key is not None:
            times[record.key] = min(time_us(record), times.get(record.key, time_us(record)))
    return times


def delivered_pairs(records: list[Record]) -> dict[tuple[str, str], list[Record]]:
    """The deliveries of each event at each node."""
    return grouped(
        ((record.key, record.node), record) for record in events(records, "deliver") if record.key is not None
    )


def latencies(records: list[Record]) -> dict[tuple[str, str], int]:
    published = publish_times(records)
    return {
        (key, node): min(map(time_us, copies)) - published[key]
        for (key, node), copies in delivered_pairs(records).items()
        if key in published
    }


def delivery_rows(records: list[Record], expected: frozenset[tuple[str, str]]) -> list[dict[str, Any]]:
    pairs, published, delays = delivered_pairs(records), publish_times(records), latencies(records)
    publications = {(record.key, record.node) for record in events(records, "publish") if record.key is not None}
    if not pairs and not publications and not expected:
        return []
    hit, extra = expected & pairs.keys(), pairs.keys() - expected
    copies = Counter((pair, text(record, "subscription")) for pair in pairs for record in pairs[pair])
    repaired = [pair for pair, records in pairs.items() if all(flag(record, "repaired") for record in records)]
    recovery = [delays[pair] for pair in repaired if pair in delays]
    hops = [
        min(known)
        for records in pairs.values()
        if (known := [h for r in records if (h := whole(r, "hops")) is not None])
    ]
    return [
        {
            "expected": len(expected),
            "delivered_due": len(hit),
            "delivery_ratio": ratio(len(hit), len(expected)),
            "false_negatives": len(expected) - len(hit),
            "false_negative_share": ratio(len(expected) - len(hit), len(expected)),
            "false_positives": len(extra),
            "false_positive_share": ratio(len(extra), len(pairs)),
            "publications": len(publications),
            "delivered": len(pairs),
            "deliveries": sum(copies.values()),
            "repeated": sum(count - 1 for count in copies.values()),
            "unpublished": sum(key not in published for key, _ in pairs),
            "latency_mean": seconds(mean(list(delays.values()))),
            "latency_p50": seconds(percentile(delays.values(), 0.5)),
            "latency_p95": seconds(percentile(delays.values(), 0.95)),
            "latency_p99": seconds(percentile(delays.values(), 0.99)),
            "latency_max": seconds(largest(list(delays.values()))),
            "recoveries": len(repaired),
            "recovery_delay_mean": seconds(mean(recovery)),
            "recovery_delay_p50": seconds(percentile(recovery, 0.5)),
            "recovery_delay_p80": seconds(percentile(recovery, 0.8)),
            "recovery_delay_p99": seconds(percentile(recovery, 0.99)),
            "hops_mean": mean(hops),
            "hops_p99": percentile(hops, 0.99),
            "hops_max": largest(hops),
        }
    ]


def client_latency_rows(records: list[Record], expected: frozenset[tuple[str, str]]) -> list[dict[str, Any]]:
    clients = grouped((node, delay) for (_, node), delay in latencies(records).items())
    if not clients:
        return []
    p99 = [rounded(percentile(delays, 0.99) or 0) for delays in clients.values()]
    means = [rounded(mean(delays) or 0) for delays in clients.values()]
    return [
        {
            "clients": len(clients),
            "client_latency_p99": seconds(mean(p99)),
            "client_latency_mean": seconds(mean(means)),
            "client_latency_p99_max": seconds(max(p99)),
        }
    ]
