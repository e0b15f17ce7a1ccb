"""Metrics of what is published, from the history of live brokers, without a trace.

    events = spark.readStream.format("tidings").schema(COLUMNS).option("url", ...).load()
    stored_table(events, "publishers").where("holes > 0").writeStream...

    publishers    publisher    events, holes, order_violations, first_number, last_number
    acceptance    publisher    timed, latency_mean, p50, p95, p99, max

Of a stream they are kept up to date (`live.py`); of a batch read they are computed at once, by other code, and are the
same for the same events.

**What can be known.** The history of a publisher is a log in the order of its numbers. A *hole* is a number in between
that is not there: an event that was lost, or, if the read has a filter, one that did not match. Publishers that number
their events themselves (`numbers_from`, Spark's sink) leave holes that mean nothing. An *order violation* is an event
that was accepted before one with a lower number: the clock of its broker went back, or the publisher went to a broker
whose clock is behind. *Latency* is from `time`, which the publisher said, if it did, to `accepted_at`, so it has the
difference of two clocks in it. What subscribers got, and in which order, stands in no history, only in traces. Load and
drops of brokers are in `loads.py`.

**Micro-batches.** The source parts the events of a publisher by number. So whatever is accepted at one instant, and
wherever a micro-batch ends: the fold sees each event once, in the order of numbers, and nothing depends on where it was
cut. Nor must anything be kept to wait for what may come: it is a few numbers for each publisher, and of latencies how
often each came, cut to four digits, of which there are not many.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.model.errors import UsageError
from tidings.spark.metrics.live import LONG, SPREAD, TEXT, LiveTable, Row, cut_value, kept_up, spread_row
from tidings.spark.metrics.tables import seconds, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "publisher STRING, number LONG, accepted_at TIMESTAMP, time TIMESTAMP"
"""What is read."""


class PublisherState(msgspec.Struct):
    events: int = 0
    first: int = 0
    last: int = 0
    latest_us: int = 0
    """When the latest of them was accepted."""
    violations: int = 0


def fold_publisher(state: PublisherState, rows: Iterable[Row]) -> dict[str, Any]:
    """Events of one publisher in the order of their numbers."""
    for row in rows:
        if not state.events:
            state.first, state.latest_us = row["number"], row["accepted_us"]
        state.events += 1
        state.last = row["number"]
        state.violations += row["accepted_us"] < state.latest_us
        state.latest_us = max(state.latest_us, row["accepted_us"])
    return {
        "events": state.events,
        "holes": state.last - state.first + 1 - state.events,
        "order_violations": state.violations,
        "first_number": state.first,
        "last_number": state.last,
    }


class AcceptanceState(msgspec.Struct):
    counts: dict[int, int] = {}
    """How often each latency came, cut to four digits."""
    sum_us: int = 0
    max_us: int | None = None


def fold_acceptance(state: AcceptanceState, rows: Iterable[Row]) -> dict[str, Any]:
    for row in rows:
        latency = row["latency_us"]
        state.counts[cut_value(latency)] = state.counts.get(cut_value(latency), 0) + 1
        state.sum_us += latency
        state.max_us = latency if state.max_us is None else max(latency, state.max_us)
    return spread_row(state.counts, state.sum_us, state.max_us)


STORED_TABLES = {
    "publishers": LiveTable(
        "Events of each publisher, and holes in their numbers.",
        "TRUE",
        {"publisher": TEXT},
        {"number": "number", "accepted_us": "unix_micros(accepted_at)"},
        dict.fromkeys(("events", "holes", "order_violations", "first_number", "last_number"), LONG),
        PublisherState,
        fold_publisher,
    ),
    "acceptance": LiveTable(
        "Seconds from the time that a publisher gave its events until they were accepted.",
        "time IS NOT NULL",
        {"publisher": TEXT},
        {"number": "number", "latency_us": "unix_micros(accepted_at) - unix_micros(time)"},
        SPREAD,
        AcceptanceState,
        fold_acceptance,
    ),
}


def stored_table(events: "DataFrame", name: str) -> "DataFrame":
    """A table of these events: of a stream a row for each publisher that has changed, of a batch one for each."""
    if name not in STORED_TABLES:
        raise UsageError(f"there is no table {name!r} of stored events; there are {', '.join(STORED_TABLES)}")
    missing = [column.split()[0] for column in COLUMNS.split(", ") if column.split()[0] not in events.columns]
    if missing:
        raise UsageError(f"these events have no {', '.join(missing)}; read them with .schema({COLUMNS!r})")
    table = STORED_TABLES[name]
    columns = [f"{told} AS {column}" for column, told in table.rows.items()]
    rows = events.where(table.where).selectExpr(*table.keys, *columns)
    if events.isStreaming:
        return kept_up(rows, table)
    return publishers_of(rows) if name == "publishers" else acceptance_of(rows)


def publishers_of(rows: "DataFrame") -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    before = Window.partitionBy("publisher").orderBy("number").rowsBetween(Window.unboundedPreceding, -1)
    judged = rows.withColumn("latest_us", F.max("accepted_us").over(before))
    return judged.groupBy("publisher").agg(
        F.count("*").alias("events"),
        F.expr("max(number) - min(number) + 1 - count(*)").alias("holes"),
        F.expr("count_if(accepted_us < latest_us)").alias("order_violations"),
        F.min("number").alias("first_number"),
        F.max("number").alias("last_number"),
    )


def acceptance_of(rows: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    told = {"timed": "count(*)", **spread("latency", "latency_us", 50, 95, 99, unit=seconds)}
    told |= {"latency_max": seconds("max(latency_us)")}
    return rows.groupBy("publisher").agg(*(F.expr(text).alias(name) for name, text in told.items()))
