"""Trace files as one DataFrame.

    read_traces(spark, ["run-7.parquet", "older.jsonl", "s3a://bucket/sweep"])

A path is a file as `tidings.trace` writes it (Parquet or JSON lines), or a folder with such files, or a folder that
Spark wrote, in parts such as `run=r7/part-0.parquet`, where columns may stand in the names of folders, or the folder of
a sweep (`spark/sweeps/table.py`). It may be in any store (`spark/place.py`). Partial files, which a crashed writer left
behind, and hidden ones are passed over in folders.

Rows of the same run belong together, whichever file they are in: each node of a network may have written its own.

Files are looked at before Spark is: a trace of another version, and a Parquet file that is no trace, are refused by
name. A file that Spark wrote has no version; it must have the columns of a trace. What a line of JSON has wrong is only
found when the table is used; `tidings trace show FILE` says which line.
"""

from collections.abc import Sequence
from pathlib import Path
from posixpath import splitext
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.spark.place import Place, meaning_of_storage, place_of
from tidings.spark.sweeps.table import PARQUET, TRACES, SweepTable
from tidings.trace.record import COLUMNS, SCHEMA_VERSION, TraceError
from tidings.trace.writers import METADATA_KEY, PARTIAL, import_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENDINGS = (".parquet", ".jsonl")

SCHEMA = (
    "run STRING, seed BIGINT, time DOUBLE, node STRING, kind STRING, peer STRING, message STRING, key STRING, "
    "size_bytes BIGINT, reason STRING, detail STRING"
)


def read_traces(spark: "SparkSession", paths: Sequence[str | Path | Place]) -> "DataFrame":
    """All rows of all traces, in the columns of `tidings.trace.record`."""
    if not paths:
        raise TraceError("no trace to read: name a file or a folder")
    tables = [read_one(spark, place_of(path)) for path in paths]
    together = tables[0]
    for table in tables[1:]:
        together = together.unionByName(table)
    # JSON lines leave out what is empty.
    return together.selectExpr("coalesce(run, '') AS run", "coalesce(seed, 0) AS seed", *COLUMNS[2:])


def read_one(spark: "SparkSession", place: Place) -> "DataFrame":
    files = trace_files(place)
    if any(f"/table={TRACES}/" in f"/{file.below(place)}" for file in files):
        return SweepTable(spark, place).traces()
    for file in files:
        if ending(file) == ".parquet":
            check_parquet(file)
    try:
        return read_files(spark, place, files)
    except Exception as problem:
        raise meaning_of_storage(problem, place, PARQUET) or problem from problem


def read_files(spark: "SparkSession", place: Place, files: list[Place]) -> "DataFrame":
    tables = [
        # Below its base path Spark reads columns from the names of folders.
        spark.read.schema(SCHEMA).option("basePath", base).parquet(*parts)
        for base, parts in by_base(place, [file for file in files if ending(file) == ".parquet"]).items()
    ]
    if lines := [file.text for file in files if ending(file) == ".jsonl"]:
        tables.append(spark.read.schema(SCHEMA).option("mode", "FAILFAST").json(lines))
    together = tables[0].select(*COLUMNS)
    for table in tables[1:]:
        together = together.unionByName(table.select(*COLUMNS))
    return together


def by_base(place: Place, files: list[Place]) -> dict[str, list[str]]:
    """Files by the folder above the first one that has a column in its name, or else by the one that was named."""
    bases: dict[str, list[str]] = {}
    for file in files:
        folder = place if file != place else place.parent
        for part in file.below(folder).split("/")[:-1]:
            if "=" in part:
                break
            folder = folder / part
        else:
            folder = place if file != place else place.parent
        bases.setdefault(folder.text, []).append(file.text)
    return bases


def ending(place: Place) -> str:
    return splitext(place.name)[1]


def trace_files(place: Place) -> list[Place]:
    found = place.files()
    if found == [place]:
        if ending(place) not in ENDINGS:
            raise TraceError(f"cannot read the trace {place}: a trace ends in {' or '.join(ENDINGS)}")
        return found
    if not found and not place.exists():
        raise TraceError(f"cannot read the trace {place}: there is no such file or folder")
    files = [
        file
        for file in found
        if ending(file) in ENDINGS
        and not splitext(file.name)[0].endswith(PARTIAL)
        and not any(part.startswith((".", "_")) for part in file.below(place).split("/"))
    ]
    if not files:
        raise TraceError(f"cannot read traces in {place}: no file there ends in {' or '.join(ENDINGS)}")
    return files


def check_parquet(place: Place) -> None:
    arrow, parquet = import_parquet(f"cannot read the trace {place}")
    system, path = place.opened()
    try:
        metadata = parquet.read_metadata(path, filesystem=system)
    except (arrow.ArrowException, OSError) as problem:
        raise TraceError(f"cannot read the trace {place}: this is no Parquet file ({problem})") from None
    about = (metadata.metadata or {}).get(METADATA_KEY.encode())
    if about is not None:
        check_version(place, about)
    in_folders = {part.partition("=")[0] for part in place.text.split("/") if "=" in part}
    missing = [name for name in COLUMNS if name not in {*metadata.schema.names, *in_folders}]
    if missing:
        raise TraceError(
            f"cannot read the trace {place}: a Parquet file, but no trace of tidings; it lacks {', '.join(missing)}"
        )


def check_version(file: Place, about: Any) -> None:
    version = msgspec.json.decode(about).get("version")
    if version != SCHEMA_VERSION:
        raise TraceError(
            f"cannot read the trace {file}: it has version {version} of the schema, this program knows {SCHEMA_VERSION}"
        )
