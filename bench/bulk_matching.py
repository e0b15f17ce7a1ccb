"""`python -m bench.bulk_matching`: our `match` beside plain SQL, on two cores, in one run.

    python -m bench.bulk_matching            1,000,000 events, 10,000 and 100,000 subscriptions; growth to 2,000,000
    python -m bench.bulk_matching --quick    125,000 events, 2,000 and 10,000 subscriptions

The workload and the SQL are in `bulk_quotes.py`. Both read the same Parquet files. Ours writes its natural answer, a
list of subscriptions for each event, to Spark's sink that throws everything away ("noop"). SQL answers with pairs, and
these are only counted and summed up, which costs it less than to write them. Afterwards, outside the time, our lists
are exploded into pairs, which have to be as many and to have the same checksum as those of SQL.

Before anything is timed both have run for some seconds, so that what is compiled or loaded once is there. Making the
index of the subscriptions is timed by itself; SQL takes the subscriptions as columns and has nothing to make.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet

from bench.bulk_quotes import EVENTS_PER_FILE, by_sql, subscriptions, write_quotes
from bench.report import machine
from tidings.spark.matching import build_index_file, match
from tidings.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
ROUNDS = 3
"""Ours takes seconds, and the median of so many runs is told; SQL takes minutes and runs once."""

WARM_EVENTS, WARM_EVENTS_SQL = 125_000, 10_000
"""Some seconds for each, in which Java compiles what is used most."""

UNCHECKED_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Spark asks for null before it reads a value, and Arrow need not ask again."""

CHECK = ("count(*) AS pairs", "bit_xor(xxhash64(key, subscription)) AS checksum")


class Plan(NamedTuple):
    events: int
    sizes: tuple[int, ...]
    growth: tuple[int, ...]
    """Numbers of events at the largest size."""


FULL = Plan(1_000_000, (10_000, 100_000), (250_000, 500_000, 1_000_000, 2_000_000))
QUICK = Plan(125_000, (2_000, 10_000), (125_000, 250_000))
TARGETS = {10_000: 4.0, 100_000: 20.0}
"""How many times as fast as SQL we want to be, by number of subscriptions."""

LINEAR = 1.25
"""Time per event at any size may be this many times that of the smallest; differences below are noise here."""


class Bench:
    def __init__(self, session: "SparkSession", folder: Path, plan: Plan) -> None:
        self.session, self.folder, self.plan = session, folder, plan
        self.paths = write_quotes(folder, max(plan.events, *plan.growth))
        self.failed = False

    def events(self, count: int) -> "DataFrame":
        whole = self.session.read.parquet(*self.paths[: -(-count // EVENTS_PER_FILE)])
        return whole if count % EVENTS_PER_FILE == 0 else whole.where(f"key < {count}")

    def compare(self, size: int) -> Path:
        """Ours and SQL with so many subscriptions; the index file."""
        path = self.folder / f"subscriptions-{size}.parquet"
        pyarrow.parquet.write_table(subscriptions(size), path)
        wanted = self.session.read.parquet(str(path))
        index = self.folder / f"index-{size}"
        built = seconds(lambda: build_index_file(wanted, index))
        say(f"{size:,} subscriptions: index made in {built:.1f} s, {index.stat().st_size / 1e6:.1f} MB")
        count, events = self.plan.events, self.events(self.plan.events)
        answer, pairs = match(events, index), by_sql(self.session, events, wanted)
        write(match(self.events(WARM_EVENTS), index))
        few = self.events(EVENTS_PER_FILE).where(f"key < {WARM_EVENTS_SQL}")
        by_sql(self.session, few, wanted).selectExpr(*CHECK).collect()
        ours = median(seconds(lambda: write(answer)) for _ in range(ROUNDS))
        say(f"  match            {ours:8.1f} s  {count / ours:10,.0f} events/s")
        counts = match(events, index, counts_only=True)
        counting = median(seconds(lambda: write(counts)) for _ in range(ROUNDS))
        say(f"  match, counts    {counting:8.1f} s  {count / counting:10,.0f} events/s")
        started = time.perf_counter()
        [theirs_found] = pairs.selectExpr(*CHECK).collect()
        theirs = time.perf_counter() - started
        say(f"  plain SQL        {theirs:8.1f} s  {count / theirs:10,.0f} events/s")
        [ours_found] = answer.selectExpr("key", "explode(subscriptions) AS subscription").selectExpr(*CHECK).collect()
        share = ours_found.pairs / count / size
        say(f"  {ours_found.pairs:,} pairs, {share:.2%} of all; checksum {ours_found.checksum:x}")
        if ours_found != theirs_found:
            self.fail(f"the answers differ: SQL has {theirs_found.pairs:,} pairs, checksum {theirs_found.checksum:x}")
        self.judge(size, theirs / ours)
        return index

    def judge(self, size: int, ratio: float) -> None:
        target = TARGETS.get(size)
        if target is None or self.plan is not FULL:
            say(f"  {ratio:.1f} times as fast as plain SQL")
            return
        say(f"  {ratio:.1f} times as fast as plain SQL; wanted at least {target:.0f}")
        if ratio < target:
            self.fail("target missed")

    def grow(self, size: int, index: Path) -> None:
        say(f"growth with the events, {size:,} subscriptions")
        each = []
        for count in self.plan.growth:
            taken = seconds(lambda: write(match(self.events(count), index)))  # noqa: B023
            each.append(taken / count * 1e6)
            say(f"  {count:>9,} events {taken:8.1f} s  {each[-1]:6.2f} us an event")
        if max(each) > LINEAR * each[0]:
            self.fail(f"an event takes up to {max(each) / each[0]:.2f} times as long as at the smallest size")

    def fail(self, problem: str) -> None:
        self.failed = True
        say(f"  FAILED: {problem}")


def write(table: "DataFrame") -> None:
    table.write.format("noop").mode("overwrite").save()


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def say(line: str) -> None:
    print(line, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.bulk_matching", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes")
    plan = QUICK if parser.parse_args(arguments).quick else FULL
    say(machine())
    with tempfile.TemporaryDirectory(prefix="tidings-bulk-") as folder:
        session = open_session(f"local[{CORES}]", name="bulk matching", java_options=UNCHECKED_ARROW)
        bench = Bench(session, Path(folder), plan)
        for size in plan.sizes:
            index = bench.compare(size)
        bench.grow(plan.sizes[-1], index)
        session.stop()
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
