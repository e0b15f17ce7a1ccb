"""The writers: rows become events, `df.writeStream.format("tidings")` and `df.write.format("tidings")`.

Each task publishes the rows of its partition under a name of its own, in their order, and has done when the broker has
accepted them (with `--data`: when they are on disk).

Exactly once. A micro-batch may be written twice: a task is tried again, or the query dies and starts again from its
checkpoint. Brokers recognise what they have by publisher and number, so all that is needed is that the same row always
gets the same name and number:

    publisher   <sinkName>.<id of the query>.<partition>
    number      (batch + 1) * 2**32 + index of the row in the partition

Spark tells tasks the id of the query, which it keeps in the checkpoint, and the number of the batch. What was accepted
before is dropped by the broker and counts as accepted. Each (query, batch, partition, index) is published once.

What this asks of the query: that a batch which is repeated has the same rows in the same places. It has, if the source
is repeatable (this one is), the number of partitions stays the same across restarts (`partitions`,
spark.sql.shuffle.partitions), and rows behind a shuffle are sorted within their partitions. A broker remembers the last
number of a publisher for `delivery.numbers_age`; a query that was down for longer may repeat one batch. And the query
must come back to the same network of brokers.

A batch write has no checkpoint: each is a new publication. It is named by the job, so that only tasks that are tried
again are recognised.

Columns: `publications.py`. `advertise` says what will be published; the default is everything that the client may
publish.
"""

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidings.model.errors import UsageError
from tidings.spark.live.connection import LiveConnection
from tidings.spark.live.options import Options
from tidings.spark.live.publications import Encoder

if TYPE_CHECKING:
    from pyarrow import RecordBatch

BATCH_BITS = 32
"""Room for the rows of a partition in one batch."""

BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
"""What Spark calls them among the properties of a task."""


class TaskCommit(WriterCommitMessage):
    """What a task did."""

    def __init__(self, publisher: str, rows: int) -> None:
        self.publisher, self.rows = publisher, rows


class TidingsStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, schema: StructType, options: Options) -> None:
        Encoder(schema)
        self.schema, self.options = schema, options

    def write(self, iterator: "Iterator[RecordBatch]") -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise UsageError(
                "this version of Spark does not tell tasks which query and batch they are of; use pyspark 4.2 or 4.3"
            )
        name = f"{self.options.sink_name}.{query}.{task.partitionId()}"
        return publish(name, first_number(int(batch)), iterator, self.schema, self.options)


class TidingsWriter(DataSourceArrowWriter):
    def __init__(self, schema: StructType, options: Options) -> None:
        Encoder(schema)
        self.schema, self.options = schema, options
        self.job = secrets.token_hex(8)

    def write(self, iterator: "Iterator[RecordBatch]") -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        name = f"{self.options.sink_name}.{self.job}.{task.partitionId()}"
        return publish(name, first_number(0), iterator, self.schema, self.options)


def first_number(batch: int) -> int:
    return (batch + 1) << BATCH_BITS


def publish(
    name: str, first: int, batches: "Iterator[RecordBatch]", schema: StructType, options: Options
) -> TaskCommit:
    encoder, rows = Encoder(schema), 0
    link: LiveConnection | None = None
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            heads, payloads = encoder.events(batch)
            if link is None:
                link = LiveConnection(options, name, numbers_from=first)
                link.run(link.client.advertise(options.advertise or link.client.advertisements.bound or "TRUE"))
            rows += len(heads)
            if rows >= 1 << BATCH_BITS:
                raise UsageError(f"more than 2**{BATCH_BITS} rows in one partition of a batch; use more partitions")
            link.run(link.client.publish_encoded(heads, payloads))
        if link is not None:
            link.run(link.client.flush())
    finally:
        if link is not None:
            link.close()
    return TaskCommit(name, rows)
