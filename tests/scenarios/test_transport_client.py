"""The transport in clients, against real brokers on loopback sockets."""

import asyncio
import threading
from typing import Any

import pytest

from tests.worlds.loopback import Broker, Relay, connect, url_of
from tests.worlds.sockets import play, until
from tidings import Delivered, Subscription, UsageError, parse
from tidings.blocking import connect as connect_blocking
from tidings.model.identity import name_of
from tidings.net.client.client import Client
from tidings.net.client.metrics import make_client_registry
from tidings.net.inspector import Inspector
from tidings.protocols.access.judge import Verdict
from tidings.protocols.transport.params import CongestionParams, RecoveryParams, TransportParams
from tidings.protocols.transport.signals import Quality
from tidings.pubsub.client import Policy
from tidings.pubsub.publications import encode_head
from tidings.pubsub.rows import TransportRow

EAGER = TransportParams(recovery=RecoveryParams(rounds_max=1, distance_first=0.01))
"""Losses that nobody repairs are read from history soon."""


async def take(subscription: Subscription, count: int) -> list[Delivered]:
    taken: list[Delivered] = []
    while len(taken) < count:
        taken += await subscription.take(count - len(taken))
    return taken


def values(events: list[Delivered]) -> list[Any]:
    return [event.attributes["x"] for event in events]


async def publish(client: Client, numbers: range) -> None:
    for number in numbers:
        await client.publish({"x": number}, b"%d" % number)
    await client.flush()


@pytest.mark.spec("T-16", "T-101")
def test_events_arrive_in_order_and_bare_with_and_without_a_transport_at_the_receiver() -> None:
    async def scenario() -> None:
        async with (
            Broker() as broker,
            connect(broker.url, ordered=True, reliable=True, paced=True) as carried,
            connect(broker.url, ordered="basic") as basic,
            connect(broker.url) as plain,
            connect(broker.url, name="pub", ordered=True, reliable=True, paced=True) as publisher,
        ):
            subscriptions = [await client.subscribe("TRUE") for client in (carried, basic, plain)]
            await publish(publisher, range(500))
            for subscription in subscriptions:
                events = await take(subscription, 500)
                assert values(events) == list(range(500))
                assert [event.payload for event in events] == [b"%d" % number for number in range(500)]
                assert {tuple(event.attributes) for event in events} == {("x",)}
                assert {event.way for event in events} == {"direct"}
                assert events[0].publisher == "pub"
            # What transports say to each other reaches a filter that matches everything, and ends there.
            await until(lambda: subscriptions[2].counts.foreign > 0)
            assert subscriptions[2].counts.waiting == 0

    play(scenario())


def test_stored_events_are_read_bare_and_transport_messages_are_not_among_them() -> None:
    async def scenario() -> None:
        async with (
            Broker() as broker,
            connect(broker.url, name="pub", ordered=True, reliable=True) as publisher,
            connect(broker.url, ordered=True, reliable=True) as receiver,
            connect(broker.url) as plain,
        ):
            subscription = await receiver.subscribe("x >= 0")
            await publish(publisher, range(20))
            await take(subscription, 20)
            # An echo came and was answered under the publisher's name.
            await until(lambda: receiver.transport_state().streams[0].round_trip > 0)
            await publisher.flush()
            (mark,) = [mark for mark in (await plain.marks("TRUE")).marks if name_of(mark.publisher) == "pub"]
            for client in (plain, receiver):
                stored = await client.fetch("TRUE", "pub", through=mark.through)
                assert stored.payloads == tuple(b"%d" % number for number in range(20))
                assert values(stored.events()) == list(range(20))
            late = await plain.subscribe("x >= 0", since=0.0)
            assert values(await take(late, 20)) == list(range(20))

    play(scenario())


@pytest.mark.spec("T-18")
def test_modes_that_cannot_be_are_refused_with_what_to_do() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as plain, connect(broker.url, ordered="basic") as basic:
            with pytest.raises(UsageError, match=r"connect\(\.\.\., ordered=True\)"):
                await plain.subscribe("TRUE", reliable=True)
            for call in (plain.transport_state, plain.configure_transport, lambda: plain.on_quality(print)):
                with pytest.raises(UsageError, match=r"connect\(\.\.\., ordered=True\)"):
                    call()
            with pytest.raises(UsageError, match="enhanced ordering"):
                await basic.subscribe("TRUE", reliable=True)
            subscription = await basic.subscribe("TRUE")
            with pytest.raises(UsageError, match="enhanced ordering"):
                subscription.set_modes(paced=True)
            with pytest.raises(UsageError, match="priority"):
                await basic.subscribe("TRUE", priority=0.0)
            unordered = await basic.subscribe("TRUE", ordered=False)
            with pytest.raises(UsageError, match="ordered=True"):
                unordered.set_modes(reliable=True)

    play(scenario())


def test_a_loss_that_no_cache_repairs_comes_from_the_history_of_a_broker() -> None:
    """The broker drops for a slow subscriber; the publisher keeps nothing, and nobody else wants these events."""

    async def scenario() -> None:
        async with (
            Broker() as broker,
            connect(broker.url, transport=EAGER, reliable=True) as receiver,
            connect(broker.url, name="pub", ordered=True) as publisher,
        ):
            told: list[Quality] = []
            receiver.on_quality(told.append)
            subscription = await receiver.subscribe("x >= 0", policy="drop oldest", queue_max=2, window=4)
            await publish(publisher, range(10))
            events = await take(subscription, 10)
            assert sorted(values(events)) == list(range(10))
            ways = {event.attributes["x"]: event.way for event in events}
            brought = [number for number, way in ways.items() if way == "history"]
            assert brought and set(ways.values()) == {"direct", "history"}
            assert all(event.publisher == "pub" and event.number for event in events)
            assert subscription.counts.lost == subscription.counts.from_history == len(brought)
            assert [quality.what for quality in told].count("lost") == len(brought)
            assert subscription.positions == {events[0].life: max(event.number for event in events)}
            receiver.machine.check()

    play(scenario())


@pytest.mark.parametrize("policy", ["drop oldest", "drop newest"])
def test_a_long_run_of_losses_that_no_record_tells_of_is_made_good_as_well(policy: Policy) -> None:
    async def scenario() -> None:
        # A broker that lets clients be silent for a while.
        url = f"memory:{policy}"
        async with (
            connect(url, transport=EAGER, reliable=True) as receiver,
            connect(url, name="pub", ordered=True) as publisher,
        ):
            subscription = await receiver.subscribe("x >= 0", policy=policy, queue_max=2, window=4)
            await publish(publisher, range(1000))
            events = await take(subscription, 1000)
            assert sorted(values(events)) == list(range(1000))
            brought = [event for event in events if event.way == "history"]
            assert len(brought) > 900
            assert subscription.counts.lost == subscription.counts.from_history == len(brought)
            assert subscription.counts.missed.total() >= len(brought)
            in_time = [event.number for event in events if event.way == "direct"]
            assert in_time == sorted(in_time)
            receiver.machine.check()

    play(scenario())


def test_a_loss_is_repaired_by_whoever_has_the_event() -> None:
    async def scenario() -> None:
        async with (
            Broker() as broker,
            connect(broker.url, ordered=True, reliable=True) as slow,
            connect(broker.url, name="pub", ordered=True, reliable=True) as publisher,
        ):
            subscription = await slow.subscribe("x >= 0", policy="drop oldest", queue_max=2, window=4)
            await publish(publisher, range(10))
            events = await take(subscription, 10)
            assert sorted(values(events)) == list(range(10))
            repaired = [event for event in events if event.way == "repaired"]
            assert subscription.counts.repaired == len(repaired) > 0
            assert all((event.publisher, event.number) == ("pub", 0) for event in repaired)
            assert {event.payload for event in events} == {b"%d" % number for number in range(10)}
            # The window is as it would be without: everything that comes is let through.
            await publish(publisher, range(10, 60))
            assert sorted(values(await take(subscription, 50))) == list(range(10, 60))

    play(scenario())


@pytest.mark.spec("T-102")
def test_modes_change_while_events_flow() -> None:
    async def scenario() -> None:
        async with (
            Broker() as broker,
            connect(broker.url, ordered=True) as receiver,
            connect(broker.url, name="pub", ordered=True) as publisher,
        ):
            subscription = await receiver.subscribe("x >= 0")
            modes = []
            for step in range(4):
                publisher.configure_transport(reliable=step % 2 == 1, paced=step >= 2)
                subscription.set_modes(reliable=step >= 2, paced=step % 2 == 1)
                await publish(publisher, range(step * 50, step * 50 + 50))
                assert values(await take(subscription, 50)) == list(range(step * 50, step * 50 + 50))
                state = publisher.transport_state()
                modes.append((state.is_reliable, state.is_paced))
            assert modes == [(False, False), (True, False), (False, True), (True, True)]
            assert subscription.modes is not None and subscription.modes.is_reliable and subscription.modes.is_paced

    play(scenario())


def test_after_a_break_everything_goes_on_and_nothing_comes_twice() -> None:
    async def scenario() -> None:
        async with (
            Broker() as broker,
            Relay(lambda: broker.address) as relay,
            connect(url_of(relay.address), ordered=True, reliable=True, paced=True) as receiver,
            connect(url_of(relay.address), name="pub", ordered=True, reliable=True, paced=True) as publisher,
        ):
            subscription = await receiver.subscribe("x >= 0")
            for begin in range(0, 500, 100):
                await publish(publisher, range(begin, begin + 50))
                relay.break_all()
                await publish(publisher, range(begin + 50, begin + 100))
                assert sorted(values(await take(subscription, 100))) == list(range(begin, begin + 100))
            assert subscription.counts.given_up == 0
            for client in (receiver, publisher):
                client.machine.check()

    play(scenario())


def test_a_receipt_comes_for_what_went_through_the_transport() -> None:
    async def scenario() -> None:
        async with (
            Broker() as broker,
            connect(broker.url, ordered=True, reliable=True, paced=True) as receiver,
            connect(broker.url, ordered=True, reliable=True, paced=True) as publisher,
        ):
            subscription = await receiver.subscribe("x >= 0")
            await asyncio.gather(*(publisher.publish({"x": number}, receipt=True) for number in range(20)))
            assert len(await take(subscription, 20)) == 20
            assert publisher.machine.window.count == 0

    play(scenario())


def bounded_judge(peer: str, role: str, credentials: bytes, now: float) -> Verdict | str:
    return Verdict(peer, parse("x >= 0") if peer == "bound" else None)


def test_a_client_bound_to_less_keeps_order_and_says_what_is_off() -> None:
    async def scenario() -> None:
        async with (
            Broker(judge=bounded_judge) as broker,
            connect(broker.url, name="pub", ordered=True, reliable=True) as publisher,
            connect(broker.url, name="bound", ordered=True, reliable=True, paced=True) as receiver,
        ):
            subscription = await receiver.subscribe("x >= 0")
            await publish(publisher, range(20))
            assert values(await take(subscription, 20)) == list(range(20))
            await until(lambda: receiver.transport_state().problem != "")
            assert "recovery and pacing are off" in receiver.transport_state().problem
            await receiver.publish({"x": 20})
            await receiver.flush()
            assert values(await take(subscription, 1)) == [20]

    play(scenario())


def test_a_full_flow_makes_publish_wait_and_try_publish_say_no() -> None:
    """A receiver behind a slow reader reports little; the publisher obeys."""
    params = TransportParams(is_paced=True, congestion=CongestionParams(queue_max=5, slow_start=True))

    async def scenario() -> None:
        async with (
            Broker() as broker,
            connect(broker.url, ordered=True) as receiver,
            connect(broker.url, name="pub", transport=params) as publisher,
        ):
            subscription = await receiver.subscribe("x >= 0")
            await publisher.advertise("TRUE")
            accepted = [publisher.try_publish({"x": number}) for number in range(200)]
            assert accepted[0] and not accepted[-1]
            queued = accepted.count(True)
            await publisher.publish({"x": 1000})
            await publisher.publish_encoded([encode_head({"x": 1001})] * 3, [b""] * 3)
            await publisher.flush()
            assert publisher.transport_state().withheld == 0
            events = await take(subscription, queued + 4)
            assert values(events)[-4:] == [1000, 1001, 1001, 1001]

    play(scenario())


def test_the_state_of_transports_is_shown_by_the_broker_and_as_metrics() -> None:
    async def scenario() -> None:
        async with (
            Broker() as broker,
            connect(broker.url, name="sub", ordered=True, reliable=True, paced=True) as receiver,
            connect(broker.url, name="pub", ordered=True, reliable=True, paced=True) as publisher,
        ):
            subscription = await receiver.subscribe("x >= 0")
            await publish(publisher, range(100))
            await take(subscription, 100)
            rows: list[TransportRow] = []
            async with Inspector("{}:{}".format(*broker.address)) as inspector:
                while {row.client for row in rows} != {"pub", "sub"}:
                    rows = await inspector.table("transport", TransportRow)
                    await asyncio.sleep(0.05)
            (stream,) = [row for row in rows if row.kind == "stream"]
            assert (stream.client, stream.publisher, stream.delivered) == ("sub", "pub", 100)
            text = scraped(make_client_registry(receiver))
            assert 'tidings_transport_delivered_total{node="sub",publisher="pub"} 100.0' in text
            assert "tidings_transport_hold_seconds" in text and "tidings_transport_flow_quota" in text
            # Whoever scrapes does so on another thread.
            found: list[str] = []
            thread = threading.Thread(target=lambda: found.append(scraped(make_client_registry(receiver))))
            thread.start()
            while thread.is_alive():
                await asyncio.sleep(0.01)
            assert "tidings_transport_lost_total" in found[0]

    play(scenario())


def scraped(registry: Any) -> str:
    from prometheus_client import generate_latest

    return generate_latest(registry).decode()


def test_the_blocking_client_has_the_transport_too() -> None:
    with (
        connect_blocking("memory:transport", ordered=True, reliable=True) as receiver,
        connect_blocking("memory:transport", name="pub", ordered=True, reliable=True) as publisher,
    ):
        subscription = receiver.subscribe("x >= 0", reliable=False)
        subscription.set_modes(reliable=True)
        told: list[Quality] = []
        receiver.on_quality(told.append)
        publisher.configure_transport(reliable=False)
        for number in range(20):
            publisher.publish({"x": number})
        events: list[Delivered] = []
        while len(events) < 20:
            events += subscription.take(timeout=30.0)
        assert values(events) == list(range(20))
        assert receiver.transport_state().streams[0].publisher == "pub"
        assert not publisher.transport_state().is_reliable
