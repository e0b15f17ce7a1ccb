"""The plainest delivery: the application is in the node itself, and nothing is promised.

It speaks the words of any client (`pubsub/client.py`), so whatever works over a session works over this: it asks
routing for what the application wants, numbers what it publishes, and delivers, or only counts, what arrives. Nothing
is stored, so history is not there to be read; `Confirmed` comes when routing says that the request is carried out, and
its receipt says that nothing is guaranteed beyond that.

An application that publishes single events (`Publish`) without having advertised offers everything.

State. `subscriptions`, `advertisements`: what is open, by number. `waiting`: requests that routing has not settled.
`counts`: publications delivered, by subscription.
"""

from collections import Counter
from typing import Any

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect
from tidings.machine.inputs import Input, Signal
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Begun,
    CloseAdvertisement,
    CloseSubscription,
    Confirmed,
    Failed,
    Kind,
    Latency,
    OpenAdvertisement,
    OpenSubscription,
    OpenWindow,
    PublishBatch,
    ReadHistory,
    ReadMarks,
    Receipt,
    Took,
)
from tidings.pubsub.publications import Publications, encode_head, pick
from tidings.pubsub.requests import Publish
from tidings.pubsub.signals import Forward, Matched, Offer, Settled, SubscriptionKey, Unoffer, Unwant, Want, Wants

NO_HISTORY = "nothing is stored here"
NO_ADVERTISEMENT = "published under an advertisement that is not open; open one first"
EVERYTHING = "TRUE"


class LocalParams(msgspec.Struct, frozen=True):
    is_counting: bool = False
    """Whether what arrives is counted only, and not delivered."""

    is_many: bool = False
    """Whether each advertisement is one of a publisher of its own, with numbers of its own: the application stands for
    many clients."""


class LocalDelivery:
    """`LocalDelivery("a", LocalParams())`."""

    messages: tuple[type, ...] = ()
    hears: tuple[type, ...] = (
        *(OpenSubscription, CloseSubscription, OpenAdvertisement, CloseAdvertisement, PublishBatch, Publish),
        *(Took, ReadMarks, ReadHistory, Matched, Settled),
    )
    tells: tuple[type[Signal], ...] = (Want, Unwant, Offer, Unoffer, Forward)

    def __init__(self, node_id: NodeId, params: LocalParams) -> None:
        self.node_id, self.params = node_id, params
        self.subscriptions: dict[int, str] = {}
        self.advertisements: dict[int, str] = {}
        self.latencies: dict[int, Latency] = {}
        """What was asked for these, if anything was."""
        self.given = {"subscribe": 0, "advertise": 0}
        """Numbers that were given so far."""
        self.window = OpenWindow()
        self.published: Counter[str] = Counter()
        """By publisher."""
        self.waiting: dict[int, tuple[Any, Kind, int, str]] = {}
        """By our ticket: the application's, what it asked, its number, its filter."""
        self.tickets = 0
        self.counts: Counter[int] = Counter()

    def start(self, now: float) -> list[Effect]:
        """After a crash that kept the state: what was asked of routing is asked again."""
        self.waiting.clear()
        wants = [Want(self.key(number), parse(text)) for number, text in self.subscriptions.items()]
        offers = [
            Offer(self.id_of(number), self.publisher(number), parse(text), latency=self.latencies.get(number, "any"))
            for number, text in self.advertisements.items()
        ]
        return [*wants, *offers]

    def key(self, number: int) -> SubscriptionKey:
        return self.node_id, number

    def publisher(self, advertisement: int) -> str:
        return f"{self.node_id}.{advertisement}" if self.params.is_many else self.node_id

    def id_of(self, advertisement: int) -> str:
        return f"{self.publisher(advertisement)}/{advertisement}@{self.node_id}"

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Matched(batch, wanted):
                return self.arrived(batch, wanted if isinstance(wanted, Wants) else wants_of(wanted))
            case Publish(event):
                opening = [] if self.advertisements else self.open("advertise", None, EVERYTHING)
                batch = self.batch(
                    now, next(iter(self.advertisements)), (encode_head(event.attributes),), (event.payload,)
                )
                return [*opening, Forward(batch)]
            case PublishBatch():
                return self.publish(now, input)
            case OpenSubscription(ticket, text):
                return self.open("subscribe", ticket, text)
            case OpenAdvertisement(ticket, text, latency):
                return self.open("advertise", ticket, text, latency)
            case CloseSubscription(ticket, number) | CloseAdvertisement(ticket, number):
                return self.close(ticket, number, isinstance(input, CloseSubscription))
            case Settled(ticket) if ticket in self.waiting:
                return self.settled(now, input)
            case ReadMarks(ticket) | ReadHistory(ticket):
                return [Deliver(Failed(ticket, NO_HISTORY))]
        return []

    # What the application wants and offers.

    def open(self, kind: Kind, ticket: Any, text: str, latency: Latency = "any") -> list[Effect]:
        try:
            filter = parse(text)
        except UsageError as problem:
            return [Deliver(Failed(ticket, str(problem)))]
        self.given[kind] += 1
        number = self.given[kind]
        begun = [] if ticket is None else [Deliver(Begun(ticket, number))]
        ours = self.wait(ticket, kind, number, text)
        if kind == "subscribe":
            self.subscriptions[number] = text
            return [*begun, Want(self.key(number), filter, ours)]
        self.advertisements[number] = text
        if latency != "any":
            self.latencies[number] = latency
        return [*begun, Offer(self.id_of(number), self.publisher(number), filter, ours, latency)]

    def close(self, ticket: Any, number: int, is_subscription: bool) -> list[Effect]:
        table = self.subscriptions if is_subscription else self.advertisements
        if table.pop(number, None) is None:
            return [Deliver(Confirmed(ticket, None))]
        if not is_subscription:
            self.latencies.pop(number, None)
        ours = self.wait(ticket, "unsubscribe" if is_subscription else "unadvertise", number, "")
        return [Unwant(self.key(number), ours) if is_subscription else Unoffer(self.id_of(number), ours)]

    def wait(self, ticket: Any, kind: Kind, number: int, text: str) -> int | None:
        if ticket is None:
            return None
        self.tickets += 1
        self.waiting[self.tickets] = ticket, kind, number, text
        return self.tickets

    def settled(self, now: float, settled: Settled) -> list[Effect]:
        ticket, kind, number, text = self.waiting.pop(settled.ticket)  # type: ignore[call-overload]
        if settled.problem:
            return [Deliver(Failed(ticket, settled.problem))]
        receipt = Receipt(kind, number, settled.brokers, settled.brokers_count, now, text, "none")
        return [Deliver(Confirmed(ticket, receipt))]

    # Publications.

    def publish(self, now: float, request: PublishBatch) -> list[Effect]:
        if not self.takes(request):
            return [Drop(request, NO_ADVERTISEMENT)]
        batch = self.batch(now, request.advertisement, request.heads, request.payloads)
        begun: list[Effect] = [] if request.ticket is None else [Deliver(Begun(request.ticket, batch.numbers[0]))]
        ours = self.wait(request.ticket, "publish", batch.numbers[0], "")
        return [*begun, Deliver(Accepted(self.window.through)), Forward(batch, ours)]

    def takes(self, request: PublishBatch) -> bool:
        return request.advertisement in self.advertisements

    def batch(
        self, now: float, advertisement: int, heads: tuple[bytes, ...], payloads: tuple[bytes, ...]
    ) -> Publications:
        self.window.take(len(heads))
        publisher = self.publisher(advertisement)
        first = self.published[publisher] + 1
        self.published[publisher] += len(heads)
        numbers = tuple(range(first, first + len(heads)))
        return Publications(publisher, self.id_of(advertisement), now, 0, numbers, heads, payloads)

    def arrived(self, batch: Publications, wants: Wants) -> list[Effect]:
        effects: list[Effect] = []
        for (_, number), places in wants.places.items():
            self.counts[number] += len(places)
            if not self.params.is_counting:
                part = pick(batch, places, receipt=0)
                arrived = Arrived(number, part.publisher, part.accepted_at, part.numbers, part.heads, part.payloads)
                effects.append(Deliver(arrived))
        return effects

    def check(self) -> None:
        assert all(number <= self.given["subscribe"] for number in self.counts), "counted for nobody"
        assert all(number <= self.given["advertise"] for number in self.advertisements), "an advertisement of nobody"


def wants_of(wanted: Any) -> Wants:
    places: dict[SubscriptionKey, list[int]] = {}
    for place, keys in enumerate(wanted):
        for key in keys:
            places.setdefault(key, []).append(place)
    return Wants(len(wanted), places)
