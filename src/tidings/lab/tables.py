"""Figures and verdicts as files: CSV and JSON for people and programs, Parquet for Spark."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidings.lab.experiment import Measured
from tidings.lab.verdicts import ClaimJudgement

COLUMNS = {
    "experiment": str,
    "says": str,
    "group": str,
    "published": str,
    "measured": str,
    "verdict": str,
    "value": float,
    "low": float,
    "high": float,
    "unit": str,
    "runs": int,
    "band": str,
    "requirement": str,
    "why": str,
    "figure": str,
}


def write_tables(
    place: Path, experiment: str, judgements: Sequence[ClaimJudgement], measured: Sequence[Measured]
) -> None:
    rows = [row_of(experiment, each) for each in judgements]
    with (place / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (place / "table.json").write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2))
    write_parquet(place / "table.parquet", rows, COLUMNS)
    fields = {"figure": str, "group": str, "value": float, "low": float, "high": float, "runs": int}
    write_parquet(place / "figures.parquet", [msgspec.structs.asdict(each) for each in measured], fields)


def row_of(experiment: str, judgement: ClaimJudgement) -> dict[str, Any]:
    every = {"experiment": experiment, "measured": judgement.measured, **msgspec.structs.asdict(judgement)}
    return {name: every[name] for name in COLUMNS}


def write_parquet(path: Path, rows: list[dict[str, Any]], columns: dict[str, type]) -> None:
    import pyarrow
    from pyarrow import parquet

    types = {str: pyarrow.string(), float: pyarrow.float64(), int: pyarrow.int64(), bool: pyarrow.bool_()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path)
