"""Carrier: what the transport needs of the network below it, whichever that is.

A carrier is a client of some network that publishes and subscribes. It is a machine that takes the requests of
`pubsub/client.py` and delivers the answers that are there: the session with our brokers is one (`nodes/client.py`),
one that promises nothing is another (`Broadcast`). So the transport stands between an application and a client
that speak the same words, and neither side need know that it is there.

    asked of it      OpenSubscription, CloseSubscription     want and unwant what matches a filter
                     PublishBatch                            publish these bytes
                     OpenAdvertisement, CloseAdvertisement   say first what is going to be published
                     Took                                    this much was taken, more may come
                     ReadHistory, ReadMarks                  what is stored
    told by it       Arrived                                 for one subscription, each event once
                     Begun, Confirmed, Failed, Ended         of subscriptions, advertisements, readings
                     Accepted, Declined, Missed              of publications, on either side
                     HistoryRead, MarksRead
                     PeerUp                                  another broker serves us, and may allow more

It may bring events late, in another order, or never; twice, if it says so (`repeats`). A carrier that has no receipts
confirms at once, without one; one that has no history fails what is to be read; one without advertisements takes all
for advertised.

Two questions are answered at once: whether it would take a batch now (`takes`, and `window` for more), and how far a
subscription has come (`position`).

What an application says to the transport besides, and hears from it, is here too.

**A carrier that promises nothing** (`Broadcast`): a network that brings every message to everybody and knows no
filters, such as an MQTT server, a NATS server, a radio. There are no receipts, no history, no window and no
advertisements: every request counts as carried out at once, reading fails, and what was published is out of its hands.
Each receiver holds every message against what it wants, exactly. Publishers have no names here, and events no numbers,
so those of the transport's headers stand for them.

    client = Adapter(Broadcast(), TransportNode(node_id, TransportParams(), rng))
"""

from collections.abc import Callable, Hashable
from typing import Any, Protocol

import msgspec

from tidings.machine.effects import BROADCAST, Deliver, Drop, Effect, Send, Transport
from tidings.machine.inputs import Input, Received, Request
from tidings.machine.message import Message
from tidings.machine.node import Machine
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.protocols.transport.params import TransportParams, check_modes
from tidings.protocols.transport.signals import Way
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
    Window,
)
from tidings.pubsub.publications import BadPublication, Head, Payload, read_head

Order = Effect | Request
"""What a part of the adapter wants done: by the world, by the transport (a signal) or by the carrier (a request)."""


class Carrier(Machine, Protocol):
    @property
    def repeats(self) -> bool:
        """Whether an event may arrive for a subscription that has it already."""

    @property
    def window(self) -> Window: ...

    def takes(self, request: PublishBatch) -> bool:
        """Whether it would be published, or kept until it is."""

    def position(self, subscription: int, publisher: str) -> int | None:
        """The publisher's number up to which the subscription has everything that it is going to get by itself; None
        if there is no such subscription, or nobody knows."""


class Modes(msgspec.Struct, frozen=True):
    """What the transport does for a subscription."""

    is_ordered: bool = True
    is_reliable: bool = False
    is_paced: bool = False
    priority: float = 1.0
    """Weight of its filter when the rate that we can take is divided among ours."""


def modes_of(
    params: TransportParams,
    ordered: bool | None = None,
    reliable: bool | None = None,
    paced: bool | None = None,
    priority: float = 1.0,
) -> Modes:
    """Of a subscription that names some of them; the others are the client's, as far as the order allows."""
    is_ordered = params.is_ordered if ordered is None else ordered
    is_reliable = (params.is_reliable and is_ordered) if reliable is None else reliable
    is_paced = (params.is_paced and is_ordered) if paced is None else paced
    return checked_modes(Modes(is_ordered, is_reliable, is_paced, priority), params)


def checked_modes(modes: Modes, params: TransportParams) -> Modes:
    """UsageError where they do not go together."""
    check_modes(modes.is_ordered, modes.is_reliable, modes.is_paced, params.ordering.mode)
    if not modes.priority > 0:
        raise UsageError(f"priority: {modes.priority} is no weight; give a number above 0")
    return modes


# Requests.


class OpenCarried(Request, frozen=True):
    """`OpenSubscription` with modes of its own; without them a subscription has those of the client."""

    request: OpenSubscription
    modes: Modes


class SetModes(Request, frozen=True):
    """Other modes from now on, for a subscription that is open."""

    subscription: int
    modes: Modes


# Answers.


class Carried(Arrived, frozen=True):
    """Events that did not come straight through: they were held back (`latch` is for how long they should have been,
    `held` for how long they were), or came some other way. Where the number that the broker gave to an event is not
    known, it is 0."""

    way: Way
    latch: float
    held: float

    def about(self) -> dict[str, Any]:
        said = super().about() | {"latch": self.latch, "hold": self.held, "late": self.way == "late"}
        return said | {"repaired": True, "way": self.way} if self.way in ("repaired", "history") else said

    def is_numbered(self, number: int) -> bool:
        return number > 0


class RoomMade(msgspec.Struct, frozen=True):
    """Events that waited for their turn have left; whoever waits to publish may try again."""


# Between the transport and its carrier.


class Own(msgspec.Struct, frozen=True):
    """A ticket of the transport's own requests; the application never sees one."""

    what: str
    key: Hashable = None


class Subscribed(msgspec.Struct):
    """A subscription of the application that is confirmed: what it matches, as installed, and its modes."""

    filter: str
    modes: Modes


NO_HISTORY = "this network stores nothing"
NO_EVENT = "no event"


class Posted(Message, frozen=True):
    """A message of a network that knows nothing of content."""

    head: Head
    payload: Payload


class Broadcast:
    repeats = True

    def __init__(self) -> None:
        self.window = OpenWindow()
        self.filters: dict[int, Filter] = {}
        self.subscriptions = self.advertisements = 0
        """Numbers that were given so far."""
        self.handlers: dict[type, Callable[[float, Any], list[Effect]]] = {
            OpenSubscription: self.subscribe,
            CloseSubscription: self.unsubscribe,
            OpenAdvertisement: self.advertise,
            CloseAdvertisement: lambda now, request: done(request),
            PublishBatch: self.publish,
            Took: lambda now, request: [],
            ReadHistory: lambda now, request: [Deliver(Failed(request.ticket, NO_HISTORY))],
            ReadMarks: lambda now, request: [Deliver(Failed(request.ticket, NO_HISTORY))],
            Received: self.received,
        }

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        handler = self.handlers.get(type(input))
        return [] if handler is None else handler(now, input)

    def subscribe(self, now: float, request: OpenSubscription) -> list[Effect]:
        try:
            filter = parse(request.filter)
        except UsageError as problem:
            return [Deliver(Failed(request.ticket, str(problem)))]
        self.subscriptions += 1
        self.filters[self.subscriptions] = filter
        return [Deliver(Begun(request.ticket, self.subscriptions)), *done(request)]

    def unsubscribe(self, now: float, request: CloseSubscription) -> list[Effect]:
        self.filters.pop(request.number, None)
        return done(request)

    def advertise(self, now: float, request: OpenAdvertisement) -> list[Effect]:
        self.advertisements += 1
        return [Deliver(Begun(request.ticket, self.advertisements)), *done(request)]

    def publish(self, now: float, request: PublishBatch) -> list[Effect]:
        first = self.window.take(len(request.heads))
        told = [] if request.ticket is None else [Deliver(Begun(request.ticket, first)), *done(request)]
        pairs = zip(request.heads, request.payloads, strict=True)
        return [*(Send(BROADCAST, Posted(head, payload), Transport.DATAGRAM) for head, payload in pairs), *told]

    def received(self, now: float, input: Received) -> list[Effect]:
        message = input.message
        if type(message) is not Posted:
            return []
        try:
            event = read_head(message.head)
        except BadPublication:
            return [Drop(message, NO_EVENT)]
        wanted = [number for number, filter in self.filters.items() if filter.matches(event)]
        return [Deliver(Arrived(number, "", 0.0, (0,), (message.head,), (message.payload,))) for number in wanted]

    def takes(self, request: PublishBatch) -> bool:
        return True

    def position(self, subscription: int, publisher: str) -> int | None:
        return None

    def check(self) -> None:
        pass


def done(request: Any) -> list[Effect]:
    """Without a receipt: nobody can tell."""
    return [Deliver(Confirmed(request.ticket, None))]
