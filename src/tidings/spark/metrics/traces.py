"""Trace files as one DataFrame.

    read_traces(spark, ["run-7.parquet", "older.jsonl", "sweep/traces"])

A path is a file as `tidings.trace` writes it (Parquet or JSON lines), or a folder with such files, or a folder that
Spark wrote, in parts such as `run=r7/part-0.parquet`, where columns may stand in the names of folders. Partial files,
which a crashed writer left behind, and hidden ones are passed over in folders.

Rows of the same run belong together, whichever file they are in: each node of a network may have written its own.

Files on this machine are looked at before Spark is: a trace of another version, and a Parquet file that is no trace,
are refused by name. A file that Spark wrote has no version; it must have the columns of a trace. What a line of JSON
has wrong is only found when the table is used; `tidings trace show FILE` says which line.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.trace.record import COLUMNS, SCHEMA_VERSION, TraceError
from tidings.trace.writers import METADATA_KEY, PARTIAL, import_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENDINGS = (".parquet", ".jsonl")

SCHEMA = (
    "run STRING, seed BIGINT, time DOUBLE, node STRING, kind STRING, peer STRING, message STRING, key STRING, "
    "size_bytes BIGINT, reason STRING, detail STRING"
)


def read_traces(spark: "SparkSession", paths: Sequence[str | Path]) -> "DataFrame":
    """All rows of all traces, in the columns of `tidings.trace.record`."""
    if not paths:
        raise TraceError("no trace to read: name a file or a folder")
    tables = [read_one(spark, Path(path)) for path in paths]
    together = tables[0]
    for table in tables[1:]:
        together = together.unionByName(table)
    # JSON lines leave out what is empty.
    return together.selectExpr("coalesce(run, '') AS run", "coalesce(seed, 0) AS seed", *COLUMNS[2:])


def read_one(spark: "SparkSession", path: Path) -> "DataFrame":
    files = trace_files(path)
    for file in files:
        if file.suffix == ".parquet":
            check_parquet(file)
    tables = [
        # Below its base path Spark reads columns from the names of folders.
        spark.read.schema(SCHEMA).option("basePath", str(base)).parquet(*map(str, parts))
        for base, parts in by_base(path, [file for file in files if file.suffix == ".parquet"]).items()
    ]
    if lines := [str(file) for file in files if file.suffix == ".jsonl"]:
        tables.append(spark.read.schema(SCHEMA).option("mode", "FAILFAST").json(lines))
    together = tables[0].select(*COLUMNS)
    for table in tables[1:]:
        together = together.unionByName(table.select(*COLUMNS))
    return together


def by_base(path: Path, files: list[Path]) -> dict[Path, list[Path]]:
    """Files by the folder above the first one that has a column in its name, or else by the one that was named."""
    bases: dict[Path, list[Path]] = {}
    for file in files:
        above = [
            folder.parent for folder in file.parents if "=" in folder.name and folder.is_relative_to(folder_of(path))
        ]
        bases.setdefault(above[-1] if above else folder_of(path), []).append(file)
    return bases


def folder_of(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def trace_files(path: Path) -> list[Path]:
    if path.is_file():
        if path.suffix not in ENDINGS:
            raise TraceError(f"cannot read the trace {path}: a trace ends in {' or '.join(ENDINGS)}")
        return [path]
    if not path.is_dir():
        raise TraceError(f"cannot read the trace {path}: there is no such file or folder")
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix in ENDINGS
        and file.is_file()
        and not file.stem.endswith(PARTIAL)
        and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
    ]
    if not files:
        raise TraceError(f"cannot read traces in {path}: no file there ends in {' or '.join(ENDINGS)}")
    return files


def check_parquet(file: Path) -> None:
    arrow, parquet = import_parquet(f"cannot read the trace {file}")
    try:
        metadata = parquet.read_metadata(file)
    except (arrow.ArrowException, OSError) as problem:
        raise TraceError(f"cannot read the trace {file}: this is no Parquet file ({problem})") from None
    about = (metadata.metadata or {}).get(METADATA_KEY.encode())
    if about is not None:
        check_version(file, about)
    in_folders = {part.partition("=")[0] for part in file.parts if "=" in part}
    missing = [name for name in COLUMNS if name not in {*metadata.schema.names, *in_folders}]
    if missing:
        raise TraceError(
            f"cannot read the trace {file}: a Parquet file, but no trace of tidings; it lacks {', '.join(missing)}"
        )


def check_version(file: Path, about: Any) -> None:
    version = msgspec.json.decode(about).get("version")
    if version != SCHEMA_VERSION:
        raise TraceError(
            f"cannot read the trace {file}: it has version {version} of the schema, this program knows {SCHEMA_VERSION}"
        )
