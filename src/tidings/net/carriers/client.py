"""A client over a foreign network: subscribe, publish, iterate.

    async with connect_over_nats("nats://localhost", network="lab", ordered=True, reliable=True) as client:
        subscription = await client.subscribe("price > 100 AND symbol = 'AMD'")
        await client.publish({"symbol": "AMD", "price": 101.5}, b"...")
        async for event in subscription:
            print(event.publisher, event.number, event.attributes, event.way)

What it does for an application is what the transport does: order, recovery and pace, as far as they are switched on.
There is no broker of ours, so there are no receipts, no history, and no rights: whoever is in the network reads and
writes everything, and every receiver is brought every message and filters for itself.

A subscription holds at most `queue_max` events for its application; beyond that the oldest give way, and are counted. A
publisher with `reliable=True` answers those who lost something, so it should stay a few seconds after its last event.
"""

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import Callable, Mapping
from random import SystemRandom
from types import TracebackType
from typing import Any, Self

from msgspec import UNSET, UnsetType

from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.net.carriers.runner import ForeignNetwork, Runner
from tidings.net.client.payloads import Payload, contents
from tidings.net.client.subscription import Delivered
from tidings.net.client.transport import Ordered, make_params
from tidings.net.errors import Closed
from tidings.protocols.transport.carrier import Carried, OpenCarried, modes_of
from tidings.protocols.transport.marks import RESERVED
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import Quality
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.client import Arrived, Begun, CloseSubscription, OpenSubscription, PublishBatch
from tidings.pubsub.publications import encode_head

QUEUE_MAX = 10_000
"""Events that wait for an application."""

NO_ADVERTISEMENT = 0
"""Such a network does not want to know what is going to be published."""

QUEUE_FULL = "the application took events too slowly"


class CarrierSubscription:
    """Gives events, one after the other, as the transport hands them over."""

    def __init__(self, client: "CarrierClient", filter: Filter, queue_max: int) -> None:
        self.client, self.filter, self.queue_max = client, filter, queue_max
        self.number = 0
        self.waiting: deque[Delivered] = deque()
        self.news = asyncio.Event()
        self.dropped = 0
        """Events that had to give way."""
        self.is_ended = False

    def arrived(self, item: Arrived) -> None:
        way = item.way if isinstance(item, Carried) else "direct"
        for number, head, payload in zip(item.numbers, item.heads, item.payloads, strict=True):
            if len(self.waiting) >= self.queue_max:
                self.waiting.popleft()
                self.dropped += 1
                self.client.runner.stepper.count(QUEUE_FULL)
            event = Delivered(self.number, item.publisher, number, item.accepted_at, head, payload, None, way)
            self.waiting.append(event)
            self.news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivered:
        while not self.waiting:
            if self.is_ended:
                raise StopAsyncIteration
            self.news.clear()
            await self.news.wait()
        return self.waiting.popleft()

    def take_now(self) -> list[Delivered]:
        """What is there, without waiting."""
        taken = list(self.waiting)
        self.waiting.clear()
        return taken

    def unsubscribe(self) -> None:
        """Nothing more comes; what is there can still be taken."""
        self.client.end(self)


class CarrierClient:
    """Made by `connect_over_nats` and its like; `async with` connects it. Runs on one loop."""

    def __init__(
        self,
        network: ForeignNetwork,
        *,
        ordered: Ordered = True,
        reliable: bool = False,
        paced: bool = False,
        transport: TransportParams | None = None,
    ) -> None:
        self.network = network
        self.params = make_params(ordered, reliable, paced, transport) or TransportParams(is_ordered=False)
        self.on_quality: Callable[[Quality], None] | None = None
        """Called for each loss, its end, each event that was withheld, each change of a rate."""
        self.qualities: Counter[str] = Counter()
        """How many of each there were."""
        self.subscriptions: dict[int, CarrierSubscription] = {}
        self.is_open = False
        self.runner: Runner

    async def __aenter__(self) -> Self:
        # Numbers begin at 0 in each life, so each life has another id.
        node_id = 1 + secrets.randbelow(2**32 - 1)
        self.runner = Runner(TransportNode(node_id, self.params, SystemRandom()), self.network, self.delivered)
        await self.runner.start()
        self.is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_open = False
        for subscription in list(self.subscriptions.values()):
            self.end(subscription)
        await self.runner.stop()

    @property
    def drops(self) -> Mapping[str, int]:
        """What was given up, by reason."""
        return self.runner.counts.drops

    async def subscribe(
        self,
        filter: str | Filter,
        *,
        ordered: bool | None = None,
        reliable: bool | None = None,
        paced: bool | None = None,
        priority: float = 1.0,
        queue_max: int = QUEUE_MAX,
    ) -> CarrierSubscription:
        """Events that match and arrive from now on. What is not said is as the client was connected."""
        self.check_open()
        modes = modes_of(self.params, ordered, reliable, paced, priority)
        if queue_max < 1:
            raise UsageError(f"subscribe: queue_max={queue_max}; give a number above 0")
        asked = parse(filter) if isinstance(filter, str) else filter
        subscription = CarrierSubscription(self, asked, queue_max)
        self.runner.take(OpenCarried(OpenSubscription(subscription, asked.text()), modes))
        return subscription

    async def publish(
        self, attributes: Mapping[str, Value], payload: Payload = b"", *, json: Any | UnsetType = UNSET
    ) -> None:
        """Waits while too much waits for the network already."""
        self.check_open()
        event = Event(*contents(dict(attributes), payload, json))
        if any(name.startswith(RESERVED) for name in event.attributes):
            raise UsageError(f"publish: names that begin with {RESERVED!r} belong to the transport; take another")
        await self.runner.wait_for_room()
        self.runner.take(PublishBatch(NO_ADVERTISEMENT, (encode_head(event.attributes),), (event.payload,)))

    async def flush(self) -> None:
        """Returns when what the transport let through is with the network."""
        await self.runner.idle.wait()

    def check_open(self) -> None:
        if not self.is_open:
            raise Closed("the client is closed; use it inside its `async with`")

    def end(self, subscription: CarrierSubscription) -> None:
        if self.subscriptions.pop(subscription.number, None) is None:
            return
        self.runner.stepper.take(CloseSubscription(None, subscription.number))
        subscription.is_ended = True
        subscription.news.set()

    def delivered(self, item: Any) -> None:
        if isinstance(item, Arrived):
            subscription = self.subscriptions.get(item.subscription)
            if subscription is not None:
                subscription.arrived(item)
        elif type(item) is Begun and isinstance(item.ticket, CarrierSubscription):
            item.ticket.number = item.number
            self.subscriptions[item.number] = item.ticket
        elif type(item) is Quality:
            self.qualities[item.what] += 1
            if self.on_quality is not None:
                self.on_quality(item)
