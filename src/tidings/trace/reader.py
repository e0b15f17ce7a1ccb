"""A trace file back into records, one after the other, whatever its format.

Reading is lazy: one block of rows is in memory at a time. What is wrong with a file is said with its name, and with the
line where there are lines. The partial file of JSON lines that a crashed writer left behind may break off in its last
line, and is read up to there.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tidings.trace.record import COLUMNS, SCHEMA_VERSION, Record, TraceError, arrow_schema
from tidings.trace.writers import METADATA_KEY, PARTIAL, import_parquet

ROWS_READ = 8192
LINE_BYTES_MAX = 1024 * 1024
"""Far above any line that a writer makes, since records have bounds."""


def read_trace(path: str | Path) -> Iterator[Record]:
    """The records of a trace in the order in which they were written."""
    path = Path(path)
    if path.suffix not in READERS:
        raise TraceError(f"cannot read the trace {path}: a trace ends in {' or '.join(READERS)}")
    if not path.is_file():
        raise TraceError(f"cannot read the trace {path}: there is no such file")
    return READERS[path.suffix](path)


def read_json_lines(path: Path) -> Iterator[Record]:
    decoder = msgspec.json.Decoder(Record)
    is_partial = path.stem.endswith(PARTIAL)
    with open(path, "rb") as file:
        number = 0
        while line := file.readline(LINE_BYTES_MAX):
            number += 1
            if is_partial and not line.endswith(b"\n"):
                return
            try:
                record = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as problem:
                raise TraceError(f"cannot read the trace {path}: line {number} is no record: {problem}") from None
            yield record


def read_parquet(path: Path) -> Iterator[Record]:
    arrow, parquet = import_parquet(f"cannot read the trace {path}")
    try:
        file = parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError) as problem:
        unfinished = "; its writer did not finish it" if path.stem.endswith(PARTIAL) else ""
        raise TraceError(f"cannot read the trace {path}: this is no Parquet file{unfinished} ({problem})") from None
    with file:
        check_parquet(path, file)
        try:
            for batch in file.iter_batches(batch_size=ROWS_READ, columns=list(COLUMNS), use_threads=False):
                columns = [batch.column(name).to_pylist() for name in COLUMNS]
                for row in zip(*columns, strict=True):
                    yield Record(**dict(zip(COLUMNS, row, strict=True)))
        except (arrow.ArrowException, OSError) as problem:
            raise TraceError(f"cannot read the trace {path}: it is damaged ({problem})") from None


def check_parquet(path: Path, file: Any) -> None:
    """Refuse what other programs, or later versions of this one, may have written."""
    about = (file.metadata.metadata or {}).get(METADATA_KEY.encode())
    if about is None:
        raise TraceError(f"cannot read the trace {path}: a Parquet file, but no trace of tidings")
    version = msgspec.json.decode(about)["version"]
    if version != SCHEMA_VERSION:
        raise TraceError(
            f"cannot read the trace {path}: it has version {version} of the schema, this program knows {SCHEMA_VERSION}"
        )
    if not file.schema_arrow.remove_metadata().equals(arrow_schema()):
        raise TraceError(f"cannot read the trace {path}: its columns are not those of a trace")


READERS = {".parquet": read_parquet, ".jsonl": read_json_lines}
