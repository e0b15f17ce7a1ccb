"""`python -m bench.live_reading`: what an event costs on its way from a broker into Spark, in CPU time.

One broker process stores the events. In turns, round after round, a Spark of two cores reads them into nowhere:

- *14 columns* (no schema given) and *3 columns*;
- *structs*: the same source as it was before pages became columns by a kernel (`live_structs.py`);
- *Parquet*: the same rows from files that Spark wrote itself, with its own settings;
- *floor*: ready-made record batches of the same columns, from a source that does nothing (`live_floor.py`);
- *plain client*: pages of history without looking at the events; and as events, decoded, which is what a consumer of a
  log would do.

`--before FOLDER` reads from a broker and a source of another version beside them, whole and unchanged: a folder with a
checkout of it, in which whatever the broker and the client did then is measured too.

CPU time of all threads of the broker, of Python (tasks: fetching and decoding) and of Java, by the process table, an
event. Wall-clock rates on a busy machine say how busy it was; CPU time hardly moves, so targets are ratios of the sum
over all processes: with all cores at work that is what the rate is. `--quick` takes fewer events.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.live_events import ROOT, STORED, publish_encoded
from tidings.net.client.connection import connect

EVENTS, EVENTS_QUICK = 1_000_000, 20_000
ROUNDS, ROUNDS_QUICK = 3, 1
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = ROOT / "docs" / "benchmarks.md"
TABLE_CHARS = 160
NOTHING = "price < 0"
"""What nobody advertises, so that no broker looks for it."""
THREE = "symbol string, price double, volume long"
ALSO_BEFORE = ("14", "3", "nothing", "pages", "events")
ONLY_NOW = ("structs 14", "structs 3", "parquet 14", "parquet 3", "parquet nothing", "floor 14", "floor 3")


class Spent(NamedTuple):
    """Seconds: of CPU in the broker, in Python and in Java, and on the wall."""

    broker: float
    python: float
    java: float
    wall: float

    @property
    def cpu(self) -> float:
        return self.broker + self.python + self.java


# The process table.


def cpu_seconds(pids: list[int]) -> float:
    """Of these processes, and of their children that have ended."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def family(pid: int) -> dict[str, list[int]]:
    """This process and all below it, those that run Java apart."""
    found: dict[str, list[int]] = {"java": [], "python": []}
    todo = [pid]
    while todo:
        one = todo.pop()
        try:
            name = Path(f"/proc/{one}/comm").read_text().strip()
            children = [
                Path(f"/proc/{one}/task", task, "children").read_text() for task in os.listdir(f"/proc/{one}/task")
            ]
        except FileNotFoundError:
            continue
        found["java" if name == "java" else "python"].append(one)
        todo += [int(child) for line in children for child in line.split()]
    return found


# A version of the program: its broker, and a Spark that reads from it.


class Version:
    """Both processes run from a folder with a checkout; `read` tells the second what to read."""

    def __init__(self, folder: Path) -> None:
        paths = os.pathsep.join([str(folder / "src"), str(ROOT)])
        environment = {**os.environ, **STORED, "PYTHONPATH": paths}
        broker = [sys.executable, "-m", "tidings", "broker", "--listen", "127.0.0.1:0", "--json", "--log", "error"]
        self.broker = subprocess.Popen(broker, stdout=subprocess.PIPE, env=environment, cwd=folder)
        assert self.broker.stdout is not None
        self.url = f"tidings://{json.loads(self.broker.stdout.readline())['listen']}"
        reader = [sys.executable, "-m", "bench.live_reading", "--serve", self.url]
        self.reader = subprocess.Popen(
            reader, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT, text=True
        )

    def ask(self, what: str) -> Spent:
        assert self.reader.stdin is not None and self.reader.stdout is not None
        before, began = self.cpu(), time.perf_counter()
        self.reader.stdin.write(f"{what}\n")
        self.reader.stdin.flush()
        if not self.reader.stdout.readline():
            raise RuntimeError(f"{what}: the reader ended")
        wall, after = time.perf_counter() - began, self.cpu()
        broker, python, java = (after[name] - before[name] for name in ("broker", "python", "java"))
        return Spent(broker, python, java, wall)

    def cpu(self) -> dict[str, float]:
        readers = family(self.reader.pid)
        spent = {name: cpu_seconds(pids) for name, pids in readers.items()}
        return {"broker": cpu_seconds([self.broker.pid]), **spent}

    def close(self) -> None:
        assert self.reader.stdin is not None
        self.reader.stdin.close()
        self.reader.wait()
        self.broker.terminate()
        self.broker.wait()


@contextmanager
def version(folder: Path) -> Iterator[Version]:
    made = Version(folder)
    try:
        yield made
    finally:
        made.close()


# What the reading process does, of whichever version it is.


def serve(url: str) -> None:
    """Do what is asked for, line by line, and say when it is done."""
    from tidings.spark.session import open_session

    with tempfile.TemporaryDirectory() as folder:
        spark = open_session("local[2]", settings={"spark.sql.warehouse.dir": str(Path(folder, "warehouse"))})
        stored = str(Path(folder, "stored"))

        def live(name: str, schema: str | None, filter: str = "TRUE") -> Any:
            reader = spark.read.format(name).option("url", url).option("filter", filter)
            return (reader.schema(schema) if schema else reader).load()

        def discard(rows: Any) -> None:
            rows.write.format("noop").mode("overwrite").save()

        def register() -> None:
            from bench.live_floor import FloorSource
            from bench.live_structs import StructSource

            spark.dataSource.register(StructSource)
            spark.dataSource.register(FloorSource)

        def floor(schema: str | None) -> Any:
            reader = spark.read.format("tidings_floor").option("events", str(published[0]))
            return (reader.schema(schema) if schema else reader).load()

        published: list[int] = []

        works: dict[str, Callable[[], object]] = {
            "14": lambda: discard(live("tidings", None)),
            "3": lambda: discard(live("tidings", THREE)),
            "nothing": lambda: discard(live("tidings", THREE, NOTHING)),
            "parquet nothing": lambda: discard(spark.read.parquet(stored).where("number < 0")),
            "register": register,
            "structs 14": lambda: discard(live("tidings_structs", None)),
            "structs 3": lambda: discard(live("tidings_structs", THREE)),
            "floor 14": lambda: discard(floor(None)),
            "floor 3": lambda: discard(floor(THREE)),
            "store": lambda: live("tidings", None).write.parquet(stored),
            "parquet 14": lambda: discard(spark.read.parquet(stored)),
            "parquet 3": lambda: discard(spark.read.parquet(stored).select("symbol", "price", "volume")),
            "pages": lambda: asyncio.run(read_pages(url, with_events=False)),
            "events": lambda: asyncio.run(read_pages(url, with_events=True)),
        }
        for line in sys.stdin:
            name, _, events = line.strip().partition("publish ")
            if events:
                published.append(int(events))
                asyncio.run(publish_encoded(url, "desk", int(events)))
            else:
                works[name]()
            print("done", flush=True)
        spark.stop()


async def read_pages(url: str, with_events: bool) -> None:
    async with connect(url) as client:
        for mark in (await client.marks("TRUE")).marks:
            async for page in client.history("TRUE", mark.publisher, through=mark.through):
                if with_events:
                    for event in page.events():
                        _ = event.attributes


# The run.


def measure(now: Version, before: Version | None, rounds: int) -> dict[str, Spent]:
    """The median of each figure."""
    now.ask("register")
    now.ask("store")
    works: dict[str, tuple[Version, str]] = {name: (now, name) for name in ONLY_NOW}
    for when, where in (("now", now), ("before", before)):
        if where is not None:
            works |= {f"{when} {name}": (where, name) for name in ALSO_BEFORE}
    spent: dict[str, list[Spent]] = {name: [] for name in works}
    for place in range(-1, rounds):
        for name, (where, what) in works.items():
            figures = where.ask(what)
            # The first time is for the machine to get ready.
            if place >= 0:
                spent[name].append(figures)
    return {name: Spent(*map(median, zip(*rows, strict=True))) for name, rows in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.live_reading", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few events, one round")
    parser.add_argument("--before", type=Path, help="a checkout of another version, to be read beside this one")
    parser.add_argument("--serve", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    # Whatever an earlier version may not have is imported here, and not by the process that reads.
    from rich.console import Console

    from bench import live_report
    from bench.report import READING_SECTION, print_grid, with_section

    count, rounds = (EVENTS_QUICK, ROUNDS_QUICK) if given.quick else (EVENTS, ROUNDS)
    with ExitStack() as open_now:
        now = open_now.enter_context(version(ROOT))
        before = open_now.enter_context(version(given.before.resolve())) if given.before else None
        for each in filter(None, (now, before)):
            each.ask(f"publish {count}")
        print(f"{count} events, {rounds} rounds; load {os.getloadavg()[0]:.1f}; CPU us an event")
        spent = measure(now, before, rounds)
    found = live_report.grids(spent, count)
    console = Console(width=None if sys.stdout.isatty() else TABLE_CHARS)
    for grid in found:
        print_grid(console, grid)
    if not given.quick:
        section = live_report.section(found, count, rounds)
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), READING_SECTION, section), encoding="utf-8")


if __name__ == "__main__":
    main()
