"""From a trace of machines to a schedule of failures for a run of a minute (spec dependable.md 4.6, D-1; G-59).

A cluster writes down when each machine is added to it, removed from it, or changed. Three steps make failures of it:

    machine_events      time_us, machine, event_type (0 added, 1 removed, 2 changed), as in Google's cluster trace
    down_intervals      machine, down_us, up_us: from a removal to the next addition, or to the end of the trace
    failure_schedule    node, down_at, up_at: as many machines as there are nodes, drawn at random; the whole trace
                        squeezed into the seconds of a run

Squeezed from a month to a minute, an outage of twenty minutes lasts 30 ms, which no protocol would notice. Outages that
come out shorter than `shortest` are stretched to it, or left out; those that then touch are one.

The real trace is not at hand. `Machines` makes one of its shape: 11,000 machines over 29 days, each up for an
exponential time and down for a lognormal one. The rate and the lengths are our choice (most outages are restarts of
some minutes, a few are repairs of days). Any table with the three columns takes its place.
"""

from typing import TYPE_CHECKING, ClassVar

import numpy

from tidings.model.errors import UsageError
from tidings.spark.workloads.chunks import Columns, Random, Table
from tidings.spark.workloads.workload import Workload, require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ADDED, REMOVED, CHANGED = 0, 1, 2
DAY_US = 86_400 * 10**6
SPAN_DAYS = 29.0
MACHINES_PER_CHUNK = 8192


class Machines(Workload, frozen=True, kw_only=True, tag="machines"):
    """Machines of a cluster that come and go over 29 days, and a schedule of failures made of them."""

    tables: ClassVar[tuple[str, ...]] = ("machine_events", "failures")

    machines: int = 11_000
    days: float = SPAN_DAYS
    outages: float = 0.7
    """Of a machine in the whole time, on average."""
    down_minutes: float = 20.0
    """Half of the outages are shorter."""
    down_spread: float = 1.5
    """Standard deviation of the logarithm of their length."""
    changes: float = 0.5
    """How likely a machine is changed once; this says nothing about failures, but real traces have it."""
    nodes: int = 100
    """How many nodes the schedule is for."""
    duration: float = 60.0
    """Seconds that the schedule covers."""
    shortest: float = 2.0
    """Seconds; shorter outages are stretched to this."""

    def check(self) -> None:
        self.require_positive("machines", "days", "outages", "down_minutes", "nodes", "duration", "shortest")
        self.require_shares("changes")
        require(self.down_spread >= 0, f"down_spread: {self.down_spread} is below 0")
        require(self.nodes <= self.machines, f"nodes: {self.nodes} is more than the {self.machines} machines")

    def machine_events(self, spark: "SparkSession", partitions: int | None = None) -> "DataFrame":
        return self.machine_table().frame(spark, partitions)

    def failures(self, spark: "SparkSession", partitions: int | None = None) -> "DataFrame":
        events = self.machine_events(spark, partitions)
        return failure_schedule(
            events, self.nodes, self.duration, shortest=self.shortest, days=self.days, seed=self.seed
        )

    def machine_table(self) -> Table:
        columns: Columns = {"time_us": "long", "machine": "long", "event_type": "long"}
        return Table(
            stream="machines/events",
            seed=self.seed,
            items=self.machines,
            columns=columns,
            make=self.draw_machines,
            chunk_items=MACHINES_PER_CHUNK,
        )

    def draw_machines(self, random: Random, first: int, count: int) -> dict[str, object]:
        """Up and down by turns, for more turns than a machine can be expected to have."""
        turns = int(self.outages + 10 * self.outages**0.5 + 10)
        up = random.standard_exponential((count, turns)) * (self.days / self.outages)
        down = numpy.exp(self.down_spread * random.standard_normal((count, turns))) * (self.down_minutes / 1440)
        ends = numpy.cumsum(numpy.stack([up, down], axis=2).reshape(count, -1), axis=1)
        machine = numpy.repeat(numpy.arange(first, first + count), 2 * turns).reshape(count, -1)
        kinds = numpy.tile([REMOVED, ADDED], (count, turns))
        changed_at = random.random(count) * self.days
        changed = random.random(count) < self.changes
        times = numpy.concatenate([numpy.zeros(count), ends[ends < self.days], changed_at[changed]])
        machines = numpy.concatenate([machine[:, 0], machine[ends < self.days], machine[changed, 0]])
        types = numpy.concatenate(
            [numpy.full(count, ADDED), kinds[ends < self.days], numpy.full(changed.sum(), CHANGED)]
        )
        times_us = (times * DAY_US).astype(numpy.int64)
        order = numpy.lexsort((types, times_us, machines))
        return {"time_us": times_us[order], "machine": machines[order], "event_type": types[order]}


def down_intervals(machine_events: "DataFrame", end_us: int) -> "DataFrame":
    """(machine, down_us, up_us). A second removal in a row tells nothing new."""
    from pyspark.sql import Window, functions

    column = functions.col
    by_time = Window.partitionBy("machine").orderBy("time_us", "event_type")
    moves = machine_events.where(column("event_type") != CHANGED).withColumn(
        "before", functions.lag("event_type").over(by_time)
    )
    # Of equal types in a row only the first is kept, so that after a removal the next row is an addition.
    turns = moves.where(column("before").isNull() | (column("before") != column("event_type")))
    following = functions.coalesce(functions.lead("time_us").over(by_time), functions.lit(end_us))
    return (
        turns.withColumn("up_us", following)
        .where((column("event_type") == REMOVED) & (column("up_us") > column("time_us")))
        .select("machine", column("time_us").alias("down_us"), "up_us")
    )


def failure_schedule(
    machine_events: "DataFrame",
    nodes: int,
    duration: float = 60.0,
    *,
    shortest: float = 2.0,
    stretch: bool = True,
    days: float = SPAN_DAYS,
    seed: int = 1,
) -> "DataFrame":
    """(node, down_at, up_at) in seconds; a node without failures has no row. `days` is how long the trace is.

    Without `stretch`, outages below `shortest` are left out. There should be as many machines as nodes, or the last
    nodes never fail."""
    if nodes < 1 or duration <= 0 or shortest < 0 or days <= 0:
        raise UsageError("nodes, duration, shortest, days: give at least one node, and no time below 0")
    from pyspark.sql import Window, functions

    column, end_us = functions.col, int(days * DAY_US)
    chance = functions.xxhash64(functions.lit(seed), column("machine").cast("string"))
    drawn = machine_events.select("machine").distinct().orderBy(chance, "machine").limit(nodes)
    numbers = Window.partitionBy().orderBy(chance, "machine")
    named = drawn.select("machine", (functions.row_number().over(numbers) - 1).cast("long").alias("node"))
    scale = duration / end_us
    squeezed = (
        down_intervals(machine_events, end_us)
        .join(named, on="machine", how="inner")
        .select("node", (column("down_us") * scale).alias("down_at"), (column("up_us") * scale).alias("up_at"))
    )
    if stretch:
        reached = functions.greatest(column("up_at"), column("down_at") + shortest)
        squeezed = squeezed.withColumn("up_at", functions.least(reached, functions.lit(duration)))
    else:
        squeezed = squeezed.where(column("up_at") - column("down_at") >= shortest)
    return unite(squeezed)


def unite(intervals: "DataFrame") -> "DataFrame":
    """Intervals of a node that overlap or touch become one."""
    from pyspark.sql import Window, functions

    column = functions.col
    by_time = Window.partitionBy("node").orderBy("down_at", "up_at")
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    so_far = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    reached = functions.max("up_at").over(before)
    begins = functions.when(reached.isNull() | (column("down_at") > reached), 1).otherwise(0)
    return (
        intervals.withColumn("begins", begins)
        .withColumn("island", functions.sum("begins").over(so_far))
        .groupBy("node", "island")
        .agg(functions.min("down_at").alias("down_at"), functions.max("up_at").alias("up_at"))
        .select("node", "down_at", "up_at")
        .orderBy("node", "down_at")
    )
