"""The writers: rows become events, `df.writeStream.format("tidings")` and `df.write.format("tidings")`.

**A stream, exactly once.** A micro-batch may be written twice: a task is tried again, or the query dies and starts
again from its checkpoint. Brokers recognise what they have by publisher and number. So a row must get the same number
each time, and Spark gives nothing to number it by: behind a shuffle rows come in another order each time (SPARK-28650),
and with other cores, or with adaptive execution, in other partitions.

So rows are not numbered where they are made. Tasks encode their rows and hand them to the driver, and nothing is
published before all tasks are done. The driver puts the rows of the whole batch in one order that depends on nothing
but the rows, and publishes them under one name:

    publisher   <sinkName>.<id of the query>
    number      (batch + 1) * 2**35 + digest of the batch + place of the row

The order is that of `idColumn`; or of publisher and number, where the rows still have both; or else of the encoded
rows. Whatever partitions, cores and order there were, the same rows get the same numbers. What was accepted before is
left out, or dropped by the broker if it is sent again.

Where a batch is repeated with *other* rows (a query that draws random numbers, code that was changed), the digest, and
with it all numbers, are others. Before it publishes, the driver asks how far its publisher has come. If that is within
this batch and under another digest, some rows of another first try are out already, and the batch is refused
(`ChangedBatch`); `failOnChangedBatch` = "false" publishes all of it again, behind them. With `idColumn` the digest is
that of the ids alone: other contents of the same ids are the same batch.

What remains to the query: that it comes back to the same network of brokers, within `delivery.numbers_age` (a week),
and that a micro-batch fits the memory of the driver (`STAGED_BYTES_MAX`, `ROWS_MAX`; bound it at its source, with
maxEventsPerTrigger). Its token must allow to read what it publishes.

**A batch** write has no checkpoint: each is a new publication. Tasks publish their rows themselves, in their order,
each under a name of its own (`<sinkName>.<job>.<partition>`). A task that is tried again first reads what the try
before it has published, and publishes the rest of its rows; if they are others, it fails.

`advertise` says what will be published; the default is everything that the client may publish.
"""

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidings.model.bounds import INTEGER_MAX
from tidings.model.errors import UsageError
from tidings.spark.live.columns import NUMBER, PUBLISHER
from tidings.spark.live.connection import LiveConnection
from tidings.spark.live.encoder import Encoder
from tidings.spark.live.options import Options

if TYPE_CHECKING:
    from pyarrow import RecordBatch

BATCH_BITS = 35
"""Room for the digest and the rows of one batch."""

ROWS_MAX = 1 << 22
STAGED_BYTES_MAX = 768 * 1024 * 1024
"""Of one micro-batch, on their way to the driver; Spark takes a gigabyte there (spark.driver.maxResultSize)."""

PUBLISHED_AT_ONCE = 8192

BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
"""What Spark calls them among the properties of a task."""


class ChangedBatch(UsageError):
    """A batch is repeated, and its rows are not those of its first try."""


Row = tuple[tuple[Any, ...], bytes, bytes]
"""What tells it apart, its head, its payload."""


class StagedRows(WriterCommitMessage):
    """What a task hands to the driver, in order."""

    def __init__(self, query: str, rows: list[Row]) -> None:
        self.query, self.rows = query, rows


class TaskCommit(WriterCommitMessage):
    """What a task did."""

    def __init__(self, publisher: str, rows: int) -> None:
        self.publisher, self.rows = publisher, rows


class RowKeys:
    """What the rows of a batch are told apart by."""

    def __init__(self, schema: StructType, options: Options) -> None:
        names = set(schema.names)
        for name in options.id_columns:
            if name not in names:
                raise UsageError(f"option idColumn: there is no column {name}; there are {', '.join(schema.names)}")
        self.is_chosen = bool(options.id_columns)
        self.names = options.id_columns or ((PUBLISHER, NUMBER) if {PUBLISHER, NUMBER} <= names else ())

    def keys(self, batch: "RecordBatch") -> list[tuple[Any, ...]]:
        """Tuples that can be compared: nulls come first."""
        if not self.names:
            return [()] * batch.num_rows
        columns = [[(it is not None, it) for it in batch.column(name).to_pylist()] for name in self.names]
        return list(zip(*columns, strict=True))

    def check_unique(self, rows: Sequence[Row]) -> None:
        """Of rows in order."""
        for one, other in pairwise(rows):
            if self.is_chosen and one[0] == other[0]:
                values = ", ".join(repr(value) for _, value in one[0])
                raise UsageError(
                    f"option idColumn: {', '.join(self.names)} = {values:.200} stands for several rows of one batch; "
                    "name columns that together are different for each row, or leave the option out"
                )

    def digest(self, rows: Sequence[Row]) -> int:
        """Of rows in order; of their keys alone where these were chosen."""
        hashed = hashlib.blake2b(digest_size=8)
        for key, head, payload in rows:
            part = repr(key).encode() if self.is_chosen else msgspec.msgpack.encode((repr(key), head, payload))
            hashed.update(len(part).to_bytes(4) + part)
        return int.from_bytes(hashed.digest())


class BatchNumbers:
    """The numbers of a batch: behind those of the batches before it, and others for other rows."""

    def __init__(self, batch: int, digest: int, count: int) -> None:
        place_bits = max(1, (count - 1).bit_length())
        self.begin, self.end = (batch + 1) << BATCH_BITS, (batch + 2) << BATCH_BITS
        if self.end > INTEGER_MAX:
            raise UsageError(f"batch {batch}: a query has at most {INTEGER_MAX >> BATCH_BITS} batches; begin a new one")
        self.first = self.begin + ((digest % (1 << (BATCH_BITS - place_bits))) << place_bits)
        self.count = count

    def published(self, through: int) -> int | None:
        """How many of its rows a publisher has published that has come so far; None if these were others."""
        if through < self.begin:
            return 0
        return through - self.first + 1 if self.first <= through < self.first + self.count else None


def encoder_of(schema: StructType, options: Options) -> Encoder:
    return Encoder(schema, options.payload_format, options.payload_schema)


class TidingsStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, schema: StructType, options: Options) -> None:
        encoder_of(schema, options)
        self.keys = RowKeys(schema, options)
        self.schema, self.options = schema, options

    # In tasks.

    def write(self, iterator: "Iterator[RecordBatch]") -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        query = task.getLocalProperty(QUERY_ID)
        if query is None or task.getLocalProperty(BATCH_ID) is None:
            raise UsageError(
                "this version of Spark does not tell tasks which query and batch they are of; use pyspark 4.2 or 4.3"
            )
        return self.stage(query, iterator)

    def stage(self, query: str, iterator: "Iterator[RecordBatch]") -> StagedRows:
        encoder, rows, size_bytes = encoder_of(self.schema, self.options), list[Row](), 0
        for batch in iterator:
            heads, payloads = encoder.events(batch)
            rows += zip(self.keys.keys(batch), heads, payloads, strict=True)
            size_bytes += sum(map(len, heads)) + sum(map(len, payloads))
            check_staged(len(rows), size_bytes)
        rows.sort()
        return StagedRows(query, rows)

    # On the driver.

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = [it for it in messages if isinstance(it, StagedRows) and it.rows]
        if staged:
            self.publish(staged[0].query, batchId, sorted(row for it in staged for row in it.rows))

    def publish(self, query: str, batch: int, rows: Sequence[Row]) -> None:
        """Rows in order; what is out already is not published again."""
        check_staged(len(rows), sum(len(head) + len(payload) for _, head, payload in rows))
        self.keys.check_unique(rows)
        numbers = BatchNumbers(batch, self.keys.digest(rows), len(rows))
        name, first = f"{self.options.sink_name}.{query}", numbers.first
        with SinkConnection(name, first, self.options) as sink:
            through = sink.ask_through()
            if through is None:
                raise UsageError(NOT_TOLD.format(name=name))
            done = numbers.published(through)
            if done is not None:
                sink.publish(rows if done < len(rows) else ())
                return
            first = self.behind_another_try(batch, through, numbers)
        with SinkConnection(name, first, self.options) as sink:
            sink.publish(rows)

    def behind_another_try(self, batch: int, through: int, numbers: BatchNumbers) -> int:
        if through >= numbers.end:
            raise ChangedBatch(
                f"batch {batch} comes behind batch {(through >> BATCH_BITS) - 1}, which this query has published: "
                "was its checkpoint taken from a copy? Give the query a new checkpointLocation"
            )
        if self.options.fails_on_changed_batch:
            raise ChangedBatch(
                f"batch {batch} was published before, at least in part, with other rows than it has now: the query "
                "draws random numbers, or it or its source was changed. Name the columns that tell its rows apart with "
                "idColumn; or set failOnChangedBatch to false for one run, which publishes all rows of the batch again"
            )
        return max(numbers.first, through + 1)


class TidingsWriter(DataSourceArrowWriter):
    def __init__(self, schema: StructType, options: Options) -> None:
        encoder_of(schema, options)
        self.schema, self.options = schema, options
        self.job = secrets.token_hex(8)

    def write(self, iterator: "Iterator[RecordBatch]") -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        name = f"{self.options.sink_name}.{self.job}.{task.partitionId()}"
        return self.publish(name, iterator, task.attemptNumber() > 0)

    def publish(self, name: str, iterator: "Iterator[RecordBatch]", is_again: bool) -> TaskCommit:
        before, through = Counter[tuple[bytes, bytes]](), 0
        filled = (batch for batch in iterator if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return TaskCommit(name, 0)
        iterator = chain([first], filled)
        with SinkConnection(name, 1, self.options) as sink:
            told = sink.ask_through()
            if told is None and is_again:
                raise UsageError(NOT_TOLD.format(name=name))
            if not told:
                return TaskCommit(name, self.publish_left(sink, iterator, before))
            before, through = sink.read_back(told), told
        with SinkConnection(name, through + 1, self.options) as sink:
            count = self.publish_left(sink, iterator, before)
        if before.total():
            raise ChangedBatch(
                f"{name} is tried again with other rows than it had: {before.total()} of those that it published do "
                "not come again. Let the query give the same rows each time, or write it with checkpoints as a stream"
            )
        return TaskCommit(name, count)

    def publish_left(
        self, sink: "SinkConnection", iterator: "Iterator[RecordBatch]", before: Counter[tuple[bytes, bytes]]
    ) -> int:
        """Publish what is not among what was published before, and take it out there; how many rows there were."""
        encoder, count = encoder_of(self.schema, self.options), 0
        for batch in iterator:
            rows = list(zip(*encoder.events(batch), strict=True))
            count += len(rows)
            left = []
            for row in rows if before else ():
                if before[row]:
                    before[row] -= 1
                else:
                    left.append(row)
            sink.publish([((), *row) for row in (left if before else rows)])
        return count


NOT_TOLD = (
    "{name} is not told how far it has come, so that what was published before could not be recognised: let its token "
    "subscribe to what it publishes, too"
)


class SinkConnection:
    """A publisher with numbers of our own, which knows how far it had come before."""

    def __init__(self, name: str, first: int, options: Options) -> None:
        self.link = LiveConnection(options, name, numbers_from=first)
        self.advertised = options.advertise or self.link.client.advertisements.bound or "TRUE"

    def __enter__(self) -> "SinkConnection":
        try:
            self.link.run(self.link.client.advertise(self.advertised))
        except BaseException:
            self.link.close()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self.link.close()

    def ask_through(self) -> int | None:
        """The last number that brokers have of this publisher; None where that is not told."""
        found = self.link.run(self.link.client.marks(self.advertised))
        through = {mark.publisher: mark.through for mark in found.marks}
        return through.get(self.link.client.name)

    def read_back(self, through: int) -> Counter[tuple[bytes, bytes]]:
        """What brokers have of this publisher."""
        rows, after, client = Counter[tuple[bytes, bytes]](), 0, self.link.client
        while after < through:
            stored = self.link.run(client.fetch(self.advertised, client.name, after=after, through=through))
            if stored.is_truncated:
                raise ChangedBatch(
                    f"{client.name} is tried again, and what it published before is not stored any more, so that "
                    "nobody can say what is left: let brokers store more (delivery.history_age)"
                )
            rows.update(zip(stored.heads, stored.payloads, strict=True))
            after = stored.through
        return rows

    def publish(self, rows: Sequence[Row]) -> None:
        """All of them are accepted when this returns."""
        for place in range(0, len(rows), PUBLISHED_AT_ONCE):
            part = rows[place : place + PUBLISHED_AT_ONCE]
            heads, payloads = [head for _, head, _ in part], [payload for _, _, payload in part]
            self.link.run(self.link.client.publish_encoded(heads, payloads))
        if rows:
            self.link.run(self.link.client.flush())


def check_staged(rows: int, size_bytes: int) -> None:
    if rows > ROWS_MAX or size_bytes > STAGED_BYTES_MAX:
        raise UsageError(
            f"{rows} rows of {size_bytes} bytes in one micro-batch, and at most {ROWS_MAX} rows and {STAGED_BYTES_MAX} "
            "bytes fit: they go through the driver, which publishes them once each; let the source give less at a time "
            "(maxEventsPerTrigger, maxBytesPerTrigger)"
        )
