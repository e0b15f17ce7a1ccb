"""What delivery guarantees cost the publisher, and whether they are kept."""

from math import ceil, floor
from typing import Any

from tidings.spark.metrics.references.values import (
    MILLION,
    events,
    grouped,
    largest,
    mean,
    notes,
    percentile,
    ratio,
    seconds,
    text,
    time_us,
    whole,
)
from tidings.trace.record import Record

Expected = frozenset[tuple[str, str]]


def first_times(rows: list[Record]) -> dict[tuple[str, str], int]:
    times = grouped(((row.key, row.node), time_us(row)) for row in rows if row.key is not None)
    return {event: min(of) for event, of in times.items()}


def acknowledgement_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    published = first_times(events(records, "publish"))
    acknowledged, released = (first_times(notes(records, name)) for name in ("acknowledged", "released"))
    if not published:
        return []
    waits = [acknowledged[event] - at for event, at in published.items() if event in acknowledged]
    return [
        {
            "acknowledged": len(waits),
            "acknowledgement_mean": seconds(mean(waits)),
            "acknowledgement_p50": seconds(percentile(waits, 0.5)),
            "acknowledgement_p99": seconds(percentile(waits, 0.99)),
            "acknowledgement_max": seconds(largest(waits)),
            "publications_in_memory": in_memory(records, published, acknowledged | released),
        }
    ]


def in_memory(records: list[Record], published: dict[Any, int], forgotten: dict[Any, int]) -> float | None:
    told = events(records, "publish") + notes(records, "acknowledged") + notes(records, "released")
    last = max(time_us(row) for row in told if (row.key, row.node) in published)
    samples = [second * MILLION for second in range(ceil(min(published.values()) / MILLION), floor(last / MILLION) + 1)]
    held = sum(
        at <= sample and (event not in forgotten or sample < forgotten[event])
        for event, at in published.items()
        for sample in samples
    )
    return ratio(held, len(samples) * len({node for _, node in published}))


def premature_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    promises = grouped((stream(row), whole(row, "number") or 0) for row in notes(records, "promised") if is_known(row))
    promised = {of: min(numbers) for of, numbers in promises.items()}
    delivered = [row for row in events(records, "deliver") if is_known(row) and stream(row) in promised]
    early = [row for row in delivered if (whole(row, "number") or 0) < promised[stream(row)]]
    clients, affected = {node for node, _, _ in promised}, {row.node for row in early}
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


def is_known(row: Record) -> bool:
    return text(row, "publisher") is not None and whole(row, "number") is not None


def stream(row: Record) -> tuple[str, str, str | None]:
    return row.node, text(row, "subscription") or "", text(row, "publisher")


def twin_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    groups = grouped((group, row.node) for row in notes(records, "twin") if (group := text(row, "group")) is not None)
    received = grouped((row.node, row.key) for row in events(records, "deliver") if row.key is not None)
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
