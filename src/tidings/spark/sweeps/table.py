"""The table that a sweep writes, and what is read of it.

A sweep is performed in *waves*, each a job of Spark. What comes of a wave is rows of one table, which Spark writes as
Parquet, or in any other format that it knows, wherever it can write:

    FOLDER/wave=W/table=results/*.parquet    what came of each run (`run.py`)
    FOLDER/wave=W/table=traces/*.parquet     what happened in it (`trace/record.py`)
    FOLDER/wave=W/table=ends/*.parquet       one row, written when the rest is: without it, the wave does not count

Rows are only ever added. A run that is performed again is in a later wave, and the latest one counts; rows of a wave
that was cut off count as little as if they were not there. So nothing is renamed or removed, nothing is asked of the
store but to keep what was written, and a table of Delta or Iceberg serves as well as a folder.

Results and traces have different columns; the table has all of them, and each row leaves those of the other empty,
which costs nothing in a format of columns. They are read with the columns that they are known to have, never with
columns guessed from files, so an empty folder gives an empty table and a run named like a number stays text.
"""

import secrets
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.model.errors import UsageError
from tidings.spark.place import Place, is_missing, meaning_of_storage, place_of
from tidings.spark.sweeps.run import RESULT_COLUMNS, Run, run_of_row
from tidings.trace.record import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET = "parquet"
FILES = (PARQUET, "orc")
"""Formats that are files in folders and nothing else: two jobs must not add to the same folder at a time."""

RESULTS, TRACES, ENDS = "results", "traces", "ends"

RUN_COLUMNS = {"experiment": "string", "variant": "string", "parameters": "string", "seed": "bigint"}
TASK_COLUMNS = {"task": "int", "text": "string"}

SPARK_TYPES = {"string": "string", "int64": "bigint", "double": "double"}

WAVE_DIGITS = 6

CONCURRENT_WRITERS = "spark.sql.maxConcurrentOutputFileWriters"
"""With as many as there are tables Spark need not sort the rows of a task by table before it writes them."""


def trace_columns() -> dict[str, str]:
    return {field.name: SPARK_TYPES[str(field.type)] for field in arrow_schema()}


def row_columns() -> dict[str, str]:
    """Of a row as a worker makes it."""
    return {"table": "string", **RESULT_COLUMNS, **trace_columns()}


def columns_text(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


class Counting(NamedTuple):
    """Which rows count."""

    waves: list[str]
    """Those that ended."""
    superseded: list[tuple[str, str]]
    """(wave, run) of runs that were performed again later."""


class SweepTable:
    def __init__(self, spark: "SparkSession", folder: str | Path | Place, format: str = PARQUET) -> None:
        self.spark, self.place, self.format = spark, place_of(folder), format

    def check(self) -> None:
        """UsageError if nothing can be written here."""
        if self.place.is_here:
            path = self.place.path
            try:
                path.mkdir(parents=True, exist_ok=True)
                probe = path / f"_probe.{secrets.token_hex(4)}"
                probe.touch()
                probe.unlink()
            except OSError as problem:
                raise UsageError(
                    f"cannot write to the folder {self.place}: {problem.strerror}; name one that is yours"
                ) from None
        self.rows()

    def rows(self) -> "DataFrame":
        """All that is there, whether it counts or not."""
        columns = {"wave": "string", **row_columns()}
        reader = self.spark.read.format(self.format)
        if self.format in FILES:
            reader = reader.schema(columns_text(columns))
        try:
            return reader.load(self.place.text).select(*columns)
        except Exception as problem:
            if is_missing(problem):
                return self.spark.createDataFrame([], columns_text(columns))
            raise self.refused(problem) from problem

    def refused(self, problem: Exception) -> Exception:
        """The same in a sentence, if it is about the place."""
        known = meaning_of_storage(problem, self.place, self.format)
        if known is not None:
            return known
        if "CONFLICTING_PARTITION" in str(problem) or "Conflicting directory structures" in str(problem):
            return UsageError(f"{self.place} holds something else than a sweep; name another folder")
        return problem

    def counting(self) -> Counting:
        """A look at the names of runs and waves alone."""
        from pyspark.sql import functions as F

        rows = self.rows()
        try:
            # As they stand: few are there twice, and to find those would take a shuffle.
            found = rows.where(F.col("table").isin(ENDS, RESULTS)).select("wave", "table", "run").collect()
        except Exception as problem:
            raise self.refused(problem) from problem
        waves = sorted({row.wave for row in found if row.table == ENDS})
        ended, latest = set(waves), dict[str, str]()
        places = [(row.wave, row.run) for row in found if row.table == RESULTS and row.wave in ended]
        for wave, run in places:
            latest[run] = max(wave, latest.get(run, wave))
        return Counting(waves, sorted({(wave, run) for wave, run in places if latest[run] != wave}))

    def of(self, table: str, columns: Sequence[str], counting: Counting | None = None) -> "DataFrame":
        """Rows that count."""
        from pyspark.sql import functions as F

        counting = counting or self.counting()
        rows = self.rows().where((F.col("table") == table) & F.col("wave").isin(counting.waves))
        if counting.superseded:
            old = self.spark.createDataFrame(counting.superseded, "wave string, run string")
            rows = rows.join(F.broadcast(old), on=["wave", "run"], how="left_anti")
        return rows.select(*columns)

    def results(self, counting: Counting | None = None) -> "DataFrame":
        return self.of(RESULTS, list(RESULT_COLUMNS), counting)

    def traces(self, counting: Counting | None = None) -> "DataFrame":
        return self.of(TRACES, list(trace_columns()), counting)

    def results_of(self, ids: Iterable[str], counting: Counting | None = None) -> "DataFrame":
        """Of these runs, in the order of what they are."""
        from pyspark.sql import functions as F

        asked = self.spark.createDataFrame([(id,) for id in ids], "run string")
        found = self.results(counting).join(F.broadcast(asked), on="run", how="left_semi")
        return found.select(*RESULT_COLUMNS).orderBy(*RUN_COLUMNS)

    def write(self, rows: "DataFrame", wave: str) -> None:
        """Add these to a wave. Waves may be written at the same time, so each has a folder of its own."""
        from pyspark.sql import functions as F

        if self.format in FILES:
            place, parts = self.place / f"wave={wave}", ["table"]
        else:
            place, parts, rows = self.place, ["wave", "table"], rows.withColumn("wave", F.lit(wave))
        rows.write.format(self.format).mode("append").partitionBy(*parts).save(place.text)

    def end(self, wave: str) -> None:
        """From now on the wave counts."""
        columns = columns_text(row_columns())
        row = dict.fromkeys(row_columns()) | {"table": ENDS}
        self.write(self.spark.createDataFrame([tuple(row.values())], columns).coalesce(1), wave)


def wave_name(number: int) -> str:
    """Later waves come later in the alphabet; the rest keeps what was cut off apart."""
    return f"{number:0{WAVE_DIGITS}}-{secrets.token_hex(4)}"


def wave_number(name: str) -> int:
    return int(name.partition("-")[0])


def read_results(spark: "SparkSession", folder: str | Path | Place, format: str = PARQUET) -> "DataFrame":
    """Of all runs that are finished in this folder."""
    return SweepTable(spark, folder, format).results()


def read_traces(spark: "SparkSession", folder: str | Path | Place, format: str = PARQUET) -> "DataFrame":
    """Of all runs that are finished in this folder."""
    return SweepTable(spark, folder, format).traces()


def runs_frame(spark: "SparkSession", runs: Iterable[Run]) -> "DataFrame":
    rows = [(run.experiment, run.variant, run.parameters_text, run.seed) for run in runs]
    return spark.createDataFrame(rows, columns_text(RUN_COLUMNS))


def given_runs(runs: "DataFrame | Iterable[Run]") -> list[Run]:
    from pyspark.sql import DataFrame

    if not isinstance(runs, DataFrame):
        return list(runs)
    missing = [name for name in RUN_COLUMNS if name not in runs.columns]
    if missing:
        raise UsageError(f"the table of runs lacks {', '.join(missing)}; its columns are {', '.join(RUN_COLUMNS)}")
    return [run_of_row(*row) for row in runs.select(*RUN_COLUMNS).collect()]


def task_frame(spark: "SparkSession", tasks: Sequence[Sequence[Run]]) -> "DataFrame":
    """The text of each run, one partition for each task."""
    rows = [(task, run.text()) for task, runs in enumerate(tasks) for run in runs]
    return spark.createDataFrame(rows, columns_text(TASK_COLUMNS)).repartitionById(len(tasks), "task").select("text")


@cache
def row_schema() -> Any:
    """Of the rows that a worker makes, in Arrow."""
    import pyarrow

    types = {
        "string": pyarrow.string(),
        "bigint": pyarrow.int64(),
        "double": pyarrow.float64(),
        "boolean": pyarrow.bool_(),
        "map<string, double>": pyarrow.map_(pyarrow.string(), pyarrow.float64()),
    }
    return pyarrow.schema([(name, types[kind]) for name, kind in row_columns().items()])
