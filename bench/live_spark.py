"""`python -m bench.live_spark`: events out of a live broker into Spark and back, beside the plain client.

One broker process stores the events that are read, another takes those that are published; all else happens in this
process and in those of Spark. In one run:

- *History, plain client*: a subscription from the beginning, and pages of history, both without looking at the events.
- *History, Spark*: a batch read and a stream from the beginning into nowhere, with record batches, and with the same
  readers yielding rows, which is how a source is usually written.
- *Publishing*: `publish` of the plain client in a loop, its `publish_encoded`, and the sink with two partitions.
- *Latency*: from `publish` to the row in the sink of a micro-batch query, one event after the other.

Times are wall-clock time, rounds take turns, and the median counts. Spark is warmed up first. Use the ratios: absolute
figures move with the load of the machine. `--quick` takes fewer events.
"""

import argparse
import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from bench.live_events import ADVERTISED, PAYLOAD, ROOT, STORED, attributes, publish_encoded
from bench.live_rows import RowSource
from tidings.net.client.connection import connect
from tidings.spark.session import open_session

EVENTS, EVENTS_QUICK = 500_000, 20_000
ROUNDS, ROUNDS_QUICK = 3, 1
LIVE, LIVE_QUICK = 100, 20
"""Events whose latency is measured."""

LIVE_PERIOD = 0.1
WARM_UP = 50
TARGETS = [
    ("batch read: record batches / rows", "batch", "batch rows", 4.0),
    ("stream: record batches / rows", "stream", "stream rows", 2.0),
    ("batch read / plain client (pages)", "batch", "client pages", 0.5),
    ("batch read / plain client (subscription)", "batch", "client subscription", 0.5),
    ("sink / publish", "sink", "client publish", 0.5),
]
LATENCY_TARGET = 1.5


@contextmanager
def broker() -> Iterator[str]:
    """A broker process; its URL."""
    command = [sys.executable, "-m", "tidings", "broker", "--listen", "127.0.0.1:0", "--json", "--log", "error"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **STORED}) as process:
        assert process.stdout is not None
        try:
            yield f"tidings://{json.loads(process.stdout.readline())['listen']}"
        finally:
            process.terminate()


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# The plain client.


async def publish_plainly(url: str, count: int) -> None:
    async with connect(url) as client:
        await client.advertise(ADVERTISED)
        for number in range(count):
            await client.publish(attributes(number), PAYLOAD)
        await client.flush()


async def read_subscription(url: str, count: int) -> None:
    async with connect(url) as client:
        subscription = await client.subscribe("TRUE", since=0.0)
        got = 0
        while got < count:
            got += len(await subscription.take())


async def read_history(url: str, count: int) -> None:
    async with connect(url) as client:
        got = 0
        for mark in (await client.marks("TRUE")).marks:
            async for page in client.history("TRUE", mark.publisher, through=mark.through):
                got += len(page.numbers)
        assert got == count, f"{got} of {count} events came"


# Spark.


def read_batch(spark: SparkSession, url: str, name: str) -> None:
    """All columns that one gets without giving a schema."""
    spark.read.format(name).option("url", url).load().write.format("noop").mode("overwrite").save()


def read_stream(spark: SparkSession, url: str, name: str, count: int) -> None:
    rows = spark.readStream.format(name).option("url", url)
    with tempfile.TemporaryDirectory() as folder:
        writer = rows.option("startingOffsets", "earliest").load().writeStream.format("noop")
        query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        query.awaitTermination()
        got = sum(progress["numInputRows"] for progress in query.recentProgress)
        assert got == count, f"{got} of {count} events came"


def write_sink(rows: DataFrame, url: str) -> None:
    rows.write.format("tidings").option("url", url).option("advertise", ADVERTISED).mode("append").save()


def rows_to_write(spark: SparkSession, count: int) -> DataFrame:
    made = spark.range(0, count, 1, 2).selectExpr(
        "CAST(id AS STRING) AS id",
        "'/exchange/floor' AS source",
        "'quote' AS type",
        "TIMESTAMP '2026-11-15 20:45:00Z' AS time",
        "concat('S', id % 500) AS symbol",
        "id * 0.37D % 1000 AS price",
        "id % 9973 AS volume",
        f"CAST('{PAYLOAD.decode()}' AS BINARY) AS payload",
    )
    made = made.cache()
    made.count()
    return made


async def measure_latency(spark: SparkSession, url: str, count: int) -> list[float]:
    """Seconds from publish to row, of one event after the other."""
    seen: dict[int, float] = {}

    def note(batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        now = time.time()
        seen.update({row.n: now - row.at for row in rows})

    reader = spark.readStream.format("tidings").option("url", url).option("filter", "EXISTS live")
    rows = reader.schema("n long, at double").load()
    with tempfile.TemporaryDirectory() as folder:
        query = rows.writeStream.foreachBatch(note).option("checkpointLocation", folder).start()
        try:
            async with connect(url, name="live") as client:
                await client.advertise("live = TRUE")

                async def publish(number: int) -> None:
                    await client.publish({"live": True, "n": number, "at": time.time()})
                    await asyncio.sleep(LIVE_PERIOD)

                # Until the query has begun, and is warm.
                for number in itertools.count(-1, -1):
                    await publish(number)
                    if len(seen) >= WARM_UP:
                        break
                for number in range(count):
                    await publish(number)
                while count - 1 not in seen:
                    await asyncio.sleep(LIVE_PERIOD)
        finally:
            query.stop()
    return [seen[number] for number in range(count)]


# The run.


def measure(spark: SparkSession, url: str, target: str, count: int, rounds: int) -> dict[str, float]:
    """Events per second."""
    rows = rows_to_write(spark, count)
    works: dict[str, Callable[[], object]] = {
        "client subscription": lambda: asyncio.run(read_subscription(url, count)),
        "client pages": lambda: asyncio.run(read_history(url, count)),
        "batch": lambda: read_batch(spark, url, "tidings"),
        "batch rows": lambda: read_batch(spark, url, "tidings_rows"),
        "stream": lambda: read_stream(spark, url, "tidings", count),
        "stream rows": lambda: read_stream(spark, url, "tidings_rows", count),
        "client publish": lambda: asyncio.run(publish_plainly(target, count)),
        "sink": lambda: write_sink(rows, target),
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for place in range(-1, rounds):
        for name, work in works.items():
            took = timed(work)
            # The first time is for the machine to get ready.
            if place >= 0:
                seconds[name].append(took)
    return {name: count / median(took) for name, took in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.live_spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few events, one round")
    is_quick = parser.parse_args().quick
    count, rounds = (EVENTS_QUICK, ROUNDS_QUICK) if is_quick else (EVENTS, ROUNDS)
    # Spark's workers are other processes, and have to find this package too.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with broker() as url, broker() as target, tempfile.TemporaryDirectory() as folder:
        settings = {"spark.sql.warehouse.dir": str(Path(folder, "warehouse"))}
        spark = open_session("local[2]", settings=settings)
        spark.dataSource.register(RowSource)
        took = timed(lambda: asyncio.run(publish_encoded(url, "desk", count)))
        print(f"{count} events, {rounds} rounds; publish_encoded {count / took:,.0f} events/s")
        speeds = measure(spark, url, target, count, rounds)
        for name, speed in speeds.items():
            print(f"  {name:24}{speed:>12,.0f} events/s")
        for what, one, other, least in TARGETS:
            ratio = speeds[one] / speeds[other]
            print(f"  {what:44}{ratio:>6.2f}  (at least {least:g}) {'reached' if ratio >= least else 'MISSED'}")
        latencies = asyncio.run(measure_latency(spark, target, LIVE_QUICK if is_quick else LIVE))
        p50, worst = median(latencies), max(latencies)
        verdict = "reached" if p50 < LATENCY_TARGET else "MISSED"
        print(f"  publish to row: p50 {p50:.2f} s, worst {worst:.2f} s  (p50 below {LATENCY_TARGET} s) {verdict}")
        spark.stop()


if __name__ == "__main__":
    main()
