"""Numbers as `tidings.spark.metrics.tables` makes them: integers, percentiles, averages."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil, floor
from typing import Any, TypeVar

from tidings.machine.effects import Note, note_name
from tidings.trace.record import Record

DIGITS = 4
MILLION = 1_000_000

T = TypeVar("T")


def millionths(value: float) -> int:
    return floor(value * MILLION + 0.5)


def time_us(record: Record) -> int:
    return millionths(record.time)


def cut(value: int) -> int:
    power: int = 10 ** max(0, len(str(abs(value))) - DIGITS)
    return abs(value) // power * power * (1 if value >= 0 else -1)


def percentile(values: Iterable[int], share: float) -> float | None:
    """Of the values cut to four digits, interpolated between the two that are nearest, in hundredths."""
    ordered = sorted(map(cut, values))
    if not ordered:
        return None
    place = (len(ordered) - 1) * share
    low, high = floor(place), ceil(place)
    between = ordered[low] + (place - low) * (ordered[high] - ordered[low])
    return floor(between * 100 + 0.5) / 100


def ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def mean(values: Sequence[int]) -> float | None:
    return ratio(sum(values), len(values))


def rounded(value: float) -> int:
    return floor(value + 0.5)


def seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / MILLION


def largest(values: Sequence[int]) -> int | None:
    return max(values, default=None)


def jain(values: Sequence[int]) -> float | None:
    total = float(sum(values))
    return ratio(total * total, len(values) * float(sum(value * value for value in values)))


def grouped(items: Iterable[tuple[Any, T]]) -> dict[Any, list[T]]:
    groups = defaultdict(list)
    for key, item in items:
        groups[key].append(item)
    return groups


def events(records: Iterable[Record], kind: str) -> list[Record]:
    return [record for record in records if record.kind == kind and record.message == "Event"]


def notes(records: Iterable[Record], kind: type[Note]) -> list[Record]:
    name = note_name(kind)
    return [record for record in records if record.kind == "note" and record.message == name]


def fields(record: Record) -> dict[str, Any]:
    """The detail as a dict; {} if it is no JSON object."""
    try:
        found = json.loads(record.detail or "null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def whole(record: Record, name: str) -> int | None:
    value = fields(record).get(name)
    is_whole = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return value if is_whole else None


def real(record: Record, name: str) -> float | None:
    value = fields(record).get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def flag(record: Record, name: str) -> bool | None:
    value = fields(record).get(name)
    return value if isinstance(value, bool) else None


def text(record: Record, name: str) -> str | None:
    """A number is as good as its digits."""
    value = fields(record).get(name)
    return None if value is None else value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
