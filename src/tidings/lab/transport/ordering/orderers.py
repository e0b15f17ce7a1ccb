"""Several orderers side by side on the same arrivals (E6 to E8).

Ordering happens in the receivers, and what they do has no influence on the network. So a run of the plain network is
recorded once: what each publisher published, and when which of it arrived where. Then each orderer is given exactly
these arrivals, one pair of publisher and subscriber after the other. An orderer is the transport's own part `Ordering`
with its parameters; headers are those that the publisher's part would have written. What differs between two orderers
is therefore theirs alone, and nothing else.

The records that headers carry are not on the links of the recorded run: they would take bandwidth, and not the same for
all. The source ran its orderers side by side in the same way.

Orderers are called as in the source: CST-30 holds every event behind a gap for 30 ms; P-.05-25 is the probabilistic one
with P_t = 0.05 and records of 25 events, P-.05-0 has none (basic mode). "exact" behind it means the quantile that
follows from the distribution; without it the one of the source's appendix, which is longer by four scales (X-1).

**Slowing down** stretches delays, so whatever is a time in an orderer is stretched too, and extra delays must be
divided by the slowdown to be compared.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from random import Random

import msgspec

from tidings.lab.transport.samples import subscriber_name
from tidings.lab.transport.substrate import PUBLISHED_ROWS
from tidings.machine.effects import Deliver, Effect, SetTimer
from tidings.machine.inputs import Fired, Input
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.transport.headers import Data
from tidings.protocols.transport.ordering.ordering import Ordering
from tidings.protocols.transport.params import OrderingParams, TransportParams
from tidings.protocols.transport.sequences import Departures
from tidings.protocols.transport.signals import CarriedEvent, Handed, Heard, Listen, StreamGone
from tidings.pubsub.client import Arrived
from tidings.pubsub.notes import Latched
from tidings.pubsub.publications import encode_head
from tidings.pubsub.requests import Publish
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer

SUBSCRIPTION = 1


class Orderer(msgspec.Struct, frozen=True):
    label: str
    ordering: OrderingParams
    record: int = 0

    def stretched(self, slowdown: float) -> TransportParams:
        ordering = msgspec.structs.replace(
            self.ordering,
            static_latch=self.ordering.static_latch * slowdown,
            latch_max=self.ordering.latch_max * slowdown,
        )
        return msgspec.structs.replace(PUBLISHED_ROWS, record=self.record, ordering=ordering)


def static(milliseconds: int) -> Orderer:
    return Orderer(f"CST-{milliseconds}", OrderingParams(mode="static", static_latch=milliseconds / 1000))


def probabilistic(violation: str, record: int, quantile: str = "appendix") -> Orderer:
    """`violation` as it is written in the label: ".05"."""
    params = OrderingParams(
        mode="enhanced" if record else "basic",
        violation=float(violation),
        quantile="exact" if quantile == "exact" else "appendix",
    )
    return Orderer(f"P-{violation}-{record}{' exact' * (quantile == 'exact')}", params, record)


# What is recorded.


class PublishedAt(msgspec.Struct, frozen=True):
    at: float
    head: bytes


class Recording(Observer):
    """What was published, and when it arrived where."""

    def __init__(self) -> None:
        self.published: dict[NodeId, list[PublishedAt]] = {}
        """By publisher, in the order of numbers."""
        self.arrived: dict[NodeId, dict[NodeId, list[tuple[float, int]]]] = {}
        """By publisher and subscriber: time and place among what was published, in the order of time."""

    def on_input(self, now: float, node: SimulatedNode, input: Input) -> None:
        if type(input) is Publish:
            # Source and id are there for the trace, and no part of what records tell.
            content = {name: value for name, value in input.event.attributes.items() if name not in ("source", "id")}
            self.published.setdefault(node.id, []).append(PublishedAt(now, encode_head(content)))

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Deliver and type(effect.item) is Arrived:
                item = effect.item
                name = subscriber_name(node.id, item.subscription)
                at_subscriber = self.arrived.setdefault(item.publisher, {}).setdefault(name, [])
                at_subscriber += [(now, number - 1) for number in item.numbers]

    def only(self, subscribers: Container[NodeId]) -> "Recording":
        """What arrived at these."""
        part = Recording()
        part.published = self.published
        for publisher, at in self.arrived.items():
            part.arrived[publisher] = {name: arrived for name, arrived in at.items() if name in subscribers}
        return part


# What orderers make of it.


class OrderedDelivery(msgspec.Struct, frozen=True):
    """`latch` is how long the event was to be held, `held` how long it was."""

    at: float
    number: int
    latch: float
    held: float


def headers_of(params: TransportParams, published: Sequence[PublishedAt]) -> list[Data]:
    """What stands before each event of one publisher."""
    publishing = Departures(1, params)
    return [publishing.depart(one.at, publishing.bits_of(one.head), ())[1] for one in published]


class OrderReplay:
    """One orderer at one subscriber."""

    def __init__(self, params: TransportParams, filter: Filter) -> None:
        self.ordering = Ordering(2, params, Random(0))
        self.ordering.handle(0.0, Listen(SUBSCRIPTION, filter))
        self.fires_at: float | None = None
        self.key: object = None
        self.latched: list[tuple[float, Latched]] = []

    def deliveries(
        self, publisher: NodeId, headers: Sequence[Data], arrived: Sequence[tuple[float, int]]
    ) -> Iterator[OrderedDelivery]:
        """Of one publisher, in the order in which the application gets them. `latched` is then that of this pair."""
        stream, now = (publisher, 1), 0.0
        self.latched.clear()
        for now, number in arrived:
            yield from self.fire_until(now)
            content = CarriedEvent(b"", b"", publisher, number, now, (SUBSCRIPTION,))
            yield from self.settle(now, self.ordering.handle(now, Heard(stream, number, headers[number], content)))
        yield from self.fire_until(None)
        yield from self.settle(now, self.ordering.handle(now, StreamGone(stream)))

    def fire_until(self, now: float | None) -> Iterator[OrderedDelivery]:
        """Whatever is due before that time, or at all."""
        while self.fires_at is not None and (now is None or self.fires_at < now):
            at, self.fires_at = self.fires_at, None
            yield from self.settle(at, self.ordering.handle(at, Fired(self.key)))

    def settle(self, now: float, effects: list[Effect]) -> Iterator[OrderedDelivery]:
        for effect in effects:
            if type(effect) is SetTimer:
                self.fires_at, self.key = effect.at, effect.key
            elif type(effect) is Deliver and type(effect.item) is Handed:
                handed = effect.item
                yield OrderedDelivery(now, handed.sequence, handed.latch, handed.held)
            elif type(effect) is Latched:
                self.latched.append((now, effect))


def compare(
    recording: Recording, filters: Mapping[NodeId, Filter], orderers: Sequence[Orderer], slowdown: float
) -> Iterator[tuple[Orderer, NodeId, NodeId, Iterator[OrderedDelivery]]]:
    """Every orderer for every pair of publisher and subscriber, with what it hands over; each is to be read before the
    next. Publisher by publisher, since headers are large."""
    params = {orderer.label: orderer.stretched(slowdown) for orderer in orderers}
    replays: dict[tuple[str, NodeId], OrderReplay] = {}
    for publisher, at_subscribers in recording.arrived.items():
        published = recording.published[publisher]
        # Headers differ by mode and length of the record only.
        headers: dict[tuple[str, int], list[Data]] = {}
        for orderer in orderers:
            written = orderer.ordering.mode, orderer.record
            if written not in headers:
                headers[written] = headers_of(params[orderer.label], published)
            for subscriber, arrived in at_subscribers.items():
                known = orderer.label, subscriber
                replay = replays.get(known)
                if replay is None:
                    replay = replays[known] = OrderReplay(params[orderer.label], filters[subscriber])
                yield orderer, publisher, subscriber, replay.deliveries(publisher, headers[written], arrived)
