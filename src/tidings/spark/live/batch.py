"""The reader of what is stored: `spark.read.format("tidings")`.

It reads from `startingOffsets` ("earliest" if nothing is said: all that brokers still store) up to `endingOffsets`
("latest": as of the moment at which Spark plans the query). Conditions that Spark hands over become part of the filter
(`predicates.py`), so what they exclude does not leave its broker.

Reading "earliest" takes whatever is there: what brokers forget at the front meanwhile is not missing. Where a time or
an offset says where to begin, something that was forgotten behind it is an error (`failOnDataLoss`).
"""

import time
from collections.abc import Iterable, Iterator, Sequence

import pyarrow
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tidings.model.errors import UsageError
from tidings.spark.live.columns import columns_of
from tidings.spark.live.connection import LiveConnection
from tidings.spark.live.offsets import (
    EARLIEST,
    Offset,
    Start,
    advance,
    doubtful,
    first_offset,
    last_numbers,
    ranges_between,
)
from tidings.spark.live.options import Options
from tidings.spark.live.pieces import Piece, check_stored, cut_work, read_piece
from tidings.spark.live.predicates import kinds_of, push


class TidingsReader(DataSourceReader):
    def __init__(self, schema: StructType, options: Options) -> None:
        self.schema, self.options, self.filter = schema, options, options.filter
        self.columns = columns_of(schema)
        if options.end is not None and options.end.kind == EARLIEST:
            raise UsageError('option endingOffsets: nothing lies before "earliest"; give "latest", a time or an offset')

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.filter, left = push(self.filter, filters, kinds_of(self.columns))
        return left

    def partitions(self) -> Sequence[InputPartition]:
        with LiveConnection(self.options) as link:
            marks = link.run(link.client.marks(self.filter)).marks
            start = first_offset(self.options.start or Start(EARLIEST), marks, time.time())
            check_stored(link, self.filter, doubtful(start, marks), self.options.fails_on_loss)
            end = advance(start, last_numbers(start, marks))
            ranges = ranges_between(start, self.cut_off(end))
            pieces = cut_work(link, self.filter, ranges, self.options, self.options.fails_on_loss)
        until = self.options.end.time if self.options.end is not None and self.options.end.kind == "time" else None
        return [Piece(piece, until) for piece in pieces] or [Piece([])]

    def cut_off(self, end: Offset) -> Offset:
        """Where the user says that it ends."""
        if self.options.end is None or self.options.end.offset is None:
            return end
        wanted = self.options.end.offset.after
        numbers = {name: min(number, wanted[name]) for name, number in end.after.items() if name in wanted}
        return Offset(end.since, numbers, end.begun)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, Piece)
        return read_piece(partition, self.filter, self.schema, self.options)
