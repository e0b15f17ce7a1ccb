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
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.report import machine
from bench.watch import TICKS, Watch
from tidings.spark.session import open_session
from tidings.spark.workloads import frame, read, write
from tidings.spark.workloads.tables import batch
from tidings.workloads.registry import make
from tidings.workloads.table import Table
from tidings.workloads.workload import Workload

EVENTS, EVENTS_QUICK = 100_000_000, 2_000_000
DRAWN_CHUNKS = 16
MEMORY_SHARE_GIB = 12
"""What one core of the machine that we measure on has of its memory."""


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
