"""Connections that break and brokers that crash, at every step of a client's life: nothing is lost or repeated."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench.brokers.servers import free_port
from tests.scenarios.processes import python
from tests.worlds.loopback import Broker, Cut, Relay, connect, url_of
from tests.worlds.sockets import play, until
from tidings import Client, Subscription
from tidings.net import Address
from tidings.protocols.access.messages import Attach, Attached
from tidings.protocols.delivery.messages import (
    Advertise,
    Delivery,
    PublishMessage,
    Subscribe,
    Taken,
    Unadvertise,
    Unsubscribe,
)
from tidings.pubsub.client import Accepted, Receipt
from tidings.wire.handshake import Hello

EVENTS = 60
"""Published by each of the two clients."""

STEPS = [
    Cut("to broker", Hello, "before"),
    Cut("to broker", Hello, "after"),
    Cut("to client", Hello, "before"),
    Cut("to client", Hello, "after"),
    Cut("to broker", Attach, "before"),
    Cut("to broker", Attach, "after"),
    Cut("to client", Attached, "before"),
    Cut("to client", Attached, "after"),
    Cut("to broker", Advertise, "before"),
    Cut("to broker", Advertise, "after"),
    Cut("to client", Receipt, "before", kind="advertise"),
    Cut("to client", Receipt, "after", kind="advertise"),
    Cut("to broker", Subscribe, "before"),
    Cut("to broker", Subscribe, "after"),
    Cut("to client", Receipt, "before", kind="subscribe"),
    Cut("to client", Receipt, "after", kind="subscribe"),
    Cut("to broker", PublishMessage, "before", 2),
    Cut("to broker", PublishMessage, "after", 2),
    Cut("to client", Accepted, "before", 2),
    Cut("to client", Accepted, "after", 2),
    Cut("to client", Delivery, "before", 1),
    Cut("to client", Delivery, "after", 1),
    Cut("to client", Delivery, "before", 5),
    Cut("to client", Delivery, "after", 5),
    Cut("to broker", Taken, "before"),
    Cut("to broker", Taken, "after"),
    Cut("to broker", Unsubscribe, "before"),
    Cut("to broker", Unsubscribe, "after"),
    Cut("to client", Receipt, "before", kind="unsubscribe"),
    Cut("to broker", Unadvertise, "before"),
    Cut("to broker", Unadvertise, "after"),
    Cut("to client", Receipt, "before", kind="unadvertise"),
]


async def publish_all(client: Client, by: str) -> None:
    for number in range(EVENTS):
        await client.publish({"number": number, "by": by})
        if number % 10 == 9:
            await client.flush()


async def collect(subscription: Subscription) -> dict[str, list[Any]]:
    received: dict[str, list[Any]] = {"self": [], "other": []}
    while sum(map(len, received.values())) < 2 * EVENTS:
        event = await anext(subscription)
        received[str(event.attributes["by"])].append(event.attributes["number"])
    return received


async def live(client: Client, other: Client) -> None:
    """The life of a client from its first word to its last; `other` publishes beside it."""
    advertisement = await client.advertise("number >= 0")
    subscription = await client.subscribe("number >= 0", window=16)
    collecting = asyncio.create_task(collect(subscription))
    await asyncio.gather(publish_all(client, "self"), publish_all(other, "other"))
    received = await collecting
    assert received == {"self": list(range(EVENTS)), "other": list(range(EVENTS))}
    await subscription.unsubscribe()
    assert subscription.take_now() == []
    await advertisement.unadvertise()


@pytest.mark.parametrize("cut", STEPS, ids=str)
def test_a_connection_that_breaks_here_costs_nothing(cut: Cut) -> None:
    async def scenario() -> None:
        async with Broker() as broker, Relay(lambda: broker.address, cut) as relay:
            async with connect(url_of(relay.address)) as client, connect(broker.url) as other:
                await live(client, other)
            assert relay.has_cut.is_set()
            await until(lambda: not broker.node.edge.clients)
            assert not broker.node.edge.subscriptions.all

    play(scenario())


@pytest.mark.parametrize("cut", STEPS, ids=str)
def test_a_broker_that_crashes_here_and_comes_back_with_its_data_costs_nothing(cut: Cut, tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = Broker(storage=tmp_path / "store")
        await broker.start()
        address = broker.address

        async def restart() -> None:
            nonlocal broker
            await broker.crash()
            broker = Broker(listen=address, storage=tmp_path / "store")
            await broker.start()

        async with Relay(lambda: address, cut) as relay:
            relay.on_cut = restart
            async with connect(url_of(relay.address)) as client, connect(url_of(address)) as other:
                await live(client, other)
            await until(relay.has_cut.is_set)
        await broker.stop()

    play(scenario())


@pytest.mark.parametrize("cut", STEPS, ids=str)
def test_a_client_that_dies_here_leaves_nothing_behind(cut: Cut) -> None:
    async def scenario() -> None:
        async with (
            Broker(history_age=0.2, marks_age=0.0, sweep_period=0.1) as broker,
            Relay(lambda: broker.address, cut) as relay,
        ):
            edge, access = broker.node.edge, broker.node.access

            async def die() -> None:
                relay.server.close()

            async def live_and_die() -> None:
                async with connect(url_of(relay.address)) as client, connect(broker.url) as other:
                    await live(client, other)

            relay.on_cut = die
            life = asyncio.create_task(live_and_die())
            await relay.has_cut.wait()
            await until(lambda: len(access.entrants) <= 1 and len(edge.clients) <= 1 and not edge.subscriptions.all)
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
            await until(lambda: not access.entrants and not edge.clients and not edge.publishers.all)
            assert not edge.publishers.offered
            broker.node.check()

    play(scenario())


class BrokerProcess:
    """A durable broker that can be killed, and is in the end."""

    def __init__(self, root: Path, store: Path) -> None:
        self.root, self.store = root, store
        self.lives = AsyncExitStack()
        self.address: Address = ("127.0.0.1", free_port())

    async def start(self) -> None:
        arguments = ["-m", "tests.scenarios.broker_process", str(self.address[1]), str(self.store)]
        environment = {**os.environ, "PYTHONPATH": f"{self.root / 'src'}{os.pathsep}{self.root}"}
        process = await self.lives.enter_async_context(python(*arguments, env=environment, cwd=self.root))
        assert process.stdout is not None
        assert await process.stdout.readline() == b"up\n"

    async def kill(self) -> None:
        await self.lives.aclose()

    async def __aenter__(self) -> "BrokerProcess":
        await self.start()
        return self

    async def __aexit__(self, *problem: Any) -> None:
        await self.kill()


KILLED = [
    Cut("to broker", PublishMessage, "after", 2),
    Cut("to client", Delivery, "after", 5),
    Cut("to broker", Subscribe, "after"),
    Cut("to client", Accepted, "after", 2),
]
"""A process takes seconds to start, so the quick run takes the first of these, a longer one all."""


def test_a_broker_process_that_is_killed_and_started_again_costs_nothing(
    root: Path, tmp_path: Path, examples: int
) -> None:
    async def scenario(cut: Cut) -> None:
        async with BrokerProcess(root, tmp_path / f"{cut.message.__name__}.sqlite") as broker:

            async def restart() -> None:
                await broker.kill()
                await broker.start()

            async with Relay(lambda: broker.address, cut) as relay:
                relay.on_cut = restart
                async with connect(url_of(relay.address)) as client, connect(url_of(broker.address)) as other:
                    await live(client, other)
                await until(relay.has_cut.is_set)

    for cut in KILLED[: max(1, examples // 100)]:
        play(scenario(cut))


CLIENT_TO_BE_KILLED = """
import asyncio, sys, tidings

async def main():
    async with tidings.connect(sys.argv[1]) as client:
        await client.subscribe("number >= 0")
        await client.subscribe("number < 0", group="twins")
        await client.publish({"number": 1}, receipt=True)
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_client_that_is_killed_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        async with Broker("a", history_age=0.3, marks_age=0.0, sweep_period=0.1) as broker:
            edge, access = broker.node.edge, broker.node.access
            async with python("-c", CLIENT_TO_BE_KILLED, broker.url) as process:
                assert process.stdout is not None
                assert await process.stdout.readline() == b"ready\n"
                assert (len(edge.clients), len(edge.subscriptions.all)) == (1, 2)
                process.send_signal(signal.SIGKILL)
            await until(lambda: not edge.clients and not access.entrants)
            assert not edge.subscriptions.all
            assert not edge.subscriptions.of_client
            # What it published may be fetched for as long as that was promised, and is gone then.
            await until(lambda: not edge.publishers.all)
            assert not edge.publishers.offered
            broker.node.check()

    play(scenario())


def test_the_next_broker_of_the_list_takes_over() -> None:
    async def scenario() -> None:
        async with Broker("a") as a, Broker("b", [a.address]) as b:
            await until(lambda: "b" in a.node.overlay.neighbours and a.node.routing.is_synchronised("b"))
            relay_a, relay_b = Relay(lambda: a.address), Relay(lambda: b.address)
            async with relay_a, relay_b, connect(a.url) as publisher:
                client = await connect(url_of(relay_a.address, relay_b.address))
                subscription = await client.subscribe("number >= 0")
                assert client.broker == "a"
                await publisher.publish({"number": 0}, receipt=True)
                await relay_a.__aexit__()
                await publisher.publish({"number": 1})
                await until(lambda: client.broker == "b")
                await publisher.publish({"number": 2})
                received = [(await anext(subscription)).attributes["number"] for _ in range(3)]
                assert received == [0, 1, 2]
                await client.close()

    play(scenario())


@pytest.mark.spec("S-99")
def test_a_thousand_races_between_a_receipt_and_a_publisher_elsewhere_lose_and_repeat_nothing() -> None:
    """Subscribe at one broker, wait for the receipt, publish at another one at once."""

    async def race(subscriber: Client, publisher: Client, first: int, rounds: int) -> tuple[int, int]:
        lost = repeated = 0
        for number in range(first, first + rounds):
            subscription = await subscriber.subscribe(f"number = {number}")
            await publisher.publish({"number": number})
            await publisher.publish({"number": number})
            received = await subscription.take()
            while len(received) < 2:
                received += await subscription.take()
            await subscription.unsubscribe()
            received += subscription.take_now()
            lost += 2 - len({event.number for event in received})
            repeated += len(received) - len({event.number for event in received})
        return lost, repeated

    async def scenario() -> None:
        async with Broker("a") as a, Broker("b", [a.address]) as b:
            await until(lambda: "b" in a.node.overlay.neighbours and a.node.routing.is_synchronised("b"))
            async with connect(a.url) as subscriber, connect(b.url) as publisher:
                await publisher.advertise("number >= 0")
                assert (subscriber.broker, publisher.broker) == ("a", "b")
                lanes = await asyncio.gather(*(race(subscriber, publisher, 250 * lane, 250) for lane in range(4)))
                assert lanes == [(0, 0)] * 4

    play(scenario())


def is_back(client: Client, connections: int) -> bool:
    """Whether it is connected again after it had so many connections."""
    return client.host.counts.streams_opened > connections and client.broker is not None


def test_a_subscriber_that_breaks_and_moves_again_and_again_gets_everything_once(examples: int) -> None:
    """Connections break at random moments, and the subscriber goes to another broker each time."""

    async def scenario(seed: int) -> None:
        rng = Random(seed)
        async with Broker("a") as a, Broker("b", [a.address]) as b, Broker("c", [b.address]) as c:
            await until(lambda: len(b.node.overlay.neighbours) == 2 and not b.node.why_not_ready())
            relays = [Relay(lambda: a.address), Relay(lambda: b.address), Relay(lambda: c.address)]
            async with relays[0], relays[1], relays[2]:
                publisher = await connect(url_of(relays[0].address))
                subscriber = await connect(url_of(*(relay.address for relay in reversed(relays))))
                subscription = await subscriber.subscribe("number >= 0", window=64)
                received: list[Any] = []
                published = 0
                for _ in range(15):
                    unlucky = rng.choice([publisher, subscriber])
                    connections = unlucky.host.counts.streams_opened
                    breaking = rng.randint(0, 40)
                    for place in range(60):
                        if place == breaking:
                            relays["abc".index(unlucky.broker or "a")].break_all()
                        await publisher.publish({"number": published})
                        published += 1
                        if rng.random() < 0.1:
                            await asyncio.sleep(0)
                    received += [event.attributes["number"] for event in subscription.take_now()]
                    await until(partial(is_back, unlucky, connections))
                while len(received) < published:
                    received += [event.attributes["number"] for event in await subscription.take()]
                assert received == list(range(published))
                await publisher.close()
                await subscriber.close()

    for seed in range(max(1, examples // 60)):
        play(scenario(seed))
