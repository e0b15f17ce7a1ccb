"""The format "tidings-trace": traces as a stream, while they are written.

    spark.readStream.format("tidings-trace").load("traces")

Its rows are those of a trace (`trace/record.py`). The path is a file or a folder, on this machine or in a store
(`spark/place.py`). A file of JSON lines is followed line by line: while its writer still has it under its partial name,
and on from there when it has its own. A Parquet file can be read when its writer has finished it, and is then read at
once; so let nodes that are to be watched write JSON lines (`trace = "a.jsonl"` in a broker's settings).

**Offset.** For each file how many bytes of it were read, up to the end of a line; for a Parquet file its size. A file
is known by its name without `.partial`. Files that go are forgotten; what was read of them has been read. A file that
is shorter than what was read of it is another file of the same name, and ends the query, because nobody can say what
belongs together.

`maxBytesPerTrigger` bounds what of one file is in a micro-batch; each file is a task of its own.
"""

from collections.abc import Iterator, Sequence
from io import BytesIO
from posixpath import splitext
from typing import NoReturn

import pyarrow
import pyarrow.json
import pyarrow.parquet
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidings.model.errors import UsageError
from tidings.spark.live.options import OF_SPARK
from tidings.spark.place import Place, place_of
from tidings.trace.reader import LINE_BYTES_MAX
from tidings.trace.record import TraceError, arrow_schema
from tidings.trace.writers import PARTIAL

LINES, WHOLE = ".jsonl", ".parquet"
Sizes = dict[str, int]


class TidingsTraceSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tidings-trace"

    def schema(self) -> str:
        from tidings.spark.metrics.traces import SCHEMA

        return SCHEMA

    def reader(self, schema: StructType) -> NoReturn:
        raise UsageError(
            "tidings-trace follows traces while they are written: use spark.readStream; what is there now is read at "
            "once by read_traces(spark, [...]) of tidings.spark.metrics.traces"
        )

    def streamReader(self, schema: StructType) -> "TraceFollower":
        options = {name.lower(): value for name, value in self.options.items()}
        if unknown := options.keys() - {"path", "maxbytespertrigger"} - OF_SPARK:
            raise UsageError(f"option {min(unknown)}: tidings-trace has no such option; there is maxBytesPerTrigger")
        if "path" not in options:
            raise UsageError('tidings-trace: say where the traces are, as in .load("traces")')
        bytes_max = options.get("maxbytespertrigger")
        if bytes_max is not None and (not bytes_max.isdigit() or int(bytes_max) < LINE_BYTES_MAX):
            raise UsageError(
                f"option maxBytesPerTrigger: {bytes_max} is too few; a line may have {LINE_BYTES_MAX} bytes"
            )
        return TraceFollower(place_of(options["path"]), None if bytes_max is None else int(bytes_max))


class TracePiece(InputPartition):
    """What lies between two places of one file."""

    def __init__(self, name: str, begin: int, end: int) -> None:
        super().__init__(name)
        self.name, self.begin, self.end = name, begin, end


class TraceFollower(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, place: Place, bytes_max: int | None = None) -> None:
        self.place, self.bytes_max = place, bytes_max
        is_file = splitext(place.name)[1] in (LINES, WHOLE)
        self.folder = place.parent if is_file else place
        self.target: Sizes | None = None

    def initialOffset(self) -> Sizes:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.bytes_max is None else ReadMaxBytes(self.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = {name: len_of(place) for name, place in self.found().items()}

    def latestOffset(self, start: Sizes, limit: ReadLimit) -> Sizes:
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        return {name: self.end_of(place, start.get(name, 0), most) for name, place in self.found().items()}

    def end_of(self, place: Place, begin: int, most: int | None) -> int:
        """Up to where this file is read next."""
        size = len_of(place)
        if size < begin:
            raise TraceError(
                f"{place} has {size} bytes, and {begin} of it were read: it is another file by now; name another "
                "checkpointLocation to begin anew"
            )
        if self.target is not None:
            size = max(begin, min(size, self.target.get(self.known_as(place), begin)))
        if splitext(place.name)[1] == WHOLE:
            return size
        return last_line_end(place, begin, size if most is None else min(size, begin + most))

    def partitions(self, start: Sizes, end: Sizes) -> Sequence[InputPartition]:
        return [TracePiece(name, start.get(name, 0), to) for name, to in end.items() if to > start.get(name, 0)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, TracePiece)
        piece = partition
        place = self.named(piece.name)
        system, path = place.opened()
        with system.open_input_file(path) as file:
            if splitext(piece.name)[1] == WHOLE:
                for batch in pyarrow.parquet.ParquetFile(file).iter_batches(columns=arrow_schema().names):
                    yield batch.cast(spark_schema())
                return
            file.seek(piece.begin)
            text = file.read(piece.end - piece.begin)
        yield from lines_of(text, place)

    def found(self) -> dict[str, Place]:
        """Files by their names, those that are finished in place of partial ones."""
        files = [each for each in self.watched() if splitext(each.name)[1] in (LINES, WHOLE)]
        visible = [each for each in files if not each.name.startswith((".", "_"))]
        named = {self.known_as(each): each for each in visible if is_partial(each) and each.name.endswith(LINES)}
        return dict(
            sorted({**named, **{self.known_as(each): each for each in visible if not is_partial(each)}}.items())
        )

    def watched(self) -> list[Place]:
        if self.folder == self.place:
            return self.place.files()
        place = self.named(self.place.name)
        return [place] if place.exists() else []

    def named(self, name: str) -> Place:
        """The file, which may have got its name since."""
        stem, ending = splitext(name)
        whole, partial = self.folder / name, self.folder / f"{stem}{PARTIAL}{ending}"
        return partial if not whole.exists() and partial.exists() else whole

    def known_as(self, place: Place) -> str:
        stem, ending = splitext(place.below(self.folder))
        return stem.removesuffix(PARTIAL) + ending

    def commit(self, end: Sizes) -> None:
        """Nothing is held for us."""


def is_partial(place: Place) -> bool:
    return splitext(place.name)[0].endswith(PARTIAL)


def len_of(place: Place) -> int:
    system, path = place.opened()
    return int(system.get_file_info(path).size or 0)


def last_line_end(place: Place, begin: int, end: int) -> int:
    """Behind the last line that is whole before `end`; `begin` if there is none."""
    system, path = place.opened()
    look_from = max(begin, end - LINE_BYTES_MAX)
    with system.open_input_file(path) as file:
        file.seek(look_from)
        tail = bytes(file.read(end - look_from))
    newline = tail.rfind(b"\n")
    return look_from + newline + 1 if newline >= 0 else begin


def spark_schema() -> pyarrow.Schema:
    """As Spark has it: any column may be null."""
    return pyarrow.schema([field.with_nullable(True) for field in arrow_schema()])


def lines_of(text: bytes, place: Place) -> Iterator[pyarrow.RecordBatch]:
    parsing = pyarrow.json.ParseOptions(explicit_schema=spark_schema(), unexpected_field_behavior="ignore")
    try:
        table = pyarrow.json.read_json(BytesIO(text), parse_options=parsing)
    except pyarrow.ArrowInvalid as problem:
        raise TraceError(f"cannot read the trace {place}: {problem}; tidings trace show says which line") from None
    # Lines leave out what is empty.
    columns = {name: table.column(name) for name in arrow_schema().names}
    columns["run"] = columns["run"].fill_null("")
    columns["seed"] = columns["seed"].fill_null(0)
    yield from pyarrow.table(columns, spark_schema()).to_batches()
