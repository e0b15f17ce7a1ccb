"""The format "tidings", as Spark sees it.

    spark = open_session()                                             # knows the format already
    spark.dataSource.register(TidingsSource)                           # any other session

    spark.readStream.format("tidings").option("url", "tidings://localhost").option("filter", "price > 100").load()
    spark.read.format("tidings").option("url", ...).schema("symbol string, price double").load().where("price > 100")
    rows.writeStream.format("tidings").option("url", ...).option("checkpointLocation", ...).start()

Spark makes one of these in a process of its own, asks for the schema if none was given (which asks a broker for what is
advertised), and sends it on, pickled, to wherever readers and writers are made. Options are read and checked at once,
so that a mistake is reported by `load` and not by the first task.

**The two readers.** `spark.read.format("tidings")` reads what is stored, from `startingOffsets` ("earliest" if nothing
is said: all that brokers still store) up to `endingOffsets` ("latest": as of the moment at which Spark plans the
query). Conditions that Spark hands over become part of the filter (`columns.py`), so what they exclude does not leave
its broker.

Reading "earliest" takes whatever is there: what brokers forget at the front meanwhile is not missing. Where a time or
an offset says where to begin, something that was forgotten behind it is an error (`failOnDataLoss`).

`spark.readStream.format("tidings")` reads a stream. Spark asks, again and again, how far the stream has come
(`latestOffset`); we ask the brokers for their marks, at most every `pollInterval`. Each micro-batch is what lies
between two positions (`offsets.py`) and is read by tasks like a batch. The reader keeps one connection for its
questions, whose loop turns only while a question is asked.

Nothing is acknowledged to brokers. They store what they store (`delivery.history_age`), whether a query has read it or
not; a query that comes back too late gets `DataLoss`.

`maxEventsPerTrigger` bounds a micro-batch and is shared fairly among publishers. A bound in numbers would count holes,
so where a publisher has more than its share, we look where its next events are: a batch has at least a few of them.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidings.model.errors import UsageError
from tidings.net.client.history import Mark
from tidings.spark.live.columns import columns_of, infer_schema, kinds_of, push
from tidings.spark.live.connection import LiveConnection, Options, read_options
from tidings.spark.live.offsets import (
    EARLIEST,
    LATEST,
    Offset,
    Start,
    advance,
    doubtful,
    first_offset,
    last_numbers,
    ranges_between,
    read_offset,
    share,
)
from tidings.spark.live.pieces import Piece, check_stored, cut_work, find_begin, read_piece
from tidings.spark.live.sink import TidingsStreamWriter, TidingsWriter


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


class TidingsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, schema: StructType, options: Options) -> None:
        columns_of(schema)
        if options.end is not None:
            raise UsageError(
                "option endingOffsets: a stream has no end; use trigger(availableNow=True), or read a batch"
            )
        self.schema, self.options = schema, options
        self.link: LiveConnection | None = None
        self.first: Offset | None = None
        self.target: dict[str, int] | None = None
        """With availableNow: how far to go."""
        self.marks: tuple[Mark, ...] = ()
        self.asked_at = float("-inf")

    # What Spark asks on the driver.

    def initialOffset(self) -> dict[str, Any]:
        if self.first is None:
            self.first = first_offset(self.options.start or Start(LATEST), self.look(), time.time())
        return self.first.json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.options.events_max is None else ReadMaxRows(self.options.events_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = {mark.publisher: mark.through for mark in self.look()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin, marks = read_offset(start), self.look()
        check_stored(self.connected(), self.options.filter, doubtful(begin, marks), self.options.fails_on_loss)
        numbers = last_numbers(begin, marks)
        if self.target is not None:
            target = self.target
            numbers = {
                name: max(min(number, target.get(name, 0)), begin.after.get(name, 0))
                for name, number in numbers.items()
                if name in begin.after or name in target
            }
        if isinstance(limit, ReadMaxRows):
            numbers = self.limited(begin, numbers, limit.max_rows)
        end = advance(begin, numbers)
        return start if end is begin else end.json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What was found when Spark last asked; it does so for each progress report."""
        return Offset(0.0, {mark.publisher: mark.through for mark in self.marks}).json() if self.marks else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = ranges_between(read_offset(start), read_offset(end))
        if not ranges:
            return []
        work = cut_work(self.connected(), self.options.filter, ranges, self.options, self.options.fails_on_loss)
        return [Piece(piece) for piece in work]

    def stop(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.close()

    # What it does for that.

    def connected(self) -> LiveConnection:
        if self.link is None:
            self.link = LiveConnection(self.options)
        return self.link

    def look(self) -> tuple[Mark, ...]:
        """How far publishers have come; waits a little where this was asked just before."""
        link = self.connected()
        wait = self.asked_at + self.options.poll_interval - time.monotonic()
        if wait > 0:
            link.run(asyncio.sleep(wait))
        self.marks = link.run(link.client.marks(self.options.filter)).marks
        self.asked_at = time.monotonic()
        return self.marks

    def limited(self, begin: Offset, numbers: dict[str, int], events_max: int) -> dict[str, int]:
        """Numbers behind which there are at most so many events."""
        ranges = ranges_between(begin, advance(begin, numbers))
        if sum(it.width for it in ranges) <= events_max:
            return numbers
        fails = self.options.fails_on_loss
        found = {it.publisher: find_begin(self.connected(), self.options.filter, it, fails) for it in ranges}
        shares = share(events_max, {name: it.range.width for name, it in found.items() if it is not None})
        limited = dict(begin.after)
        for range in ranges:
            name, it = range.publisher, found[range.publisher]
            if it is None:
                limited[name] = range.through
            elif name in shares:
                after = it.range.after or 0
                near = it.numbers[min(shares[name], len(it.numbers)) - 1] if it.numbers else after
                limited[name] = min(range.through, max(after + shares[name], near))
        return limited

    # What tasks do.

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, Piece)
        return read_piece(partition, self.options.filter, self.schema, self.options)


FORMAT = "tidings"


class TidingsSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.said = read_options(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        with LiveConnection(self.said) as link:
            return infer_schema(link.run(link.client.marks(self.said.filter)).offers)

    def reader(self, schema: StructType) -> TidingsReader:
        return TidingsReader(schema, self.said)

    def streamReader(self, schema: StructType) -> TidingsStreamReader:
        return TidingsStreamReader(schema, self.said)

    def writer(self, schema: StructType, overwrite: bool) -> TidingsWriter:
        if overwrite:
            raise UsageError('mode "overwrite": what was published cannot be taken back; write with mode("append")')
        return TidingsWriter(schema, self.said)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TidingsStreamWriter:
        return TidingsStreamWriter(schema, self.said)
