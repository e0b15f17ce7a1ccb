"""Rows on their way to a file, column by column.

Text repeats from row to row, so rows hold numbers instead of it. A node, or a peer, is the number of its name. What a
row says besides (message, key, reason and detail) is its *subject*: a message that is sent to many, and received by
each of them, is one subject, kept once. So the text of a message is made once, and a writer handles numbers.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from tidings.trace.record import KINDS, Kind, Row

KIND_NUMBERS: dict[Kind, int] = {kind: number for number, kind in enumerate(KINDS)}


class Subject(msgspec.Struct, frozen=True):
    message: str | None
    key: str | None
    reason: str | None
    detail: str | None


class Rows:
    def __init__(self) -> None:
        self.times = array("d")
        self.nodes = array("i")
        self.kinds = bytearray()
        """Places in KINDS."""
        self.peers = array("i")
        self.sizes: list[int | None] = []
        self.subject_numbers = array("i")
        self.names: defaultdict[str | None, int] = numbering()
        """Of nodes and peers; None is one of them."""
        self.subjects: list[Subject] = []

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[Row]:
        names: list[Any] = list(self.names)
        columns = (self.times, self.nodes, self.kinds, self.peers, self.sizes, self.subject_numbers)
        for time, node, kind, peer, size_bytes, number in zip(*columns, strict=True):
            about = self.subjects[number]
            yield (
                time,
                names[node],
                KINDS[kind],
                names[peer],
                about.message,
                about.key,
                size_bytes,
                about.reason,
                about.detail,
            )


def numbering(first: int = 0) -> defaultdict[Any, int]:
    """Numbers whatever it is asked for in the order in which it is first asked for it."""
    return defaultdict(count(first).__next__)
