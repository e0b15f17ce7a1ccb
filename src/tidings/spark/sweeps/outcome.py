"""What came of a run: one row of the table `results`.

The columns are those of the run, and: `status`, "ok" or "failed"; `error`, empty if there was none; `replay`, a command
that performs this run again; `seconds` of wall time, the one column that chance has a part in; and `measures`, numbers
by name. A run that failed has no measures.
"""

from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from tidings.spark.sweeps.run import Run

Status = Literal["ok", "failed"]
OK: Status
FAILED: Status
OK, FAILED = get_args(Status)

ERROR_CHARS_MAX = 4000
"""What is longer loses its middle."""

COLUMNS = {
    "run": "string",
    "experiment": "string",
    "variant": "string",
    "parameters": "string",
    "seed": "bigint",
    "status": "string",
    "error": "string",
    "replay": "string",
    "seconds": "double",
    "measures": "map<string, double>",
}
"""With the types that Spark has for them."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    experiment: str
    variant: str
    parameters: str
    seed: int
    status: Status
    error: str
    replay: str
    seconds: float
    measures: dict[str, float]

    def save(self, path: Path) -> None:
        from pyarrow import parquet, table

        parquet.write_table(
            table({name: [value] for name, value in self.cells().items()}, schema=arrow_schema()),
            path,
            store_schema=False,
        )

    def cells(self) -> dict[str, Any]:
        return {**msgspec.structs.asdict(self), "measures": sorted(self.measures.items())}


def outcome_of(run: Run, seconds: float, measures: dict[str, float], error: str = "") -> Outcome:
    """A run with an error has failed."""
    return Outcome(
        run=run.id,
        experiment=run.experiment,
        variant=run.variant,
        parameters=run.parameters_text,
        seed=run.seed,
        status=FAILED if error else OK,
        error=shortened(error),
        replay=run.replay,
        seconds=seconds,
        measures={} if error else measures,
    )


def shortened(text: str) -> str:
    if len(text) <= ERROR_CHARS_MAX:
        return text
    half = ERROR_CHARS_MAX // 2
    return f"{text[:half]} ... {text[-half:]}"


def arrow_schema() -> Any:
    import pyarrow

    types = {
        "string": pyarrow.string(),
        "bigint": pyarrow.int64(),
        "double": pyarrow.float64(),
        "map<string, double>": pyarrow.map_(pyarrow.string(), pyarrow.float64()),
    }
    return pyarrow.schema([(name, types[kind]) for name, kind in COLUMNS.items()])


def read_status(path: Path) -> Status:
    """Of the one row in this file."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        [status] = file.read(columns=["status"], use_threads=False)["status"].to_pylist()
    return FAILED if status == FAILED else OK
