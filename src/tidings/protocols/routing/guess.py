"""Semi-probabilistic routing: subscriptions travel a few hops, and beyond them events guess. A baseline.

The problem. Tables along the whole way are exact while nothing changes, and wrong for as long as they are repaired.

The idea (Costa and Picco; the thesis names it beside deltaFT, 3.2). A filter is told `horizon` hops far and no further.
An event goes to all neighbours of whom it is known that somebody near behind them wants it; and if these are less than
a `share` of the other neighbours, to some more, drawn at random, up to that share. A broker that fails takes little
with it, since few know of it; and most of what is far away is reached by chance.

There is nothing to guess on a tree but which of the few links lead to subscribers far away, so much gets lost there and
much is sent in vain. That is what the source found, and why it left the results out.

State. `own`: our clients' filters, counted. `near`: for each neighbour the filters near behind it, with their hops.
`told`: what each neighbour was told. Messages: `NearFilters`, the whole table, when it has changed; changes of
`gathered_for` seconds together. `GuessedPublications`. Timer: "near".

Best effort, like `radio_flood.py`: requests are settled at once, and nobody can say whether an event has arrived.
Guaranteed: nothing is delivered twice while its number is remembered. Bounds: `NEARBY_FILTERS_MAX` filters of a
neighbour; what we want beyond that is told to nobody.

Source: dependable.md 3.3.7 (semi-probabilistic), 3.2 of the thesis; Costa and Picco, ICDCS 2005.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import FilterText, Message
from tidings.machine.streams import random_stream
from tidings.matching import Index
from tidings.model.bounds import NEARBY_FILTERS_MAX, NEARBY_HOPS_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.protocols.routing.around import NOT_ASCENDING, do_ascend
from tidings.protocols.routing.passage import Passage
from tidings.protocols.routing.radio_flood import BAD_HEAD, NO_RECEIPTS
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

NO_NEIGHBOUR = "comes from a node that is no neighbour"
TIMER = "near"

Hops = Annotated[int, Meta(ge=1, le=NEARBY_HOPS_MAX)]


class GuessedRoutingParams(msgspec.Struct, frozen=True, tag_field="kind", tag="semi-probabilistic"):
    horizon: int = 3
    """Hops that a filter is told."""
    share: float = 0.5
    """Of the neighbours an event did not come from: at least so many get it."""
    gathered_for: float = 0.05
    """Seconds in which changes of what is told are gathered."""
    numbers_window: int = 1024
    """Numbers of each publisher by which it is told whether an event has passed."""
    publishers_max: int = 4096
    engine: Literal["fast", "plain"] | None = None
    seed: int = 0
    """Of what is drawn, with the name of the broker."""

    def __post_init__(self) -> None:
        if not 1 <= self.horizon <= NEARBY_HOPS_MAX:
            raise UsageError(f"horizon: {self.horizon} hops; give 1 to {NEARBY_HOPS_MAX}")
        if not 0 <= self.share <= 1:
            raise UsageError(f"share: {self.share} is no share of neighbours; give 0 to 1")
        if not 0 < self.gathered_for < math.inf:
            raise UsageError(f"gathered_for: {self.gathered_for} is no span of time; give seconds above 0")
        for name in ("numbers_window", "publishers_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} leaves no room; give at least 1")


class NearFilters(Message, frozen=True):
    """All that is wanted by me and near behind me, each with its hops from you."""

    filters: Annotated[tuple[tuple[FilterText, Hops], ...], Meta(max_length=NEARBY_FILTERS_MAX)]


class GuessedPublications(Message, frozen=True):
    """For you or for somebody behind you, it is known or guessed."""

    batch: Publications


class GuessedRouting:
    """`GuessedRouting("a", GuessedRoutingParams())`, behind the same signals as `Router`."""

    messages: tuple[type, ...] = (NearFilters, GuessedPublications)
    hears: tuple[type, ...] = (Forward, Want, Unwant, Offer, Unoffer, NeighbourUp, NeighbourDown, NeighbourReplaced)
    tells: tuple[type[Signal], ...] = (Settled, Known, Forgotten, Matched)
    is_best_effort = True

    def __init__(self, node_id: NodeId, params: GuessedRoutingParams) -> None:
        self.node_id, self.params = node_id, params
        self.rng = random_stream(params.seed, "guesses", node_id)
        self.local, self.links = Index(params.engine), Index("plain", decode=read_head)
        self.passage = Passage(params.publishers_max, params.numbers_window)
        self.keys: dict[SubscriptionKey, str] = {}
        self.own: Counter[str] = Counter()
        self.near: dict[NodeId, dict[str, int]] = {}
        self.told: dict[NodeId, tuple[tuple[str, int], ...]] = {}
        self.offers: dict[AdvertisementId, None] = {}
        self.is_timed = False
        self.guessed = 0

    # What others may look at.

    def check_overlay(self, overlay: str, level: Level, is_tree: bool) -> None:
        """Any will do: in a ring what is told of a filter ends at the horizon, and an event passes once."""

    def is_synchronised(self, neighbour: NodeId) -> bool:
        return neighbour in self.near

    def why_unsettled(self) -> str:
        return ""

    def hop_toward(self, advertisement: AdvertisementId) -> NodeId | None:
        return None

    def views(self) -> dict[str, View]:
        return {}

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("routing_guessed", "batches sent to neighbours drawn at random", self.guessed)

    # Inputs.

    def start(self, now: float) -> list[Effect]:
        self.is_timed = False
        for neighbour in list(self.near):
            self.lose(neighbour)
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, message) if sender not in self.near:
                return [Drop(message, NO_NEIGHBOUR)]
            case Received(sender, GuessedPublications(batch)):
                return self.heard(sender, batch)
            case Received(sender, NearFilters(filters)):
                return self.learn(now, sender, filters)
            case Forward(batch, ticket):
                settled = [] if ticket is None else [Settled(ticket, problem=NO_RECEIPTS)]
                return [*(self.carry(None, batch) if batch.numbers else ()), *settled]
            case Want(key, filter, ticket):
                self.local.add(key, filter)
                self.keys[key] = filter.text()
                self.own[self.keys[key]] += 1
                return [*self.gather(now), *self.settle(ticket)]
            case Unwant(key, ticket) if key in self.keys:
                self.local.discard(key)
                self.own -= Counter([self.keys.pop(key)])
                return [*self.gather(now), *self.settle(ticket)]
            case Unwant(_, ticket):
                return self.settle(ticket)
            case Offer(advertisement, publisher, filter, ticket):
                self.offers[advertisement] = None
                return [Known(advertisement, publisher, filter, None), *self.settle(ticket)]
            case Unoffer(advertisement, ticket):
                forgotten = [Forgotten(advertisement)] if advertisement in self.offers else []
                self.offers.pop(advertisement, None)
                return [*forgotten, *self.settle(ticket)]
            case NeighbourUp(neighbour):
                self.lose(neighbour)
                self.near[neighbour] = {}
                return self.gather(now)
            case NeighbourDown(neighbour):
                self.lose(neighbour)
                return self.gather(now)
            case Fired(key) if key == TIMER:
                return self.tell()
        return []

    def settle(self, ticket: Ticket | None) -> list[Effect]:
        return [] if ticket is None else [Settled(ticket, (self.node_id,), 1)]

    # What is near.

    def lose(self, neighbour: NodeId) -> None:
        for text in self.near.pop(neighbour, {}):
            self.links.discard((neighbour, text))
        self.told.pop(neighbour, None)

    def learn(self, now: float, sender: NodeId, filters: tuple[tuple[str, int], ...]) -> list[Effect]:
        known, told = self.near[sender], dict(filters)
        for text in [text for text in known if text not in told]:
            del known[text]
            self.links.discard((sender, text))
        for text, hops in told.items():
            try:
                if text not in known:
                    self.links.add((sender, text), parse(text), sender)
            except UsageError:
                continue
            known[text] = hops
        return self.gather(now)

    def gather(self, now: float) -> list[Effect]:
        if self.is_timed:
            return []
        self.is_timed = True
        return [SetTimer(TIMER, now + self.params.gathered_for)]

    def due(self, neighbour: NodeId) -> tuple[tuple[str, int], ...]:
        wanted = dict.fromkeys(self.own, 1)
        for other, filters in self.near.items():
            for text, hops in filters.items():
                if other != neighbour and hops < self.params.horizon:
                    wanted[text] = min(hops + 1, wanted.get(text, NEARBY_HOPS_MAX))
        # The nearest, if there are too many.
        return tuple(sorted(wanted.items(), key=lambda each: (each[1], each[0]))[:NEARBY_FILTERS_MAX])

    def tell(self) -> list[Effect]:
        self.is_timed = False
        effects: list[Effect] = []
        for neighbour in self.near:
            due = self.due(neighbour)
            if due != self.told.get(neighbour, ()):
                self.told[neighbour] = due
                effects.append(Send(neighbour, NearFilters(due)))
        return effects

    # Events.

    def heard(self, sender: NodeId, batch: Publications) -> list[Effect]:
        if not batch.numbers or not do_ascend(batch.numbers):
            return [Drop(batch, NOT_ASCENDING)]
        return self.carry(sender, batch)

    def carry(self, source: NodeId | None, batch: Publications) -> list[Effect]:
        new = self.passage.take(batch)
        if new is not None:
            if not new:
                return []
            batch = pick(batch, new, receipt=0)
        try:
            events = [read_head(head) for head in batch.heads]
        except BadPublication:
            return [Drop(batch, BAD_HEAD)]
        wanted: list[tuple[SubscriptionKey, ...]] = [
            tuple(key for key in keys if isinstance(key, tuple)) for keys in self.local.match_batch(events)
        ]
        here = [place for place, keys in enumerate(wanted) if keys]
        matched = [Matched(pick(batch, here, receipt=0), [wanted[place] for place in here])] if here else []
        return [*matched, *self.pass_on(source, batch)]

    def pass_on(self, source: NodeId | None, batch: Publications) -> list[Effect]:
        others = [neighbour for neighbour in self.near if neighbour != source]
        chosen: dict[NodeId, list[int]] = {neighbour: [] for neighbour in others}
        for neighbour, places in self.links.find_heads_links(list(batch.heads)).places.items():
            if isinstance(neighbour, str) and neighbour in chosen:
                chosen[neighbour] += places
        least = math.ceil(self.params.share * len(others))
        for place in range(len(batch.numbers)):
            left = [neighbour for neighbour in others if place not in chosen[neighbour]]
            lacking = least - (len(others) - len(left))
            for neighbour in self.rng.sample(left, max(0, min(lacking, len(left)))):
                chosen[neighbour].append(place)
                self.guessed += 1
        return [
            Send(neighbour, GuessedPublications(pick(batch, sorted(places), receipt=0)))
            for neighbour, places in chosen.items()
            if places
        ]

    def check(self) -> None:
        self.passage.check()
        assert self.told.keys() <= self.near.keys()
        assert len(self.links) == sum(map(len, self.near.values()))
        assert +self.own == self.own and self.own.total() == len(self.keys)
