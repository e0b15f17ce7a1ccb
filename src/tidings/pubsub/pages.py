"""A page of history: stored publications of one publisher as six runs of bytes.

What is read from history is read in great numbers, by programs that make columns of it. So a page never is a list of
byte strings: heads stand one behind the other in one buffer, payloads in another, and four plain arrays say the rest,
one entry a publication.

    raw_times             float64    when each was accepted
    raw_numbers           int64      the publisher's own numbers of them, ascending
    raw_head_lengths      uint32     how many bytes of `raw_heads` are its head
    raw_payload_lengths   uint32     the same for its payload
    raw_heads, raw_payloads

All little-endian, on every machine. A broker copies memory to make one, a reader that has numpy or Arrow looks at the
arrays where they lie, and brokers on the way pass bytes on. Whoever wants values gets them from the properties
(`numbers`, `heads`, ...), which make new ones each time.

A page may come from anybody. Its arrays are checked when it is made or decoded: as many entries in each, lengths that
add up, no empty head, no head beyond its bound, no number below 0, times that are numbers. What a head says is for
whoever reads it. Large pages are checked by numpy where it is to be had, which takes a tenth of the time.
"""

import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import accumulate
from math import isfinite
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from tidings.model.bounds import (
    ATTRIBUTES_BYTES_MAX,
    BATCH_BYTES_MAX,
    NARROW_COLUMN_BYTES_MAX,
    WIDE_COLUMN_BYTES_MAX,
)
from tidings.pubsub.publications import UNEVEN

REAL, NUMBER, LENGTH = "d", "q", "I"
"""Types of entries, as `array` calls them."""

WIDE, NARROW = 8, 4
"""Bytes of an entry: of times and numbers, and of lengths."""

ROW_BYTES = 2 * WIDE + 2 * NARROW
"""What a publication takes in a page besides its head and payload."""

WideEntries = Annotated[bytes, Meta(max_length=WIDE_COLUMN_BYTES_MAX)]
NarrowEntries = Annotated[bytes, Meta(max_length=NARROW_COLUMN_BYTES_MAX)]
Joined = Annotated[bytes, Meta(max_length=BATCH_BYTES_MAX)]

MANY = 256
"""Publications from which on numpy checks a page sooner."""

IS_TURNED = sys.byteorder == "big"


class StoredPage(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    raw_times: WideEntries = b""
    raw_numbers: WideEntries = b""
    raw_head_lengths: NarrowEntries = b""
    raw_payload_lengths: NarrowEntries = b""
    raw_heads: Joined = b""
    raw_payloads: Joined = b""

    def __post_init__(self) -> None:
        count = len(self)
        columns = self.raw_times, self.raw_numbers, self.raw_head_lengths, self.raw_payload_lengths
        if tuple(map(len, columns)) != (WIDE * count, WIDE * count, NARROW * count, NARROW * count):
            raise ValueError(UNEVEN)
        if not count:
            heads_bytes = payloads_bytes = 0
        else:
            found = measure_by_numpy(self) if count >= MANY and numpy_there() else measure_plainly(self)
            heads_bytes, payloads_bytes = found.heads_bytes, found.payloads_bytes
            if not (found.shortest_head >= 1 and found.longest_head <= ATTRIBUTES_BYTES_MAX):
                raise ValueError("a head of a page is empty, or too long")
            if found.least_number < 0 or not found.has_finite_times:
                raise ValueError("a number of a page is below 0, or a time of it is no number")
        if heads_bytes != len(self.raw_heads) or payloads_bytes != len(self.raw_payloads):
            raise ValueError("the lengths of a page do not add up")

    def __len__(self) -> int:
        return len(self.raw_numbers) // WIDE

    @property
    def accepted_at(self) -> tuple[float, ...]:
        return tuple(entries(REAL, self.raw_times))

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(entries(NUMBER, self.raw_numbers))

    @property
    def heads(self) -> tuple[bytes, ...]:
        return cut_apart(self.raw_heads, self.raw_head_lengths)

    @property
    def payloads(self) -> tuple[bytes, ...]:
        return cut_apart(self.raw_payloads, self.raw_payload_lengths)

    @property
    def last_number(self) -> int:
        """Of a page that is not empty."""
        return entries(NUMBER, self.raw_numbers[-WIDE:])[0]

    @property
    def size_bytes(self) -> int:
        """Heads and payloads."""
        return len(self.raw_heads) + len(self.raw_payloads)

    def first(self, count: int) -> "StoredPage":
        """So many from its beginning."""
        if count >= len(self):
            return self
        heads, payloads = self.raw_head_lengths[: NARROW * count], self.raw_payload_lengths[: NARROW * count]
        return StoredPage(
            self.raw_times[: WIDE * count],
            self.raw_numbers[: WIDE * count],
            heads,
            payloads,
            self.raw_heads[: sum(entries(LENGTH, heads))],
            self.raw_payloads[: sum(entries(LENGTH, payloads))],
        )

    def fitting(self, room_bytes: int) -> int:
        """How many of the first fit so much room; one always does."""
        if self.size_bytes + ROW_BYTES * len(self) <= room_bytes:
            return len(self)
        lengths = entries(LENGTH, self.raw_head_lengths), entries(LENGTH, self.raw_payload_lengths)
        for place, (head, payload) in enumerate(zip(*lengths, strict=True)):
            room_bytes -= head + payload + ROW_BYTES
            if room_bytes < 0:
                return max(1, place)
        return len(self)


class PageMeasures(NamedTuple):
    """What there is to check about a page that is not empty."""

    heads_bytes: int
    payloads_bytes: int
    shortest_head: int
    longest_head: int
    least_number: int
    has_finite_times: bool


def measure_plainly(page: StoredPage) -> PageMeasures:
    heads, payloads = entries(LENGTH, page.raw_head_lengths), entries(LENGTH, page.raw_payload_lengths)
    least, is_finite = min(entries(NUMBER, page.raw_numbers)), all(map(isfinite, entries(REAL, page.raw_times)))
    return PageMeasures(sum(heads), sum(payloads), min(heads), max(heads), least, is_finite)


def measure_by_numpy(page: StoredPage) -> PageMeasures:
    import numpy

    heads, payloads = numpy.frombuffer(page.raw_head_lengths, "<u4"), numpy.frombuffer(page.raw_payload_lengths, "<u4")
    numbers, times = numpy.frombuffer(page.raw_numbers, "<i8"), numpy.frombuffer(page.raw_times, "<f8")
    totals = int(heads.sum(dtype=numpy.uint64)), int(payloads.sum(dtype=numpy.uint64))
    bounds = int(heads.min()), int(heads.max()), int(numbers.min())
    return PageMeasures(*totals, *bounds, bool(numpy.isfinite(times).all()))


@cache
def numpy_there() -> bool:
    return find_spec("numpy") is not None


def page_of(
    times: Iterable[float], numbers: Iterable[int], heads: Sequence[bytes], payloads: Sequence[bytes] | None
) -> StoredPage:
    """The page of what stands side by side; with None all payloads are empty."""
    return StoredPage(
        packed(REAL, times),
        packed(NUMBER, numbers),
        packed(LENGTH, map(len, heads)),
        bytes(NARROW * len(heads)) if payloads is None else packed(LENGTH, map(len, payloads)),
        b"".join(heads),
        b"".join(payloads or ()),
    )


def packed(kind: str, values: Iterable[float]) -> bytes:
    made = array(kind, values)
    if IS_TURNED:
        made.byteswap()
    return made.tobytes()


def entries(kind: str, data: bytes) -> "array[int]":
    made: array[int] = array(kind)
    made.frombytes(data)
    if IS_TURNED:
        made.byteswap()
    return made


def cut_apart(joined: bytes, lengths: bytes) -> tuple[bytes, ...]:
    ends = list(accumulate(entries(LENGTH, lengths), initial=0))
    return tuple(map(joined.__getitem__, map(slice, ends, ends[1:])))


NO_PAGE = StoredPage()
