"""The last act of the demo, on Spark: a streaming query over the live brokers, and what the traces tell.

While the demo ran, every broker and every client wrote down what happened to it. Here these traces become one table,
and the metrics of `spark/metrics` are computed from it: how much of what each subscriber was owed reached it (what it
was owed is found by matching all flights with all filters, `spark/matching`), how late, and how busy each broker was.

Whoever has no Spark, or no Java, gets the demo without it, and one sentence why.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from inspect import getsource
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from tidings.spark.session import SparkMissing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RUN = "demo"
ATTRIBUTES = (
    "type STRING, carrier STRING, tailnum STRING, origin STRING, dest STRING, arr_delay DOUBLE, distance DOUBLE"
)
"""Those that filters of the demo name."""

SHOWN_MAX = 5


class DemoDelivery(msgspec.Struct, frozen=True):
    """What a subscriber got of what it was owed, and how late, in seconds."""

    subscriber: str
    expected: int
    delivered: int
    p50: float | None
    p99: float | None
    largest: float | None


class DemoLoad(msgspec.Struct, frozen=True):
    """Messages that a broker sent and received."""

    broker: str
    messages: int


class Analysis(msgspec.Struct, frozen=True):
    rows: int
    """Of the traces."""
    deliveries: list[DemoDelivery]
    loads: list[DemoLoad]
    rates: list[tuple[float, int, int]]
    """For each second of the run how many flights were published, and how many deliveries made."""
    late: list[tuple[str, int]]
    """What the streaming query found: carriers, and how many of their flights came more than an hour late."""


class SparkAct:
    """Opened while the demo runs, on a thread; `stream` while the brokers live, `finish` when the traces are there."""

    def __init__(self, console: Console, traces: Path) -> None:
        self.console, self.traces = console, traces
        self.spark: SparkSession | None = None
        self.why_not = ""
        self.late: list[tuple[str, int]] = []

    async def open(self) -> None:
        from tidings.spark.session import QUICK_JAVA, open_session

        try:
            self.spark = await asyncio.to_thread(open_session, name="tidings demo", java_options=QUICK_JAVA)
        except SparkMissing as missing:
            self.why_not = str(missing)

    async def stream(self, url: str) -> None:
        if self.spark is not None:
            self.late = await asyncio.to_thread(stream_late_flights, self.spark, url)

    def finish(
        self, subscribers: Mapping[str, str], brokers: Sequence[str], outage: Sequence[float], plot: Path
    ) -> dict[str, Any]:
        """What is shown, and what the JSON says."""
        if self.spark is None:
            self.console.print(f"no analysis of the traces: {self.why_not}", markup=False)
            return {"skipped": self.why_not}
        analysis = analyse(self.spark, self.traces, subscribers, brokers, self.late)
        show(self.console, analysis)
        draw(analysis, outage, plot)
        self.console.print(f"plot: {plot}", markup=False)
        return {**msgspec.to_builtins(analysis), "plot": str(plot)}


def late_flights(spark: "SparkSession", url: str) -> "StreamingQuery":
    late = spark.readStream.format("tidings").options(url=url, filter="arr_delay > 60", startingOffsets="earliest")
    counts = late.schema("carrier STRING").load().groupBy("carrier").count().orderBy("count", ascending=False)
    return counts.writeStream.format("memory").trigger(availableNow=True).start(queryName="late", outputMode="complete")


def stream_late_flights(spark: "SparkSession", url: str) -> list[tuple[str, int]]:
    late_flights(spark, url).awaitTermination()
    return [(row["carrier"], row["count"]) for row in spark.table("late").collect()]


def analyse(
    spark: "SparkSession",
    traces: Path,
    subscribers: Mapping[str, str],
    brokers: Sequence[str],
    late: list[tuple[str, int]],
) -> Analysis:
    """`subscribers` are names of clients, each with its filter."""
    from pyspark.sql import functions as F

    from tidings.spark.metrics.registry import METRICS
    from tidings.spark.metrics.traces import read_traces

    trace = read_traces(spark, [traces]).withColumn("run", F.lit(RUN)).cache()
    expected = what_is_owed(spark, trace, subscribers)
    delivered = METRICS["delivery_ratio"](trace, expected, by=["node"]).where(F.col("node").isin(list(subscribers)))
    latency = METRICS["latency"](trace, by=["node"])
    load = METRICS["load"](trace, by=["node"]).where(F.col("node").isin(list(brokers)))
    rates = METRICS["rates"](trace.where("message = 'Event'")).orderBy("second")
    found = {row["node"]: row for row in delivered.join(latency, ["run", "node"], "left").collect()}
    seconds = rates.collect()
    begin = seconds[0]["second"] if seconds else 0
    return Analysis(
        rows=trace.count(),
        deliveries=[delivery_of(name, found[name]) for name in subscribers if name in found],
        loads=[DemoLoad(row["node"], int(row["load_mean"])) for row in load.orderBy("node").collect()],
        rates=[(row["second"] - begin, row["published"], row["delivered"]) for row in seconds],
        late=late,
    )


def what_is_owed(spark: "SparkSession", trace: "DataFrame", subscribers: Mapping[str, str]) -> "DataFrame":
    """Which flight is owed to which subscriber: all that match, since all ask for everything from the start."""
    from pyspark.sql import functions as F

    from tidings.spark.matching import match

    published = trace.where("kind = 'publish' AND message = 'Event'")
    events = published.select("key", F.from_json("detail", ATTRIBUTES).alias("said")).select("key", "said.*")
    filters = spark.createDataFrame(list(subscribers.items()), "subscription STRING, filter STRING")
    pairs = match(events, filters).select("key", F.explode("subscriptions").alias("node"))
    return pairs.withColumn("run", F.lit(RUN))


def delivery_of(name: str, row: Any) -> DemoDelivery:
    return DemoDelivery(
        subscriber=name,
        expected=row["expected"],
        delivered=row["delivered_due"],
        p50=row["latency_p50"],
        p99=row["latency_p99"],
        largest=row["latency_max"],
    )


def draw(analysis: Analysis, outage: Sequence[float], path: Path) -> None:
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(11, 3.6), layout="constrained")
    over_time, latency, load = canvas.subplots(1, 3, width_ratios=(1.3, 1, 0.8))
    seconds = [second for second, _, _ in analysis.rates]
    over_time.plot(seconds, [published for _, published, _ in analysis.rates], label="published")
    over_time.plot(seconds, [delivered for _, _, delivered in analysis.rates], label="delivered")
    over_time.axvspan(*outage, color="#c02a2a", alpha=0.12, lw=0, label="a broker is down")
    over_time.set(title="flights a second", xlabel="second of the run", ylim=(0, None))
    over_time.legend(frameon=False)
    names = [each.subscriber for each in analysis.deliveries]
    for place, each in enumerate(analysis.deliveries):
        spans = [each.p50, each.p99, each.largest]
        known = [max(span, 1e-4) for span in spans if span is not None]
        latency.plot(known, [place] * len(known), color="#9aa5b1", zorder=1)
        for span, colour in zip(known, ("#2563a8", "#b3541e", "#c02a2a"), strict=False):
            latency.scatter([span], [place], color=colour, zorder=2, s=24)
    latency.set(title="latency in s: median, 99 %, largest", xscale="log", yticks=range(len(names)), yticklabels=names)
    latency.invert_yaxis()
    load.barh([each.broker for each in analysis.loads], [each.messages for each in analysis.loads], color="#2563a8")
    load.set(title="messages of each broker")
    load.invert_yaxis()
    for axes in (over_time, latency, load):
        axes.spines[["top", "right"]].set_visible(False)
    canvas.savefig(path, dpi=120)


def show(console: Console, analysis: Analysis) -> None:
    console.print("\na streaming query over the live brokers, flights more than an hour late:\n")
    console.print(body_of(late_flights), markup=False)
    counts = ", ".join(f"{carrier} {count:,}" for carrier, count in analysis.late[:SHOWN_MAX])
    console.print(f"\n  {counts}, ...", markup=False)
    console.print(f"\nthe traces of all brokers and clients, {analysis.rows:,} rows, read with Spark:\n")
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    table.add_column("subscriber", no_wrap=True)
    for name in ("due", "delivered", "median", "99 %", "longest"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in analysis.deliveries:
        spans = [span_text(span) for span in (each.p50, each.p99, each.largest)]
        table.add_row(each.subscriber, f"{each.expected:,}", f"{each.delivered:,}", *spans)
    console.print(table, "")
    loads = ", ".join(f"{each.broker} {each.messages:,}" for each in analysis.loads)
    console.print(f"messages of each broker: {loads}", markup=False)


def body_of(function: Callable[..., Any]) -> str:
    """Its lines, as they stand here: what is shown is what was run."""
    return getsource(function).partition("\n")[2].rstrip().replace("    return ", "    ")


def span_text(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
