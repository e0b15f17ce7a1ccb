"""A source that has nothing to fetch and nothing to decode: the floor under any source written in Python.

Each task yields one record batch again and again, the first page of the events of the benchmarks, as often as it takes
to make `events` of them in all. What that costs is Spark's own: planning, Arrow through a socket, and columns to rows.
"""

from collections.abc import Iterator, Sequence

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bench.live_events import ADVERTISED, PAYLOAD, attributes
from tidings.pubsub.pages import page_of
from tidings.pubsub.publications import encode_head
from tidings.spark.live.columns import infer_schema
from tidings.spark.live.decoder import Decoder

PAGE_EVENTS = 4096
TASKS = 2


class FloorReader(DataSourceReader):
    def __init__(self, schema: StructType, events: int) -> None:
        self.schema, self.events = schema, events

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(self.events * place // TASKS) for place in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        heads = [encode_head(attributes(number)) for number in range(PAGE_EVENTS)]
        page = page_of([1.8e9] * PAGE_EVENTS, range(PAGE_EVENTS), heads, [PAYLOAD] * PAGE_EVENTS)
        batch = Decoder(self.schema, engine="compiled").batch("desk", page)
        for left in range(self.events // TASKS, 0, -PAGE_EVENTS):
            yield batch.slice(0, min(left, PAGE_EVENTS))


class FloorSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tidings_floor"

    def schema(self) -> StructType:
        return infer_schema([ADVERTISED])

    def reader(self, schema: StructType) -> FloorReader:
        return FloorReader(schema, int(self.options["events"]))
