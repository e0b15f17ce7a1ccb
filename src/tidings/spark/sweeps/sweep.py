"""The driver's side of a sweep: waves of runs, as jobs of Spark, and what becomes of workers that die.

**Waves.** What a job writes is there when the job has ended, and not before. So a sweep is cut into waves: whatever
ends it, all waves that were finished are in its folder, and the next sweep into the same folder does what is missing.
The first wave is one run for each core. From then on it is known how long a run takes (`Pace`): a wave has as many as
take some twenty seconds, and a task as many as take a second, because a task costs Spark a twentieth of one. Two waves
are under way at a time, so that cores that have come to the end of one find work in the other.

**Runs that count.** A result that is there is taken if it is one of this experiment as it is now: runs that were made
with another definition (`provenance.py`) are performed anew, and counted as outdated, so that whoever asked is told.

**Workers that die** (a crash in compiled code, no memory left). Spark tries the task again, and gives up the whole job
after a few times; it names the task. The runs of that task are set aside, the others of the wave go back to those that
wait. At the end each that was set aside is tried alone, in a job of its own. If the worker dies again, that is what
came of the run, and it becomes a failed row.

Jobs run in threads. Ours tells who wants to know how far it is; if it is interrupted, it ends the jobs, and whatever
else this session does, as Ctrl-C does in PySpark.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tidings.model.errors import UsageError
from tidings.spark.place import Place
from tidings.spark.session import parallelism
from tidings.spark.sweeps.death import WorkerDied, meaning
from tidings.spark.sweeps.pace import Pace, Progress, SweepTally
from tidings.spark.sweeps.performer import Task, rows_of
from tidings.spark.sweeps.provenance import provenance_of
from tidings.spark.sweeps.run import Finished, Outcome, Run, distinct_runs, outcome_of, parse_run
from tidings.spark.sweeps.table import (
    CONCURRENT_WRITERS,
    PARQUET,
    RESULTS,
    SweepTable,
    columns_text,
    given_runs,
    row_columns,
    task_frame,
    wave_name,
    wave_number,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOK_SECONDS = 0.2
"""Between two looks at what has come."""

CANCEL_SECONDS = 1.0
"""Between two attempts to end jobs."""

WAVES_AT_ONCE = 2


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
    outdated: int
    """Those that were finished before with another definition of the experiment, and were performed anew."""


def sweep(
    spark: "SparkSession",
    runs: "DataFrame | Iterable[Run]",
    folder: str | Path | Place,
    *,
    traces: bool = True,
    format: str = PARQUET,
    progress: Callable[[Progress], None] | None = None,
    retry_failed: bool = True,
    runs_per_task: int | None = None,
) -> Sweep:
    """Perform those of the runs that are not finished in this folder yet.

    Runs that failed before are performed again unless `retry_failed` is off, as whatever made them fail may be mended;
    so are runs whose trace is missing, if traces are wanted, and runs of another definition of the experiment. How many
    runs a task performs follows from how long they take, unless it is given.
    """
    if runs_per_task is not None and runs_per_task < 1:
        raise UsageError(f"runs_per_task is {runs_per_task}; a task performs at least 1")
    wanted = distinct_runs(given_runs(runs))
    table = SweepTable(spark, folder, format)
    table.check()
    base = Path.cwd()
    made_with = {name: provenance_of(name, base) for name in sorted({run.experiment for run in wanted.values()})}
    task = Task(base, traces, made_with)
    tally = SweepTally(list(wanted))
    counting = table.counting()
    for row in table.results(counting).select("run", "status", "traced", "definition").collect():
        if row.run in wanted:
            tally.found(row, task, wanted[row.run].experiment, retry_failed)
    tally.begin()
    waiting = [wanted[id] for id in tally.waiting]
    first = max(map(wave_number, counting.waves), default=0) + 1
    driver = Driver(table, task, tally, progress or (lambda told: None), first)
    driver.finish(waiting, runs_per_task)
    counting = table.counting() if waiting else counting
    return Sweep(
        results=table.results_of(wanted, counting),
        traces=table.traces(counting),
        runs=len(wanted),
        failed=len(tally.failed),
        skipped=len(wanted) - len(waiting),
        outdated=tally.outdated,
    )


RunEnd = tuple[str, str, float]
"""A run, its status and its seconds."""


class Driver:
    def __init__(
        self, table: SweepTable, task: Task, tally: SweepTally, tell: Callable[[Progress], None], first_wave: int
    ) -> None:
        self.table, self.spark, self.task, self.tally, self.tell = table, table.spark, task, tally, tell
        self.next_number = first_wave
        self.waiting: deque[Run] = deque()
        self.suspects: dict[str, str] = {}
        """Runs in whose task a worker died, and its last words."""
        self.lock = Lock()
        self.told: SimpleQueue[list[RunEnd]] = SimpleQueue()

    def finish(self, waiting: list[Run], runs_per_task: int | None) -> None:
        """When it returns, each of these has its result."""
        self.tell(self.tally.progress())
        if not waiting:
            return
        self.waiting.extend(waiting)
        self.pace = Pace(parallelism(self.spark), runs_per_task)
        before = self.spark.conf.get(CONCURRENT_WRITERS, None)
        self.spark.conf.set(CONCURRENT_WRITERS, "4")
        try:
            # The first wave alone: nothing is known before it has ended.
            self.in_threads(self.first_wave)
            self.in_threads(*[self.waves] * WAVES_AT_ONCE)
            runs = {run.id: run for run in waiting}
            while self.suspects:
                id, _ = self.suspects.popitem()
                self.in_threads(partial(self.alone, runs[id]))
        finally:
            if before is None:
                self.spark.conf.unset(CONCURRENT_WRITERS)
            else:
                self.spark.conf.set(CONCURRENT_WRITERS, before)
        if self.tally.waiting:
            raise UsageError(
                f"{len(self.tally.waiting)} runs were performed, but {self.table.place} has no results of them; "
                "name a folder on a file system that all machines share"
            )

    def in_threads(self, *jobs: Callable[[], None]) -> None:
        """All of them at once; problems are raised here."""
        from pyspark import InheritableThread

        problems: list[Exception] = []

        def work(job: Callable[[], None]) -> None:
            try:
                job()
            except Exception as problem:
                problems.append(problem)

        threads = [InheritableThread(partial(work, job), session=self.spark) for job in jobs]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                self.listen()
                if problems:
                    break
            self.listen(0.0)
            for problem in problems:
                raise self.table.refused(meaning(problem)) from problem
        finally:
            # A tag would not do: a local session finds it only in the thread that runs the job. Again and again,
            # because a job may not have got as far as being one.
            while any(thread.is_alive() for thread in threads):
                self.waiting.clear()
                self.spark.interruptAll()
                for thread in threads:
                    thread.join(CANCEL_SECONDS)

    def listen(self, seconds: float = LOOK_SECONDS) -> None:
        """To what waves came to."""
        try:
            while True:
                ended = self.told.get(timeout=seconds) if seconds else self.told.get_nowait()
                for run, status, _ in ended:
                    self.tally.done(run, status)
                self.tell(self.tally.progress())
        except Empty:
            return

    def first_wave(self) -> None:
        self.perform(self.taken())

    def waves(self) -> None:
        while runs := self.taken():
            self.perform(runs)

    def taken(self) -> list[Run]:
        with self.lock:
            return [self.waiting.popleft() for _ in range(min(self.pace.wave(), len(self.waiting)))]

    def perform(self, runs: list[Run]) -> None:
        """One wave."""
        tasks = self.pace.tasks(runs)
        try:
            self.write(self.rows_of(tasks))
        except Exception as problem:
            death = meaning(problem)
            if not isinstance(death, WorkerDied):
                raise
            named = runs if death.task is None or death.task >= len(tasks) else tasks[death.task]
            with self.lock:
                self.suspects.update({run.id: str(death) for run in named})
                self.waiting.extend(run for run in runs if run.id not in self.suspects)

    def alone(self, run: Run) -> None:
        begun = time.perf_counter()
        try:
            self.write(self.rows_of([[run]]))
        except Exception as problem:
            death = meaning(problem)
            if not isinstance(death, WorkerDied):
                raise
            error = f"the worker died, also with nothing else to do: {death}"
            finished = Finished(time.perf_counter() - begun, error=error)
            outcome = outcome_of(run, finished, self.task.made_with[run.experiment], traced=False)
            self.write(self.spark.createDataFrame(row_of(outcome), columns_text(row_columns())).coalesce(1))

    def rows_of(self, tasks: list[list[Run]]) -> "DataFrame":
        """What comes of these when it is written."""
        frame = task_frame(self.spark, tasks)
        return frame.mapInArrow(partial(perform_batches, self.task), columns_text(row_columns()))

    def write(self, rows: "DataFrame") -> None:
        from pyspark.sql import functions as F

        with self.lock:
            wave, self.next_number = wave_name(self.next_number), self.next_number + 1
        self.table.write(rows, wave)
        self.table.end(wave)
        written = self.table.rows().where((F.col("wave") == wave) & (F.col("table") == RESULTS))
        found = [(row.run, row.status, row.seconds) for row in written.select("run", "status", "seconds").collect()]
        with self.lock:
            self.pace.learn([seconds for _, _, seconds in found])
        self.told.put(found)


def row_of(outcome: Outcome) -> list[dict[str, Any]]:
    """For Spark, which takes a map as a dict."""
    return [{**dict.fromkeys(row_columns()), "table": RESULTS, **msgspec.structs.asdict(outcome)}]


def perform_batches(task: Task, batches: Iterable[Any]) -> Iterator[Any]:
    """In a worker: each row of the batches is the text of a run. Answers with the rows of their results and traces."""
    texts = (text for batch in batches for text in batch.column("text").to_pylist())
    yield from rows_of(map(parse_run, texts), task)
