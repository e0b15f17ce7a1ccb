"""`python -m bench.workloads_spark`: how fast a workload is drawn and written, and how much memory that takes.

python -m bench.workloads_spark                      100 million events of the workload `content`, to Parquet
python -m bench.workloads_spark --quick              2 million
python -m bench.workloads_spark --workload quotes    another one
python -m bench.workloads_spark --keep FOLDER        leave the Parquet there

Three figures for each stage: rows a second by the clock; rows a second of CPU time, of all processes that take part
together, which the neighbours of a busy machine do not change; and the largest resident memory of these processes at
any one time, sampled several times a second. Pages that they share are counted once for each, so it is an upper bound.

    draw     rows are made in Python, without Spark, on one core
    plan     rows go through Spark and are thrown away
    write    rows go through Spark to Parquet
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.report import machine
from tidings.spark.session import open_session
from tidings.spark.workloads import frame, read, write
from tidings.spark.workloads.tables import batch
from tidings.workloads.registry import make
from tidings.workloads.table import Table
from tidings.workloads.workload import Workload

EVENTS, EVENTS_QUICK = 100_000_000, 2_000_000
DRAWN_CHUNKS = 16
SAMPLE_EVERY = 0.2
MEMORY_SHARE_GIB = 12
"""What one core of the machine that we measure on has of its memory."""

PAGE_BYTES, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


class Watch:
    """Follows this process and all that descend from it: CPU time used, and the largest sum of resident memory."""

    def __init__(self) -> None:
        self.peak_bytes, self.ticks = 0, dict[int, int]()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.follow, daemon=True)

    def __enter__(self) -> "Watch":
        self.sample()
        self.before = sum(self.ticks.values())
        self.began = time.perf_counter()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()
        self.sample()
        self.seconds = time.perf_counter() - self.began
        self.cpu_seconds = (sum(self.ticks.values()) - self.before) / TICKS

    def follow(self) -> None:
        while not self.ended.wait(SAMPLE_EVERY):
            self.sample()

    def sample(self) -> None:
        resident = 0
        for process in family():
            try:
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                resident += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_BYTES
            except (FileNotFoundError, ProcessLookupError):
                continue
            # A process that has ended keeps what it was last seen to have used.
            self.ticks[process] = int(fields[11]) + int(fields[12])
        self.peak_bytes = max(self.peak_bytes, resident)


def family() -> list[int]:
    """This process and its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found = [os.getpid()]
    for process in found:
        found += parents.get(process, [])
    return found


def measure(name: str, rows: int, work: Callable[[], object]) -> dict[str, object]:
    with Watch() as watch:
        work()
    return {
        "stage": name,
        "rows": rows,
        "seconds": round(watch.seconds, 2),
        "rows_per_second": round(rows / watch.seconds),
        "rows_per_cpu_second": round(rows / max(watch.cpu_seconds, 1 / TICKS)),
        "peak_gib": round(watch.peak_bytes / 2**30, 2),
    }


def stages(workload: Workload, folder: Path, master: str) -> list[dict[str, object]]:
    table = workload.table("events")
    assert isinstance(table, Table), "only what is drawn is measured"
    chunks = min(DRAWN_CHUNKS, table.chunks)
    batch(table, 0)  # tables of shares are made once
    drawn = min(table.items, chunks * table.chunk_items)
    figures = [measure("draw", drawn, lambda: [batch(table, chunk) for chunk in range(chunks)])]
    spark = open_session(master)
    spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()  # the first Python task takes seconds
    planned = frame(spark, workload, "events")
    figures.append(measure("plan", table.items, planned.write.format("noop").mode("overwrite").save))
    figures.append(measure("write", table.items, lambda: write(spark, workload, folder, ["events"])))
    stored = read(spark, folder)
    size = sum(file.stat().st_size for file in (folder / "events").glob("*.parquet"))
    figures[-1] |= {"bytes_per_row": round(size / table.items, 1), "gib": round(size / 2**30, 3)}
    if stored.tables["events"].count() != table.items or stored.workload != workload:
        raise SystemExit("what was written is not what was drawn")
    spark.stop()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.workloads_spark", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--events", type=int, help=f"how many; {EVENTS:,} if it is not given")
    parser.add_argument("--quick", action="store_true", help=f"{EVENTS_QUICK:,} events")
    parser.add_argument("--workload", default="content", help="one that has a parameter event_count")
    parser.add_argument("--master", default="local[*]", help="where Spark runs")
    parser.add_argument("--keep", type=Path, help="a folder for the Parquet, which is otherwise deleted")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    arguments = parser.parse_args()
    events = arguments.events or (EVENTS_QUICK if arguments.quick else EVENTS)
    workload = make(arguments.workload, {"event_count": events})
    with tempfile.TemporaryDirectory() as scratch:
        figures = stages(workload, arguments.keep or Path(scratch), arguments.master)
    within = all(float(str(figure["peak_gib"])) <= MEMORY_SHARE_GIB for figure in figures)
    if arguments.json:
        print(json.dumps({"machine": machine(), "figures": figures, "within_memory": within}, indent=1))
        return 0
    for figure in figures:
        print(
            ", ".join(
                f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in figure.items()
            )
        )
    print(f"memory within {MEMORY_SHARE_GIB} GiB: {'yes' if within else 'NO'}")
    print(machine())
    return 0


if __name__ == "__main__":
    sys.exit(main())
