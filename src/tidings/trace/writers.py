"""Where records go: a Parquet file, a file of JSON lines, or a ring of the latest ones in memory.

    with open_writer("run.parquet", run="ping-7", seed=7) as writer:
        writer.write(Record(time=0.5, node="a", kind="note"))

The same records give the same bytes. Nothing in a file tells when, where or by whom it was written, and encoding and
compression depend on the rows alone. (Another version of pyarrow may encode the same rows differently, and writes its
version into the file.) A row group of a Parquet file, and a block of JSON lines, is what `gathering` stores at once.

A file appears under its name only when it is complete. Until then the rows go to `NAME.partial.ENDING` beside it, and
`close` renames that. After a crash it remains: JSON lines can be read from it up to the last block, a Parquet file
without its end cannot be read. When writing fails, a full disk for instance, the partial file is removed, the error
says so, and an older trace of the same name stays as it was.
"""

import os
import re
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from tidings.model.errors import UsageError
from tidings.trace.record import COLUMNS, KINDS, SCHEMA_VERSION, Record, Row, Rows, TraceError, arrow_schema, record_of
from tidings.trace.writer import Writer

PARQUET_ROWS_MAX = 64 * 1024
"""Rows of a row group: some 20 MiB of memory with rows of ordinary size, and pieces that Spark can share out."""

JSON_ROWS_MAX = 1024
"""Rows of a block: what a crash loses at most."""

RING_ROWS_MAX = 64

DICTIONARY_COLUMNS = [name for name in COLUMNS if name != "time"]
"""Columns in which values repeat."""

STATISTICS_COLUMNS = ["time"]
"""The column by which a reader can skip row groups: every other one has the same values in all of them."""

COMPRESSION, COMPRESSION_LEVEL = "zstd", 1

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""How the name of a place in another store begins. A writer renames and takes back what it wrote, which only a file
system can do."""

OWNER_ONLY = 0o600
PARTIAL = ".partial"

METADATA_KEY = "tidings.trace"
"""In the metadata of a Parquet file: an object with version, run and seed."""


def open_writer(path: str | Path, run: str = "", seed: int = 0) -> "FileWriter":
    """A writer for the format that the ending of the name says."""
    if isinstance(path, str) and SCHEME.match(path):
        raise TraceError(f"cannot write the trace {path}: name a file on this machine, and copy it there afterwards")
    path = Path(path)
    if path.suffix not in FORMATS:
        raise TraceError(f"cannot write the trace {path}: end its name in {' or '.join(FORMATS)}")
    return FORMATS[path.suffix](path, run, seed)


class RingBuffer(Writer):
    """The latest `size` records, for a live node that is asked what just happened."""

    def __init__(self, size: int, run: str = "", seed: int = 0) -> None:
        if size < 1:
            raise UsageError(f"size {size}: a ring buffer keeps at least one record")
        super().__init__(run, seed, min(size, RING_ROWS_MAX))
        self.latest: deque[Row] = deque(maxlen=size)

    def store(self, rows: Rows) -> None:
        self.latest.extend(rows)

    def records(self) -> list[Record]:
        """Oldest first."""
        if not self.closed:
            self.flush()
        return [record_of(self.run, self.seed, row) for row in self.latest]


def open_private(path: str, flags: int) -> int:
    """Events are in a trace, and nobody else is to read it."""
    descriptor = os.open(path, flags, OWNER_ONLY)
    os.fchmod(descriptor, OWNER_ONLY)
    return descriptor


class FileWriter(Writer):
    """A file that appears under its name when it is complete."""

    def __init__(self, path: Path, run: str, seed: int, rows_max: int) -> None:
        super().__init__(run, seed, rows_max)
        self.path, self.partial = path, path.with_name(f"{path.stem}{PARTIAL}{path.suffix}")
        if path.is_dir():
            raise TraceError(f"cannot write the trace {path}: it is a folder; name a file in it")
        try:
            self.file = open(self.partial, "wb", opener=open_private)  # noqa: SIM115 - closed by `close` or `abandon`
        except OSError as problem:
            raise TraceError(
                f"cannot write the trace {path}: {problem.strerror}; name a file in a folder that exists and is yours"
            ) from None

    def save(self) -> None:
        try:
            super().save()
        except OSError as problem:
            self.abandon(problem)

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
            self.finish()
            self.file.close()
            os.replace(self.partial, self.path)
        except OSError as problem:
            self.abandon(problem)

    def finish(self) -> None:
        """Write the end of the file."""

    def give_up(self) -> None:
        """Forget the end of the file."""

    def abandon(self, problem: OSError) -> NoReturn:
        """Give up: nothing remains, and whoever goes on writing is told that the trace is closed."""
        self.end()
        self.give_up()
        with suppress(OSError):
            self.file.close()
        with suppress(OSError):
            self.partial.unlink()
        raise TraceError(
            f"cannot write the trace {self.path}: {problem.strerror or problem}; nothing of it is kept. "
            "Free some space, or name a file elsewhere"
        ) from None


class JsonLinesWriter(FileWriter):
    """One object a line, its fields in the order of the schema, without those that are empty."""

    def __init__(self, path: Path, run: str, seed: int) -> None:
        super().__init__(path, run, seed, JSON_ROWS_MAX)
        self.encoder = msgspec.json.Encoder()

    def store(self, rows: Rows) -> None:
        self.file.write(self.encoder.encode_lines([record_of(self.run, self.seed, row) for row in rows]))
        self.file.flush()


class ParquetWriter(FileWriter):
    def __init__(self, path: Path, run: str, seed: int) -> None:
        _, parquet = import_parquet(f"cannot write the trace {path}")
        super().__init__(path, run, seed, PARQUET_ROWS_MAX)
        self.parquet = parquet.ParquetWriter(
            self.file,
            encoded_schema(),
            use_dictionary=DICTIONARY_COLUMNS,
            write_statistics=STATISTICS_COLUMNS,
            compression=COMPRESSION,
            compression_level=COMPRESSION_LEVEL,
            store_schema=False,
        )

    def store(self, rows: Rows) -> None:
        self.parquet.write_table(arrow_table(rows, self.run, self.seed), row_group_size=len(rows))

    def finish(self) -> None:
        about = {"version": SCHEMA_VERSION, "run": self.run, "seed": self.seed}
        self.parquet.add_key_value_metadata({METADATA_KEY: msgspec.json.encode(about).decode()})
        self.parquet.close()

    def give_up(self) -> None:
        # Otherwise it would try once more to write the end when it is collected.
        self.parquet.is_open = False


def arrow_table(rows: Rows, run: str, seed: int) -> Any:
    """Rows as Arrow, text as dictionaries: the text of a subject is never made anew for each row."""
    import pyarrow

    count, nodes, subjects = len(rows), list(rows.names), rows.subjects
    numbers = as_they_lie(rows.subject_numbers, pyarrow.int32())
    columns = {
        "run": texts([run], pyarrow.repeat(pyarrow.scalar(0, pyarrow.int8()), count)),
        "seed": pyarrow.repeat(pyarrow.scalar(seed, pyarrow.int64()), count),
        "time": as_they_lie(rows.times, pyarrow.float64()),
        "node": texts(nodes, as_they_lie(rows.nodes, pyarrow.int32())),
        "kind": texts(KINDS, as_they_lie(rows.kinds, pyarrow.int8())),
        "peer": texts(nodes, as_they_lie(rows.peers, pyarrow.int32())),
        "message": texts([subject.message for subject in subjects], numbers),
        "key": texts([subject.key for subject in subjects], numbers),
        "size_bytes": pyarrow.array(rows.sizes, pyarrow.int64()),
        "reason": texts([subject.reason for subject in subjects], numbers),
        "detail": texts([subject.detail for subject in subjects], numbers),
    }
    return pyarrow.table(columns, encoded_schema())


def as_they_lie(values: "array[Any] | bytearray", type: Any) -> Any:
    """An array as Arrow sees it, without a copy."""
    import pyarrow

    return pyarrow.Array.from_buffers(type, len(values), [None, pyarrow.py_buffer(values)])


def texts(values: Sequence[str | None], numbers: Any) -> Any:
    """The value of each number."""
    import pyarrow

    return pyarrow.array(values, pyarrow.string()).dictionary_encode().take(numbers)


def encoded_schema() -> Any:
    """As rows are handed over: Parquet stores a dictionary as the text it stands for."""
    import pyarrow

    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    fields = [field.with_type(text) if field.type == pyarrow.string() else field for field in arrow_schema()]
    return pyarrow.schema(fields)


def import_parquet(task: str) -> tuple[Any, Any]:
    """pyarrow and its Parquet module, which come with the extra `fast`."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise TraceError(
            f"{task}: Parquet needs pyarrow; install it with: pip install 'tidings[fast]', or use a .jsonl file"
        ) from None
    return pyarrow, pyarrow.parquet


FORMATS: dict[str, Callable[[Path, str, int], FileWriter]] = {".parquet": ParquetWriter, ".jsonl": JsonLinesWriter}
