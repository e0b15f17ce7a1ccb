"""Tables that are drawn at random, and are the same on one core, on a hundred, and without Spark.

A random table on a cluster must not depend on how it is cut into partitions, on how often a task was tried, or on which
came first. So chance belongs to the data here and not to the worker: a table is cut into *chunks* of a fixed number of
items, and chunk 17 of the stream "events" of seed 1 is drawn from a generator that was seeded with exactly these three.
Who draws a chunk, and when, changes nothing.

    table = Table(stream="events", seed=1, items=1_000_000, columns={"key": "string", "price": "double"}, make=draw)
    table.chunk(3)                 # its columns, as arrays
    table.rows()                   # one row after the other, as dicts, chunk by chunk
    frame(spark, table)            # all of them as a DataFrame (`spark/workloads`)

`make(random, first, count)` draws the items `first` to `first + count` as one column for each name. An item is one row,
or several where the table says so (one user, all feeds that the user reads). Text is kept as the numbers that it is
made of (`Names`, `Choices`) until somebody looks at a row, or Arrow makes text of a whole column at once.

A chunk is all that is held at a time, so memory does not grow with the table. Equal rows need an equal version of numpy
too: it promises equal streams of numbers from one release to the next only for some of its distributions.

What is not drawn, but read from a file or computed as a whole, is a `Listed` table, with the same rows each time.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    Array = numpy.typing.NDArray[Any]
    Random = numpy.random.Generator
else:
    # What is listed needs no numpy.
    Array = Random = Any

ColumnType = Literal["string", "long", "double", "boolean", "timestamp"]
"""As Spark calls them. A timestamp is a `datetime` in UTC."""
Columns = Mapping[str, ColumnType]
Row = dict[str, Any]
"""Plain values by column; what is not known is None."""

CHUNK_ITEMS = 65_536
"""Items of a chunk. Part of what a seed means: another number gives other rows."""


class Names(msgspec.Struct, frozen=True):
    """Names such as `p17`: a prefix and a number; with `numbers` behind, `p17 4`."""

    prefix: str
    firsts: Array
    numbers: Array | None = None

    def __getitem__(self, place: int) -> str:
        name = f"{self.prefix}{self.firsts[place]}"
        return name if self.numbers is None else f"{name} {self.numbers[place]}"

    def __len__(self) -> int:
        return len(self.firsts)


class Choices(msgspec.Struct, frozen=True):
    """For each place the word there."""

    words: tuple[str, ...] | list[str]
    places: Array

    def __getitem__(self, place: int) -> str:
        return self.words[int(self.places[place])]

    def __len__(self) -> int:
        return len(self.places)


Column = Array | list[str] | list[str | None] | Names | Choices
Drawn = Mapping[str, Column]
Make = Callable[[Random, int, int], Drawn]


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

    def chunk(self, number: int) -> Drawn:
        first = number * self.chunk_items
        return self.make(stream(self.seed, self.stream, number), first, min(self.chunk_items, self.items - first))

    def rows(self) -> Iterator[Row]:
        for number in range(self.chunks):
            drawn = self.chunk(number)
            for place in range(len(drawn[next(iter(self.columns))])):
                yield row_at(self.columns, drawn, place)


class Listed(msgspec.Struct, frozen=True):
    """A table whose rows are listed and not drawn."""

    columns: Columns
    make: Callable[[], Iterable[Row]]

    def rows(self) -> Iterator[Row]:
        return iter(self.make())


def row_at(columns: Columns, drawn: Drawn, place: int) -> Row:
    return {name: plain(drawn[name][place]) for name in columns}


def plain(value: Any) -> Any:
    """A number of Python's own; None where a masked array has nothing."""
    import numpy

    if value is numpy.ma.masked:
        return None
    return value.item() if isinstance(value, numpy.generic) else value


def stream(seed: int, name: str, chunk: int = 0) -> Random:
    """The generator of one chunk. Its number comes last, and chunk 0 serves whatever is drawn once for a table."""
    import numpy

    return numpy.random.default_rng([seed, zlib.crc32(name.encode()), chunk])
