"""`python -m bench.metrics`: what summarising a large trace costs, and that the cost grows with its rows alone.

A trace of 5 million rows and one of 50 million are made on Spark, from arithmetic on row numbers, and written to
Parquet, piece by piece, with the table of what is due; both are deleted in the end. Of ten rows one is a publication,
four are deliveries of it, four are messages, and one is a note, of each kind in turn, so every family of metrics finds
its facts. Then the summary of each family, which is all its metrics at once, is computed from each trace and thrown
away. `scan` reads all columns of all rows and throws them away: a measure for the others.

*Growth* is the CPU time for a row of the large trace divided by that for a row of the small one: 1 if it grows with the
rows alone. *Scans* is the CPU time for a row of the large trace by that of `scan`. *Peak* is the largest resident
memory of all processes together. Before that each family is computed once from the small trace, for Spark to compile
it.

`--page` writes what was found into docs/benchmarks.md.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from bench.report import METRICS_SECTION, Grid, machine, markdown, print_grid, target_grid, with_section
from bench.targets import Target
from bench.watch import Watch
from tidings.pubsub import notes
from tidings.spark.metrics.registry import FAMILIES
from tidings.spark.metrics.traces import read_traces
from tidings.spark.session import cores, open_session

FULL, QUICK = (5_000_000, 50_000_000), (1_000_000, 5_000_000)
PIECE_ROWS = 5_000_000
"""Of what is written at once."""

SCAN = "scan"
USUAL = ("delivery", "traffic")
SCANS_MAX, GROWTH_MAX, MEMORY_MAX_GIB = 5, 1.1, 24
"""What was to be reached: of the family `delivery`, of all, and what the machine has."""

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
CAPTION = """\
Written by `python -m bench.metrics --page`. Made traces of {small:,} and {large:,} rows in Parquet, Spark on all cores:
the summary of a family, which is all its metrics at once, beside a plain *scan* of all columns of all rows. CPU
time of all processes. *Growth* is CPU time a row of the large trace by that of the small one, *scans* CPU time by that
of the scan, *peak* the largest resident memory of all processes together. When five scans were set as a goal, a scan
cost 0.89 us a row and `delivery` 7.9."""

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
    name: str
    rows: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int

    @property
    def cpu_micros(self) -> float:
        """For a row."""
        return 1e6 * self.cpu_seconds / self.rows


def make_trace(spark: SparkSession, rows: int, folder: Path) -> None:
    """`folder/trace` and `folder/expected`: of five deliveries that are due, four come."""
    for first in range(0, rows, PIECE_ROWS):
        make_piece(spark, range(first, min(rows, first + PIECE_ROWS)), folder)


def make_piece(spark: SparkSession, rows: range, folder: Path) -> None:
    ids = spark.range(rows.start, rows.stop)
    placed = ids.selectExpr(f"id % {ROWS_OF_EVENT} AS place", f"id div {ROWS_OF_EVENT} AS number")
    named = placed.selectExpr(
        "*",
        f"concat('p', pmod(xxhash64(number), {PUBLISHERS})) AS publisher",
        "number / 1000D AS published_at",
        "pmod(xxhash64(number, place), 1000000) / 1000000D AS drawn",
    ).selectExpr("*", "concat(publisher, ' ', number) AS key")
    trace = named.selectExpr(*(f"{text} AS {name}" for name, text in COLUMNS.items()))
    trace.write.mode("append").parquet(str(folder / "trace"))
    due = named.where("place BETWEEN 1 AND 5").selectExpr(f"{COLUMNS['run']} AS run", "key", f"{CLIENT} AS node")
    due.write.mode("append").parquet(str(folder / "expected"))


def table_of(spark: SparkSession, name: str, folder: Path) -> DataFrame:
    trace = read_traces(spark, [folder / "trace"])
    if name == SCAN:
        return trace
    return FAMILIES[name].summary(trace, spark.read.parquet(str(folder / "expected")))


def timed(name: str, rows: int, work: Callable[[], object]) -> Timing:
    with Watch() as watch:
        work()
    return Timing(name, rows, watch.seconds, watch.cpu_seconds, watch.peak_bytes)


def summarise(spark: SparkSession, name: str, rows: int, folder: Path) -> Timing:
    return timed(name, rows, lambda: table_of(spark, name, folder).write.format("noop").mode("overwrite").save())


def measure(spark: SparkSession, sizes: tuple[int, int], names: list[str]) -> list[tuple[Timing, Timing]]:
    with tempfile.TemporaryDirectory(prefix="tidings-metrics-") as scratch:
        folders = {rows: Path(scratch, str(rows)) for rows in sizes}
        for rows, folder in folders.items():
            make_trace(spark, rows, folder)
        found = []
        for name in names:
            summarise(spark, name, sizes[0], folders[sizes[0]])
            small, large = (summarise(spark, name, rows, folders[rows]) for rows in sizes)
            found.append((small, large))
        return found


def growth(small: Timing, large: Timing) -> float:
    return large.cpu_micros / small.cpu_micros


def scans(found: list[tuple[Timing, Timing]], timing: Timing) -> float | None:
    plain = [large.cpu_micros for _, large in found if large.name == SCAN]
    return timing.cpu_micros / plain[0] if plain else None


def peak_gib(found: list[tuple[Timing, Timing]]) -> float:
    return max(each.peak_bytes for pair in found for each in pair) / 2**30


def as_rows(found: list[tuple[Timing, Timing]]) -> list[dict[str, Any]]:
    return [
        {
            "family": small.name,
            "rows": [small.rows, large.rows],
            "seconds": [round(small.seconds, 3), round(large.seconds, 3)],
            "cpu_us_a_row": [round(small.cpu_micros, 3), round(large.cpu_micros, 3)],
            "growth": round(growth(small, large), 3),
            "scans": scans(found, large),
            "peak_gib": round(max(small.peak_bytes, large.peak_bytes) / 2**30, 2),
        }
        for small, large in found
    ]


def grids(found: list[tuple[Timing, Timing]]) -> list[Grid]:
    columns = [f"{each.rows:,} rows, {what}" for each in found[0] for what in ("s", "CPU us a row")]
    rows = []
    for small, large in found:
        cells = [text for each in (small, large) for text in (f"{each.seconds:.1f}", f"{each.cpu_micros:.2f}")]
        in_scans = scans(found, large)
        shown = [f"{growth(small, large):.2f}", "-" if in_scans is None else f"{in_scans:.1f}"]
        rows.append([small.name, *cells, *shown, f"{large.peak_bytes / 2**30:.1f}"])
    families = [pair for pair in found if pair[0].name != SCAN]
    delivery = [scans(found, large) for _, large in families if large.name == "delivery"]
    targets = [
        Target("delivery / a plain scan", SCANS_MAX, False, delivery[0] if delivery else None, "scans"),
        Target("growth, worst of these families", GROWTH_MAX, False, max(growth(*pair) for pair in families), "x"),
        Target("peak memory", MEMORY_MAX_GIB, False, peak_gib(found), "GiB"),
    ]
    return [Grid("summaries", [*columns, "growth", "scans", "peak, GiB"], rows), target_grid(targets)]


def section(found: list[tuple[Timing, Timing]], sizes: tuple[int, int]) -> str:
    parts = [METRICS_SECTION, CAPTION.format(small=sizes[0], large=sizes[1]), machine()]
    return "\n\n".join([*parts, *map(markdown, grids(found))]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.metrics", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1 and 5 million rows")
    parser.add_argument("--rows", type=int, nargs=2, metavar=("SMALL", "LARGE"), help="other sizes")
    parser.add_argument("--family", action="append", choices=list(FAMILIES), help="this family; may be repeated")
    parser.add_argument("--all", action="store_true", help=f"all families, not only {', '.join(USUAL)}")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    sizes: tuple[int, int] = tuple(arguments.rows) if arguments.rows else QUICK if arguments.quick else FULL
    parts = {"spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(PARTS_OF_CORE * cores())}
    spark = open_session(settings=parts)
    found = measure(spark, sizes, [SCAN, *(arguments.family or (FAMILIES if arguments.all else USUAL))])
    if arguments.json:
        print(json.dumps({"sizes": sizes, "families": as_rows(found)}, indent=2))
        return
    for grid in grids(found):
        print_grid(Console(), grid)
    print(machine())
    if arguments.page:
        text = with_section(PAGE.read_text(encoding="utf-8"), METRICS_SECTION, section(found, sizes))
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
