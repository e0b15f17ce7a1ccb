"""A broker is drained while its clients publish, wait for receipts, read and ask each other: nobody notices."""

import asyncio
import json
from contextlib import AsyncExitStack
from random import SystemRandom
from typing import Any

import pytest

from tests.scenarios.services import chain, command, make_service, where
from tests.worlds.loopback import connect, url_of
from tests.worlds.sockets import QUIET, play, until
from tidings import Client
from tidings.model.identity import at
from tidings.net.addresses import address_text
from tidings.net.broker.service import BrokerService
from tidings.net.host import Host
from tidings.net.inspector import Inspector
from tidings.nodes.client import ClientNode
from tidings.protocols.access.drain import DOES_NOT_KNOW
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.pubsub.rows import DrainRow

BEFORE, BEHIND = 30, 30
"""Events of each client before the drain begins, and when it is over; more come meanwhile."""


class Talker:
    """A client that publishes, waits for receipts, and hears everybody."""

    def __init__(self, client: Client, by: str) -> None:
        self.client, self.by = client, by
        self.published = 0
        self.received: dict[str, list[Any]] = {}

    async def begin(self, **request: Any) -> None:
        await self.client.advertise("number >= 0")
        self.subscription = await self.client.subscribe("number >= 0", window=16, **request)

    async def publish(self, count: int) -> None:
        for _ in range(count):
            await self.client.publish({"number": self.published, "by": self.by}, receipt=self.published % 10 == 0)
            self.published += 1
        await self.client.flush()

    async def publish_until(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            await self.publish(1)
        await self.publish(BEHIND)

    async def collect(self, everybody: "list[Talker]") -> None:
        """All that all have published, once, in the order of each."""
        while any(len(self.received.get(each.by, ())) < each.published for each in everybody):
            event = await anext(self.subscription)
            self.received.setdefault(str(event.attributes["by"]), []).append(event.attributes["number"])
        assert self.received == {each.by: list(range(each.published)) for each in everybody}
        assert not self.subscription.counts.missed


async def drained(service: BrokerService) -> DrainRow:
    """Drain it, and return what it says when it is safe to stop."""
    async with Inspector(address_text(service.address)) as inspector:
        await inspector.drain(True)
        while True:
            (row,) = await inspector.table("drain", DrainRow)
            if row.state == "safe to stop":
                return row


def test_clients_of_a_broker_that_is_drained_go_elsewhere_and_lose_nothing() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            quick = {"access": {"drain_quiet": 0.2}}
            a = await stack.enter_async_context(make_service("a", **quick))
            b = await stack.enter_async_context(make_service("b", a, **quick))
            homes = {"ann": b, "ben": b, "": b, "far": a}
            talkers = [
                Talker(await stack.enter_async_context(connect(url_of(home.address), name=name or None)), name)
                for name, home in homes.items()
            ]
            await asyncio.gather(*(each.begin() for each in talkers))
            await asyncio.gather(*(each.publish(BEFORE) for each in talkers))
            is_over = asyncio.Event()
            publishing = asyncio.gather(*(each.publish_until(is_over) for each in talkers))
            row = await drained(b)
            is_over.set()
            await publishing
            await asyncio.gather(*(each.collect(talkers) for each in talkers))
            assert (row.moved, row.let_go, row.clients) == (3, 0, 0)
            assert {each.client.broker for each in talkers} == {"a"}
            assert not any(each.client.namesakes for each in talkers)

    play(scenario())


async def hello(client: Client) -> str | None:
    """The broker that serves it, when it has answered something."""
    await client.flush()
    return client.broker


def test_the_command_finds_the_broker_by_its_name_and_says_when_it_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        async with chain("a", "b", **{"access": {"drain_quiet": 0.1}}) as brokers:
            a, b = brokers["a"], brokers["b"]
            async with connect(url_of(b.address)) as client:
                assert await command("drain", "b", "--json", *where(a)) == 0
                assert client.broker == "a"
            last = json.loads(capsys.readouterr().out.splitlines()[-1])
            assert (last["broker"], last["row"]["state"], last["row"]["moved"]) == ("b", "safe to stop", 1)
            assert b.why_not_ready() == "drained, and safe to stop"
            assert await command("doctor", "--settle", "0", *where(a)) == 0
            assert "b is drained, and safe to stop" in capsys.readouterr().out
            async with connect(url_of(b.address)) as late:
                assert await hello(late) == "a", "who comes is told where to go"
            assert await command("undrain", address_text(b.address)) == 0
            async with connect(url_of(b.address)) as back:
                assert await hello(back) == "b"
            assert await command("drain", "nobody", *where(a)) == 2
            assert "there are a, b" in capsys.readouterr().err

    play(scenario())


def test_a_broker_without_another_one_keeps_its_clients_and_one_between_others_waits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def scenario() -> None:
        async with chain("a", "b", "c", **{"access": {"drain_quiet": 0.1}}) as brokers:
            assert await command("drain", "b", "--timeout", "1", *where(brokers["a"])) == 1
            assert "there is no other way between these" in capsys.readouterr().err
        async with make_service("alone") as alone, connect(url_of(alone.address)) as client:
            assert await command("drain", "alone", *where(alone)) == 1
            assert "there is no other broker where its clients could go" in capsys.readouterr().err
            assert await hello(client) == "alone"

    play(scenario())


def test_a_client_that_does_not_know_how_to_go_is_let_go_after_a_while_and_counted() -> None:
    async def scenario() -> None:
        settings = {"access": {"drain_patience": 0.3, "drain_quiet": 0.1}}
        async with chain("a", "b", **settings) as brokers:
            b = brokers["b"]
            address = at(*b.address)
            access = GuestParams(brokers=(address,), when_drained="", retry_first=30.0, retry_max=30.0)
            machine = ClientNode("old", access, SessionParams(), SystemRandom())
            async with Host("old", machine, listen=None, peers={address: b.address}, log=QUIET):
                await until(lambda: "old" in b.node.edge.clients)
                row = await drained(b)
                assert (row.let_go, row.moved, row.problem) == (1, 0, DOES_NOT_KNOW)

    play(scenario())


def test_what_is_asked_while_a_client_moves_is_answered() -> None:
    """Requests to it and by it, history, and what is wanted without a promise."""

    async def scenario() -> None:
        async with chain("a", "b", access={"drain_quiet": 0.2}) as brokers, AsyncExitStack() as stack:
            b, a = brokers["b"], brokers["a"]
            here = await stack.enter_async_context(connect(url_of(b.address)))
            there = await stack.enter_async_context(connect(url_of(a.address)))
            is_over, asked = asyncio.Event(), [0, 0]

            async def serve(client: Client) -> None:
                async for event in await client.subscribe(f"to = '{client.name}'"):
                    await client.reply(event, attributes={"n": event.attributes["n"]})

            async def ask(client: Client, other: Client, place: int) -> None:
                while not is_over.is_set() or asked[place] < 20:
                    answer = await client.request({"to": other.name, "n": asked[place]})
                    assert answer.attributes["n"] == asked[place]
                    asked[place] += 1

            serving = [asyncio.create_task(serve(client)) for client in (here, there)]
            await until(lambda: len(a.node.edge.subscriptions.all) == len(b.node.edge.subscriptions.all) == 1)
            asking = asyncio.gather(ask(here, there, 0), ask(there, here, 1))
            await drained(b)
            is_over.set()
            await asking
            assert here.broker == "a"
            for task in serving:
                task.cancel()

    play(scenario())
