"""Requests and their replies, and events in regions, between clients of real brokers on loopback."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.worlds.loopback import Broker, Cut, Relay, connect, url_of
from tests.worlds.sockets import play
from tidings import Client, Delivered, NotAnswered, NotReachable, Region, Subscription, UsageError
from tidings.blocking import connect as connect_blocking
from tidings.protocols.delivery.messages import ReplyMessage
from tidings.pubsub.client import REPLY_ATTRIBUTE, Receipt


async def line_of_brokers(stack: AsyncExitStack) -> list[Broker]:
    brokers = [await stack.enter_async_context(Broker("first"))]
    for name in ("second", "third"):
        brokers.append(await stack.enter_async_context(Broker(name, links=[brokers[-1].address])))
    return brokers


async def answering(client: Client, subscription: Subscription) -> Delivered:
    """Answers one request with twice its number, and gives the event as it came."""
    event = await anext(subscription)
    number = event.attributes["number"]
    assert isinstance(number, int)
    await client.reply(event, json=2 * number, attributes={"status": "done"})
    return event


@pytest.mark.spec("D-21")
def test_a_reply_reaches_the_publisher_across_brokers_and_the_replier_does_not_learn_who_that_is() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            brokers = await line_of_brokers(stack)
            asker = await stack.enter_async_context(connect(brokers[0].url))
            replier = await stack.enter_async_context(connect(brokers[2].url))
            other = await stack.enter_async_context(connect(brokers[1].url))
            subscription = await replier.subscribe("type = 'double'")
            everything = await other.subscribe("TRUE")
            answered = asyncio.create_task(answering(replier, subscription))
            reply = await asker.request({"type": "double", "number": 21})
            assert (reply.json(), reply.attributes["status"]) == (42, "done")
            event = await answered
            # What the replier has of the asker is a word drawn for this event, and a name that its client drew for
            # itself: with the next connection both are others.
            assert set(event.attributes) == {"type", "number", REPLY_ATTRIBUTE}
            async with connect(brokers[0].url) as again:
                answered = asyncio.create_task(answering(replier, subscription))
                await again.request({"type": "double", "number": 2})
                later = await answered
            assert later.publisher != event.publisher
            assert later.attributes[REPLY_ATTRIBUTE] != event.attributes[REPLY_ATTRIBUTE]
            # A reply is for its publisher alone: whoever subscribes to everything sees the request and no reply.
            await asker.publish({"number": 0}, receipt=True)
            seen = [await anext(everything) for _ in range(3)]
            assert [each.attributes["number"] for each in seen] == [21, 2, 0]

    play(scenario())


def test_the_first_of_several_replies_counts_and_the_others_are_counted() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as asker, connect(broker.url) as replier:
            subscription = await replier.subscribe("TRUE")
            asking = asyncio.create_task(asker.request({"number": 1}))
            event = await anext(subscription)
            await replier.reply(event, b"first")
            await replier.reply(event, b"second")
            assert (await asking).payload == b"first"
            assert asker.requests.unclaimed == 1 and not asker.requests.waiting

    play(scenario())


def test_a_request_that_nobody_answers_ends_and_a_late_reply_is_no_harm() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as asker, connect(broker.url) as replier:
            subscription = await replier.subscribe("TRUE")
            with pytest.raises(NotAnswered, match="nobody replied within"):
                await asker.request({"number": 1}, timeout=0.05)
            await replier.reply(await anext(subscription), b"late")
            assert asker.requests.unclaimed == 1

    play(scenario())


def test_an_ordinary_event_cannot_be_replied_to() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            subscription = await client.subscribe("TRUE")
            await client.publish({"number": 1})
            with pytest.raises(UsageError, match="not published by request"):
                await client.reply(await anext(subscription), b"")

    play(scenario())


def test_the_replier_hears_that_the_asker_has_left() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            brokers = await line_of_brokers(stack)
            asker = await connect(brokers[0].url)
            replier = await stack.enter_async_context(connect(brokers[2].url))
            subscription = await replier.subscribe("TRUE")
            asking = asyncio.create_task(asker.request({"number": 1}))
            event = await anext(subscription)
            asking.cancel()
            await asker.close()
            with pytest.raises(NotReachable, match="has left its broker"):
                await replier.reply(event, b"too late")

    play(scenario())


@pytest.mark.parametrize("cut", [Cut("to broker", ReplyMessage), Cut("to client", Receipt, kind="reply")], ids=str)
def test_a_reply_whose_connection_breaks_is_made_again_and_counts_once(cut: Cut) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            broker = await stack.enter_async_context(Broker())
            relay = await stack.enter_async_context(Relay(lambda: broker.address, cut))
            asker = await stack.enter_async_context(connect(broker.url))
            replier = await stack.enter_async_context(connect(url_of(relay.address)))
            subscription = await replier.subscribe("TRUE")
            asking = asyncio.create_task(asker.request({"number": 1}))
            await replier.reply(await anext(subscription), b"yes")
            assert relay.has_cut.is_set()
            assert (await asking).payload == b"yes"

    play(scenario())


def test_programs_without_a_loop_ask_and_reply_too() -> None:
    def ask(url: str) -> object:
        with connect_blocking(url) as asker:
            return asker.request({"number": 4}).json()

    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as replier:
            subscription = await replier.subscribe("number > 0")
            answered = asyncio.create_task(answering(replier, subscription))
            assert await asyncio.to_thread(ask, broker.url) == 8
            await answered

    play(scenario())


@pytest.mark.spec("D-22")
def test_events_with_a_region_reach_those_whose_region_meets_it() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            brokers = await line_of_brokers(stack)
            publisher = await stack.enter_async_context(connect(brokers[0].url))
            reader = await stack.enter_async_context(connect(brokers[2].url))
            alps = await reader.subscribe("type = 'storm'", region=Region(west=5.0, south=44.0, east=17.0, north=48.0))
            zurich = await reader.subscribe("type = 'storm'", region=Region.point(8.5, 47.4))
            for name, region in {
                "lakes": Region(west=8.0, south=45.5, east=10.0, north=46.5),
                "north": Region(west=6.0, south=47.0, east=15.0, north=55.0),
                "iceland": Region(west=-24.5, south=63.0, east=-13.0, north=66.5),
                "border": Region(west=17.0, south=40.0, east=20.0, north=44.0),
            }.items():
                await publisher.publish({"type": "storm", "name": name}, region=region)
            await publisher.publish({"type": "storm", "name": "nowhere"})
            await publisher.publish({"type": "flood", "name": "other"}, region=Region.point(8.5, 47.4))
            await publisher.publish({"type": "storm", "name": "last"}, region=Region.point(8.5, 47.4))
            found: dict[str, list[object]] = {}
            for key, subscription in (("alps", alps), ("zurich", zurich)):
                names = found[key] = []
                while not names or names[-1] != "last":
                    names.append((await anext(subscription)).attributes["name"])
            assert found == {"alps": ["lakes", "north", "border", "last"], "zurich": ["north", "last"]}

    play(scenario())
