"""Rows on their way to a file, column by column.

The columns that differ from row to row are lists, or arrays of numbers. What a row says besides (message, key, reason
and detail) is its *subject*: a message that is sent to many, and received by each of them, is one subject, kept once,
and its rows have the subject's number. So the text of a message is made once, and a writer handles numbers instead.
"""

from array import array
from collections.abc import Iterator

from tidings.trace.record import KINDS, Kind, Row

KIND_NUMBERS: dict[Kind, int] = {kind: number for number, kind in enumerate(KINDS)}

SUBJECT_COLUMNS = ("message", "key", "reason", "detail")
Subject = tuple[str | None, str | None, str | None, str | None]


class Rows:
    def __init__(self) -> None:
        self.times = array("d")
        self.nodes: list[str] = []
        self.kinds = array("b")
        """Places in KINDS."""
        self.peers: list[str | None] = []
        self.sizes: list[int | None] = []
        self.subject_numbers = array("i")
        self.subjects: list[Subject] = []

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[Row]:
        columns = (self.times, self.nodes, self.kinds, self.peers, self.sizes, self.subject_numbers)
        for time, node, kind, peer, size_bytes, number in zip(*columns, strict=True):
            message, key, reason, detail = self.subjects[number]
            yield time, node, KINDS[kind], peer, message, key, size_bytes, reason, detail
