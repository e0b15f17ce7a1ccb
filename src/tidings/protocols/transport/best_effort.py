"""Carriers that promise nothing: a network that publishes and subscribes, and no more.

Such a network has no receipts, no history, no window and no advertisements. `BestEffort` makes a carrier of it
(`carrier.py`): every request counts as carried out at once, reading fails, and what was published is out of its hands.
How the network is told what is wanted, and what its messages look like, is the affair of a `Medium`. One is here:

**Broadcast**: a network that brings every message to everybody and knows no filters, such as an MQTT server, a NATS
server, a radio. Each receiver holds every message against what it wants, exactly. Publishers have no names here, and
events no numbers, so those of the transport's headers stand for them.

    client = Adapter(BestEffort(Broadcast()), TransportNode(node_id, TransportParams(), rng))
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tidings.machine.effects import BROADCAST, Deliver, Drop, Effect, Send, Transport
from tidings.machine.inputs import Input, Received
from tidings.machine.message import Message
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.pubsub.client import (
    Arrived,
    Begun,
    CloseAdvertisement,
    CloseSubscription,
    Confirmed,
    Failed,
    OpenAdvertisement,
    OpenSubscription,
    OpenWindow,
    PublishBatch,
    ReadHistory,
    ReadMarks,
    Took,
)
from tidings.pubsub.publications import BadPublication, Head, Payload, read_head

NO_HISTORY = "this network stores nothing"
NO_EVENT = "no event"


class Medium(Protocol):
    """How one network is spoken to."""

    def want(self, number: int, filter: Filter) -> list[Effect]: ...

    def unwant(self, number: int) -> list[Effect]: ...

    def publish(self, now: float, first: int, heads: Sequence[bytes], payloads: Sequence[bytes]) -> list[Effect]:
        """`first` is the number of the first of them at this publisher."""

    def hear(self, now: float, input: Input) -> list[Effect]:
        """Whatever else happens: `Arrived` for each subscription that a message is for."""


class BestEffort:
    """`BestEffort(medium)`: a carrier of a transport."""

    repeats = True

    def __init__(self, medium: Medium) -> None:
        self.medium, self.window = medium, OpenWindow()
        self.subscriptions = self.advertisements = 0
        """Numbers that were given so far."""
        self.handlers: dict[type, Callable[[float, Any], list[Effect]]] = {
            OpenSubscription: self.subscribe,
            CloseSubscription: lambda now, request: [*self.medium.unwant(request.number), *done(request)],
            OpenAdvertisement: self.advertise,
            CloseAdvertisement: lambda now, request: done(request),
            PublishBatch: self.publish,
            Took: lambda now, request: [],
            ReadHistory: lambda now, request: [Deliver(Failed(request.ticket, NO_HISTORY))],
            ReadMarks: lambda now, request: [Deliver(Failed(request.ticket, NO_HISTORY))],
        }

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        handler = self.handlers.get(type(input))
        return self.medium.hear(now, input) if handler is None else handler(now, input)

    def subscribe(self, now: float, request: OpenSubscription) -> list[Effect]:
        try:
            filter = parse(request.filter)
        except UsageError as problem:
            return [Deliver(Failed(request.ticket, str(problem)))]
        self.subscriptions += 1
        number = self.subscriptions
        return [Deliver(Begun(request.ticket, number)), *self.medium.want(number, filter), *done(request)]

    def advertise(self, now: float, request: OpenAdvertisement) -> list[Effect]:
        self.advertisements += 1
        return [Deliver(Begun(request.ticket, self.advertisements)), *done(request)]

    def publish(self, now: float, request: PublishBatch) -> list[Effect]:
        first = self.window.take(len(request.heads))
        told = [] if request.ticket is None else [Deliver(Begun(request.ticket, first)), *done(request)]
        return [*self.medium.publish(now, first, request.heads, request.payloads), *told]

    def takes(self, request: PublishBatch) -> bool:
        return True

    def position(self, subscription: int, publisher: str) -> int | None:
        return None

    def check(self) -> None:
        pass


def done(request: Any) -> list[Effect]:
    """Without a receipt: nobody can tell."""
    return [Deliver(Confirmed(request.ticket, None))]


class Posted(Message, frozen=True):
    """A message of a network that knows nothing of content."""

    head: Head
    payload: Payload


class Broadcast:
    def __init__(self) -> None:
        self.filters: dict[int, Filter] = {}

    def want(self, number: int, filter: Filter) -> list[Effect]:
        self.filters[number] = filter
        return []

    def unwant(self, number: int) -> list[Effect]:
        self.filters.pop(number, None)
        return []

    def publish(self, now: float, first: int, heads: Sequence[bytes], payloads: Sequence[bytes]) -> list[Effect]:
        return [
            Send(BROADCAST, Posted(head, payload), Transport.DATAGRAM)
            for head, payload in zip(heads, payloads, strict=True)
        ]

    def hear(self, now: float, input: Input) -> list[Effect]:
        if type(input) is not Received or type(input.message) is not Posted:
            return []
        head, payload = input.message.head, input.message.payload
        try:
            event = read_head(head)
        except BadPublication:
            return [Drop(input.message, NO_EVENT)]
        wanted = [number for number, filter in self.filters.items() if filter.matches(event)]
        return [Deliver(Arrived(number, "", 0.0, (0,), (head,), (payload,))) for number in wanted]
