"""Pages of history to Arrow columns.

A page is six runs of bytes (`pubsub/pages.py`). What the network says of an event lies in its arrays as Arrow wants it:
numbers and payloads are looked at where they lie, and payloads only where a column asks for them. Attributes are read
out of the heads, MessagePack maps one behind the other; only those are read that a column asks for.

Two steps make a column of an attribute:

    read      heads -> a text, an integer, a double or a truth for each event, or null (`Column.kind`)
    finish    that array -> the column's own type (a time of the text, say)

**Reading.** A head is not decoded on its own: all heads of a page, with the mark of an array in front, are one
MessagePack value, which one call decodes into structs that have a field for each wanted attribute and skip all others.
The structs are strict about types. Where an attribute has another type than its column (a number as text, say), the
page is decoded again, each head to a dict, and values are read as a filter reads them (`columns.py`); both ways give
the same columns, which a property test checks.

Heads that do not decode at all (a broker lets none in) have only nulls.
"""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import msgspec
import numpy
import pyarrow
from pyarrow import compute
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidings.model.bounds import INTEGER_MAX, INTEGER_MIN
from tidings.model.errors import UsageError
from tidings.model.identity import name_of
from tidings.model.values import Value, number_of, text_of, truth_of
from tidings.pubsub.pages import StoredPage
from tidings.pubsub.publications import BadPublication, decode_head
from tidings.spark.live.columns import ACCEPTED_AT, NUMBER, PAYLOAD, PUBLISHER, TIME, columns_of

ARRAY_OF_MANY = 0xDD
"""The mark of an array whose length follows in four bytes."""

MICROSECONDS = pyarrow.timestamp("us", tz="UTC")
MILLION = 1_000_000
KINDS: dict[type, pyarrow.DataType] = {
    str: pyarrow.string(),
    int: pyarrow.int64(),
    float: pyarrow.float64(),
    bool: pyarrow.bool_(),
}
"""What each reading is in Arrow."""


class Decoder:
    """Pages to record batches of one schema. `misread` counts values that had another type than their column."""

    def __init__(self, schema: StructType, fails_on_type: bool = False) -> None:
        self.columns = columns_of(schema)
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.fails_on_type = fails_on_type
        self.misread = 0
        self.attributes = {it.name: it.kind for it in self.columns if it.kind is not None}
        if any(it.name == TIME for it in self.columns):
            self.attributes[TIME] = str
        self.places = {name: f"a{place}" for place, name in enumerate(self.attributes)}
        fields = [(self.places[name], kind | None, None) for name, kind in self.attributes.items()]
        made = msgspec.defstruct(
            "Wanted", fields, rename={place: name for name, place in self.places.items()}, gc=False
        )
        self.strict = msgspec.msgpack.Decoder(list[made])  # type: ignore[valid-type]

    def batch(self, publisher: str, page: StoredPage) -> pyarrow.RecordBatch:
        """The columns of a page of this publisher, which is not empty."""
        read = self.read_strictly(page)
        if read is None:
            read = self.read_leniently(page)
        made = [self.column(it.name, publisher, page, read) for it in self.columns]
        return pyarrow.RecordBatch.from_arrays(made, schema=self.schema)

    def column(self, name: str, publisher: str, page: StoredPage, read: dict[str, pyarrow.Array]) -> pyarrow.Array:
        if name == PUBLISHER:
            return repeated(publisher, page)
        if name == NUMBER:
            return numbers_of(page)
        if name == ACCEPTED_AT:
            return instants_of(page)
        if name == PAYLOAD:
            return payloads_of(page)
        if name == "id":
            # An event that has none is named by its number and its publisher.
            return filled(read[name], lambda: numbers_of(page).cast(pyarrow.string()))
        if name == "source":
            return filled(read[name], lambda: repeated(name_of(publisher), page))
        return times(read[name]) if name == TIME else read[name]

    # Reading.

    def read_strictly(self, page: StoredPage) -> dict[str, pyarrow.Array] | None:
        """None where some value has another type than its column."""
        if not self.attributes:
            return {}
        try:
            rows = self.strict.decode(struct.pack(">BI", ARRAY_OF_MANY, len(page)) + page.raw_heads)
        except (ValueError, RecursionError):
            return None
        return {
            name: array_of(list(map(attrgetter(self.places[name]), rows)), kind)
            for name, kind in self.attributes.items()
        }

    def read_leniently(self, page: StoredPage) -> dict[str, pyarrow.Array]:
        rows = [self.decode(head) for head in page.heads]
        return {
            name: array_of([self.read(name, kind, row) for row in rows], kind) for name, kind in self.attributes.items()
        }

    def decode(self, head: bytes) -> dict[str, Value]:
        try:
            return decode_head(head)
        except BadPublication as problem:
            if self.fails_on_type:
                raise UsageError(f"an event does not decode: {problem}") from None
            self.misread += 1
            return {}

    def read(self, name: str, kind: type, row: dict[str, Value]) -> Value | None:
        value = row.get(name)
        if value is None:
            return None
        read = READINGS[kind](value)
        if read is None:
            self.misread += 1
            if self.fails_on_type:
                raise UsageError(
                    f"attribute {name}: {value!r:.80} is nothing for a column of {kind.__name__}; choose another type, "
                    'or leave mode "FAILFAST" to get null'
                )
        return read


def array_of(values: list[Any], kind: type) -> pyarrow.Array:
    if is_constant(values):
        # Types and sources hardly vary, and an array of one text is made at once.
        return pyarrow.repeat(pyarrow.scalar(values[0], KINDS[kind]), len(values))
    return pyarrow.array(values, KINDS[kind])


def is_constant(values: list[Any]) -> bool:
    """Of texts alone: 0.0 and -0.0 are equal, and not the same."""
    first = values[0] if values else 0
    return (first is None or type(first) is str) and values.count(first) == len(values)


# What the network says of events.


def repeated(text: str, page: StoredPage) -> pyarrow.Array:
    return pyarrow.repeat(pyarrow.scalar(text, pyarrow.string()), len(page))


def numbers_of(page: StoredPage) -> pyarrow.Array:
    return pyarrow.array(numpy.frombuffer(page.raw_numbers, "<i8").astype(numpy.int64, copy=False))


def instants_of(page: StoredPage) -> pyarrow.Array:
    micros = numpy.rint(numpy.frombuffer(page.raw_times, "<f8") * MILLION).astype(numpy.int64)
    return pyarrow.array(micros).view(MICROSECONDS)


def payloads_of(page: StoredPage) -> pyarrow.Array:
    """The payloads where they lie."""
    ends = numpy.zeros(len(page) + 1, numpy.int32)
    numpy.cumsum(numpy.frombuffer(page.raw_payload_lengths, "<u4"), out=ends[1:])
    buffers = [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(page.raw_payloads)]
    return pyarrow.Array.from_buffers(pyarrow.binary(), len(page), buffers)


def filled(array: pyarrow.Array, instead: Callable[[], pyarrow.Array]) -> pyarrow.Array:
    return compute.coalesce(array, instead()) if array.null_count else array


# Readings of values.


def read_integer(value: Value) -> int | None:
    number = number_of(value)
    if number is None or (isinstance(number, float) and not number.is_integer()):
        return None
    return int(number) if INTEGER_MIN <= number <= INTEGER_MAX else None


def read_double(value: Value) -> float | None:
    number = number_of(value)
    return None if number is None else float(number)


READINGS: dict[type, Callable[[Value], Value | None]] = {
    str: text_of,
    int: read_integer,
    float: read_double,
    bool: truth_of,
}


def times(texts: pyarrow.Array) -> pyarrow.Array:
    """RFC 3339 to microseconds. Arrow reads the usual spellings; leap seconds and the like are read here."""
    try:
        return texts.cast(MICROSECONDS)
    except pyarrow.ArrowInvalid:
        values = [None if text is None else read_time(text) for text in texts.to_pylist()]
        return pyarrow.array(values, pyarrow.int64()).cast(MICROSECONDS)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_time(text: str) -> int | None:
    """Microseconds since 1970; a leap second is the one after it. None for years that nobody can count to."""
    text = text.upper()
    is_leap = text[17:19] == "60"
    if is_leap:
        text = f"{text[:17]}59{text[19:]}"
    whole, _, rest = text[19:].partition(".")
    digits = ""
    if not whole:
        digits = rest.rstrip("Z").partition("+")[0].partition("-")[0]
        text = text[:19] + rest[len(digits) :]
    try:
        instant = datetime.fromisoformat(text)
        micros = (instant - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None
    return micros + int(digits[:6].ljust(6, "0") if digits else 0) + (MILLION if is_leap else 0)
