"""The driver's side of a sweep: hand out the runs, watch the folder, and outlive workers that die.

Runs go out as a table in which each task has a partition of its own, and `mapInArrow` performs what it finds there.
Spark's answer is of no interest; results are in the folder.

When a worker dies (a crash in compiled code, no memory left), Spark tries the task again, and gives up the whole job
after a few times. Nobody then tells which run it was; but it has left a draft, as have the few runs that happened to be
under way elsewhere. Each of these is now tried alone, in a job of its own. If the worker dies again, that is what came
of the run, and it becomes a failed row. Then the rest goes on.

The job runs in a thread. Ours looks into the folder meanwhile, and tells who wants to know how far it is; if it is
interrupted, it ends the job, and whatever else this session does, as Ctrl-C does in PySpark.

A failed job is a text of hundreds of lines, most of them Java's. Three cases matter: a worker is no more, and then
perhaps Python's last words are in the text (`faulthandler`); our own code in the worker refused, and says why; or it is
Spark's own trouble, which is left as it is.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.model.errors import UsageError
from tidings.spark.sweeps.folder import (
    Progress,
    SweepTally,
    given_runs,
    open_folder,
    read_traces,
    results_of,
    task_frame,
)
from tidings.spark.sweeps.performer import RunPlace, perform, record
from tidings.spark.sweeps.run import Run, distinct_runs, outcome_of, parse_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PYTHON_DIED, EXECUTOR_DIED = "Python worker exited unexpectedly", "ExecutorLostFailure"

LAST_WORDS = re.compile(r"Fatal Python error: .*")
FRAME = re.compile(r'^  File "(?:.*/)?([^/"]+)", line (\d+) in (\S+)$', re.MULTILINE)
FRAMES_MAX = 6

EXECUTOR_REASON = re.compile(r"ExecutorLostFailure \(.*?\) Reason: (.*)")

REFUSED = re.compile(rf"^{re.escape(f'{UsageError.__module__}.{UsageError.__name__}')}: (.*)$", re.MULTILINE)

SILENT = "it said nothing, so it exited by itself, or was killed by a signal, for want of memory perhaps"


class WorkerDied(Exception):
    """In the middle of what it was told to do."""


def meaning(problem: Exception) -> Exception:
    """The same problem as an exception that says what it is."""
    text = str(problem)
    if PYTHON_DIED in text or EXECUTOR_DIED in text:
        return WorkerDied(last_words(text))
    refused = REFUSED.search(text)
    return UsageError(refused[1]) if refused is not None else problem


def last_words(text: str) -> str:
    """How the worker died; for a crash with the innermost frames of Python, innermost first."""
    said = LAST_WORDS.search(text)
    if said is None:
        reason = EXECUTOR_REASON.search(text)
        return reason[1] if reason is not None else SILENT
    # What Spark says comes several times over; the frames of the first time are enough.
    frames = [f"{file}, line {line}, in {name}" for file, line, name in FRAME.findall(text, said.end())[:FRAMES_MAX]]
    return " <- ".join([said[0].removeprefix("Fatal Python error: "), *frames])


LOOK_SECONDS = 0.2
"""Between two looks into the folder."""

CANCEL_SECONDS = 1.0
"""Between two attempts to end a job."""

LATE_SECONDS_MAX = 60.0
"""NFS keeps what it knows of a folder for so long."""


class Sweep(NamedTuple):
    results: "DataFrame"
    """A row for each run asked for (`run.py`)."""
    traces: "DataFrame"
    """Of all runs in the folder, with the columns of `trace/record.py`."""
    runs: int
    """Asked for, each counted once."""
    failed: int
    skipped: int
    """Those that were finished before."""


def sweep(
    spark: "SparkSession",
    runs: "DataFrame | Iterable[Run]",
    folder: str | Path,
    *,
    traces: bool = True,
    progress: Callable[[Progress], None] | None = None,
    retry_failed: bool = True,
    runs_per_task: int = 1,
) -> Sweep:
    """Perform those of the runs that are not finished in this folder yet.

    Runs that failed before are performed again unless `retry_failed` is off, as whatever made them fail may be mended;
    so are runs whose trace is missing, if traces are wanted. A task costs Spark a tenth of a second, so give many tiny
    runs several to a task. The folder must be one that all workers see. A finished run is never out of date, so a
    changed experiment needs another folder.
    """
    if runs_per_task < 1:
        raise UsageError(f"runs_per_task is {runs_per_task}; a task performs at least 1")
    wanted = distinct_runs(given_runs(runs))
    place = RunPlace(open_folder(folder), Path.cwd(), traces)
    tally = SweepTally(place.folder, list(wanted))
    discard_unfinished(tally, list(wanted), traces, retry_failed)
    waiting = [wanted[id] for id in tally.waiting]
    Driver(spark, place, tally, progress or (lambda told: None)).finish(waiting, runs_per_task)
    return Sweep(
        results=results_of(spark, place.folder, wanted),
        traces=read_traces(spark, place.folder.path),
        runs=len(wanted),
        failed=len(tally.failed),
        skipped=len(wanted) - len(waiting),
    )


def discard_unfinished(tally: SweepTally, ids: list[str], traces: bool, retry_failed: bool) -> None:
    """Forget results that do not count."""
    for id in ids:
        if id in tally.failed:
            is_wanted_again = retry_failed
        else:
            is_wanted_again = traces and id not in tally.waiting and not tally.folder.trace(id).exists()
        if is_wanted_again:
            tally.discard(id)
    tally.begin()


class Driver:
    def __init__(
        self, spark: "SparkSession", place: RunPlace, tally: SweepTally, tell: Callable[[Progress], None]
    ) -> None:
        self.spark, self.place, self.tally, self.tell = spark, place, tally, tell

    def finish(self, waiting: list[Run], runs_per_task: int) -> None:
        """When it returns, each of these has its result."""
        folder = self.place.folder
        folder.forget_drafts()
        self.tell(self.tally.progress())
        while waiting:
            try:
                self.perform(waiting, runs_per_task)
            except WorkerDied as death:
                suspects = [run for run in waiting if run.id in self.tally.waiting and folder.is_begun(run.id)]
                if not suspects:
                    raise UsageError(f"a worker died before it began a run: {death}; does it have memory?") from None
                for run in suspects:
                    self.try_alone(run)
                waiting = [run for run in waiting if run.id in self.tally.waiting]
            else:
                break
        folder.forget_drafts()
        self.wait_for_files()
        if self.tally.waiting:
            raise UsageError(
                f"{len(self.tally.waiting)} runs were performed, but {folder.path} has no results of them; "
                "name a folder on a file system that all machines share"
            )

    def wait_for_files(self) -> None:
        """All runs are performed, but a file system that machines share may show it late."""
        give_up_at = time.monotonic() + LATE_SECONDS_MAX
        self.look()
        while self.tally.waiting and time.monotonic() < give_up_at:
            time.sleep(LOOK_SECONDS)
            self.look()

    def try_alone(self, run: Run) -> None:
        self.place.folder.forget_drafts()
        begun = time.perf_counter()
        try:
            self.perform([run], 1)
        except WorkerDied as death:
            error = f"the worker died, also with nothing else to do: {death}"
            record(outcome_of(run, time.perf_counter() - begun, {}, error), self.place.folder, self.place.folder.drafts)
            self.look()

    def perform(self, runs: list[Run], runs_per_task: int) -> None:
        """One job; the folder is watched until it ends."""
        from pyspark import InheritableThread

        tasks = task_frame(self.spark, runs, runs_per_task)
        problems: list[Exception] = []

        def work() -> None:
            try:
                tasks.mapInArrow(partial(perform_batches, self.place), "run string").collect()
            except Exception as problem:
                problems.append(problem)

        job = InheritableThread(work, session=self.spark)
        job.start()
        try:
            while job.is_alive():
                job.join(LOOK_SECONDS)
                self.look()
        except BaseException:
            # A tag would not do: a local session finds it only in the thread that runs the job. Again and again,
            # because the job may not have got as far as being one.
            while job.is_alive():
                self.spark.interruptAll()
                job.join(CANCEL_SECONDS)
            raise
        for problem in problems:
            raise meaning(problem) from problem

    def look(self) -> None:
        if self.tally.look():
            self.tell(self.tally.progress())


def perform_batches(place: RunPlace, batches: Iterable[Any]) -> Iterator[Any]:
    """In a worker: each row of the batches is the text of a run. Answers with the runs that it was given."""
    for batch in batches:
        for text in batch.column("run").to_pylist():
            run = parse_run(text)
            # Of a task that is tried again some runs may be finished.
            if not place.folder.result(run.id).exists():
                perform(run, place)
        yield batch
