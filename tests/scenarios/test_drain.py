"""A broker is drained while its clients publish, wait for receipts, read and ask each other: nobody notices."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from tests.scenarios.services import make_service
from tests.worlds.loopback import connect, url_of
from tests.worlds.sockets import play
from tidings import Client
from tidings.net.addresses import address_text
from tidings.net.broker.service import BrokerService
from tidings.net.inspector import Inspector
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
            a = await stack.enter_async_context(make_service("a"))
            b = await stack.enter_async_context(make_service("b", a))
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
