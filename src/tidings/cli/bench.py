"""`tidings bench`: how fast is this broker, from here?

One publisher and one subscriber in this process, over the socket of the broker. First as many events as go through,
then one event at a time. A quick look, not a benchmark: client and broker share this machine, and the client's own work
is part of what is measured. `make bench` compares with others.
"""

import asyncio
import secrets
import time
from typing import Annotated

import msgspec
import typer

from tidings.cli.output import Json, print_json, show
from tidings.cli.reach import Reach, connect, reaching
from tidings.model.event import Event
from tidings.net.client.client import Client
from tidings.net.client.subscription import Subscription

TAKE_MAX = 1024


class BenchResult(msgspec.Struct, frozen=True):
    broker: str
    events: int
    size_bytes: int
    seconds: float
    events_per_second: float
    latency_p50_ms: float
    latency_p99_ms: float
    receipt_ms: float
    """From subscribing to the receipt."""


@reaching
def bench(
    events: Annotated[int, typer.Option(min=100, max=10_000_000, help="How many events to send.")] = 50_000,
    singles: Annotated[int, typer.Option(min=10, max=100_000, help="How many to send one by one.")] = 500,
    size: Annotated[int, typer.Option(min=0, max=500_000, help="Bytes of payload in each.")] = 100,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Measure a broker inside this process, not a running one.")
    ] = False,
    batches: Annotated[
        bool, typer.Option("--batches", help="Measure what batches cost a broker, by their size; no broker is needed.")
    ] = False,
    json: Json = False,
    *,
    reach: Reach,
) -> None:
    """Measure throughput and latency of a broker with one publisher and one subscriber in this process.

    \b
    Example:
      tidings bench --embedded --events 20000
      tidings bench --batches
    """
    if batches:
        show_batches(json)
        return
    if embedded:
        reach = msgspec.structs.replace(reach, broker="memory:")
    measured = asyncio.run(measure(reach, events, singles, size))
    if json:
        print_json(measured)
        return
    show(f"{measured.events:,} events of {size} bytes through {measured.broker} in {measured.seconds:.2f} s")
    show(f"throughput  {measured.events_per_second:,.0f} events/s")
    show(f"latency     p50 {measured.latency_p50_ms:.2f} ms, p99 {measured.latency_p99_ms:.2f} ms, one event at a time")
    show(f"receipt     {measured.receipt_ms:.2f} ms from subscribe to receipt")


class BatchRow(msgspec.Struct, frozen=True):
    size: int
    publications_per_second: float
    units: float


def show_batches(json: bool) -> None:
    from tidings.net.broker.capacity import batch_costs, cost_slope

    costs = batch_costs()
    if json:
        print_json([BatchRow(*cost) for cost in costs])
        return
    show("publications in a batch, publications/s of one core, what a batch costs in publications that travel alone")
    for cost in costs:
        show(f"{cost.size:6}  {cost.publications_per_second:12,.0f}  {cost.units:8.2f}")
    show(f"a batch of n costs about 1 + {cost_slope(costs):.2f} (n - 1)")
    show(f"capacity = {costs[0].publications_per_second:,.0f}")


async def measure(reach: Reach, events: int, singles: int, size: int) -> BenchResult:
    run, payload = secrets.token_hex(4), bytes(size)
    async with connect(reach) as client:
        await client.advertise(f"bench = '{run}'")
        began = time.perf_counter()
        subscription = await client.subscribe(f"bench = '{run}'")
        receipt_ms = (time.perf_counter() - began) * 1000
        seconds = await flood(client, subscription, Event({"bench": run, "n": 1}, payload), events)
        latencies = sorted(
            [await single(client, subscription, Event({"bench": run, "n": n}, payload)) for n in range(singles)]
        )
        return BenchResult(
            client.broker or reach.broker,
            events,
            size,
            seconds,
            events / seconds,
            latencies[len(latencies) // 2] * 1000,
            latencies[len(latencies) * 99 // 100] * 1000,
            receipt_ms,
        )


async def flood(client: Client, subscription: Subscription, event: Event, events: int) -> float:
    async def publish() -> None:
        for _ in range(events):
            await client.publish(event)

    began = time.perf_counter()
    publishing = asyncio.create_task(publish())
    taken = 0
    while taken < events:
        taken += len(await subscription.take(TAKE_MAX))
    await publishing
    return time.perf_counter() - began


async def single(client: Client, subscription: Subscription, event: Event) -> float:
    began = time.perf_counter()
    await client.publish(event)
    await subscription.take(1)
    return time.perf_counter() - began
