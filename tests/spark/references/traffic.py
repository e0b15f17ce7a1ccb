"""How many messages a run takes, who bears the load, and how evenly."""

from collections import Counter
from math import floor
from typing import Any

from tests.spark.references.values import grouped, jain, mean, percentile, ratio, seconds, time_us
from tidings.spark.metrics.tables import DATA_MESSAGES
from tidings.trace.record import Kind, Record

CONTROL_BYTES = 50

Expected = frozenset[tuple[str, str]]


def counted(records: list[Record], *kinds: str) -> list[Record]:
    """Of publications and deliveries, only those of events count."""
    return [
        record
        for record in records
        if record.kind in kinds and (record.kind not in ("publish", "deliver") or record.message == "Event")
    ]


def traffic_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    rows = counted(records, "send", "receive", "drop", "publish", "deliver")
    if not rows:
        return []
    kinds = Counter(record.kind for record in rows)
    by_node = grouped((record.node, record) for record in rows)
    moved = [[record for record in of if record.kind in ("send", "receive")] for of in by_node.values()]
    loads = [len(of) for of in moved]
    data = [sum(record.message in DATA_MESSAGES for record in of) for of in moved]
    control = [load - carried for load, carried in zip(loads, data, strict=True)]
    times = [time_us(record) for record in rows]
    span = (max(times) - min(times)) / 1_000_000
    return [
        {
            "nodes": len(by_node),
            "sent": kinds["send"],
            "sent_bytes": sum(record.size_bytes or 0 for record in rows if record.kind == "send"),
            "received": kinds["receive"],
            "dropped": kinds["drop"],
            "sent_per_node": ratio(kinds["send"], len(by_node)),
            "sent_per_publication": ratio(kinds["send"], kinds["publish"]),
            "load_mean": mean(loads),
            "load_p50": percentile(loads, 0.5),
            "load_p95": percentile(loads, 0.95),
            "load_max": max(loads),
            "load_fairness": jain(loads),
            "seconds": seconds(max(times) - min(times)),
            "published_per_second": ratio(kinds["publish"], span),
            "delivered_per_second": ratio(kinds["deliver"], span),
            "delivered_bytes_per_second": ratio(
                sum(record.size_bytes or 0 for record in rows if record.kind == "deliver"), span
            ),
            "data_per_node_second": ratio(mean(data), span),
            "data_mean": mean(data),
            "data_p50": percentile(data, 0.5),
            "data_p95": percentile(data, 0.95),
            "data_max": max(data),
            "control_per_second_mean": ratio(mean(control), span),
            "control_per_second_p50": ratio(percentile(control, 0.5), span),
            "control_per_second_p95": ratio(percentile(control, 0.95), span),
            "control_per_second_max": ratio(max(control), span),
            "control_bytes_per_second_mean": None if not span else (mean(control) or 0) / span * CONTROL_BYTES,
        }
    ]


def overhead_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    sent = grouped((record.message, record.size_bytes) for record in counted(records, "send"))
    return [
        {"message": message, "messages": len(sizes), "bytes": sum(known) if (known := without_none(sizes)) else None}
        for message, sizes in sent.items()
    ]


def without_none(values: list[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def drop_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    reasons = Counter(record.reason for record in counted(records, "drop"))
    return [{"reason": reason, "drops": count} for reason, count in reasons.items()]


def rate_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    seconds = grouped((floor(r.time), r.kind) for r in counted(records, "publish", "deliver", "send", "drop"))
    names: dict[str, Kind] = {"published": "publish", "delivered": "deliver", "sent": "send", "dropped": "drop"}
    return [
        {"second": second} | {name: kinds.count(kind) for name, kind in names.items()}
        for second, kinds in seconds.items()
    ]
