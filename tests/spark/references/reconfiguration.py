"""What it costs routing, and whom it concerns, when links of the overlay change."""

from typing import Any

from tests.spark.references.values import (
    grouped,
    largest,
    mean,
    millionths,
    notes,
    percentile,
    ratio,
    real,
    seconds,
    text,
    whole,
)
from tidings.pubsub.notes import LinkChanged, Misrouted, Reattached
from tidings.trace.record import Record

Expected = frozenset[tuple[str, str]]

CHANGING = ("SubscriptionAdded", "SubscriptionRemoved", "PathEdit")


def reconfiguration_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    caused = [
        row
        for row in records
        if row.kind in ("send", "receive") or row in notes(records, LinkChanged) + notes(records, Misrouted)
    ]
    named = grouped((name, row) for row in caused if (name := text(row, "reconfiguration")) is not None)
    if not named:
        return []
    sent = [row for of in named.values() for row in of if row.kind == "send"]
    misrouted = sum(len(notes(of, Misrouted)) for of in named.values())
    tenths = sum(map(weight_tenths, sent)) + 10 * misrouted
    involved = [len({row.node for row in [*notes(of, LinkChanged), *filter(is_change, of)]}) for of in named.values()]
    return [
        {
            "reconfigurations": len(named),
            "messages_per_reconfiguration": ratio(sum(weight_tenths(row) > 0 for row in sent), len(named)),
            "cost_per_reconfiguration": tenths / len(named) / 10,
            "misrouted": misrouted,
            "misrouted_per_reconfiguration": ratio(misrouted, len(named)),
            "involved_mean": mean(involved),
            "involved_max": max(involved),
        }
    ]


def weight_tenths(row: Record) -> int:
    match row.message:
        case "SubscriptionAdded" | "SubscriptionRemoved":
            return 10
        case "Activate" | "PathEdit":
            return max(10 * (whole(row, "patterns") or 0), 1)
        case "Flush" | "PathEdited":
            return 1
    return 0


def is_change(row: Record) -> bool:
    return row.kind == "receive" and row.message in CHANGING


def repair_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    rows = notes(records, Reattached)
    if not rows:
        return []
    taken = [millionths(span) for row in rows if (span := real(row, "seconds")) is not None]
    requests = [count for row in rows if (count := whole(row, "requests")) is not None]
    return [
        {
            "reattached": len(rows),
            "repair_mean": seconds(mean(taken)),
            "repair_p50": seconds(percentile(taken, 0.5)),
            "repair_p95": seconds(percentile(taken, 0.95)),
            "repair_max": seconds(largest(taken)),
            "repair_requests_mean": mean(requests),
        }
    ]
