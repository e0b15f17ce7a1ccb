"""The client: subscribe, advertise, publish.

    async with tidings.connect("tidings://localhost:7411") as client:
        subscription = await client.subscribe("magnitude >= 4.5")
        await client.publish({"type": "quake", "magnitude": 5.1}, b"...")
        async for event in subscription:
            ...

A client is a host of its own (`net/host.py`) that calls a broker and listens nowhere; its machine is `nodes/client.py`.
It runs on one loop. When the connection breaks it finds a broker again by itself, and everything continues:
subscriptions where they were, publications that no broker had accepted under their old numbers. Requests that are under
way wait for that; put `asyncio.timeout` around those that should not.

Every request goes to the machine with a ticket; what the machine delivers for it finds the caller by the ticket. All of
it happens within one step of the machine, so there is no task that pumps items from one queue into another.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, get_args

from msgspec import UNSET, UnsetType

from tidings.model.errors import UsageError
from tidings.model.escapes import check_printable
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.model.regions import Region
from tidings.net.client.history import HistoryReader
from tidings.net.client.items import Items, Tickets, error_of
from tidings.net.client.outbound import Advertisement, ClientAdvertisements, OutgoingBatch, OutgoingBatches
from tidings.net.client.payloads import Given, Payload, contents
from tidings.net.client.requests import OpenRequests, RequestingClient
from tidings.net.client.subscription import Subscription
from tidings.net.errors import ClientError, Closed, NotConfirmed, NotReachable
from tidings.net.host import Host
from tidings.nodes.client import ClientNode
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import Quality
from tidings.protocols.transport.views import TransportState
from tidings.pubsub.client import (
    CloseSubscription,
    Guarantee,
    Latency,
    OpenSubscription,
    Policy,
    PublishBatch,
    Receipt,
)

if TYPE_CHECKING:
    from tidings.net.client.transport import Carrying, Ordered
    from tidings.nodes.transport_client import TransportClient

QUEUE_MAX = 10_000
"""Events of a subscription that wait at the broker."""

WINDOW = 1024
"""Events of a subscription that are on the way to the client, or wait there."""

CLOSE_TIMEOUT = 5.0
"""Seconds that a client which is closed waits for its publications to be accepted."""


class Client(HistoryReader, RequestingClient):
    """Made by `connect`. `name` is what others see as the publisher of its events."""

    def __init__(
        self,
        host: Host,
        items: Items,
        machine: "ClientNode | TransportClient",
        brokers: str,
        left: Callable[[], None] | None = None,
    ) -> None:
        """`brokers` is where they are, for people; `left` is called, on another thread, when we have gone."""
        self.host, self.machine, self.brokers, self.left, self.name = host, machine, brokers, left, host.node_id
        self.broker: str | None = None
        """The broker that serves us now."""
        self.tickets = Tickets(host.inject)
        self.subscriptions: dict[int, Subscription] = {}
        self.namesakes: dict[str, str] = {}
        """Other processes that publish under our name, with the brokers they are at, as we were told."""
        self.error: Exception | None = None
        self.reason = ""
        """Why there is no connection, where there is none."""
        self.is_served = asyncio.Event()
        self.is_closing = False
        self.carrying: Carrying | None = None
        """The transport, if there is one."""
        self.outgoing = OutgoingBatches(machine.window, asyncio.get_running_loop(), self.hand_over)
        self.advertisements = ClientAdvertisements(self.ask, self.outgoing.leave)
        self.requests = OpenRequests()
        items.serve(self)

    # The transport.

    def transport_state(self) -> TransportState:
        """What can be seen of the transport now: publishers, flows, caches."""
        return self.carried("transport_state").state()

    def configure_transport(
        self,
        params: TransportParams | None = None,
        *,
        ordered: "Ordered | None" = None,
        reliable: bool | None = None,
        paced: bool | None = None,
    ) -> None:
        """Other parameters from now on, as a publisher and for subscriptions to come; those that are open keep their
        modes (`subscription.set_modes`)."""
        self.carried("configure_transport").configure(params, ordered, reliable, paced)

    def on_quality(self, callback: Callable[[Quality], None]) -> None:
        """Call this for each loss, its end, and each change of a rate."""
        self.carried("on_quality").listeners.append(callback)

    def carried(self, what: str) -> "Carrying":
        if self.carrying is None:
            raise UsageError(f"{what}: this client has no transport; connect(..., ordered=True)")
        return self.carrying

    # Subscribing.

    async def subscribe(
        self,
        filter: str | Filter,
        *,
        region: Region | None = None,
        guarantee: Guarantee | None = None,
        since: float | datetime | None = None,
        after: Mapping[str, int] | None = None,
        group: str | None = None,
        policy: Policy = "wait",
        queue_max: int = QUEUE_MAX,
        window: int = WINDOW,
        ordered: bool | None = None,
        reliable: bool | None = None,
        paced: bool | None = None,
        priority: float = 1.0,
    ) -> Subscription:
        """Of the events that match, with a `region` those whose own region meets it. Returns when the network has
        installed it. Everything that is published from then on arrives ("installed"),
        or whatever happens to come ("none"); or everything since a time, or behind the positions of publishers
        (`subscription.positions` of an earlier subscription). Members of a `group` all get the same events. The
        policy says what the broker does when `queue_max` events wait there: wait for us (and fetch what was left out
        later), drop the oldest or the newest, or end the subscription.

        With a transport (`connect(..., ordered=True)`), `ordered`, `reliable` and `paced` are those of the client where
        they are not given; `priority` is the weight of this filter when what we can take is divided among ours."""
        asked = parse(filter) if isinstance(filter, str) else filter
        if region is not None:
            asked &= region.touching()
        for name, word, words in (("guarantee", guarantee, get_args(Guarantee)), ("policy", policy, get_args(Policy))):
            if word is not None and word not in words:
                raise UsageError(f"subscribe: {name}={word!r}; give one of {', '.join(map(repr, words))}")
        if guarantee is None or guarantee == "installed":
            guarantee = "installed" if since is None and after is None else "reference"
        elif guarantee == "none" and (since is not None or after is not None):
            raise UsageError("subscribe: guarantee='none' promises nothing, so since= and after= mean nothing; drop it")
        if isinstance(since, datetime):
            since = since.timestamp()
        if group:
            check_printable("subscribe: group", group)
        for publisher in after or ():
            check_printable("subscribe: after", publisher)
        if window < 1 or queue_max < 1:
            raise UsageError(f"subscribe: window={window}, queue_max={queue_max}; give at least 1 of each")
        subscription = Subscription(asked.text(), window, self.host.step, self.unsubscribe)
        if self.carrying is not None:
            self.carrying.equip(subscription, ordered, reliable, paced, priority)
        elif ordered or reliable or paced:
            raise UsageError("subscribe: order, recovery and pacing need a transport; connect(..., ordered=True)")
        positions = tuple((after or {}).items())

        def begun(number: int) -> None:
            subscription.number = number
            self.subscriptions[number] = subscription

        try:
            receipt = await self.ask(
                "subscribe",
                lambda ticket: subscription.opening(
                    OpenSubscription(
                        ticket, asked.text(), guarantee, since, positions, group or "", policy, queue_max, window
                    )
                ),
                begun,
            )
        except BaseException:
            self.give_up_subscription(subscription)
            raise
        assert receipt is not None
        subscription.confirmed(receipt, parse(receipt.filter) != asked)
        return subscription

    def give_up_subscription(self, subscription: Subscription) -> None:
        """Nobody waits for it any more."""
        if self.subscriptions.pop(subscription.number, None) is not None:
            self.host.step(CloseSubscription(None, subscription.number))

    async def unsubscribe(self, subscription: Subscription) -> None:
        """The same as `subscription.unsubscribe()`."""
        if self.subscriptions.get(subscription.number) is not subscription:
            raise Closed("unsubscribe: this subscription has ended already; take what is left of it")
        try:
            await self.ask("unsubscribe", lambda ticket: CloseSubscription(ticket, subscription.number))
        finally:
            self.subscriptions.pop(subscription.number, None)
            subscription.end(None)

    # Publishing.

    async def advertise(self, filter: str | Filter, latency: Latency = "any") -> Advertisement:
        """Say what is going to be published; returns when all brokers know, so that no subscriber's broker hears of the
        events before it hears of the publisher. Where brokers route by popularity, `latency` says what matters: "low"
        (it never waits, and comes before others), "cheap" (it leaves the tree before others), or "any"."""
        return await self.advertisements.advertise(filter, latency)

    async def publish(
        self,
        attributes: Given,
        payload: Payload = b"",
        *,
        json: Any | UnsetType = UNSET,
        region: Region | None = None,
        receipt: bool = False,
    ) -> None:
        """The payload is bytes; or `json` any value that JSON can say. The `region` is where it happens.
        Waits only while as much as the window allows is not yet accepted by the broker; with `receipt`, until the
        brokers of all who want the event have it. The first time, without an advertisement, everything that this client
        may publish is advertised."""
        if type(attributes) is not dict or type(payload) is not bytes or json is not UNSET:
            attributes, payload = contents(attributes, payload, json)
        if region is not None:
            attributes = {**attributes, **region.attributes()}
        if not self.advertisements.open:
            await asyncio.shield(self.advertisements.begin_everything())
        head, advertisement = self.advertisements.heads.find(attributes)
        outgoing, size_bytes, carrying = self.outgoing, len(head) + len(payload), self.carrying
        if self.is_closing or self.error is not None or not outgoing.has_room(size_bytes):
            self.check_open("publish")
            await outgoing.wait_for_room(size_bytes)
        if carrying is not None and carrying.is_limiting:
            await carrying.wait_for_turn(head, payload)
        batch, place = outgoing.put(advertisement, head, payload, receipt)
        if carrying is not None and carrying.is_limiting:
            # Each takes its place in the queues of its flows before the next one is looked at.
            outgoing.leave()
        if receipt:
            await batch.confirmed(place)
        elif batch.is_large:
            # Whoever publishes in a loop must let the events out of the process now and then.
            await asyncio.sleep(0)

    async def publish_encoded(
        self, heads: Sequence[bytes], payloads: Sequence[bytes], advertisement: Advertisement | None = None
    ) -> None:
        """Publish many events that are encoded already (`pubsub/publications.py`), under one advertisement: the one
        given, or else the oldest that is open. Waits while the window is full; the broker declines what is not within
        the advertisement, and `flush` tells."""
        if len(heads) != len(payloads):
            raise UsageError(f"publish_encoded: {len(heads)} heads and {len(payloads)} payloads; give as many of both")
        if others := {*map(type, heads), *map(type, payloads)} - {bytes}:
            found = ", ".join(sorted(other.__name__ for other in others))
            raise UsageError(
                f"publish_encoded: {found} among heads and payloads; all of them are bytes, encoded before"
            )
        if advertisement is None:
            if not self.advertisements.open:
                await asyncio.shield(self.advertisements.begin_everything())
            advertisement = next(iter(self.advertisements.open.values()))
        self.outgoing.leave()
        carrying = self.carrying
        for part in self.outgoing.portions(heads, payloads):
            self.check_open("publish_encoded")
            if carrying is not None and carrying.is_limiting:
                await carrying.publish_slowly(advertisement.number, heads[part], payloads[part])
                continue
            batch = OutgoingBatch(advertisement.number, heads[part], payloads[part])
            await self.outgoing.wait_for_room(batch.size_bytes, len(batch.heads))
            self.hand_over(batch)
            # Let it out of the process before the next is made.
            await asyncio.sleep(0)

    def try_publish(self, attributes: Given, payload: Payload = b"", *, json: Any | UnsetType = UNSET) -> bool:
        """Publish if that is possible at once. False while the window is full, or the queue of one of its flows (with
        `paced`), or nothing is advertised yet."""
        if type(attributes) is not dict or type(payload) is not bytes or json is not UNSET:
            attributes, payload = contents(attributes, payload, json)
        self.check_open("publish")
        if not self.advertisements.open:
            self.advertisements.begin_everything()
            return False
        head, advertisement = self.advertisements.heads.find(attributes)
        carrying = self.carrying
        is_limiting = carrying is not None and carrying.is_limiting
        if not self.outgoing.has_room(len(head) + len(payload)):
            self.outgoing.leave()
            return False
        if carrying is not None and is_limiting and not carrying.may_leave(head, payload):
            return False
        self.outgoing.put(advertisement, head, payload)
        if is_limiting:
            self.outgoing.leave()
        return True

    async def flush(self) -> None:
        """Returns when the broker has accepted everything that was published so far; Refused if it declined any."""
        self.check_open("flush")
        await self.outgoing.wait_until_accepted()
        declined = self.outgoing.declined
        if declined:
            self.outgoing.declined = type(declined)()
            reasons = "; ".join(f"{number} x {reason}" for reason, number in declined.items())
            raise error_of("flush", f"the broker declined {declined.total()} events: {reasons}")

    def hand_over(self, batch: OutgoingBatch) -> None:
        request = partial(PublishBatch, batch.advertisement, tuple(batch.heads), tuple(batch.payloads))
        if batch.receipt is None or not self.host.is_running:
            self.host.step(request(None))
            return

        def begun(number: int) -> None:
            batch.first = number
            self.outgoing.unconfirmed[number] = batch

        batch.answer(self.tickets.ask("publish", request, begun))
        batch.receipt.add_done_callback(lambda done: self.outgoing.unconfirmed.pop(batch.first, None))

    # Beginning and end.

    async def ask(
        self, what: str, request: Callable[[int], Any], begun: Callable[[int], None] = lambda number: None
    ) -> Receipt | None:
        self.check_open(what)
        receipt: Receipt | None = await self.tickets.ask(what, request, begun)
        return receipt

    def check_open(self, what: str) -> None:
        if self.error is not None:
            raise self.error
        if self.is_closing or not self.host.is_running:
            raise Closed(f"{what}: this client is closed; connect() again")

    async def begin(self, timeout: float) -> None:
        """Return when a broker serves us."""
        await self.host.start()
        try:
            async with asyncio.timeout(timeout):
                await self.is_served.wait()
            if self.error is not None:
                raise self.error
        except TimeoutError:
            reason = self.reason or f"no answer within {timeout} s"
            await self.host.stop()
            raise NotReachable(
                f"no broker at {self.brokers} ({reason}); is it running? start one with: tidings broker"
            ) from None
        except BaseException:
            await self.host.stop()
            raise

    async def close(self) -> None:
        """Wait (at most CLOSE_TIMEOUT) until what was published is accepted, and leave. Twice does no harm."""
        if self.is_closing:
            return
        unaccepted = 0
        if self.error is None and self.host.is_running:
            with suppress(TimeoutError, ClientError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self.outgoing.wait_until_accepted()
            unaccepted = self.machine.window.count
        await self.leave()
        if unaccepted:
            raise NotConfirmed(
                f"close: {unaccepted} events were not accepted by a broker ({self.reason or 'no answer'}); publish "
                "them again with another client"
            )

    async def leave(self) -> None:
        self.is_closing = True
        await self.host.stop()
        left, self.left = self.left, None
        if left is not None:
            await asyncio.to_thread(left)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            await self.leave()

    def fail(self, error: Exception) -> None:
        """It is of no use any more: whoever waits for anything hears why."""
        self.error = self.error or error
        self.let_go(error)
        self.is_served.set()

    def let_go(self, error: Exception) -> None:
        self.tickets.fail_all(error)
        self.outgoing.fail(error)
        self.requests.fail(error)
        for subscription in self.subscriptions.values():
            subscription.end(self.error)
