"""The tables of a sweep as DataFrames: runs in, tasks, results and traces out.

Results and traces are read with the columns that they are known to have, never with columns guessed from the files, so
an empty folder gives an empty table and a run named like a number stays text. The name of the run is in the files and
in the name of their folder, and is the same.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.model.errors import UsageError
from tidings.spark.sweeps.folder import RESULT, TRACE, Folder
from tidings.spark.sweeps.outcome import COLUMNS
from tidings.spark.sweeps.run import Run, run_of_row
from tidings.trace.record import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUN_COLUMNS = {"experiment": "string", "variant": "string", "parameters": "string", "seed": "bigint"}
TASK_COLUMNS = {"task": "int", "run": "string"}

SPARK_TYPES = {"string": "string", "int64": "bigint", "double": "double"}


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


def task_frame(spark: "SparkSession", runs: Sequence[Run], runs_per_task: int) -> "DataFrame":
    """The text of each run, `runs_per_task` of them in each partition."""
    rows = [(place // runs_per_task, run.text()) for place, run in enumerate(runs)]
    frame = spark.createDataFrame(rows, columns_text(TASK_COLUMNS))
    return frame.repartitionById(rows[-1][0] + 1, "task").select("run")


def read_results(spark: "SparkSession", folder: str | Path) -> "DataFrame":
    """Of all runs that are finished in this folder."""
    return read_files(spark, Folder(Path(folder).resolve()).results, RESULT, COLUMNS)


def read_traces(spark: "SparkSession", folder: str | Path) -> "DataFrame":
    """Of all runs that are finished in this folder."""
    columns = {field.name: SPARK_TYPES[str(field.type)] for field in arrow_schema()}
    return read_files(spark, Folder(Path(folder).resolve()).traces, TRACE, columns)


def read_files(spark: "SparkSession", folder: Path, name: str, columns: dict[str, str]) -> "DataFrame":
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; name the folder of a sweep")
    return spark.read.schema(columns_text(columns)).option("pathGlobFilter", name).parquet(str(folder)).select(*columns)


def results_of(spark: "SparkSession", folder: Folder, ids: Iterable[str]) -> "DataFrame":
    """Of these runs, in the order of what they are."""
    asked = spark.createDataFrame([(id,) for id in ids], "run string")
    found = read_results(spark, folder.path).join(asked, on="run", how="left_semi")
    return found.select(*COLUMNS).orderBy(*RUN_COLUMNS)


def columns_text(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
