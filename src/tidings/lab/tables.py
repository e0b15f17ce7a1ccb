"""Figures and verdicts as files: CSV and JSON for people and programs, Parquet for Spark.

Each row says what its runs were made with: the version of tidings, the commit where it is known, and the digest of the
experiment's definition; several, if runs differ. The runs themselves say more (`spark/sweeps/provenance.py`).
"""

import csv
from collections.abc import Sequence
from io import BytesIO, StringIO
from typing import Any

import msgspec

from tidings.lab.experiment import Measured
from tidings.lab.verdicts import ClaimJudgement
from tidings.spark.place import Place
from tidings.spark.sweeps.provenance import Provenance

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
    "version": str,
    "commit": str,
    "definition": str,
}
MADE_WITH = ("version", "commit", "definition")


def write_tables(
    place: Place,
    experiment: str,
    judgements: Sequence[ClaimJudgement],
    measured: Sequence[Measured],
    made_with: Sequence[Provenance],
) -> None:
    rows = [row_of(experiment, each, made_with) for each in judgements]
    text = StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    (place / "table.csv").write_bytes(text.getvalue().encode())
    (place / "table.json").write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2))
    write_parquet(place / "table.parquet", rows, COLUMNS)
    fields = {"figure": str, "group": str, "value": float, "low": float, "high": float, "runs": int}
    write_parquet(place / "figures.parquet", [msgspec.structs.asdict(each) for each in measured], fields)


def row_of(experiment: str, judgement: ClaimJudgement, made_with: Sequence[Provenance]) -> dict[str, Any]:
    with_what = {name: ", ".join(dict.fromkeys(getattr(each, name) for each in made_with)) for name in MADE_WITH}
    measured = {"experiment": experiment, "measured": judgement.measured}
    every = {**measured, **msgspec.structs.asdict(judgement), **with_what}
    return {name: every[name] for name in COLUMNS}


def write_parquet(place: Place, rows: list[dict[str, Any]], columns: dict[str, type]) -> None:
    import pyarrow
    from pyarrow import parquet

    types = {str: pyarrow.string(), float: pyarrow.float64(), int: pyarrow.int64(), bool: pyarrow.bool_()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    file = BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), file)
    place.write_bytes(file.getvalue())
