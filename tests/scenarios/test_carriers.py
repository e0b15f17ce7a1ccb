"""The transport over servers that are not ours and know nothing of it: order restored, losses recovered, none twice.

Between the foreign network and each receiver stands one that loses, repeats and delays a tenth of what it brings
(`foreign_networks.py`), since a server on the same machine hardly does. Skipped where the server, or the library to
speak to it, is not installed; the same is tried over one that has no server.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise

import pytest

from bench.brokers.servers import MOSQUITTO, NATS, Missing, Server
from tests.scenarios.foreign_networks import FaultyNetwork, MemoryNetwork
from tidings.model.errors import UsageError
from tidings.net.carriers import mqtt, nats
from tidings.net.carriers.client import CarrierClient, CarrierSubscription
from tidings.net.carriers.mqtt import MqttNetwork, connect_over_mqtt
from tidings.net.carriers.nats import NatsNetwork, connect_over_nats
from tidings.net.carriers.runner import BadPosted, ForeignNetwork, join, split
from tidings.net.client.subscription import Delivered
from tidings.net.errors import Closed, NotReachable
from tidings.protocols.transport.carrier import Posted
from tidings.protocols.transport.params import RecoveryParams, TransportParams

EVENTS = 600
AHEAD = 40
"""Events that a publisher sends before the first of them has come."""

SHARE, DELAY = 0.1, 0.02
SECONDS_MAX = 300.0
MUCH_LOST = TransportParams(record=10, recovery=RecoveryParams(requests_per_second=2000.0, repairs_per_second=2000.0))
"""A tenth of everything is lost here, which is more than the bounds against strangers allow a receiver to ask for."""

NEWS = "kind = 'news'"

MEMORY = "memory"
"""No server: what can be said of any such network is tried without one, too."""

Make = Callable[[], ForeignNetwork]


@contextmanager
def server_of(broker: str) -> Iterator[Make]:
    """Connections to a server of this kind, or the test is skipped."""
    if broker == MEMORY:
        members: list[Callable[[bytes], None]] = []
        yield lambda: MemoryNetwork(members)
        return
    if broker == NATS and find_spec("nats") is None:
        pytest.skip("nats-py is not installed; with pip: pip install 'tidings[nats]'")
    try:
        server = Server(broker)
    except Missing as problem:
        pytest.skip(str(problem))
    with server:
        if broker == NATS:
            yield lambda: NatsNetwork(f"nats://127.0.0.1:{server.port}", "lab")
        else:
            yield lambda: MqttNetwork(f"mqtt://127.0.0.1:{server.port}", "lab")


def faulty_client(make: Make, seed: int) -> CarrierClient:
    return CarrierClient(FaultyNetwork(make(), seed, SHARE, DELAY), reliable=True, transport=MUCH_LOST)


async def first_of(subscription: CarrierSubscription, greet: Callable[[], object]) -> Delivered:
    """What was sent before the first event that a receiver hears is not missed by it (T-40), so that one is settled
    before anything is counted."""
    while True:
        result = greet()
        if asyncio.iscoroutine(result):
            await result
        try:
            async with asyncio.timeout(0.2):
                return await anext(subscription)
        except TimeoutError:
            continue


async def all_of(subscription: CarrierSubscription, count: int) -> list[Delivered]:
    got: list[Delivered] = []
    async for event in subscription:
        if event.payload:
            got.append(event)
        if len(got) == count:
            break
    return got


def check_all(got: list[Delivered], count: int) -> None:
    """Every event, each once, with its own payload; those that came directly in their order, and all others said so."""
    assert sorted(int.from_bytes(event.payload) for event in got) == list(range(count))
    direct = [event.number for event in got if event.way == "direct"]
    assert all(earlier < later for earlier, later in pairwise(direct))
    assert len({event.number for event in got}) == count
    assert {event.way for event in got} >= {"direct", "repaired"}


async def exchange(make: Make, seed: int) -> None:
    async with (
        asyncio.timeout(SECONDS_MAX),
        CarrierClient(make(), reliable=True, transport=MUCH_LOST) as publisher,
        faulty_client(make, seed) as one,
        faulty_client(make, seed + 1000) as two,
    ):
        subscriptions = [await each.subscribe(NEWS) for each in (one, two)]
        for subscription in subscriptions:
            await first_of(subscription, lambda: publisher.publish({"kind": "news"}))

        async def publish() -> None:
            for number in range(EVENTS):
                await publisher.publish({"kind": "news", "place": number % 20}, number.to_bytes(4))
                await publisher.publish({"kind": "other", "place": number % 20}, b"")
                if number % AHEAD == 0:
                    await publisher.flush()
                    await asyncio.sleep(DELAY)

        publishing = asyncio.create_task(publish())
        for got in await asyncio.gather(*[all_of(subscription, EVENTS) for subscription in subscriptions]):
            check_all(got, EVENTS)
        await publishing
        for client in (one, two):
            network = client.network
            assert isinstance(network, FaultyNetwork)
            assert min(network.lost, network.repeated, network.delayed) > 0
            assert client.qualities["recovered"] > 0


@pytest.mark.spec("T-39", "T-58")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_over_a_network_that_promises_nothing_all_events_arrive_once_and_in_order(seed: int) -> None:
    with server_of(MEMORY) as make:
        asyncio.run(exchange(make, seed))


@pytest.mark.spec("T-39", "T-58", "T-101")
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("broker", [NATS, MOSQUITTO])
def test_over_a_foreign_server_all_events_arrive_once_and_in_order(broker: str, seed: int) -> None:
    with server_of(broker) as make:
        asyncio.run(exchange(make, seed))


async def receive_from_another_process(make: Make, process: subprocess.Popen[str]) -> None:
    assert process.stdin
    async with asyncio.timeout(SECONDS_MAX), faulty_client(make, 7) as client:
        subscription = await client.subscribe(NEWS)
        await first_of(subscription, lambda: None)
        process.stdin.write("go\n")
        process.stdin.flush()
        check_all(await all_of(subscription, EVENTS), EVENTS)


def test_two_processes_meet_over_nats() -> None:
    with server_of(NATS) as make:
        network = make()
        assert isinstance(network, NatsNetwork)
        words = ["-m", "tests.scenarios.carrier_publisher", network.servers[0], "lab", str(EVENTS)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", ".", os.environ.get("PYTHONPATH", "")])}
        with subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, text=True, env=environment) as process:
            asyncio.run(receive_from_another_process(make, process))
            process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0


async def talk(make: Make) -> None:
    async with asyncio.timeout(SECONDS_MAX), CarrierClient(make()) as one, CarrierClient(make()) as two:
        cheap = await one.subscribe("price < 10")
        dear = await one.subscribe("price >= 10 AND symbol = 'AMD'", ordered=False)
        for price in (5, 50, 7, 70):
            await two.publish({"symbol": "AMD", "price": price}, b"p%d" % price)
        assert [(await anext(cheap)).payload for _ in range(2)] == [b"p5", b"p7"]
        assert [(await anext(dear)).payload for _ in range(2)] == [b"p50", b"p70"]
        with pytest.raises(UsageError, match="belong to the transport"):
            await one.publish({"tidings_to": 5})
        cheap.unsubscribe()
        with pytest.raises(StopAsyncIteration):
            await anext(cheap)
    with pytest.raises(Closed):
        await one.publish({"price": 1})


@pytest.mark.spec("T-12", "T-16")
@pytest.mark.parametrize("broker", [MEMORY, NATS, MOSQUITTO])
def test_filters_are_exact_though_the_network_knows_none(broker: str) -> None:
    with server_of(broker) as make:
        asyncio.run(talk(make))


async def lag(make: Make) -> None:
    async with asyncio.timeout(SECONDS_MAX), CarrierClient(make()) as one, CarrierClient(make()) as two:
        slow = await one.subscribe("number >= 0", queue_max=3)
        all_there = await one.subscribe("number >= 0")
        for number in range(10):
            await two.publish({"number": number})
        for _ in range(10):
            await anext(all_there)
        assert [event.attributes["number"] for event in slow.take_now()] == [7, 8, 9]
        assert (slow.dropped, sum(one.drops.values())) == (7, 7)


@pytest.mark.parametrize("broker", [MEMORY, NATS])
def test_an_application_that_is_too_slow_loses_the_oldest_and_is_told(broker: str) -> None:
    with server_of(broker) as make:
        asyncio.run(lag(make))


@pytest.mark.parametrize("connect", [connect_over_nats, connect_over_mqtt])
def test_a_server_that_is_not_there_is_said_so(
    connect: Callable[..., CarrierClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    for carrier in (mqtt, nats):
        monkeypatch.setattr(carrier, "CONNECT_TIMEOUT", 0.2)
    if connect is connect_over_nats and find_spec("nats") is None:
        pytest.skip("nats-py is not installed")
    scheme = "nats" if connect is connect_over_nats else "mqtt"

    async def call() -> None:
        async with connect(f"{scheme}://127.0.0.1:1", network="lab"):
            pass

    with pytest.raises(NotReachable, match="is it running"):
        asyncio.run(call())


@pytest.mark.parametrize("connect", [connect_over_nats, connect_over_mqtt])
def test_a_network_has_a_plain_name(connect: Callable[..., CarrierClient]) -> None:
    for network in ("", "a b", "a.>", "a/#", "x" * 65):
        with pytest.raises(UsageError, match="is no name"):
            connect("nats://127.0.0.1", network=network)


@pytest.mark.spec("T-22")
def test_what_is_no_message_of_ours_is_refused() -> None:
    assert join(Posted(b"head", b"payload")) == b"\0\0\0\4headpayload"
    assert split(b"\0\0\0\4headpayload") == Posted(b"head", b"payload")
    for data in (b"", b"\0\0", bytes(4), b"\0\0\0\5head", b"\xff\xff\xff\xff" + bytes(10)):
        with pytest.raises(BadPosted):
            split(data)
