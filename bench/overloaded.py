"""What popularity does for real brokers that have more to forward than they can: `python -m bench.overloaded`.

Four brokers in a row, each a process of its own on this machine, on loopback. At the first are 40 publishers, each with
an advertisement of its own, and one event comes after the other; clients at the other three want what is popular by a
Zipf law, without a guarantee: of the r-th publisher there are 1/r of the most subscriptions. `phi` and `capacity` are
such that a third of the traffic is popular.

First the events of a round are published as fast as the first broker takes them, without popularity: that is its
capacity, as far as the machine lets it. Then each way in turn has the same events at 1.5 times that rate
(`--overload`), at times that are fixed beforehand: what is late because the publisher has to wait counts as late.

    deliveries a CPU second     of all brokers together, and of the first
    p99, popular                seconds from when it was to be published to its delivery, of the upper tenth of the
                                advertisements; beside it that of all others
    times plain                 ratios of the sums of all rounds, which alternate between the ways
    idle                        a way in which everything is popular: what popularity costs where nothing is diverted

Processor time is that of the processes of brokers; ratios hold on a busy machine too, seconds do not.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import tidings
from bench.brokers.servers import free_port
from bench.failover.systems import cpu_seconds
from bench.failover.tally import at_share
from tidings.cli.brokers import Fleet, read_network
from tidings.net.client.client import Client

BROKERS = ("a", "b", "c", "d")
STREAMS, MOST, POPULAR = 40, 40, 4
QUIET = 3.0
"""Seconds without a delivery behind which nothing more is expected."""
WAYS = ("plain", "idle", "batching", "direct", "asked")


def routing(way: str, rate: float) -> dict[str, Any]:
    common = {"engine": "plain", "evaluated_every": 0.5, "batched_for": 1.0, "aside_max": 10_000}
    if way == "plain":
        return {"engine": "plain"}
    if way == "idle":
        return {**common, "popularity": "batching", "phi": 1.0, "capacity": 1e12}
    return {**common, "popularity": way, "phi": 1 / 3, "capacity": max(1.0, rate)}


class OverloadedRow:
    """Brokers in a row and their clients, for one way."""

    def __init__(self, way: str, rate: float, seed: int, folder: Path) -> None:
        self.way, self.rng, self.folder = way, Random(seed), folder
        self.settings = {"log": "warning", "routing": routing(way, rate)}
        self.fleet = Fleet([], folder, as_json=False)
        self.due: dict[str, tuple[int, float]] = {}
        self.delays: defaultdict[int, list[float]] = defaultdict(list)
        self.delivered, self.heard_at = 0, 0.0

    async def run(self, events: int, rate: float) -> tuple[int, float, float, float, float, float]:
        """Deliveries, CPU seconds of all and of the first, seconds of publishing, p99 of popular and other ones."""
        pairs = [[first, second] for first, second in pairwise(BROKERS)]
        listens = {name: {"listen": f"127.0.0.1:{free_port()}"} for name in BROKERS}
        planned = read_network({"links": pairs, "settings": self.settings, "brokers": listens}, self.folder)
        urls = {broker.name: f"tidings://{broker.listen}" for broker in planned}
        try:
            for broker in planned:
                await self.fleet.start(broker)
            async with AsyncExitStack() as stack:
                publishers: list[Client] = []
                for stream in range(STREAMS):
                    client = await stack.enter_async_context(tidings.connect(urls["a"], name=f"p{stream}"))
                    publishers.append(client)
                    await client.advertise(f"stream = {stream}")
                tasks = [asyncio.create_task(each) for each in await self.subscribe(stack, urls)]
                # Warm, and popular what is.
                await self.publish(publishers, events // 4, rate, "")
                await self.settle()
                pids = [child.pid for child in self.fleet.children.values()]
                used, first = cpu_seconds(pids), cpu_seconds(pids[:1])
                self.delivered, begun = 0, time.monotonic()
                await self.publish(publishers, events, rate, "e")
                published = time.monotonic() - begun
                await self.settle()
                spent, spent_first = cpu_seconds(pids) - used, cpu_seconds(pids[:1]) - first
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await self.fleet.stop()
        popular = sorted(delay for stream in range(POPULAR) for delay in self.delays[stream])
        others = sorted(delay for stream in range(POPULAR, STREAMS) for delay in self.delays[stream])
        return self.delivered, spent, spent_first, published, at_share(popular, 0.99), at_share(others, 0.99)

    async def subscribe(self, stack: AsyncExitStack, urls: dict[str, str]) -> list[Any]:
        clients = [
            await stack.enter_async_context(tidings.connect(urls[name], name=f"s{name}")) for name in BROKERS[1:]
        ]
        asked = [
            self.rng.choice(clients).subscribe(f"stream = {stream} AND x >= {self.rng.randrange(50)}", guarantee="none")
            for stream in range(STREAMS)
            for _ in range(max(1, MOST // (stream + 1)))
        ]
        return [self.receive(await each) for each in asked]

    async def receive(self, subscription: Any) -> None:
        while events := await subscription.take():
            now = self.heard_at = time.monotonic()
            for event in events:
                self.delivered += 1
                if event.id in self.due:
                    stream, at = self.due[event.id]
                    self.delays[stream].append(now - at)

    async def publish(self, publishers: list[Client], events: int, rate: float, prefix: str) -> None:
        """At an even rate, or (0) as fast as it is taken."""
        begin = time.monotonic()
        for count in range(events):
            at = begin + count / rate if rate else time.monotonic()
            if rate and count % 16 == 0 and at > time.monotonic():
                await asyncio.sleep(at - time.monotonic())
            stream, event = self.rng.randrange(STREAMS), f"{prefix}{count}"
            if prefix:
                self.due[event] = stream, at
            await publishers[stream].publish({"id": event, "stream": stream, "x": self.rng.randrange(100)}, bytes(100))
        for publisher in publishers:
            await publisher.flush()

    async def settle(self) -> None:
        self.heard_at = time.monotonic()
        while time.monotonic() < self.heard_at + QUIET:
            await asyncio.sleep(0.1)


async def measured(way: str, events: int, rate: float, capacity: float, seed: int) -> tuple[float, ...]:
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        return await OverloadedRow(way, capacity, seed, Path(folder)).run(events, rate)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.overloaded", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--overload", type=float, default=1.5)
    parser.add_argument("--only", default=",".join(WAYS), help=f"some of {', '.join(WAYS)}; plain is always there")
    asked = parser.parse_args()
    ways = ["plain", *(way for way in WAYS[1:] if way in asked.only.split(","))]
    events = asked.events
    seconds = asyncio.run(measured("plain", events, 0.0, 1.0, 0))[3]
    rate = events / seconds * asked.overload
    print(f"capacity {events / seconds:,.0f} events a second; offered {rate:,.0f}", flush=True)
    sums = {way: [0.0] * 6 for way in ways}
    for seed in range(1, asked.rounds + 1):
        for way in ways:
            found = asyncio.run(measured(way, events, rate, rate, seed))
            sums[way] = [one + other for one, other in zip(sums[way], found, strict=True)]
    plain = sums["plain"]
    print(
        f"{'way':10} {'deliveries':>10} {'CPU s':>7} {'per CPU s':>10} {'times plain':>12} {'first broker':>13} "
        f"{'p99 popular':>12} {'times plain':>12} {'p99 others':>11}"
    )
    for way in ways:
        count, spent, first, _, popular, others = sums[way]
        each, ours = (count / spent) / (plain[0] / plain[1]), (count / first) / (plain[0] / plain[2])
        print(
            f"{way:10} {count:10.0f} {spent:7.2f} {count / spent:10.0f} {each:12.2f} {ours:13.2f} "
            f"{popular / asked.rounds:12.3f} {popular / plain[4]:12.2f} {others / asked.rounds:11.3f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
