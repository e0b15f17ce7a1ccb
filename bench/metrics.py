"""`python -m bench.metrics`: how long it takes to summarise a large trace, and that the time grows with its rows alone.

A trace of 5 million rows and one of 50 million are made on Spark, from arithmetic on row numbers, and written to
Parquet with the table of what is due. Of ten rows one is a publication, four are deliveries of it, four are messages,
and one is a note, of each kind in turn, so every family of metrics finds its facts. Then the summary of each family,
which is all its metrics at once, is computed from each trace and thrown away.

*Growth* is the time for a row of the large trace divided by that for a row of the small one: 1 if time grows with the
rows alone. Before that each family is computed once from the small trace, for Spark to compile it.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from tidings.pubsub import notes
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.registry import FAMILIES
from tidings.spark.metrics.traces import read_traces
from tidings.spark.session import cores, open_session

FULL, QUICK = (5_000_000, 50_000_000), (1_000_000, 5_000_000)

PARTS_OF_CORE = 16
"""Pieces of a shuffle for each core, so that one fits into memory; Spark puts small ones together again."""

PUBLISHERS, CLIENTS, BROKERS, RUNS = 50, 1000, 40, 4
ROWS_OF_EVENT = 10
"""Place 0 is the publication, 1 to 4 are deliveries, 5 to 8 messages, 9 is a note."""

CLIENT = f"concat('c', pmod(xxhash64(number, place), {CLIENTS}))"
BROKER = f"concat('b', pmod(xxhash64(number, place), {BROKERS}))"

NOTES = {
    "loss_detected": "'publisher', publisher",
    "repair_requested": "'publisher', publisher",
    "repair_sent": "'publisher', publisher",
    "cache_searched": "'hit', number % 3 > 0, 'size', number % 300",
    "loss_event": "'publisher', publisher",
    "feedback_sent": "'publisher', publisher",
    "withheld": "'withheld', number",
    "flow_changed": "'size', number % 90",
    "cycle_ended": "'cycle', number % 60, 'messages', number % 22",
    "view_compared": "'common', number % 10, 'optimal', 10",
    "forwarded": "'via', 'tree', 'links', 3, 'local', number % 2, 'gain', 2.5D, 'publisher', publisher",
    "gossip_taken": "'matches', number % 3",
    "queued": "'length', number % 500",
    "plan_made": "'model_seconds', 1.5D, 'solve_seconds', 8.5D, 'actions', number % 30, 'steps', number % 9",
    "plan_executed": "'seconds', 20D",
    "shifted": "'queue_before', number % 50, 'queue_after', number % 80",
    "receipt_asked": "'first', number, 'last', number",
    "acknowledged": "'first', number",
    "promised": "'subscription', 1, 'guarantee', 'installed', 'publisher', publisher, 'number', 5",
    "twin": "'subscription', 1, 'group', concat('g', pmod(xxhash64(number), 500))",
    "round_trip_measured": "'publisher', publisher, 'rtt', 0.08D",
    "path_measured": "'path', 1.2D, 'direct', 1D",
    "coverage_counted": "'feeds', 9, 'covered', number % 10",
    "neighbours_counted": "'roles', 9, 'distinct', 1 + number % 9",
    "link_changed": "'reconfiguration', concat('x', number % 1000)",
    "reattached": "'seconds', 0.4D, 'strategy', 'regional', 'requests', number % 5",
    "job_started": "'number', number",
    "block_stored": "'number', number",
}

assert NOTES.keys() <= notes.NOTES.keys(), "a note has another name now; tidings.pubsub.notes defines them"

NOTE_NAME = f"element_at(array({', '.join(repr(name) for name in NOTES)}), int(number % {len(NOTES)}) + 1)"
NOTE_DETAIL = " ".join(
    f"WHEN {place} THEN to_json(named_struct({fields}))" for place, fields in enumerate(NOTES.values())
)
DELIVER_DETAIL = (
    "to_json(named_struct('accepted_at', published_at, 'number', number, 'publisher', publisher, 'subscription', 1, "
    "'hops', number % 7, 'latch', drawn))"
)

COLUMNS = {
    "run": f"concat('r', number % {RUNS})",
    "seed": "CAST(7 AS BIGINT)",
    "time": "published_at + CASE WHEN place = 0 THEN 0D ELSE drawn END",
    "node": f"CASE WHEN place = 0 THEN publisher WHEN place < 5 THEN {CLIENT} WHEN place < 9 THEN {BROKER} "
    f"WHEN {NOTE_NAME} IN ('receipt_asked', 'acknowledged') THEN publisher ELSE {CLIENT} END",
    "kind": "element_at(array('publish', 'deliver', 'deliver', 'deliver', 'deliver', 'send', 'receive', 'send', "
    "'drop', 'note'), int(place) + 1)",
    "peer": f"CASE WHEN place BETWEEN 5 AND 8 THEN {BROKER} END",
    "message": "CASE WHEN place < 5 THEN 'Event' WHEN place < 7 "
    "THEN element_at(array('Publications', 'Update', 'Ping'), int(number % 3) + 1) "
    f"WHEN place < 9 THEN 'SubscriptionAdded' ELSE {NOTE_NAME} END",
    "key": "key",
    "size_bytes": "CASE WHEN place < 9 THEN 100 + number % 900 END",
    "reason": "CASE WHEN place = 8 THEN element_at(array('queue full', 'too late'), int(number % 2) + 1) END",
    "detail": f"CASE WHEN place BETWEEN 1 AND 4 THEN {DELIVER_DETAIL} WHEN place = 9 THEN "
    f"CASE number % {len(NOTES)} {NOTE_DETAIL} END END",
}


class Timing(NamedTuple):
    family: str
    rows: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds


def make_trace(spark: SparkSession, rows: int, folder: Path) -> None:
    """`folder/trace` and `folder/expected`: of five deliveries that are due, four come."""
    placed = spark.range(rows).selectExpr(f"id % {ROWS_OF_EVENT} AS place", f"id div {ROWS_OF_EVENT} AS number")
    named = placed.selectExpr(
        "*",
        f"concat('p', pmod(xxhash64(number), {PUBLISHERS})) AS publisher",
        "number / 1000D AS published_at",
        "pmod(xxhash64(number, place), 1000000) / 1000000D AS drawn",
    ).selectExpr("*", "concat(publisher, ' ', number) AS key")
    named.selectExpr(*(f"{text} AS {name}" for name, text in COLUMNS.items())).write.parquet(str(folder / "trace"))
    due = named.where("place BETWEEN 1 AND 5").selectExpr(f"{COLUMNS['run']} AS run", "key", f"{CLIENT} AS node")
    due.write.parquet(str(folder / "expected"))


def summarise(spark: SparkSession, family: Family, folder: Path) -> float:
    begin = time.perf_counter()
    trace, expected = read_traces(spark, [folder / "trace"]), spark.read.parquet(str(folder / "expected"))
    family.summary(trace, expected).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def measure(spark: SparkSession, sizes: tuple[int, int], families: list[Family]) -> list[tuple[Timing, Timing]]:
    with tempfile.TemporaryDirectory(prefix="tidings-metrics-") as scratch:
        folders = [Path(scratch, str(rows)) for rows in sizes]
        for rows, folder in zip(sizes, folders, strict=True):
            make_trace(spark, rows, folder)
        found = []
        for family in families:
            summarise(spark, family, folders[0])
            small, large = (
                Timing(family.name, rows, summarise(spark, family, folder))
                for rows, folder in zip(sizes, folders, strict=True)
            )
            found.append((small, large))
        return found


def growth(small: Timing, large: Timing) -> float:
    return (large.seconds / large.rows) / (small.seconds / small.rows)


def as_rows(found: list[tuple[Timing, Timing]]) -> list[dict[str, Any]]:
    return [
        {
            "family": small.family,
            "rows": [small.rows, large.rows],
            "seconds": [round(small.seconds, 3), round(large.seconds, 3)],
            "rows_per_second": [round(small.rows_per_second), round(large.rows_per_second)],
            "growth": round(growth(small, large), 3),
        }
        for small, large in found
    ]


def print_table(found: list[tuple[Timing, Timing]], sizes: tuple[int, int]) -> None:
    table = Table(title="summaries of a trace, by family of metrics", title_justify="left")
    table.add_column("family")
    for rows in sizes:
        for column in (f"{rows:,} rows, s", "rows/s"):
            table.add_column(column, justify="right")
    table.add_column("growth", justify="right")
    for small, large in found:
        cells = [
            f"{value:,.1f}" if value < 1000 else f"{value:,.0f}" for each in (small, large) for value in each_of(each)
        ]
        table.add_row(small.family, *cells, f"{growth(small, large):.2f}")
    Console().print(table)


def each_of(timing: Timing) -> tuple[float, float]:
    return timing.seconds, timing.rows_per_second


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.metrics", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1 and 5 million rows")
    parser.add_argument("--rows", type=int, nargs=2, metavar=("SMALL", "LARGE"), help="other sizes")
    parser.add_argument("--family", action="append", choices=list(FAMILIES), help="only this family; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    sizes: tuple[int, int] = tuple(arguments.rows) if arguments.rows else QUICK if arguments.quick else FULL
    parts = {"spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(PARTS_OF_CORE * cores())}
    spark = open_session(settings=parts)
    found = measure(spark, sizes, [FAMILIES[name] for name in arguments.family or FAMILIES])
    if arguments.json:
        print(json.dumps({"sizes": sizes, "families": as_rows(found)}, indent=2))
    else:
        print_table(found, sizes)


if __name__ == "__main__":
    main()
