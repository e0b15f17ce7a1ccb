"""`python -m bench.live_writing`: what a row costs on its way from Spark to a broker, and what of it is exactly once.

One broker process takes the events; what tasks and the driver do is done here, in one process and without Spark, so
that nothing else is measured. In turns, round after round, the same rows are published:

- *plain client*: as events that are encoded already;
- *each task by itself*: two tasks encode their rows and publish them in the order they come, which is what a batch
  write does, and what streams did before rows were ordered by content;
- *stream, by content*: two tasks encode and sort their rows and hand them over, pickled; the driver puts them in one
  order, makes a digest and publishes them (`sink.py`);
- *stream, by idColumn*: the same, rows told apart by a column.

The steps of a stream are timed one by one. `--page` writes docs/benchmarks.md.
"""

import argparse
import asyncio
import os
import pickle
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pyarrow
from pyspark.sql.types import BinaryType, DoubleType, LongType, StringType, StructField, StructType
from rich.console import Console

from bench.live_events import ADVERTISED, PAYLOAD, ROOT, attributes
from bench.live_spark import broker
from bench.report import SINK_SECTION, Grid, machine, markdown, print_grid, target_grid, with_section
from bench.targets import Target
from bench.watch import TICKS
from tidings.net.client.connection import connect
from tidings.spark.live.encoder import Encoder
from tidings.spark.live.options import Options
from tidings.spark.live.sink import StagedRows, TidingsStreamWriter, TidingsWriter

ROWS, ROWS_QUICK = 100_000, 5_000
ROUNDS, ROUNDS_QUICK = 3, 1
TASKS, BATCH_ROWS = 2, 10_000
TEXTS = ("id", "source", "type", "time", "symbol")
SCHEMA = StructType(
    [
        *(StructField(name, StringType()) for name in TEXTS),
        StructField("price", DoubleType()),
        StructField("volume", LongType()),
        StructField("payload", BinaryType()),
    ]
)
STEPS = ("tasks: encode and sort", "hand over, pickled", "driver: one order", "driver: digest and publish")
PAGE = ROOT / "docs" / "benchmarks.md"
MICRO = 1e6
CAPTION = """\
Written by `python -m bench.live_writing --page`. {rows:,} rows of seven attributes and 64 bytes of payload, one broker,
{tasks} tasks; medians of {rounds} rounds in which all take turns. What tasks and the driver do is done in one process
without Spark: Python is that process, CPU time of both. *Each task by itself* publishes rows in the order they come, as
batch writes do, and as streams did before they were exactly once by content; *stream* sorts them, hands them to the
driver, and publishes them from there."""


class Written(NamedTuple):
    """Seconds: of CPU here and in the broker, and on the wall."""

    python: float
    broker: float
    wall: float

    @property
    def cpu(self) -> float:
        return self.python + self.broker


def make_batches(rows: int) -> list[list[pyarrow.RecordBatch]]:
    """Of each task."""
    made: list[list[pyarrow.RecordBatch]] = []
    for task in range(TASKS):
        numbers = range(task, rows, TASKS)
        parts = [numbers[place : place + BATCH_ROWS] for place in range(0, len(numbers), BATCH_ROWS)]
        made.append([pyarrow.RecordBatch.from_pylist([row_of(number) for number in part]) for part in parts])
    return made


def row_of(number: int) -> dict[str, Any]:
    return {**attributes(number), "payload": PAYLOAD}


class Work:
    def __init__(self, url: str, rows: int) -> None:
        self.url, self.batches = url, make_batches(rows)
        self.encoded = [Encoder(SCHEMA).events(batch) for task in self.batches for batch in task]
        self.steps: dict[str, list[float]] = {step: [] for step in STEPS}

    def options(self, **others: Any) -> Options:
        return Options(url=self.url, advertise=ADVERTISED, **others)

    def plain(self) -> None:
        async def publish() -> None:
            async with connect(self.url) as client:
                await client.advertise(ADVERTISED)
                for heads, payloads in self.encoded:
                    await client.publish_encoded(heads, payloads)
                await client.flush()

        asyncio.run(publish())

    def each_task(self) -> None:
        writer = TidingsWriter(SCHEMA, self.options())
        for task, batches in enumerate(self.batches):
            writer.publish(f"spark.{writer.job}.{task}", iter(batches), is_again=False)

    def stream(self, **options: Any) -> None:
        writer, query = TidingsStreamWriter(SCHEMA, self.options(**options)), secrets.token_hex(8)
        with self.step(STEPS[0]):
            staged = [writer.stage(query, iter(batches)) for batches in self.batches]
        with self.step(STEPS[1]):
            messages: list[StagedRows] = [pickle.loads(pickle.dumps(each)) for each in staged]
        with self.step(STEPS[2]):
            rows = sorted(row for each in messages for row in each.rows)
        with self.step(STEPS[3]):
            writer.publish(query, 0, rows)

    def step(self, name: str) -> "StepTimer":
        return StepTimer(self.steps[name])


class StepTimer:
    def __init__(self, seconds: list[float]) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        self.began = time.process_time()

    def __exit__(self, *problem: object) -> None:
        self.seconds.append(time.process_time() - self.began)


def broker_seconds() -> float:
    """Of CPU, of the broker, which is the one child of this process."""
    (child,) = (int(text) for text in children())
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def children() -> Iterator[str]:
    own = f"/proc/{os.getpid()}/task"
    for task in os.listdir(own):
        yield from Path(own, task, "children").read_text().split()


def measured(work: Callable[[], None]) -> Written:
    python, there, wall = time.process_time(), broker_seconds(), time.perf_counter()
    work()
    return Written(time.process_time() - python, broker_seconds() - there, time.perf_counter() - wall)


def measure(work: Work, rounds: int) -> dict[str, Written]:
    ways: dict[str, Callable[[], None]] = {
        "plain client": work.plain,
        "each task by itself": work.each_task,
        "stream, by content": work.stream,
        "stream, by idColumn": lambda: work.stream(id_columns=("id",)),
    }
    found: dict[str, list[Written]] = {name: [] for name in ways}
    for place in range(-1, rounds):
        for name, way in ways.items():
            figures = measured(way)
            # The first time is for the machine to get ready.
            if place >= 0:
                found[name].append(figures)
    return {name: Written(*map(median, zip(*figures, strict=True))) for name, figures in found.items()}


def grids(found: dict[str, Written], steps: dict[str, list[float]], rows: int) -> list[Grid]:
    ways = [
        [name, *(f"{MICRO * it / rows:.2f}" for it in (way.python, way.broker, way.cpu)), f"{rows / way.wall:,.0f}"]
        for name, way in found.items()
    ]
    # Of the first way to write a stream in each round; the one behind it is by idColumn.
    parts = [
        [step, *(f"{MICRO * median(seconds[place::2]) / rows:.2f}" for place in (0, 1))]
        for step, seconds in steps.items()
    ]
    ratio = found["stream, by content"].cpu / found["each task by itself"].cpu
    return [
        Grid("CPU time a row", ["Python, us", "broker, us", "both, us", "rows/s, wall"], ways),
        Grid("steps of a stream", ["by content, us", "by idColumn, us"], parts),
        target_grid([Target("stream, by content / each task by itself", None, False, ratio, "x")]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.live_writing", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rows, one round")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks.md")
    given = parser.parse_args()
    rows, rounds = (ROWS_QUICK, ROUNDS_QUICK) if given.quick else (ROWS, ROUNDS)
    with broker() as url:
        work = Work(url, rows)
        found = measure(work, rounds)
    shown = grids(found, work.steps, rows)
    for grid in shown:
        print_grid(Console(width=None if sys.stdout.isatty() else 120), grid)
    print(machine())
    if given.page:
        parts = [SINK_SECTION, CAPTION.format(rows=rows, tasks=TASKS, rounds=rounds), machine()]
        text = "\n\n".join([*parts, *map(markdown, shown)]) + "\n"
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), SINK_SECTION, text), encoding="utf-8")


if __name__ == "__main__":
    main()
