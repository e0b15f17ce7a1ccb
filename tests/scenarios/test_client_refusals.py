"""What a client gives to its broker and the broker cannot take, on real sockets: whoever waits is told, nothing of it
is sent twice, and everything else goes on."""

import array
import asyncio
from typing import Any

import msgspec
import pytest

from tests.worlds.loopback import Broker, Relay, connect, url_of
from tests.worlds.sockets import play
from tidings import Event, Refused, UsageError
from tidings.net.client.client import Client
from tidings.pubsub.client import OpenSubscription, PublishBatch
from tidings.pubsub.publications import encode_head
from tidings.wire import decode, encode
from tidings.wire.handshake import Hello, unreadable

UNFIT: Any = "text where bytes belong"
"""As a client of somebody else's making might send it: ours refuses it at the call."""


class Narrow(Relay):
    """The broker behind it seems to read short frames only, as one with smaller bounds would."""

    def passed(self, way: str, body: bytes) -> bytes:
        message = decode(body)
        if way == "to client" and type(message) is Hello:
            return encode(msgspec.structs.replace(message, frame_bytes_max=4096))
        return body


# What is refused at the call.


@pytest.mark.parametrize("payload", ["text", {"a": 1}, [1], 5, None, object()])
def test_a_payload_that_is_no_bytes_is_refused_with_what_to_do(payload: Any) -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            for publish in (client.publish, client.try_publish):
                with pytest.raises(UsageError, match=r"bytes are needed; give .*json="):
                    await publish({"number": 1}, payload)  # type: ignore[misc]
            await client.flush()

    play(scenario())


def test_whatever_has_bytes_is_a_payload() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            subscription = await client.subscribe("TRUE")
            for payload in (b"ab", bytearray(b"ab"), memoryview(b"xaxb")[1::2], array.array("B", b"ab")):
                await client.publish({"number": 1}, payload)  # type: ignore[arg-type]
                assert (await anext(subscription)).payload == b"ab"

    play(scenario())


@pytest.mark.parametrize("value", [None, True, 0, "text", [1, {"a": None}], {"größe": 1.5}])
def test_a_json_value_is_written_as_json_and_the_event_says_so(value: Any) -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            subscription = await client.subscribe("TRUE")
            await client.publish({"number": 1}, json=value)
            event = await anext(subscription)
            assert msgspec.json.decode(event.payload) == value
            assert event.attributes == {"number": 1, "datacontenttype": "application/json"}

    play(scenario())


@pytest.mark.parametrize(
    "attributes, payload, json, words",
    [
        ({"a": 1}, b"x", 1, "leave one out"),
        ({"a": 1}, b"", {1, 2}, "give what JSON has"),
        ({"a": 1}, b"", float("nan"), "give what JSON has"),
        ({"a": 1}, b"", "\ud800", "give what JSON has"),
        ({"datacontenttype": "text/plain"}, b"", 1, "leave that out"),
        (Event({"a": 1}, b"x"), b"", 1, "an Event has its own payload"),
        (Event({"a": 1}, b"x"), b"y", msgspec.UNSET, "an Event has its own payload"),
    ],
)
def test_contents_that_contradict_each_other_are_refused(attributes: Any, payload: Any, json: Any, words: str) -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            with pytest.raises(UsageError, match=words):
                await client.publish(attributes, payload, json=json)

    play(scenario())


def test_json_keeps_a_content_type_that_is_json() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            subscription = await client.subscribe("TRUE")
            assert not client.try_publish({"a": 1}, json=1), "nothing is advertised yet"
            await client.publish({"datacontenttype": "application/geo+json"}, json={"type": "Point"})
            assert (await anext(subscription)).attributes == {"datacontenttype": "application/geo+json"}
            with pytest.raises(UsageError, match="str among heads and payloads"):
                await client.publish_encoded((b"\x80",), (UNFIT,))

    play(scenario())


def test_the_blocking_client_takes_json_and_refuses_text() -> None:
    from tidings.blocking import connect as connect_blocking

    with connect_blocking("memory:") as client:
        subscription = client.subscribe("TRUE")
        with pytest.raises(UsageError, match=r"payload\.encode\(\)"):
            client.publish({"a": 1}, UNFIT)
        client.publish({"a": 1}, json=[1])
        assert next(iter(subscription)).payload == b"[1]"


# What only the broker finds.


async def go_on(client: Client, broker: Broker, bad: PublishBatch) -> None:
    """Before, between and behind good publications; all of these arrive, and the connection was lost at most once."""
    async with connect(broker.url) as reader:
        subscription = await reader.subscribe("number >= 0")
        await client.advertise("TRUE")
        await client.publish({"number": 1})
        client.outgoing.leave()
        client.host.step(bad)
        await client.publish({"number": 2})
        with pytest.raises(Refused, match="declined 1 events"):
            await client.flush()
        await client.publish({"number": 3}, receipt=True)
        await client.flush()
        assert [(await anext(subscription)).attributes["number"] for _ in range(3)] == [1, 2, 3]
        later = await reader.subscribe("number >= 0", after={client.name: client.machine.window.next - 5})
        assert [(await anext(later)).attributes["number"] for _ in range(3)] == [1, 2, 3]
        assert not (subscription.counts.missed or later.counts.missed), "a number that was voided is not lost"


def head_of(number: int) -> bytes:
    return encode_head({"number": number})


def test_publications_that_the_broker_cannot_read_are_told_and_the_rest_goes_on() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url, name="somebody") as client:
            await go_on(client, broker, PublishBatch(1, (head_of(9),), (UNFIT,)))
            assert broker.counts.closings["bad message"] == 1
            assert client.host.counts.streams_opened == 2

    play(scenario())


def test_publications_longer_than_the_broker_reads_are_told_and_the_rest_goes_on() -> None:
    async def scenario() -> None:
        async with (
            Broker() as broker,
            Narrow(lambda: broker.address) as relay,
            connect(url_of(relay.address), name="somebody") as client,
        ):
            await go_on(client, broker, PublishBatch(1, (head_of(9),), (bytes(10_000),)))
            assert client.host.counts.streams_opened == 2
            with pytest.raises(Refused, match="reads at most 4096"):
                await client.publish({"number": 9}, bytes(5_000), receipt=True)

    play(scenario())


def test_a_publication_without_bytes_is_told_and_the_connection_stays() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url, name="somebody") as client:
            without_bytes: Any = "\ud800"
            await go_on(client, broker, PublishBatch(1, (head_of(9),), (without_bytes,)))
            assert client.host.counts.streams_opened == 1

    play(scenario())


def test_whoever_waits_for_a_receipt_or_a_subscription_is_told() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            kept = await client.subscribe("TRUE")
            await client.advertise("TRUE")
            answer = client.tickets.ask(
                "publish", lambda ticket: PublishBatch(1, (head_of(9),), (UNFIT,), ticket), lambda number: None
            )
            with pytest.raises(Refused, match="broker could not read it: PublishMessage"):
                await answer
            asked = client.tickets.ask(
                "subscribe", lambda ticket: OpenSubscription(ticket, "TRUE", group="x" * 300), lambda number: None
            )
            with pytest.raises(Refused, match="broker could not read it: Subscribe"):
                await asked
            await client.publish({"number": 1}, receipt=True)
            assert (await kept.take(1))[0].attributes == {"number": 1}

    play(scenario())


def test_a_peer_that_calls_everything_unreadable_gets_nothing_forgotten_that_it_does_not_name() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            subscription = await client.subscribe("TRUE")
            client.host.called_unreadable("broker", unreadable(b"what was never sent", "no"))
            await asyncio.sleep(0)
            await client.publish({"number": 1}, receipt=True)
            assert (await anext(subscription)).attributes == {"number": 1}

    play(scenario())
