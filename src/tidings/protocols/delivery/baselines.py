"""What a client can do by itself in a plain system: the baselines that the guarantees are compared with.

A system without receipts and references tells a client nothing about when its subscription is in place, and keeps
nothing for it. An application that needs more has two means, and `PlainSession` uses both:

    wait        a request counts as carried out after `timeout` seconds. The time must be longer than the slowest
                request ever takes; meanwhile publications that might have to be repeated stay in memory.
    discard     of what arrives, publications that were accepted before the time asked for, or that are not behind the
                given numbers, are thrown away. What the network did not send cannot be made up.

It takes the place of `Session` behind the same requests and answers (`pubsub/client.py`), and subscribes without a
guarantee. It does not outlive a connection: what was asked for is lost with it, as the plain system has it.

State. For each subscription what was asked for and when; `kept`, the publications that do not count as acknowledged.
Timer. ("settled", kind, number): the time of a request is over.
Guaranteed. Nothing that a plain system does not guarantee: publications that are accepted after the subscription is in
place everywhere arrive, those before are a matter of luck.

Source: PSDG, spec 3.6.9.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.window import TakenBytes
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.delivery.messages import (
    Advertise,
    DeliveriesTaken,
    Delivery,
    PublishMessage,
    Refusal,
    Subscribe,
    Taken,
    Unsubscribe,
)
from tidings.protocols.delivery.session.progress import promises
from tidings.protocols.delivery.sizes import TAKEN_STEP_BYTES, size_of
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Begun,
    CloseSubscription,
    Confirmed,
    Declined,
    Failed,
    Kind,
    Missed,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    Receipt,
    Ticket,
)
from tidings.pubsub.notes import ReceiptAsked, Released
from tidings.pubsub.signals import PeerDown, PeerUp, TurnedAway

NOT_CONNECTED = "there is no broker; a plain client does not keep requests"
NOT_OUR_BROKER = "comes from a node that does not serve us"
TOO_EARLY = "accepted before the time asked for"
NOT_BEHIND = "not behind the number asked for"
UNKNOWN_SUBSCRIPTION = "for a subscription that is not there any more"
NOT_USED = "a plain client does not use it"


class PlainParams(msgspec.Struct, frozen=True):
    timeout: float = 1.0
    """Seconds after which a request counts as carried out: longer than the slowest ever takes, since a request that
    takes longer breaks what the application believes."""

    clock_offset: float = 0.0
    """Time of day less machine time."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise UsageError(f"timeout: {self.timeout} is no span of time; give seconds above 0")
        if not math.isfinite(self.clock_offset):
            raise UsageError(f"clock_offset: {self.clock_offset} is no time; give seconds")


class PlainSubscription(msgspec.Struct, frozen=True):
    """A subscription, and what its client discards."""

    request: OpenSubscription
    since: float
    after: dict[str, int]

    def refuses(self, publisher: NodeId, number: int, accepted_at: float) -> str:
        """Why a publication is discarded; empty where it is not."""
        if publisher in self.after:
            return "" if number > self.after[publisher] else NOT_BEHIND
        return "" if accepted_at >= self.since else TOO_EARLY


class PlainSession:
    messages: tuple[type, ...] = (Receipt, Refusal, Accepted, Declined, Delivery, Missed)
    hears: tuple[type, ...] = (
        *(PeerUp, PeerDown, TurnedAway),
        *(OpenSubscription, CloseSubscription, OpenAdvertisement, PublishBatch),
    )
    tells: tuple[type[Signal], ...] = ()

    def __init__(self, params: PlainParams) -> None:
        self.params = params
        self.broker: NodeId | None = None
        self.arriving = TakenBytes(TAKEN_STEP_BYTES)
        self.subscriptions: dict[int, PlainSubscription] = {}
        self.tickets: dict[tuple[Kind, int], Ticket] = {}
        """Requests that do not count as carried out yet."""
        self.kept: dict[int, PublishBatch] = {}
        """Publications that would have to be published again, by the number of the last of each."""
        self.last_subscription = self.last_advertisement = self.last_publication = 0
        self.handlers: dict[type, Callable[[float, Any], list[Effect]]] = {
            PeerUp: self.served,
            PeerDown: self.left_alone,
            TurnedAway: lambda now, signal: [Deliver(signal)],
            OpenSubscription: self.subscribe,
            CloseSubscription: self.unsubscribe,
            OpenAdvertisement: self.advertise,
            PublishBatch: self.publish,
            Received: self.receive,
            Fired: self.count_as_done,
        }

    def start(self, now: float) -> list[Effect]:
        return self.left_alone(now, None)[1:]

    def handle(self, now: float, input: Input) -> list[Effect]:
        handler = self.handlers.get(type(input))
        return [] if handler is None else handler(now, input)

    def served(self, now: float, up: PeerUp) -> list[Effect]:
        self.broker, self.arriving = up.broker, TakenBytes(TAKEN_STEP_BYTES)
        return [Deliver(up)]

    def left_alone(self, now: float, down: PeerDown | None) -> list[Effect]:
        self.broker = None
        failed = [Deliver(Failed(ticket, NOT_CONNECTED)) for ticket in self.tickets.values() if ticket is not None]
        released = [self.release(number) for number in list(self.kept)]
        self.subscriptions.clear()
        self.tickets.clear()
        return [Deliver(down), *released, *failed]

    # Requests.

    def subscribe(self, now: float, request: OpenSubscription) -> list[Effect]:
        if self.broker is None:
            return [Deliver(Failed(request.ticket, NOT_CONNECTED))]
        self.last_subscription += 1
        since = -math.inf
        if request.guarantee == "reference":
            since = now + self.params.clock_offset if request.since is None else request.since
        self.subscriptions[self.last_subscription] = PlainSubscription(request, since, dict(request.after))
        message = Subscribe(
            self.last_subscription,
            request.filter,
            "none",
            None,
            (),
            False,
            "",
            request.policy,
            request.queue_max,
            request.window,
        )
        return self.begin(now, "subscribe", self.last_subscription, request.ticket, message)

    def unsubscribe(self, now: float, request: CloseSubscription) -> list[Effect]:
        if self.broker is None or self.subscriptions.pop(request.number, None) is None:
            return [Deliver(Failed(request.ticket, NOT_CONNECTED))]
        return [Send(self.broker, Unsubscribe(request.number)), Deliver(Confirmed(request.ticket, None))]

    def advertise(self, now: float, request: OpenAdvertisement) -> list[Effect]:
        if self.broker is None:
            return [Deliver(Failed(request.ticket, NOT_CONNECTED))]
        self.last_advertisement += 1
        number = self.last_advertisement
        return self.begin(now, "advertise", number, request.ticket, Advertise(number, request.filter))

    def publish(self, now: float, request: PublishBatch) -> list[Effect]:
        if self.broker is None:
            return [Drop(request, NOT_CONNECTED)]
        first = self.last_publication + 1
        self.last_publication += len(request.heads)
        message = PublishMessage(request.advertisement, first, False, request.heads, request.payloads)
        if request.ticket is None:
            return [Send(self.broker, message)]
        self.kept[self.last_publication] = request
        begun = self.begin(now, "publish", self.last_publication, request.ticket, message)
        return [*begun, ReceiptAsked(first, self.last_publication)]

    def release(self, last: int) -> Released:
        return Released(last - len(self.kept.pop(last).heads) + 1)

    def begin(self, now: float, kind: Kind, number: int, ticket: Ticket, message: Any) -> list[Effect]:
        assert self.broker is not None
        self.tickets[kind, number] = ticket
        timer = SetTimer(("settled", kind, number), now + self.params.timeout)
        return [Deliver(Begun(ticket, number)), Send(self.broker, message), timer]

    def count_as_done(self, now: float, fired: Fired) -> list[Effect]:
        _, kind, number = cast(tuple[str, Kind, int], fired.key)
        released: list[Effect] = [self.release(number)] if kind == "publish" and number in self.kept else []
        ticket = self.tickets.pop((kind, number), None)
        return released if ticket is None else [*released, Deliver(Confirmed(ticket, None))]

    # What the broker says.

    def receive(self, now: float, received: Received) -> list[Effect]:
        message = received.message
        if received.sender != self.broker:
            return [Drop(message, NOT_OUR_BROKER)]
        if isinstance(message, Receipt):
            # Somebody who compares wants to see it, the application does not.
            plain = self.subscriptions.get(message.number) if message.kind == "subscribe" else None
            return [*(promises(message.number, plain.request) if plain else ()), Deliver(message)]
        if not isinstance(message, Delivery):
            return [Drop(message, NOT_USED)]
        places: dict[int, list[int]] = {}
        for place in range(len(message.numbers)):
            for number in message.matched[place if len(message.matched) > 1 else 0]:
                places.setdefault(number, []).append(place)
        total_bytes = self.arriving.take(size_of(message))
        effects: list[Effect] = [] if total_bytes is None else [Send(self.broker, DeliveriesTaken(total_bytes))]
        return effects + [effect for number, mine in places.items() for effect in self.arrive(number, message, mine)]

    def arrive(self, number: int, message: Delivery, places: list[int]) -> list[Effect]:
        plain = self.subscriptions.get(number)
        if plain is None:
            return [Drop(message, UNKNOWN_SUBSCRIPTION)]
        assert self.broker is not None
        effects: list[Effect] = [Send(self.broker, Taken(number, len(places)))]
        kept = []
        for place in places:
            reason = plain.refuses(message.publisher, message.numbers[place], message.accepted_at)
            if reason:
                effects.append(Drop(message, reason))
            else:
                kept.append(place)
        if kept:
            numbers = tuple([message.numbers[place] for place in kept])
            heads = tuple([message.heads[place] for place in kept])
            payloads = tuple([message.payloads[place] for place in kept])
            arrived = Arrived(number, message.publisher, message.accepted_at, numbers, heads, payloads)
            effects.append(Deliver(arrived))
        return effects

    def check(self) -> None:
        waiting = [number for kind, number in self.tickets if kind == "publish"]
        assert list(self.kept) == waiting, "publications are kept that nobody waits for"
