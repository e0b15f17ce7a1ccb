"""The applications of a chaos run: readers and writers that play their part of a campaign over real connections.

They are programs as anybody would write them: `tidings.connect`, subscribe, take, advertise, publish. Besides, each
tells a judge what it does and sees. Two things that applications seldom look at are overheard between the session and
the client: up to which number publications are accepted or declined, and which publisher's events were missed.

A client that is started again does all that its part has open at that time; what it was to publish meanwhile is not
published.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Any

from tidings.model.identity import name_of
from tidings.net.client.client import Client
from tidings.net.client.connection import connect
from tidings.net.client.outbound import Advertisement
from tidings.net.client.subscription import Subscription
from tidings.net.errors import Closed, NotConfirmed, NotReachable, Refused, TooSlow
from tidings.protocols.delivery.session.session import TOO_SLOW
from tidings.pubsub.client import Accepted, Declined, Missed
from tidings.pubsub.publications import encode_head
from tidings.pubsub.signals import PeerDown
from tidings.workloads.nemesis.campaign import Campaign, CampaignReader, CampaignWriter, WantedLater, payload_of
from tidings.workloads.nemesis.judged import BrokenPromise
from tidings.workloads.nemesis.promise import PromiseJudge
from tidings.workloads.nemesis.wish import Wish, is_wanted

CONNECT_AGAIN = 0.2
"""Seconds after which a client that found no broker tries again."""


class ChaosClock:
    """Seconds since the round began, as the campaign counts them."""

    def __init__(self) -> None:
        self.began_at = time.monotonic()

    @property
    def now(self) -> float:
        return time.monotonic() - self.began_at

    async def until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self.now))

    def time_of_day(self, at: float) -> float:
        return time.time() + at - self.now


class ChaosClient:
    """One part of a campaign, over all its lives. `broken` is told of promises that are broken at once."""

    def __init__(
        self,
        part: CampaignReader | CampaignWriter,
        urls: dict[str, str],
        clock: ChaosClock,
        judge: PromiseJudge,
        broken: Callable[[BrokenPromise], None],
    ) -> None:
        self.name, self.clock, self.judge, self.broken = part.name, clock, judge, broken
        self.url = "tidings://" + ",".join(urls[broker] for broker in part.brokers)
        self.life = 0
        self.client: Client | None = None
        self.acting: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """A life begins: connect, however long that takes, and act."""
        self.life += 1
        while True:
            try:
                self.client = await connect(self.url, name=self.name, timeout=5.0)
                break
            except NotReachable:
                await asyncio.sleep(CONNECT_AGAIN)
        self.overhear(self.client)
        self.acting = [asyncio.create_task(self.guard(act)) for act in self.acts(self.client)]

    async def end(self) -> None:
        """The process ends: nothing is said to anybody."""
        for task in self.acting:
            task.cancel()
        await asyncio.gather(*self.acting, return_exceptions=True)
        self.judge.gone(self.name)
        if self.client is not None:
            await self.client.leave()
            self.client = None

    async def guard(self, act: Awaitable[None]) -> None:
        """Whatever a client throws at its application, other than that it was closed, is a promise broken."""
        try:
            with suppress(Closed):
                await act
        except Exception as problem:
            self.broken(BrokenPromise("answers", f"{type(problem).__name__}: {problem}", self.name))

    async def ask(self, request: Hashable, answer: Awaitable[Any]) -> Any:
        self.judge.asked(request, self.name)
        answered = await answer
        self.judge.answered(request)
        return answered

    def overhear(self, client: Client) -> None:
        """Let us know of these items before the client does."""
        handlers = client.host.items.handlers  # type: ignore[attr-defined]
        for kind, hear in self.hears().items():
            handlers[kind] = both(hear, handlers[kind])

    def hears(self) -> dict[type, Callable[[Any], None]]:
        raise NotImplementedError

    def acts(self, client: Client) -> list[Awaitable[None]]:
        raise NotImplementedError


def both(first: Callable[[Any], None], then: Callable[[Any], None]) -> Callable[[Any], None]:
    def call(item: Any) -> None:
        first(item)
        then(item)

    return call


class ChaosReader(ChaosClient):
    """Slow readers are slow until `hurries_at`."""

    def __init__(self, part: CampaignReader, campaign: Campaign, **others: Any) -> None:
        super().__init__(part, **others)
        self.part, self.clock_error, self.hurries_at = part, campaign.clock_error, campaign.until
        self.movers = campaign.movers
        self.keys: dict[int, Hashable] = {}
        """What the judge calls the subscription of a number, in this life."""
        self.early: list[Missed] = []
        """Told of subscriptions whose number is not known yet."""

    def hears(self) -> dict[type, Callable[[Any], None]]:
        return {Missed: self.missed, PeerDown: lambda item: self.judge.interrupted(self.name)}

    def acts(self, client: Client) -> list[Awaitable[None]]:
        self.keys, self.early = {}, []
        now, wanted = self.clock.now, enumerate(self.part.wanted)
        return [self.read(client, place, each) for place, each in wanted if each.until is None or each.until > now]

    async def end(self) -> None:
        await super().end()
        for key in self.keys.values():
            self.judge.closed(key)

    async def read(self, client: Client, place: int, wanted: WantedLater) -> None:
        await self.clock.until(wanted.at)
        key = (self.name, "subscribe", self.life, place)
        since = None if wanted.since is None else self.clock.time_of_day(wanted.since)
        promised = None if wanted.since is None else wanted.since + 2 * self.clock_error + 0.1
        # Members begin alike, at a time: when the first was heard of, by its broker's clock.
        slack = 2 * self.clock_error + 0.1 if wanted.group and wanted.guarantee == "reference" else 0.0
        is_dropping = wanted.policy != "wait"
        self.judge.subscribed(
            key, self.name, wanted.wish, wanted.guarantee, promised, is_dropping, wanted.group, self.movers, slack
        )
        asked = client.subscribe(
            wanted.wish.text(),
            guarantee=wanted.guarantee,
            since=since,
            group=wanted.group,
            policy=wanted.policy,
            queue_max=wanted.queue_max,
            window=wanted.window,
        )
        try:
            subscription = await self.ask(key, asked)
        except Refused as problem:
            if wanted.policy != "disconnect" or TOO_SLOW not in str(problem):
                raise
            self.judge.answered(key)
            self.judge.closed(key)
            return
        self.judge.confirmed(key, self.clock.now)
        self.keys[subscription.number] = key
        early, self.early = self.early, []
        for item in early:
            self.missed(item)
        taking = asyncio.create_task(self.take(subscription, key, wanted))
        try:
            if wanted.until is None:
                await taking
                return
            await self.clock.until(wanted.until)
            if not taking.done():
                self.judge.closed(key)
                await self.ask((self.name, "unsubscribe", self.life, place), subscription.unsubscribe())
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    async def take(self, subscription: Subscription, key: Hashable, wanted: WantedLater) -> None:
        try:
            async for event in subscription:
                broken = self.judge.arrived(key, event.publisher, event.attributes, event.payload)
                if broken is not None:
                    self.broken(broken)
                if wanted.pause and self.clock.now < self.hurries_at:
                    await asyncio.sleep(wanted.pause)
        except TooSlow:
            if wanted.policy != "disconnect":
                raise
            self.judge.closed(key)

    def missed(self, item: Missed) -> None:
        if item.subscription in self.keys:
            key, writer = self.keys[item.subscription], name_of(item.publisher)
            self.judge.missed(key, writer, item.count, item.reason)
        else:
            self.early.append(item)


class ChaosWriter(ChaosClient):
    def __init__(self, part: CampaignWriter, **others: Any) -> None:
        super().__init__(part, **others)
        self.part = part
        self.count = 0
        self.sent: dict[int, str] = {}
        """What was published in this life, by number, and is not accepted."""
        self.declined: dict[int, str] = {}
        self.offers: dict[int, Advertisement] = {}

    def hears(self) -> dict[type, Callable[[Any], None]]:
        return {Accepted: lambda item: self.settle(), Declined: self.refused}

    def acts(self, client: Client) -> list[Awaitable[None]]:
        self.sent, self.declined, self.offers = {}, {}, {}
        self.judge.begun(self.name, self.life)
        return [self.write(client), *(self.offer(client, place) for place in range(len(self.part.offers)))]

    async def offer(self, client: Client, place: int) -> None:
        offer = self.part.offers[place]
        if offer.until is not None and offer.until <= self.clock.now:
            return
        await self.clock.until(offer.at)
        asked = (self.name, "advertise", self.life, place)
        self.offers[place] = await self.ask(asked, client.advertise(offer.wish.text()))
        if offer.until is not None:
            await self.clock.until(offer.until)
            advertisement = self.offers.pop(place)
            await self.ask((self.name, "withdraw", self.life, place), advertisement.unadvertise())

    async def write(self, client: Client) -> None:
        for written in self.part.written:
            if written.at < self.clock.now - 1.0 and self.life > 1:
                continue
            await self.clock.until(written.at)
            advertisement = self.offers.get(written.offer)
            if advertisement is None:
                continue
            id = f"{self.name}:{self.count}"
            self.count += 1
            attributes = {"id": id, **written.attributes}
            wish = self.part.offers[written.offer].wish
            if written.wants_receipt and is_wanted(wish, attributes):
                await self.publish_with_receipt(client, id, attributes, written.payload_bytes, wish)
            else:
                await self.publish(client, advertisement, id, attributes, written.payload_bytes, wish)
            self.settle()

    async def publish(
        self,
        client: Client,
        advertisement: Advertisement,
        id: str,
        attributes: dict[str, Any],
        size_bytes: int,
        wish: Wish,
    ) -> None:
        payload = payload_of(id, size_bytes)
        self.judge.published(id, self.name, self.clock.now, attributes, payload, wish)
        before = client.machine.window.next
        await client.publish_encoded([encode_head(attributes)], [payload], advertisement)
        if client.machine.window.next > before:
            self.sent[before] = id
        else:
            # The advertisement was withdrawn while this waited for room.
            self.judge.retracted(id)

    async def publish_with_receipt(
        self, client: Client, id: str, attributes: dict[str, Any], size_bytes: int, wish: Wish
    ) -> None:
        payload = payload_of(id, size_bytes)
        self.judge.published(id, self.name, self.clock.now, attributes, payload, wish)
        self.sent[client.machine.window.next] = id
        # Not confirmed, or refused because a link was lost: the event was accepted all the same.
        with suppress(NotConfirmed, Refused):
            await self.ask((self.name, "publish", self.life, id), client.publish(attributes, payload, receipt=True))
            self.judge.reached(id)
        self.judge.answered((self.name, "publish", self.life, id))

    def refused(self, item: Declined) -> None:
        self.declined.update(dict.fromkeys(item.numbers, item.reason))
        self.settle()

    def settle(self) -> None:
        """Tell the judge of all that is accepted or declined."""
        client = self.client
        if client is None:
            return
        for number in [number for number in self.sent if number <= client.machine.window.through]:
            id = self.sent.pop(number)
            self.judge.accepted(id)
            if number in self.declined:
                self.judge.declined(id, self.declined[number])
