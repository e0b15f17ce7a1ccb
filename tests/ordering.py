"""Keys of any kinds in one order, so that answers can be compared."""

from collections.abc import Iterable
from typing import Any


def in_order(keys: Iterable[Any]) -> list[Any]:
    return sorted(keys, key=lambda key: (type(key).__name__, key))
