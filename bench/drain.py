"""`python -m bench.drain`: all clients of a broker go elsewhere while they publish and receive, and then it is killed.

    python -m bench.drain                         1,000 clients, 4 brokers that join each other
    python -m bench.drain --clients 100 --overlay spanning-tree

Brokers are processes, and so are those who have the clients, some hundred each. Ten clients share a topic: each
subscribes to it and publishes under it, every fifth event with a receipt, and waits now and then until all is accepted.
All of them are clients of the same broker, which is drained in the middle (`tidings drain`), and killed when
it says that it is safe to stop. Then all publish on for a while.

Each event has to reach all ten, once, and in the order of its publisher. Whatever an application hears of that is
no event counts: an exception, a warning, something missed. The drain takes as long as the broker says; processor
time is that of the brokers, since other work on the machine makes the clock mean little. The longest gap is
between two events that a client received, and shows how much of the drain anybody notices.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import msgspec

import tidings
from bench.brokers.servers import free_port
from tidings import Client, Subscription
from tidings.cli.drain import drained as drain_broker
from tidings.cli.reach import Reach
from tidings.net.inspector import InspectorAccess
from tidings.pubsub.rows import DrainRow

SHARERS = 10
"""Clients of a topic."""

CLIENTS_OF_PROCESS = 125
WAIT_MAX = 300.0
ENVIRONMENT = {
    "TIDINGS_BROKER_ROUTING__ENGINE": "plain",
    # All clients come from one address here.
    "TIDINGS_BROKER_HOST__ADDRESS_CONNECTIONS_MAX": "10000",
}


class Member:
    """A client: what it published, and what it got of everybody."""

    def __init__(self, client: Client, topic: str, name: str) -> None:
        self.client, self.topic, self.name = client, topic, name
        self.published = 0
        self.got: dict[str, list[int]] = {}
        self.last_at = self.longest_gap = 0.0
        self.subscription: Subscription

    async def begin(self) -> None:
        await self.client.advertise(f"topic = '{self.topic}'")
        self.subscription = await self.client.subscribe(f"topic = '{self.topic}'")

    async def receive(self) -> None:
        async for event in self.subscription:
            now = time.monotonic()
            if self.last_at:
                self.longest_gap = max(self.longest_gap, now - self.last_at)
            self.last_at = now
            self.got.setdefault(str(event.attributes["by"]), []).append(int(event.attributes["n"]))

    async def publish(self, period: float, is_over: asyncio.Event, errors: Counter[str]) -> None:
        while not is_over.is_set():
            attributes: dict[str, Any] = {"topic": self.topic, "by": self.name, "n": self.published}
            try:
                await self.client.publish(attributes, b"x" * 100, receipt=self.published % 5 == 0)
                self.published += 1
                if self.published % 10 == 0:
                    await self.client.flush()
            except Exception as problem:
                errors[f"{type(problem).__name__}: {problem}"[:200]] += 1
                self.published += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), period)


def judged(members: list[Member], errors: Counter[str]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for member in members:
        counts["missed told"] += sum(member.subscription.counts.missed.values())
        for other in members:
            if other.topic != member.topic:
                continue
            got = member.got.get(other.name, [])
            counts["due"] += other.published
            counts["lost"] += other.published - len(set(got))
            counts["twice"] += len(got) - len(set(got))
            counts["out of order"] += sum(late < early for early, late in pairwise(got))
    brokers = Counter(str(member.client.broker) for member in members)
    gaps = sorted(member.longest_gap for member in members)
    return {**counts, "errors": errors, "brokers": brokers, "gap_median": gaps[len(gaps) // 2], "gap_max": gaps[-1]}


async def work(url: str, first: int, count: int, period: float) -> None:
    """One process of clients; it is told by lines on stdin when to publish, and when it is over."""
    errors: Counter[str] = Counter()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    warnings.showwarning = lambda message, *where, **more: errors.update([str(message)[:200]])
    async with contextlib.AsyncExitStack() as stack:
        members = []
        for number in range(first, first + count):
            client = await stack.enter_async_context(tidings.connect(url, timeout=WAIT_MAX))
            members.append(Member(client, f"t{number // SHARERS}", f"c{number}"))
            await members[-1].begin()
        receiving = [asyncio.create_task(member.receive()) for member in members]
        print("ready", flush=True)
        await lines.readline()
        is_over = asyncio.Event()
        publishing = [asyncio.create_task(member.publish(period, is_over, errors)) for member in members]
        await lines.readline()
        is_over.set()
        await asyncio.gather(*publishing)
        for member in members:
            await member.client.flush()
        deadline = time.monotonic() + WAIT_MAX
        while (said := judged(members, errors))["lost"] and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
        for task in receiving:
            task.cancel()
        print(json.dumps(said), flush=True)


class Brokers:
    def __init__(self, count: int, overlay: str) -> None:
        self.overlay = overlay
        self.ports = [free_port() for _ in range(count)]
        self.children: list[asyncio.subprocess.Process] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Brokers"]:
        try:
            for number in range(len(self.ports)):
                await self.start(number)
            yield self
        finally:
            for child in self.children:
                if child.returncode is None:
                    child.kill()
                await child.wait()

    async def start(self, number: int) -> None:
        if self.overlay == "lstree":
            role = ["--join", self.address(0)]
        else:
            role = [part for other in range(number) for part in ("--link", self.address(other))]
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidings", "broker", "--until-eof", "--name", f"b{number}"),
            *("--listen", self.address(number), *role, "--log", "error"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT},
        )
        self.children.append(child)
        assert child.stdout is not None
        await child.stdout.readline()

    def address(self, number: int) -> str:
        return f"127.0.0.1:{self.ports[number]}"

    def processor_seconds(self) -> float:
        ticks = 0
        for child in self.children:
            with contextlib.suppress(OSError), open(f"/proc/{child.pid}/stat", encoding="ascii") as stat:
                fields = stat.read().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


async def drained(address: str) -> DrainRow:
    rows: list[DrainRow] = []
    if not await drain_broker(address, Reach(address, InspectorAccess()), WAIT_MAX, lambda step: rows.append(step.row)):
        raise SystemExit(f"not drained within {WAIT_MAX:g} s; last {rows[-1:]}")
    return rows[-1]


async def start_worker(url: str, first: int, count: int, period: float) -> asyncio.subprocess.Process:
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.drain", "--worker", url, str(first), str(count), str(period)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**20,
    )
    assert worker.stdout is not None
    if await worker.stdout.readline() != b"ready\n":
        raise SystemExit("a process of clients did not start")
    return worker


def tell(workers: list[asyncio.subprocess.Process], word: bytes) -> None:
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(word)


async def measure(clients: int, brokers: int, overlay: str, rate: float, seconds: float) -> dict[str, Any]:
    home = brokers - 1
    async with Brokers(brokers, overlay).running() as network:
        url, workers = f"tidings://{network.address(home)}", list[asyncio.subprocess.Process]()
        try:
            for first in range(0, clients, CLIENTS_OF_PROCESS):
                count = min(CLIENTS_OF_PROCESS, clients - first)
                workers.append(await start_worker(url, first, count, clients / rate))
            tell(workers, b"publish\n")
            await asyncio.sleep(seconds)
            before = network.processor_seconds()
            row = await drained(network.address(home))
            spent = network.processor_seconds() - before
            network.children[home].send_signal(signal.SIGKILL)
            await asyncio.sleep(seconds)
            tell(workers, b"over\n")
            said = [json.loads(await worker.stdout.readline()) for worker in workers if worker.stdout is not None]
        finally:
            for worker in workers:
                if worker.returncode is None:
                    worker.kill()
                await worker.wait()
    counts: Counter[str] = Counter()
    for each in said:
        counts.update({key: value for key, value in each.items() if isinstance(value, int)})
    errors = sum((Counter(each["errors"]) for each in said), Counter[str]())
    went = sum((Counter(each["brokers"]) for each in said), Counter[str]())
    return {
        **counts,
        "errors": dict(errors),
        "went_to": dict(went),
        "gap_median": max(each["gap_median"] for each in said),
        "gap_max": max(each["gap_max"] for each in said),
        "processor_seconds_of_brokers": spent,
        "drain": msgspec.to_builtins(row),
    }


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        url, first, count, period = sys.argv[2:6]
        asyncio.run(work(url, int(first), int(count), float(period)))
        return 0
    parser = argparse.ArgumentParser(
        prog="python -m bench.drain", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--brokers", type=int, default=4)
    parser.add_argument("--overlay", choices=("lstree", "spanning-tree"), default="lstree")
    parser.add_argument("--rate", type=float, default=200.0, help="events a second of all clients together")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load before the drain, and behind it")
    given = parser.parse_args()
    found = asyncio.run(measure(given.clients, given.brokers, given.overlay, given.rate, given.seconds))
    print(json.dumps(found, indent=1))
    bad = found.get("lost", 0) or found.get("twice", 0) or found.get("out of order", 0) or found["errors"]
    return 1 if bad or found["drain"]["let_go"] else 0


if __name__ == "__main__":
    sys.exit(main())
