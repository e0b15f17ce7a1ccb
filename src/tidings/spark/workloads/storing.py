"""Workloads on disk: Parquet that knows what it is.

    folder/_workload.json         the workload as JSON, for people and for other programs
    folder/events/*.parquet       one folder for each table
    folder/subscriptions/*.parquet

Rows without the parameters they were drawn with are worth little a month later. Spark writes no key-value pairs of ours
into a Parquet file, but it writes its schema there, and a column of a schema may carry metadata. So the first column of
every table carries the workload, and each single file says in its footer what it is; moved, renamed or alone, it can be
drawn again. The JSON file beside says the same where the folder is on a disk that we can write to directly; on a store
that only Spark reaches it is left out, and reading does without.

Rows stand in the files in the order of the table, but how many files there are depends on the partitions.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidings.model.errors import UsageError
from tidings.spark.workloads.registry import decode, encode
from tidings.spark.workloads.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BESIDE = "_workload.json"
METADATA_KEY = "tidings.workload"


class Stored(msgspec.Struct, frozen=True):
    workload: Workload
    tables: "dict[str, DataFrame]"


def write(
    spark: "SparkSession",
    workload: Workload,
    folder: str | Path,
    tables: Iterable[str] | None = None,
    partitions: int | None = None,
) -> None:
    """All tables, or those named. A table that is there already is replaced; other files are left alone."""
    described, folder = encode(workload), located(folder)
    for name in workload.tables if tables is None else tables:
        frame = workload.frame(spark, name, partitions)
        carrier = frame.columns[0]
        frame.withMetadata(carrier, {METADATA_KEY: described}).write.mode("overwrite").parquet(f"{folder}/{name}")
    if "://" not in folder:
        pretty = json.dumps(json.loads(described), indent=1)
        Path(folder, BESIDE).write_text(pretty + "\n", encoding="utf-8")


def read(spark: "SparkSession", folder: str | Path) -> Stored:
    """The workload and those of its tables that were written."""
    folder = located(folder)
    path = Path(folder)
    if "://" in folder:
        raise UsageError("read: name the table, as in read_table(spark, folder + '/events')")
    names = sorted(child.name for child in path.iterdir() if child.is_dir()) if path.is_dir() else []
    found = {name: read_table(spark, path / name) for name in names}
    if not found:
        raise UsageError(f"{folder}: there is no workload here; write one first")
    workload = next(iter(found.values()))[0]
    if any(other != workload for other, _ in found.values()):
        raise UsageError(f"{folder}: tables of different workloads lie here; read them one by one with read_table")
    return Stored(workload, {name: frame for name, (_, frame) in found.items()})


def read_table(spark: "SparkSession", folder: str | Path) -> "tuple[Workload, DataFrame]":
    """One table with the workload that its files name."""
    frame = spark.read.parquet(located(folder))
    described = frame.schema[0].metadata.get(METADATA_KEY)
    if described is None:
        raise UsageError(f"{folder}: this Parquet does not say which workload it is of; it was not written by `write`")
    return decode(described), frame


def located(folder: str | Path) -> str:
    """Spark may have been started in another folder than the one we are in now."""
    text = str(folder)
    return text if "://" in text else str(Path(text).absolute())
