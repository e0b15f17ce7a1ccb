"""Encoded events to Arrow columns.

A page of history is a tuple of heads, MessagePack maps, and a tuple of payloads (`pubsub/publications.py`). A head
is not decoded on its own: all heads of a page, with the mark of an array in front, are one MessagePack value, which
one call decodes into structs that have a field for each wanted attribute and skip all others. That is most of the
speed of a reader.

The structs are strict about types. Where an attribute has another type than its column (a number as text, say), the
page is decoded again, each head to a dict, and values are read as a filter reads them (`columns.py`); both ways give
the same columns, which a property test checks.

Heads that do not decode at all (a broker lets none in) have only nulls.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import msgspec
import numpy
import pyarrow
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidings.model.bounds import INTEGER_MAX, INTEGER_MIN
from tidings.model.errors import UsageError
from tidings.model.values import Value, number_of, text_of, truth_of
from tidings.pubsub.publications import BadPublication, decode_head
from tidings.spark.live.columns import ACCEPTED_AT, FILLED_IN, NUMBER, PAYLOAD, PUBLISHER, TIME, columns_of

ARRAY_OF_MANY = 0xDD
"""The mark of an array whose length follows in four bytes."""

MICROSECONDS = pyarrow.timestamp("us", tz="UTC")
MILLION = 1_000_000


class DecodedPage:
    """Publications of one publisher, side by side."""

    def __init__(
        self,
        publisher: str,
        numbers: Sequence[int],
        accepted_at: Sequence[float],
        heads: Sequence[bytes],
        payloads: Sequence[bytes],
    ) -> None:
        self.publisher, self.numbers, self.accepted_at = publisher, numbers, accepted_at
        self.heads, self.payloads = heads, payloads

    def before(self, time_of_day: float) -> "DecodedPage":
        """Those that were accepted before; they come in the order of their times."""
        end = bisect_left(self.accepted_at, time_of_day)
        return DecodedPage(
            self.publisher, self.numbers[:end], self.accepted_at[:end], self.heads[:end], self.payloads[:end]
        )


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

    def batch(self, page: DecodedPage) -> pyarrow.RecordBatch:
        attributes = self.read_strictly(page.heads)
        if attributes is None:
            attributes = self.read_leniently(page.heads)
        made = [self.column(it.name, page, attributes) for it in self.columns]
        return pyarrow.RecordBatch.from_arrays(made, schema=self.schema)

    def column(self, name: str, page: DecodedPage, attributes: dict[str, list[Any]]) -> pyarrow.Array:
        if name == PUBLISHER:
            return pyarrow.repeat(pyarrow.scalar(page.publisher, pyarrow.string()), len(page.heads))
        if name == NUMBER:
            return pyarrow.array(page.numbers, pyarrow.int64())
        if name == ACCEPTED_AT:
            micros = numpy.rint(numpy.array(page.accepted_at, dtype=numpy.float64) * MILLION).astype(numpy.int64)
            return pyarrow.array(micros).cast(MICROSECONDS)
        if name == PAYLOAD:
            return pyarrow.array(page.payloads, pyarrow.binary())
        values = attributes[name]
        if name in FILLED_IN and None in values:
            instead: Iterable[object] = page.numbers if name == "id" else [page.publisher] * len(values)
            values = [str(other) if it is None else it for it, other in zip(values, instead, strict=True)]
        if is_constant(values):
            # Types and sources hardly vary, and an array of one text is made at once.
            return pyarrow.repeat(self.array(name, values[:1])[0], len(values))
        return self.array(name, values)

    def array(self, name: str, values: list[Any]) -> pyarrow.Array:
        return times(values) if name == TIME else pyarrow.array(values, self.schema.field(name).type)

    def read_strictly(self, heads: Sequence[bytes]) -> dict[str, list[Any]] | None:
        """None where some value has another type than its column."""
        if not self.attributes:
            return {}
        try:
            rows = self.strict.decode(struct.pack(">BI", ARRAY_OF_MANY, len(heads)) + b"".join(heads))
        except (ValueError, RecursionError):
            return None
        return {name: list(map(attrgetter(place), rows)) for name, place in self.places.items()}

    def read_leniently(self, heads: Sequence[bytes]) -> dict[str, list[Any]]:
        rows = [self.decode(head) for head in heads]
        return {name: [self.read(name, kind, row) for row in rows] for name, kind in self.attributes.items()}

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


def is_constant(values: list[Any]) -> bool:
    """Of texts alone: 0.0 and -0.0 are equal, and not the same."""
    first = values[0] if values else 0
    return (first is None or type(first) is str) and values.count(first) == len(values)


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


def times(texts: list[str | None]) -> pyarrow.Array:
    """RFC 3339 to microseconds. Arrow reads the usual spellings; leap seconds and the like are read here."""
    try:
        return pyarrow.array(texts, pyarrow.string()).cast(MICROSECONDS)
    except pyarrow.ArrowInvalid:
        values = [None if text is None else read_time(text) for text in texts]
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
