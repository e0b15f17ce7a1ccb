"""A query that is killed at any moment and starts again from its checkpoint, with other cores and shuffles, sees each
event once, and publishes each row once; its broker may die as well.

TIDINGS_KILLS says how often it is killed in the long test (100), TIDINGS_SEED where the moments come from.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.processes import SOURCE, Program, python, tidings
from tests.spark.live_query import start_queries
from tests.spark.live_world import WORKER_IS_LATE, ThreadBroker, patiently
from tests.worlds.loopback import connect
from tidings.net.client.client import Client
from tidings.pubsub.publications import encode_head

KILLS = int(os.environ.get("TIDINGS_KILLS", "100"))
SEED = int(os.environ.get("TIDINGS_SEED", "5"))

BURST = 200
"""Events that are published each time a micro-batch is done."""

LINES_MAX = {"kept": 6, "sent": 2}
"""After at most so many micro-batches of one of the queries they are killed. Of one alone, because on a slow machine
the quicker one would always end what the other has begun."""

DELAY_MAX = 0.5
"""Seconds after the last of these."""

STORED = {
    "TIDINGS_BROKER_DELIVERY__HISTORY_AGE": "7200",
    "TIDINGS_BROKER_DELIVERY__HISTORY_COUNT_MAX": "1000000",
}


class Meter:
    """Publishes 0, 1, 2, ... and remembers how many."""

    def __init__(self, client: Client) -> None:
        self.client, self.count = client, 0

    async def burst(self) -> None:
        numbers = range(self.count, self.count + BURST)
        self.count += BURST
        await self.client.publish_encoded([encode_head({"n": n, "amount": n / 4}) for n in numbers], [b""] * BURST)


@asynccontextmanager
async def source_broker(data: Path, listen: str = "127.0.0.1:0") -> AsyncIterator[Program]:
    arguments = ("broker", "--name", "source", "--listen", listen, "--data", str(data), "--json", "--log", "warning")
    async with tidings(*arguments, variables=STORED) as program:
        ready = await program.line()
        program.address = ready.partition('"listen":')[2].partition('"')[2].partition('"')[0]
        yield program


@asynccontextmanager
async def life(source: str, target: str, folder: Path, rng: Random) -> AsyncIterator[asyncio.StreamReader]:
    """The queries in a process with all that it starts; it is killed in the end."""
    cores, shuffles = str(rng.randint(1, 3)), str(rng.randint(1, 5))
    async with python(
        *("-m", "tests.spark.live_query", source, target, str(folder), cores, shuffles),
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), str(SOURCE.parent)])},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            os.killpg(process.pid, signal.SIGKILL)


async def live_and_die(source: str, target: str, folder: Path, meter: Meter, rng: Random) -> None:
    """Let it do some micro-batches while the publisher goes on, then kill it in the middle of whatever it does."""
    async with life(source, target, folder, rng) as lines:
        waited_for = rng.choice(sorted(LINES_MAX))
        left = rng.randint(1, LINES_MAX[waited_for])
        while left:
            line = await lines.readline()
            if WORKER_IS_LATE.encode() in line:
                # Spark killed it before we did.
                break
            assert line and not line.startswith(b"ended"), line
            if line.startswith(b"done"):
                await meter.burst()
                left -= line.split()[1].decode() == waited_for
        await asyncio.sleep(rng.uniform(0, DELAY_MAX))


async def play(folder: Path, spark: SparkSession, target: ThreadBroker, kills: int) -> int:
    rng = Random(SEED)
    async with source_broker(folder / "source") as first:
        address = first.address
        client = await connect(f"tidings://{address}", name="meter")
        meter = Meter(client)
        await meter.burst()
        await client.flush()
        for _ in range(kills // 2):
            await live_and_die(client_url(address), target.url, folder, meter, rng)
    # The broker was killed too; its clients find the next one.
    async with source_broker(folder / "source", address):
        for _ in range(kills - kills // 2):
            await live_and_die(client_url(address), target.url, folder, meter, rng)
        await meter.burst()
        await client.close()
        # Spark finds formats of Python sinks only in the thread that opened its session.
        finish(spark, client_url(address), target.url, folder)
    return meter.count


def client_url(address: str) -> str:
    return f"tidings://{address}"


def finish(spark: SparkSession, source: str, target: str, folder: Path) -> None:
    def attempt() -> None:
        queries = start_queries(spark, source, target, folder, availableNow=True)
        try:
            for query in queries:
                query.awaitTermination()
        finally:
            for query in queries:
                query.stop()

    patiently(attempt)


@pytest.mark.spark
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(1, marks=pytest.mark.timeout(1200)),
        pytest.param(KILLS, marks=[pytest.mark.long, pytest.mark.timeout(300 + 120 * KILLS)], id="many"),
    ],
)
def test_queries_that_are_killed_at_any_moment_see_and_publish_each_event_once(
    spark: SparkSession, tmp_path: Path, kills: int
) -> None:
    with ThreadBroker("target", tmp_path / "target") as target:
        count = asyncio.run(play(tmp_path, spark, target, kills))
        [kept] = (
            spark.read.parquet(str(tmp_path / "rows"))
            .selectExpr(
                "count(*) AS rows", "count(DISTINCT n) AS different", "sum(n) AS total", "sum(amount) AS amount"
            )
            .collect()
        )
        assert (kept.rows, kept.different) == (count, count), f"TIDINGS_SEED={SEED}"
        assert (kept.total, kept.amount) == (count * (count - 1) // 2, count * (count - 1) / 8)
        sent = Counter(target.stored())
    assert sent == Counter(range(count)), f"TIDINGS_SEED={SEED}"
