"""`python -m bench.tables`: what a link with many subscriptions costs when it breaks and comes back.

Two dispatchers on loopback: one has the subscriptions, behind the other somebody advertises all of it and publishes all
the time. Measured, from the moment in which the connection is aborted until every subscription is in force again and
an event that was published behind it has arrived:

- *seconds*, with both ends in this process, so on one core;
- *longest step*, in CPU time: of either machine, and of the loop, which serves nobody else meanwhile;
- *bytes* that both ends sent, publications left out of it.

Three cases: the subscriptions are told for the first time; the connection breaks and nothing has changed; it breaks
and the other dispatcher begins anew, with nothing.
"""

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import structlog

from bench.measures import warm_up
from tidings.machine.effects import Effect
from tidings.machine.inputs import Input
from tidings.net import Host, HostParams
from tidings.net.broker.garbage import SteppedCollection
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.delivery.local import LocalParams
from tidings.pubsub.client import OpenAdvertisement, OpenSubscription, PublishBatch
from tidings.pubsub.publications import encode_head

SUBSCRIPTIONS = 100_000
PUBLISHED_EVERY = 0.01
"""Seconds between two events that are published all the time."""

SILENT = structlog.wrap_logger(
    structlog.ReturnLogger(), processors=[], wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)

TARGET_SECONDS, TARGET_STEP = 10.0, 0.020


class TimedMachine:
    """A machine that notes the longest of its steps."""

    def __init__(self, machine: Dispatcher) -> None:
        self.machine, self.longest = machine, 0.0

    def start(self, now: float) -> list[Effect]:
        return self.machine.start(now)

    def handle(self, now: float, input: Input) -> list[Effect]:
        began = time.thread_time()
        effects = self.machine.handle(now, input)
        self.longest = max(self.longest, time.thread_time() - began)
        return effects

    def check(self) -> None:
        self.machine.check()


@dataclass
class Measured:
    case: str
    seconds: float
    cpu_seconds: float
    step: float
    loop_step: float
    sent_bytes: int
    events: int

    def __str__(self) -> str:
        return (
            f"{self.case:<24} {self.seconds:7.2f} s, {self.cpu_seconds:7.2f} s of CPU   longest step "
            f"{self.step * 1000:6.1f} ms, of the loop {self.loop_step * 1000:6.1f} ms   {self.sent_bytes:>11,} bytes   "
            f"{self.events:>5} events meanwhile"
        )


class End:
    """A dispatcher and its host."""

    def __init__(self, name: str, *links: str) -> None:
        params = DispatcherParams(
            links=OpenDoorParams(links=links, retry_first=0.01, retry_max=0.1), delivery=LocalParams(is_counting=True)
        )
        self.dispatcher = Dispatcher(name, params, Random(name))
        self.timed = TimedMachine(self.dispatcher)
        self.host = Host(name, self.timed, params=HostParams(backoff_first=0.01, backoff_max=0.1), log=SILENT)

    def heard(self, neighbour: str) -> int:
        routing: Any = self.dispatcher.routing
        return len(routing.tables.texts.get(neighbour, ()))

    def is_linked(self, neighbour: str) -> bool:
        routing: Any = self.dispatcher.routing
        return neighbour in routing.links and bool(routing.is_synchronised(neighbour))

    def arrived(self) -> int:
        return sum(self.dispatcher.local.counts.values())


class Gaps:
    """The longest time for which the loop served nobody."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        at = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest, at = max(self.longest, now - at), now


async def publish(end: End, values: int) -> None:
    """All the time, for somebody."""
    number = 0
    end.host.inject(OpenAdvertisement(1, "price > 0"))
    while True:
        number += 1
        head = encode_head({"symbol": f"S{number % values}", "price": 1_000_000})
        end.host.inject(PublishBatch(1, (head,), (b"",)))
        end.host.items.take_all()
        await asyncio.sleep(PUBLISHED_EVERY)


async def measure(
    case: str, ends: list[End], change: Callable[[], Awaitable[None]], is_over: Callable[[], bool]
) -> Measured:
    # As a broker does when it has started (`cli/brokers.py`).
    with SteppedCollection(lambda: 0.0, time.monotonic):
        gaps = Gaps()
        for end in ends:
            end.timed.longest = 0.0
        before_bytes = sum(end.host.counts.stream_bytes_sent for end in ends)
        before_events = ends[0].arrived()
        began, cpu_began = time.perf_counter(), time.process_time()
        await change()
        watching = asyncio.create_task(gaps.watch())
        while not is_over():
            await asyncio.sleep(0.002)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        watching.cancel()
    sent_bytes = sum(end.host.counts.stream_bytes_sent for end in ends) - before_bytes
    longest = max(end.timed.longest for end in ends)
    return Measured(case, seconds, cpu_seconds, longest, gaps.longest, sent_bytes, ends[0].arrived() - before_events)


async def measure_all(subscriptions: int) -> list[Measured]:
    wanting, offering = End("a", "b"), End("b")
    draw = Random(1)
    figures = []

    def is_over() -> bool:
        is_linked = wanting.is_linked("b") and offering.is_linked("a")
        return is_linked and offering.heard("a") == subscriptions and wanting.arrived() > arrived

    async def meet() -> None:
        await wanting.host.learn("b", offering.host.address)

    async def cut() -> None:
        wanting.host.links.up["b"].transport.abort()
        while wanting.is_linked("b") or offering.is_linked("a"):
            await asyncio.sleep(0)

    async with wanting.host:
        for number in range(subscriptions):
            text = f"symbol = 'S{number}' AND price > {draw.randint(1, 1000)}"
            wanting.host.inject(OpenSubscription(number, text))
            wanting.host.items.take_all()
        async with offering.host:
            publishing = asyncio.create_task(publish(offering, subscriptions))
            arrived = wanting.arrived()
            figures.append(await measure("told for the first time", [wanting, offering], meet, is_over))
            arrived = wanting.arrived()
            figures.append(await measure("after a break", [wanting, offering], cut, is_over))
            publishing.cancel()
        offering = End("b")
        async with offering.host:
            publishing = asyncio.create_task(publish(offering, subscriptions))
            arrived = wanting.arrived()
            figures.append(await measure("after a restart", [wanting, offering], meet, is_over))
            publishing.cancel()
    return figures


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.tables", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--subscriptions", type=int, default=SUBSCRIPTIONS, help="how many, all at one end")
    chosen = parser.parse_args(arguments)
    print(f"{chosen.subscriptions:,} subscriptions over one link")
    warm_up()
    for figure in asyncio.run(measure_all(chosen.subscriptions)):
        print(figure)
    print(f"targets: {TARGET_SECONDS:.0f} s after a break, no step above {TARGET_STEP * 1000:.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
