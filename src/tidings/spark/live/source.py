"""The format "tidings", as Spark sees it, and its reader of what is stored.

    spark.read.format("tidings").option("url", "tidings://localhost").schema("symbol string, price double").load()
    spark.readStream.format("tidings").option("url", ...).option("filter", "price > 100").load()          (stream.py)
    rows.writeStream.format("tidings").option("url", ...).option("checkpointLocation", ...).start()         (sink.py)

Where this package is installed, any session finds the format by itself (`pyspark_tidings`).

Spark makes one of these in a process of its own, asks for the schema if none was given (which asks a broker for what is
advertised), and sends it on, pickled, to wherever readers and writers are made. Options are read and checked at once,
so that a mistake is reported by `load` and not by the first task.

**A batch read** reads what is stored, from `startingOffsets` ("earliest" if nothing is said: all that brokers still
store) up to `endingOffsets` ("latest": as of the moment at which Spark plans the query). Reading "earliest" takes
whatever is there: what brokers forget at the front meanwhile is not missing. Where a number, a time or an offset says
where to begin, something that was forgotten behind it is an error (`failOnDataLoss`). A broker that stores some of it
and cannot be asked is an error, too (`failOnUnreachable`).

**Conditions of the query** become part of the filter (`columns.py`), so that what they exclude does not leave its
broker, where Spark hands them over: it does if `spark.sql.python.filterPushdown.enabled` is set, and a reader that
could take them is an error where it is not. So there are two readers, and the one that can is made in the process in
which Spark hands conditions over, or if `pushDown` insists on it. The log says what was taken (logger
`tidings.spark.live`, INFO), and `explain("formatted")` shows it.
"""

import sys
import time
from collections.abc import Iterable, Iterator, MutableMapping, Sequence

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tidings.model.errors import UsageError
from tidings.spark.live.casts import check_payload, payload_type
from tidings.spark.live.columns import OF_THE_NETWORK, PAYLOAD, columns_of, infer_schema, kinds_of, push
from tidings.spark.live.connection import LiveConnection
from tidings.spark.live.offsets import Offset, advance, doubtful, last_numbers, lost, ranges_between
from tidings.spark.live.options import Options, find_said, read_options
from tidings.spark.live.pieces import Piece, check_known, check_reached, check_stored, cut_work, log, read_piece
from tidings.spark.live.sink import TidingsStreamWriter, TidingsWriter
from tidings.spark.live.starts import EARLIEST, Start, check_come, check_span, first_offset, last_offset
from tidings.spark.live.stream import TidingsStreamReader
from tidings.spark.live.table import is_table, kept_options, with_options

PUSHING_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"
"""Of Spark, loaded in no other process than the one in which conditions are handed over."""

NO_ATTRIBUTES = (
    "no publisher advertises attributes by name, so that the schema has none of them; name those you want: "
    '.schema("symbol STRING, price DOUBLE")'
)


class TidingsReader(DataSourceReader):
    def __init__(self, schema: StructType, options: Options) -> None:
        self.schema, self.options, self.filter = schema, options, options.filter
        self.columns = columns_of(schema)
        check_payload(schema, options.payload_format, options.payload_schema)
        check_span(options.start, options.end)

    def partitions(self) -> Sequence[InputPartition]:
        options, start = self.options, self.options.start or Start(EARLIEST)
        with LiveConnection(options) as link:
            found = link.run(link.client.marks(self.filter))
            check_reached(found, options.fails_unreachable is not False)
            check_come(options.start, found.marks, options.fails_on_loss)
            now = time.time()
            begin = Offset() if start.kind == EARLIEST else first_offset(start, found.marks, now)
            check_known(lost(begin, found, begin.behind, begin.seen, now), options.fails_on_loss)
            check_stored(link, self.filter, doubtful(begin, found.marks), options.fails_on_loss)
            reached = last_offset(options.end, last_numbers(begin, found.marks), found.marks, options.fails_on_loss)
            ranges = ranges_between(begin, advance(begin, reached))
            pieces = cut_work(link, self.filter, ranges, options, options.fails_on_loss)
        until = options.end.time if options.end is not None and options.end.kind == "time" else None
        return [Piece(piece, until) for piece in pieces] or [Piece([])]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, Piece)
        return read_piece(partition, self.filter, self.schema, self.options)


class PushingReader(TidingsReader):
    """One that takes conditions."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.filter, left = push(self.filter, filters, kinds_of(self.columns))
        log.info(
            "brokers are asked for %s; %d of %d conditions are left to Spark", self.filter, len(left), len(filters)
        )
        return left


FORMAT = "tidings"


class TidingsSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.given = dict(options)
        # A table brings its options later, with its schema.
        if "url" in find_said(self.given):
            self.said()

    def said(self, schema: StructType | None = None) -> Options:
        """By those who ask, and where they did not, by who created the table of which this is the schema."""
        return read_options({**(kept_options(schema) if schema else {}), **self.given})

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        said = self.said()
        with LiveConnection(said) as link:
            schema = infer_schema(link.run(link.client.marks(said.filter)).offers)
        schema[PAYLOAD].dataType = payload_type(said.payload_format, said.payload_schema)
        if all(field.name in infer_schema(()).names for field in schema.fields):
            log.warning(NO_ATTRIBUTES)
        if not said.has_metadata:
            schema = StructType([field for field in schema.fields if field.name not in OF_THE_NETWORK])
        return with_options(schema, find_said(self.given, {})) if is_table(self.given) else schema

    def reader(self, schema: StructType) -> TidingsReader:
        said = self.said(schema)
        is_asked = said.pushes_down is None and PUSHING_MODULE in sys.modules
        return (PushingReader if said.pushes_down or is_asked else TidingsReader)(schema, said)

    def streamReader(self, schema: StructType) -> TidingsStreamReader:
        return TidingsStreamReader(schema, self.said(schema))

    def writer(self, schema: StructType, overwrite: bool) -> TidingsWriter:
        if overwrite:
            raise UsageError('mode "overwrite": what was published cannot be taken back; write with mode("append")')
        return TidingsWriter(schema, self.said())

    def streamWriter(self, schema: StructType, overwrite: bool) -> TidingsStreamWriter:
        return TidingsStreamWriter(schema, self.said())
