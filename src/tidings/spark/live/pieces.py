"""How the work of a read is cut, and what each task of it does.

The driver cuts what lies between two positions into pieces, at most `partitions` of them. Numbers of a publisher have
holes, some of them huge (`offsets.py`), so before it cuts a wide range it asks for the first few events in it: from
there on numbers are mostly close together. That is balance, not truth; wherever the cuts are, each event is in one
piece.

A task connects, reads its ranges page by page, and turns each page into a record batch. It asks for the next page
before it decodes the one it has, so that the broker searches meanwhile.

Nothing in a piece depends on when or where it is read: the same positions give the same pieces and rows again, as
long as brokers store them. Where they do not, `DataLoss` ends the query, or a line in the log counts what is missing.

**Encoded events to Arrow columns.** A page of history is a tuple of heads, MessagePack maps, and a tuple of payloads
(`pubsub/publications.py`). A head is not decoded on its own: all heads of a page, with the mark of an array in front,
are one MessagePack value, which one call decodes into structs that have a field for each wanted attribute and skip all
others. That is most of the speed of a reader.

The structs are strict about types. Where an attribute has another type than its column (a number as text, say), the
page is decoded again, each head to a dict, and values are read as a filter reads them (`columns.py`); both ways give
the same columns, which a property test checks.

Heads that do not decode at all (a broker lets none in) have only nulls.
"""

import logging
import struct
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import msgspec
import numpy
import pyarrow
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidings.model.bounds import INTEGER_MAX, INTEGER_MIN
from tidings.model.errors import UsageError
from tidings.model.identity import name_of
from tidings.model.values import Value, number_of, text_of, truth_of
from tidings.net.client.history import Stored
from tidings.pubsub.publications import BadPublication, decode_head
from tidings.spark.live.columns import ACCEPTED_AT, FILLED_IN, NUMBER, PAYLOAD, PUBLISHER, TIME, columns_of
from tidings.spark.live.connection import LiveConnection, Options
from tidings.spark.live.offsets import Range, cut, loss

PAGE_EVENTS = 4096
"""Events of one page, and the least worth a task of its own."""

PROBE_EVENTS = 64
"""Events that the driver looks at to see where a range begins."""

log = logging.getLogger("tidings.spark.live")


class Piece(InputPartition):
    """What one task reads; `until` is the time of day at which a batch read ends, if it has one."""

    def __init__(self, ranges: list[Range], until: float | None = None) -> None:
        self.ranges, self.until = ranges, until


class RangeStart:
    """Where the events of a range begin: a range that says so, and the numbers of the first few."""

    def __init__(self, range: Range, numbers: tuple[int, ...]) -> None:
        self.range, self.numbers = range, numbers


def find_begin(link: LiveConnection, filter: str, range: Range, fails: bool) -> RangeStart | None:
    """None where nothing matches."""
    stored = link.run(fetch(link, filter, range, PROBE_EVENTS))
    check_whole(stored, range, fails)
    if not stored.numbers and not stored.has_more:
        return None
    after = stored.numbers[0] - 1 if stored.numbers else stored.through
    return RangeStart(Range(range.publisher, after, range.since, range.through), tuple(stored.numbers))


def cut_work(
    link: LiveConnection, filter: str, ranges: list[Range], options: Options, fails: bool
) -> list[list[Range]]:
    found = []
    for range in ranges:
        if range.after is None or range.width > PAGE_EVENTS:
            begin = find_begin(link, filter, range, fails)
            if begin is not None:
                found.append(begin.range)
        else:
            found.append(range)
    return cut(found, options.partitions, PAGE_EVENTS)


def fetch(link: LiveConnection, filter: str, range: Range, limit: int) -> Coroutine[Any, Any, Stored]:
    since = range.since if range.after is None and not range.is_open else None
    return link.client.fetch(
        filter, range.publisher, after=range.after, since=since, through=range.through, limit=limit
    )


def check_whole(stored: Stored, range: Range, fails: bool) -> None:
    if stored.is_truncated and not range.is_open:
        if fails:
            raise loss(range.publisher)
        log.warning("%s: publications behind %s were forgotten before they were read", range.publisher, range.after)


def check_stored(link: LiveConnection, filter: str, ranges: list[Range], fails: bool) -> None:
    """Before anything is read of these: is all of it still there?"""
    for range in ranges:
        check_whole(link.run(fetch(link, filter, range, 1)), range, fails)


def read_pages(link: LiveConnection, filter: str, range: Range, fails: bool) -> Generator[Stored, None, None]:
    task = link.begin(fetch(link, filter, range, PAGE_EVENTS))
    try:
        while True:
            stored = link.finish(task)
            check_whole(stored, range, fails)
            if stored.has_more:
                range = Range(range.publisher, stored.through, range.since, range.through)
                task = link.begin(fetch(link, filter, range, PAGE_EVENTS))
            if stored.numbers:
                yield stored
            if not stored.has_more:
                return
    finally:
        link.drop(task)


def read_piece(piece: Piece, filter: str, schema: StructType, options: Options) -> Iterator[pyarrow.RecordBatch]:
    decoder = Decoder(schema, options.fails_on_type)
    with LiveConnection(options) as link:
        for range in piece.ranges:
            with closing(read_pages(link, filter, range, options.fails_on_loss)) as pages:
                for stored in pages:
                    page = DecodedPage(
                        stored.publisher, stored.numbers, stored.accepted_at, stored.heads, stored.payloads
                    )
                    if piece.until is not None and page.accepted_at[-1] >= piece.until:
                        early = page.before(piece.until)
                        if early.numbers:
                            yield decoder.batch(early)
                        break
                    yield decoder.batch(page)
    if decoder.misread:
        log.warning("%d values had another type than their column and are null", decoder.misread)


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
            instead: Iterable[object] = page.numbers if name == "id" else [name_of(page.publisher)] * len(values)
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
