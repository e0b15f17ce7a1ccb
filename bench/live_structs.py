"""The source of `tidings.spark.live` as it was before pages became columns by a kernel. A baseline.

A page is taken apart into a tuple of heads and one of payloads. All heads of a page, with the mark of an array in
front, are one MessagePack value, which one call decodes into structs that have a field for each wanted attribute. Lists
of the fields become Arrow arrays. Values must have the types of their columns.
"""

import struct
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import msgspec
import numpy
import pyarrow
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidings.net.client.history import Stored
from tidings.spark.live.columns import ACCEPTED_AT, FILLED_IN, NUMBER, PAYLOAD, PUBLISHER, TIME, columns_of
from tidings.spark.live.connection import LiveConnection, Options
from tidings.spark.live.pieces import Piece, read_pages
from tidings.spark.live.source import TidingsReader, TidingsSource

ARRAY_OF_MANY = 0xDD
MICROSECONDS = pyarrow.timestamp("us", tz="UTC")


class StructDecoder:
    def __init__(self, schema: StructType) -> None:
        self.columns = columns_of(schema)
        self.schema = to_arrow_schema(schema, timezone="UTC")
        wanted = {it.name: it.kind for it in self.columns if it.kind is not None}
        if any(it.name == TIME for it in self.columns):
            wanted[TIME] = str
        self.places = {name: f"a{place}" for place, name in enumerate(wanted)}
        fields = [(self.places[name], kind | None, None) for name, kind in wanted.items()]
        made = msgspec.defstruct(
            "Wanted", fields, rename={place: name for name, place in self.places.items()}, gc=False
        )
        self.strict = msgspec.msgpack.Decoder(list[made])  # type: ignore[valid-type]

    def batch(self, stored: Stored) -> pyarrow.RecordBatch:
        heads, payloads, numbers = stored.heads, stored.payloads, stored.numbers
        rows = self.strict.decode(struct.pack(">BI", ARRAY_OF_MANY, len(heads)) + b"".join(heads))
        attributes = {name: list(map(attrgetter(place), rows)) for name, place in self.places.items()}
        fixed: dict[str, Any] = {
            PUBLISHER: lambda: pyarrow.repeat(pyarrow.scalar(stored.publisher), len(heads)),
            NUMBER: lambda: pyarrow.array(numbers, pyarrow.int64()),
            ACCEPTED_AT: lambda: instants(stored.accepted_at),
            PAYLOAD: lambda: pyarrow.array(payloads, pyarrow.binary()),
        }
        made = [
            fixed[it.name]() if it.name in fixed else self.column(it.name, attributes[it.name]) for it in self.columns
        ]
        return pyarrow.RecordBatch.from_arrays(made, schema=self.schema)

    def column(self, name: str, values: list[Any]) -> pyarrow.Array:
        assert name not in FILLED_IN or None not in values, "events here have an id and a source"
        first = values[0]
        if (first is None or type(first) is str) and values.count(first) == len(values):
            return pyarrow.repeat(self.array(name, values[:1])[0], len(values))
        return self.array(name, values)

    def array(self, name: str, values: list[Any]) -> pyarrow.Array:
        if name == TIME:
            return pyarrow.array(values, pyarrow.string()).cast(MICROSECONDS)
        return pyarrow.array(values, self.schema.field(name).type)


def instants(seconds: tuple[float, ...]) -> pyarrow.Array:
    return pyarrow.array(numpy.rint(numpy.array(seconds) * 1e6).astype(numpy.int64)).cast(MICROSECONDS)


class StructReader(TidingsReader):
    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, Piece)
        return read_structs(partition, self.filter, self.schema, self.options)


def read_structs(piece: Piece, filter: str, schema: StructType, options: Options) -> Iterator[pyarrow.RecordBatch]:
    decoder = StructDecoder(schema)
    with LiveConnection(options) as link:
        for range in piece.ranges:
            for stored in read_pages(link, filter, range, options.fails_on_loss):
                yield decoder.batch(stored)


class StructSource(TidingsSource):
    @classmethod
    def name(cls) -> str:
        return "tidings_structs"

    def reader(self, schema: StructType) -> StructReader:
        return StructReader(schema, self.said(schema))
