"""Tables that are drawn at random, and are the same on one core and on a hundred.

A random table on a cluster must not depend on how it is cut into partitions, on how often a task was tried, or on which
came first. So chance belongs to the data here and not to the worker: a table is cut into *chunks* of a fixed number of
items, and chunk 17 of the stream "events" of seed 1 is drawn from a generator that was seeded with exactly these three.
Spark only says who draws which chunks; a partition is a range of them.

    table = Table(stream="events", seed=1, items=1_000_000, columns={"key": "string", "price": "double"}, make=draw)
    table.frame(spark)             # a DataFrame
    table.arrow()                  # the same rows in the same order, without Spark

`make(random, first, count)` draws the items `first` to `first + count` as one array for each column. An item is one
row, or several where the table says so (one user, all feeds that the user reads).

A chunk is all that a worker holds at a time, so memory does not grow with the table. Equal rows need an equal version
of numpy too: it promises equal streams of numbers from one release to the next only for some of its distributions.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy
import numpy.typing
import pyarrow
import pyarrow.compute

from tidings.model.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Array = numpy.typing.NDArray[Any]
Random = numpy.random.Generator
ColumnType = Literal["string", "long", "double", "boolean"]
Columns = Mapping[str, ColumnType]
Make = Callable[[Random, int, int], Mapping[str, Any]]

CHUNK_ITEMS = 65_536
"""Items of a chunk. Part of what a seed means: another number gives other rows."""

CHUNKS_PER_PARTITION = 64
"""So much of a table, at most, is drawn again when a task fails."""

ARROW_TYPES = {
    "string": pyarrow.string(),
    "long": pyarrow.int64(),
    "double": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
}


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table before it is drawn."""

    stream: str
    """Tables of one workload have different streams, so that they are independent of each other."""
    seed: int
    items: int
    columns: Columns
    make: Make
    chunk_items: int = CHUNK_ITEMS
    """Smaller where an item is many rows."""

    @property
    def chunks(self) -> int:
        return -(-self.items // self.chunk_items)

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns.items())

    def schema(self) -> Any:
        return pyarrow.schema([(name, ARROW_TYPES[kind]) for name, kind in self.columns.items()])

    def batch(self, chunk: int) -> Any:
        first = chunk * self.chunk_items
        drawn = self.make(stream(self.seed, self.stream, chunk), first, min(self.chunk_items, self.items - first))
        arrays = [pyarrow.array(drawn[name], ARROW_TYPES[kind]) for name, kind in self.columns.items()]
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self.schema())

    def arrow(self) -> Any:
        """All rows in this process."""
        return pyarrow.Table.from_batches([self.batch(chunk) for chunk in range(self.chunks)], self.schema())

    def frame(self, spark: "SparkSession", partitions: int | None = None) -> "DataFrame":
        """Drawn when it is used. Rows stand in the order of the items; `partitions` says how finely the work is cut."""
        if partitions is not None and partitions < 1:
            raise UsageError(f"partitions: {partitions} is too few; give 1 or more, or leave it out")

        def fill(batches: Iterator[Any]) -> Iterator[Any]:
            for numbers in batches:
                for chunk in numbers.column(0).to_pylist():
                    yield self.batch(chunk)

        numbers = spark.range(0, self.chunks, 1, partitions or partitions_for(spark, self.chunks))
        return numbers.mapInArrow(fill, self.ddl)


def stream(seed: int, name: str, chunk: int = 0) -> Random:
    """The generator of one chunk. Its number comes last, and chunk 0 serves whatever is drawn once for a table."""
    return numpy.random.default_rng([seed, zlib.crc32(name.encode()), chunk])


def partitions_for(spark: "SparkSession", chunks: int) -> int:
    """Enough for all cores, and no more chunks in a partition than one would like to draw twice."""
    cores = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return max(1, min(chunks, max(cores, -(-chunks // CHUNKS_PER_PARTITION))))


def numbered(prefix: str, numbers: Array) -> Any:
    """Names such as `p17`, as an Arrow array of text."""
    digits = pyarrow.compute.cast(pyarrow.array(numbers, pyarrow.int64()), pyarrow.string())
    return pyarrow.compute.binary_join_element_wise(prefix, digits, "") if prefix else digits


def chosen(words: tuple[str, ...] | list[str], places: Array) -> Any:
    """For each place the word there, as an Arrow array of text."""
    return pyarrow.array(words, pyarrow.string()).take(pyarrow.array(places, pyarrow.int64()))
