"""The reader of a stream: `spark.readStream.format("tidings")`.

Spark asks, again and again, how far the stream has come (`latestOffset`); we ask the brokers for their marks, at most
every `pollInterval`. Each micro-batch is what lies between two positions (`offsets.py`) and is read by tasks like a
batch. The reader keeps one connection for its questions, whose loop turns only while a question is asked.

Nothing is acknowledged to brokers. They store what they store (`delivery.history_age`), whether a query has read it or
not; a query that comes back too late gets `DataLoss`. It gets it too where a publisher that it was reading is unknown
to all brokers, and nobody can say any more whether it published something that was not read.

A broker that is away is no loss: what it stores is read when it is back. The log says so once, and every progress
report names it (`progress.py`); with `failOnUnreachable` it ends the query.

`maxEventsPerTrigger` bounds a micro-batch and is shared fairly among publishers. A bound in numbers would count holes,
so where a publisher has more than its share, we look where its next events are: a batch has at least a few of them.
`maxBytesPerTrigger` is turned into events by the mean size of these.

A position in which nothing is new is noted again from time to time, as an empty micro-batch, so that a query that
is restarted knows when brokers were last asked.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidings.model.errors import UsageError
from tidings.net.client.history import Mark, Marks
from tidings.spark.live.casts import check_payload
from tidings.spark.live.columns import columns_of
from tidings.spark.live.connection import LiveConnection
from tidings.spark.live.offsets import (
    ALL_STORED,
    SEEN_AGAIN_AFTER,
    SHRINK_AFTER,
    Offset,
    Range,
    advance,
    check_plan,
    doubtful,
    last_numbers,
    lost,
    plan_of,
    ranges_between,
    read_offset,
    share,
    unknown,
    unread,
)
from tidings.spark.live.options import Options
from tidings.spark.live.pieces import (
    Piece,
    check_known,
    check_reached,
    check_stored,
    cut_work,
    find_begin,
    read_piece,
)
from tidings.spark.live.progress import reached
from tidings.spark.live.starts import LATEST, Start, check_come, first_offset
from tidings.spark.live.table import without_options

NO_MARKS = Marks((), (), ())


class TidingsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, schema: StructType, options: Options) -> None:
        columns_of(schema)
        check_payload(schema, options.payload_format, options.payload_schema)
        if options.end is not None:
            raise UsageError(
                "option endingOffsets: a stream has no end; use trigger(availableNow=True), or read a batch"
            )
        self.schema, self.options = schema, options
        self.plan = plan_of(options.filter, without_options(schema).json())
        self.link: LiveConnection | None = None
        self.first: Offset | None = None
        self.target: dict[str, int] | None = None
        """With availableNow: how far to go."""
        self.found, self.found_before = NO_MARKS, NO_MARKS
        self.asked_at = float("-inf")
        self.seen = 0.0
        """The time of day at which brokers were asked before, in this process."""
        self.unknown_since: dict[str, float] = {}
        self.absent: tuple[str, ...] = ()
        """Of whom the log has been told."""

    # What Spark asks on the driver.

    def initialOffset(self) -> dict[str, Any]:
        if self.first is None:
            found = self.look()
            check_come(self.options.start, found.marks, self.options.fails_on_loss)
            self.first = first_offset(self.options.start or Start(LATEST), found.marks, time.time())
        return self.first.json()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.events_max is not None:
            return ReadMaxRows(self.options.events_max)
        return ReadAllAvailable() if self.options.bytes_max is None else ReadMaxBytes(self.options.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = {mark.publisher: mark.through for mark in self.look().marks}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = read_offset(start)
        check_plan(begin, self.plan)
        found = self.look()
        now = time.time()
        dropped = self.check_all_there(begin, found, now)
        self.seen = now
        numbers = self.toward_target(begin, last_numbers(begin, found.marks))
        seen_again_after = max(SEEN_AGAIN_AFTER, found.remembered_for / 4)
        is_due = self.target is None and now - begin.seen >= seen_again_after
        if numbers == begin.after and not is_due:
            return start
        pins = {it.publisher: self.pin(begin, it) for it in found.marks if it.publisher in numbers.keys() - begin.after}
        if isinstance(limit, ReadMaxRows | ReadMaxBytes):
            numbers = self.limited(begin, numbers, pins, limit)
        kept = {name: number for name, number in numbers.items() if name not in dropped}
        end = advance(begin, kept, pins, seen=now, behind=unread(found.marks, kept), plan=self.plan)
        return end.json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What was found when Spark last asked; it does so for each progress report."""
        return reached(self.found) if self.found is not NO_MARKS else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        check_plan(read_offset(end), self.plan)
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

    def look(self) -> Marks:
        """How far publishers have come; waits a little where this was asked just before."""
        link = self.connected()
        wait = self.asked_at + self.options.poll_interval - time.monotonic()
        if wait > 0:
            link.run(asyncio.sleep(wait))
        self.found_before, self.found = self.found, link.run(link.client.marks(self.options.filter))
        self.asked_at = time.monotonic()
        self.absent = check_reached(self.found, self.options.fails_unreachable is True, self.absent)
        return self.found

    def check_all_there(self, begin: Offset, found: Marks, now: float) -> set[str]:
        """DataLoss where something is gone that was not read. Otherwise the publishers that need not be in the position
        any more."""
        fails = self.options.fails_on_loss
        check_stored(self.connected(), self.options.filter, doubtful(begin, found.marks), fails)
        known_before = {mark.publisher for mark in self.found_before.marks}
        behind = set(unread(self.found_before.marks, begin.after)) | (set(begin.behind) - known_before)
        gone = lost(begin, found, behind, max(begin.seen, self.seen), now)
        check_known(gone, fails)
        first_look = now if self.seen else begin.seen
        self.unknown_since = {
            name: self.unknown_since.get(name, first_look) for name in unknown(begin, found) if name not in gone
        }
        return {*gone, *(name for name, since in self.unknown_since.items() if now - since >= SHRINK_AFTER)}

    def toward_target(self, begin: Offset, numbers: dict[str, int]) -> dict[str, int]:
        if self.target is None:
            return numbers
        target = self.target
        return {
            name: max(min(number, target.get(name, 0)), begin.after.get(name, 0))
            for name, number in numbers.items()
            if name in begin.after or name in target
        }

    def pin(self, begin: Offset, mark: Mark) -> int:
        """Where the events of a publisher begin that is new. What it published since brokers were asked is there, or is
        missed."""
        link, filter, fails = self.connected(), self.options.filter, self.options.fails_on_loss
        if mark.forgotten and begin.seen:
            check_stored(link, filter, [Range(mark.publisher, None, begin.seen, mark.through)], fails)
        if begin.since == ALL_STORED:
            return mark.forgotten
        found = find_begin(link, filter, Range(mark.publisher, None, begin.since, mark.through), fails)
        return mark.through if found is None else found.range.after or 0

    def limited(
        self, begin: Offset, numbers: dict[str, int], pins: dict[str, int], limit: ReadMaxRows | ReadMaxBytes
    ) -> dict[str, int]:
        """Numbers behind which there are at most so many events."""
        ranges = ranges_between(begin, advance(begin, numbers, pins))
        events_max = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.events_max
        width = sum(it.width for it in ranges)
        if self.options.bytes_max is None and events_max is not None and width <= events_max:
            return numbers
        fails = self.options.fails_on_loss
        found = {it.publisher: find_begin(self.connected(), self.options.filter, it, fails) for it in ranges}
        if self.options.bytes_max is not None:
            probed = [it for it in found.values() if it is not None]
            size = sum(it.size_bytes for it in probed) / max(1, sum(len(it.numbers) for it in probed))
            events_max = min(events_max or width, max(1, int(self.options.bytes_max / max(1.0, size))))
        assert events_max is not None
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
