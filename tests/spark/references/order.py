"""Whether each subscriber gets the events of a publisher in the order in which they were published."""

from collections.abc import Callable
from typing import Any

from tests.spark.references.values import (
    events,
    flag,
    grouped,
    mean,
    millionths,
    percentile,
    ratio,
    real,
    rounded,
    seconds,
    text,
    time_us,
    whole,
)
from tidings.trace.record import Record


def order_rows(records: list[Record], expected: frozenset[tuple[str, str]]) -> list[dict[str, Any]]:
    rows = events(records, "deliver")
    known = [each for each in rows if text(each, "publisher") is not None and whole(each, "number") is not None]
    pairs = grouped(((text(each, "publisher"), each.node, text(each, "subscription")), each) for each in known)
    if not pairs:
        return []
    violations = [violations_of(pair, time_us) for pair in pairs.values()]
    latches, holds = means_of(pairs, "latch"), means_of(pairs, "hold")
    return [
        {
            "pairs": len(pairs),
            "arrived": len(known),
            "fifo_violations": sum(violations),
            "fifo_violation_share": ratio(sum(violations), len(known)),
            "violating_pairs": sum(count > 0 for count in violations),
            "arrival_violations": sum(violations_of(pair, arrived_us) for pair in pairs.values()),
            "late": sum(flag(each, "late") is True for each in known),
            "extra_delay_mean": seconds(mean(latches)),
            "extra_delay_p50": seconds(percentile(latches, 0.5)),
            "extra_delay_p90": seconds(percentile(latches, 0.9)),
            "extra_delay_max": seconds(percentile(latches, 1.0)),
            "hold_mean": seconds(mean(holds)),
            "hold_p50": seconds(percentile(holds, 0.5)),
            "hold_p90": seconds(percentile(holds, 0.9)),
            "hold_max": seconds(percentile(holds, 1.0)),
        }
    ]


def number_rows(records: list[Record], expected: frozenset[tuple[str, str]]) -> list[dict[str, Any]]:
    rows = events(records, "deliver")
    known = [each for each in rows if text(each, "publisher") is not None and whole(each, "number") is not None]
    pairs = grouped(
        ((text(each, "publisher"), each.node, text(each, "subscription")), whole(each, "number") or 0) for each in known
    )
    if not pairs:
        return []
    holes = [sum(number not in pair for number in range(min(pair), max(pair))) for pair in pairs.values()]
    return [{"holes": sum(holes), "pairs_with_holes": sum(count > 0 for count in holes)}]


def arrived_us(record: Record) -> int:
    return millionths(record.time - (real(record, "hold") or 0.0))


def violations_of(pair: list[Record], moment: Callable[[Record], int]) -> int:
    numbers = [number for _, number in sorted((moment(each), whole(each, "number") or 0) for each in pair)]
    return sum(any(earlier > number for earlier in numbers[:place]) for place, number in enumerate(numbers))


def means_of(pairs: dict[Any, list[Record]], name: str) -> list[int]:
    return [rounded(sum(millionths(real(each, name) or 0.0) for each in pair) / len(pair)) for pair in pairs.values()]
