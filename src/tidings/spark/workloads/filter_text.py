"""Filters as text of the filter language, put together from parts that are known to be sound."""

import math
from collections.abc import Iterable

from tidings.model.language.lexer import quoted


def equals(name: str, value: str) -> str:
    return f"{name} = {quoted(value)}"


def one_of(name: str, values: Iterable[str]) -> str:
    return f"{name} IN ({', '.join(map(quoted, values))})"


def between(name: str, low: float, high: float) -> str:
    """Both ends belong to it; an infinite end is left out. "" if nothing is asked."""
    parts = []
    if low > -math.inf:
        parts.append(f"{name} >= {number(low)}")
    if high < math.inf:
        parts.append(f"{name} <= {number(high)}")
    return " AND ".join(parts)


def all_of(parts: Iterable[str]) -> str:
    return " AND ".join(part for part in parts if part) or "TRUE"


def number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
