"""Flooding on the air: everybody who hears an event for the first time says it again. The baseline of radio networks.

There is no tree and there are no tables, so nothing has to be mended when brokers move; an event reaches whoever can be
reached at all, and everybody is bothered with it. Who hears an event waits a moment of its own (`jitter`), so that not
all neighbours speak at once, and says it once. Which numbers of a publisher were heard is remembered (`passage.py`).

Best effort: requests are settled at once and name this broker only, and nobody can say whether an event has arrived.

Timers: ("flood", number). Message: `FloodedPublications`.
Source: dynamic-topologies.md 3.12 (16.2.3 of its source); D-121.
"""

import math
from collections.abc import Iterator
from typing import Literal

import msgspec

from tidings.machine.effects import BROADCAST, Drop, Effect, Send, SetTimer, Transport
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import Message
from tidings.machine.streams import random_stream
from tidings.matching.index import Index
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.routing.around import do_ascend
from tidings.protocols.routing.passage import Passage
from tidings.pubsub.publications import BadPublication, Publications, pick, read_head
from tidings.pubsub.rows import Gauge, View
from tidings.pubsub.signals import (
    AdvertisementId,
    Forgotten,
    Forward,
    Known,
    Level,
    Matched,
    NeighbourDown,
    NeighbourReplaced,
    NeighbourUp,
    Offer,
    Settled,
    SubscriptionKey,
    Ticket,
    Unoffer,
    Unwant,
    Want,
)

BAD_HEAD = "its attributes cannot be read"
NOT_ASCENDING = "its numbers do not ascend"
TOO_MANY_WAIT = "too many events wait to be said again"
NO_RECEIPTS = "events are flooded here: nobody can say whether one arrived; publish without a receipt"


class RadioFloodingParams(msgspec.Struct, frozen=True, tag_field="kind", tag="radio-flooding"):
    jitter: float = 0.01
    """Seconds up to which an event waits before it is said again."""
    numbers_window: int = 256
    """Numbers of each publisher by which it is told whether an event was heard already."""
    publishers_max: int = 4096
    waiting_max: int = 1000
    """Batches that wait to be said again."""
    seed: int = 0
    """Of the moments that are waited, with the name of the broker."""
    engine: Literal["fast", "plain"] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.jitter < math.inf:
            raise UsageError(f"jitter: {self.jitter} is no span of time; give seconds above 0")
        for name in ("numbers_window", "publishers_max", "waiting_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} leaves no room; give at least 1")


class FloodedPublications(Message, frozen=True):
    """For everybody who hears it."""

    batch: Publications


class RadioFlooding:
    """`RadioFlooding("a", RadioFloodingParams())`, behind the same signals as `Router`."""

    messages: tuple[type, ...] = (FloodedPublications,)
    hears: tuple[type, ...] = (Forward, Want, Unwant, Offer, Unoffer, NeighbourUp, NeighbourDown, NeighbourReplaced)
    tells: tuple[type[Signal], ...] = (Settled, Known, Forgotten, Matched)
    is_best_effort = True

    def __init__(self, node_id: NodeId, params: RadioFloodingParams) -> None:
        self.node_id, self.params = node_id, params
        self.rng = random_stream(params.seed, "radio flooding", node_id)
        self.index = Index(params.engine)
        self.passage = Passage(params.publishers_max, params.numbers_window)
        self.waiting: dict[int, Publications] = {}
        self.numbers = 0
        self.offers: dict[AdvertisementId, None] = {}

    # What others may look at.

    def check_overlay(self, overlay: str, level: Level, is_tree: bool) -> None:
        """Any will do: none is used."""

    def is_synchronised(self, neighbour: NodeId) -> bool:
        return True

    def why_unsettled(self) -> str:
        return ""

    def hop_toward(self, advertisement: AdvertisementId) -> NodeId | None:
        return None

    def views(self) -> dict[str, View]:
        return {}

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("waiting_for_air", "batches that wait to be said again", len(self.waiting))

    # Inputs.

    def start(self, now: float) -> list[Effect]:
        self.waiting.clear()
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(_, FloodedPublications(batch)):
                return self.heard(now, batch)
            case Forward(batch, ticket):
                settled = [] if ticket is None else [Settled(ticket, problem=NO_RECEIPTS)]
                if not batch.numbers:
                    return [*settled]
                self.passage.take(batch)
                return [*self.deliver(batch), *self.say(batch), *settled]
            case Want(key, filter, ticket):
                self.index.add(key, filter)
                return self.settle(ticket)
            case Unwant(key, ticket):
                self.index.discard(key)
                return self.settle(ticket)
            case Offer(advertisement, publisher, filter, ticket):
                self.offers[advertisement] = None
                return [Known(advertisement, publisher, filter, None), *self.settle(ticket)]
            case Unoffer(advertisement, ticket):
                forgotten = [Forgotten(advertisement)] if advertisement in self.offers else []
                self.offers.pop(advertisement, None)
                return [*forgotten, *self.settle(ticket)]
            case Fired(("flood", int(number))) if number in self.waiting:
                return self.say(self.waiting.pop(number))
        return []

    def settle(self, ticket: Ticket | None) -> list[Effect]:
        return [] if ticket is None else [Settled(ticket, (self.node_id,), 1)]

    def heard(self, now: float, batch: Publications) -> list[Effect]:
        if not batch.numbers or not do_ascend(batch.numbers):
            return [Drop(batch, NOT_ASCENDING)]
        new = self.passage.take(batch)
        if new is not None:
            if not new:
                return []
            batch = pick(batch, new, receipt=0)
        if len(self.waiting) >= self.params.waiting_max:
            return [*self.deliver(batch), Drop(batch, TOO_MANY_WAIT)]
        self.numbers += 1
        self.waiting[self.numbers] = batch
        return [
            *self.deliver(batch),
            SetTimer(("flood", self.numbers), now + self.rng.uniform(0.0, self.params.jitter)),
        ]

    def say(self, batch: Publications) -> list[Effect]:
        return [Send(BROADCAST, FloodedPublications(batch), Transport.DATAGRAM)]

    def deliver(self, batch: Publications) -> list[Effect]:
        try:
            events = [read_head(head) for head in batch.heads]
        except BadPublication:
            return [Drop(batch, BAD_HEAD)]
        if not len(self.index):
            return []
        found: list[tuple[SubscriptionKey, ...]] = [
            tuple(key for key in keys if isinstance(key, tuple)) for keys in self.index.match_batch(events)
        ]
        places = [place for place, keys in enumerate(found) if keys]
        return [Matched(pick(batch, places, batch.receipt), [found[place] for place in places])] if places else []

    def check(self) -> None:
        assert len(self.waiting) <= self.params.waiting_max, "more events wait than waiting_max"
