"""What a sweep leaves on disk, counted while it goes on, and read as DataFrames.

Its folder is all that drivers and workers share:

    traces/run=ID/trace.parquet      what happened in the run
    results/run=ID/result.parquet    one row: what came of it; when it is there, the run is finished
    drafts/ID.XXXXXXXX/              what a worker is writing at this moment

Both files are written as drafts and renamed, the trace first: a file that is there is whole, and a result that is there
has its trace, whatever process is killed. (After a power cut the last files may be empty: remove them.) Two workers
that perform the same run (Spark may start a task a second time before it knows that the first is lost) do not disturb
each other, and whichever comes last puts the same bytes in the place of the others'.

A draft that stays is the mark of a worker that died in this run. A folder is for one sweep at a time, which removes old
drafts when it begins.

What is done of a sweep, counted by looking into its folder. Workers tell nobody that a run is finished: its file
appears. So a count needs nothing of Spark, is right after a restart, and is the same whether the session is here or
remote.

The tables of a sweep as DataFrames: runs in, tasks, results and traces out. Results and traces are read with the
columns that they are known to have, never with columns guessed from the files, so an empty folder gives an empty table
and a run named like a number stays text. The name of the run is in the files and in the name of their folder, and is
the same.
"""

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidings.model.errors import UsageError
from tidings.spark.sweeps.run import COLUMNS, FAILED, Run, read_status, run_of_row
from tidings.trace.record import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESULT, TRACE = "result.parquet", "trace.parquet"


class Folder(msgspec.Struct, frozen=True):
    path: Path
    """Absolute: workers have another idea of where they are."""

    @property
    def results(self) -> Path:
        return self.path / "results"

    @property
    def traces(self) -> Path:
        return self.path / "traces"

    @property
    def drafts(self) -> Path:
        return self.path / "drafts"

    def result(self, id: str) -> Path:
        return self.results / f"run={id}" / RESULT

    def trace(self, id: str) -> Path:
        return self.traces / f"run={id}" / TRACE

    def is_begun(self, id: str) -> bool:
        """Whether somebody began this run and did not come to its end."""
        return any(self.drafts.glob(f"{id}.*"))

    def forget_drafts(self) -> None:
        shutil.rmtree(self.drafts, ignore_errors=True)
        self.drafts.mkdir(exist_ok=True)


def open_folder(path: str | Path) -> Folder:
    """The folder, made where it is missing. Workers make none: theirs would be on another machine."""
    folder = Folder(Path(path).resolve())
    try:
        for place in (folder.results, folder.traces, folder.drafts):
            place.mkdir(parents=True, exist_ok=True)
        probe = folder.drafts / f"probe.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as problem:
        raise UsageError(f"cannot write to the folder {path}: {problem.strerror}; name one that is yours") from None
    return folder


def put(draft: Path, place: Path) -> None:
    place.parent.mkdir(exist_ok=True)
    draft.replace(place)


class Progress(msgspec.Struct, frozen=True):
    total: int
    """Runs asked for."""
    done: int
    """Those that are finished, also by earlier sweeps and by failing."""
    failed: int
    seconds_left: float | None
    """As far as one can tell from those done so far; None before the first."""


class SweepTally:
    def __init__(self, folder: Folder, ids: list[str]) -> None:
        self.folder, self.total = folder, len(ids)
        self.waiting = dict.fromkeys(ids)
        """Runs without a result."""
        self.failed: dict[str, None] = {}
        self.begin()

    def begin(self) -> None:
        """From now on time counts."""
        self.look()
        self.begun_at, self.waiting_at_begin = time.monotonic(), len(self.waiting)

    def look(self) -> bool:
        """Whether there is anything new."""
        with os.scandir(self.folder.results) as entries:
            ids = [entry.name.removeprefix("run=") for entry in entries]
        finished = [id for id in ids if id in self.waiting and self.folder.result(id).exists()]
        for id in finished:
            del self.waiting[id]
            if read_status(self.folder.result(id)) == FAILED:
                self.failed[id] = None
        return bool(finished)

    def discard(self, id: str) -> None:
        """Forget that this run was finished; it is to be performed again."""
        self.folder.result(id).unlink()
        self.failed.pop(id, None)
        self.waiting[id] = None

    def progress(self) -> Progress:
        done_now = self.waiting_at_begin - len(self.waiting)
        seconds_each = (time.monotonic() - self.begun_at) / done_now if done_now else None
        return Progress(
            total=self.total,
            done=self.total - len(self.waiting),
            failed=len(self.failed),
            seconds_left=None if seconds_each is None else seconds_each * len(self.waiting),
        )


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
