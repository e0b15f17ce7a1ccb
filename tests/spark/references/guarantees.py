"""What delivery guarantees cost the publisher, and whether they are kept."""

from math import ceil, floor
from typing import Any

from tests.spark.references.values import (
    MILLION,
    events,
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
    time_us,
    whole,
)
from tidings.pubsub.notes import Acknowledged, Promised, ReceiptAsked, Released, Twin
from tidings.trace.record import Record

Expected = frozenset[tuple[str, str]]


def first_times(rows: list[Record]) -> dict[tuple[str, int], int]:
    times = grouped(((row.node, first), time_us(row)) for row in rows if (first := whole(row, "first")) is not None)
    return {request: min(of) for request, of in times.items()}


def acknowledgement_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    rows = notes(records, ReceiptAsked)
    lasts = grouped(((row.node, whole(row, "first")), last) for row in rows if (last := whole(row, "last")) is not None)
    sizes = {request: min(lasts[request]) - request[1] + 1 for request in first_times(rows) if request in lasts}
    asked = {request: at for request, at in first_times(rows).items() if sizes.get(request, 0) > 0}
    acknowledged, released = (first_times(notes(records, kind)) for kind in (Acknowledged, Released))
    if not asked:
        return []
    waits = [acknowledged[request] - at for request, at in asked.items() if request in acknowledged]
    return [
        {
            "acknowledged": len(waits),
            "acknowledgement_mean": seconds(mean(waits)),
            "acknowledgement_p50": seconds(percentile(waits, 0.5)),
            "acknowledgement_p99": seconds(percentile(waits, 0.99)),
            "acknowledgement_max": seconds(largest(waits)),
            "publications_in_memory": in_memory(records, asked, sizes, [acknowledged, released]),
        }
    ]


def in_memory(
    records: list[Record], asked: dict[Any, int], sizes: dict[Any, int], ends: list[dict[Any, int]]
) -> float | None:
    told = [row for kind in (ReceiptAsked, Acknowledged, Released) for row in notes(records, kind)]
    last = max(time_us(row) for row in told if (row.node, whole(row, "first")) in asked)
    samples = [second * MILLION for second in range(ceil(min(asked.values()) / MILLION), floor(last / MILLION) + 1)]
    held = 0
    for request, at in asked.items():
        until = min((end[request] for end in ends if request in end), default=last + 1)
        held += sizes[request] * sum(at <= sample < until for sample in samples)
    return ratio(held, len(samples) * len({node for node, _ in asked}))


def premature_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    promises = grouped((subscription(row), row) for row in notes(records, Promised) if subscription(row) is not None)
    delivered = [row for row in events(records, "deliver") if subscription(row) in promises]
    early = [row for row in delivered if is_premature(row, promises[subscription(row)])]
    clients, affected = {node for node, _ in promises}, {row.node for row in early}
    if not clients:
        return []
    return [
        {
            "promised_clients": len(clients),
            "premature": len(early),
            "premature_share": ratio(len(early), len(delivered)),
            "premature_clients_share": ratio(len(affected), len(clients)),
            "premature_per_affected_client": ratio(len(early), len(affected)),
        }
    ]


def subscription(row: Record) -> tuple[str, str] | None:
    name = text(row, "subscription")
    return None if name is None else (row.node, name)


def is_premature(row: Record, promises: list[Record]) -> bool:
    installed = [time_us(each) for each in promises if text(each, "guarantee") == "installed"]
    if installed and time_us(row) < min(installed):
        return True
    publisher, number, accepted = text(row, "publisher"), whole(row, "number"), real(row, "accepted_at")
    named = [each for each in promises if publisher is not None and text(each, "publisher") == publisher]
    firsts = [first for each in named if (first := whole(each, "number")) is not None]
    if firsts:
        return number is not None and number < min(firsts)
    times = [millionths(since) for each in promises if (since := real(each, "since")) is not None]
    return accepted is not None and bool(times) and millionths(accepted) < min(times)


def twin_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    twins = [row for row in notes(records, Twin) if subscription(row) is not None]
    groups = grouped((group, subscription(row)) for row in twins if (group := text(row, "group")) is not None)
    received = grouped((subscription(row), row.key) for row in events(records, "deliver") if row.key is not None)
    if not groups:
        return []
    differences = []
    for members in groups.values():
        sets: list[set[object]] = [set(received.get(member, [])) for member in set(members)]
        differences.append(len(set.union(*sets) - set.intersection(*sets)))
    return [
        {
            "twin_groups": len(groups),
            "differing_group_share": ratio(sum(count > 0 for count in differences), len(groups)),
            "group_difference_mean": mean(differences),
            "group_difference_max": max(differences),
        }
    ]
