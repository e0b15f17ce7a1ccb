"""Beside the tree: what direct and gossiping carriages have in common.

Who is behind a link is counted all the time, and asked by name when it is needed (`interests.py`). For a stream that is
not popular the publisher's broker asks, and until it knows everybody, the publications go by the tree.

Nothing leaves the tree for a stream behind which somebody was promised something ("installed", "reference"): the
promise rests on the order of the tree (rule "direct, gossip + guarantees" of the specification, 3.8). Nor where there
are more than `aside_max` pairs of brokers and filters.

What came beside the tree is for clients of this broker alone, and is taken once, in whatever order it comes: a window
of numbers says what has passed (`passage.py`).
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.message import Contact, Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.around import NOT_ASCENDING, OTHER_PUBLISHER, do_ascend
from tidings.protocols.routing.carriage.popular import PopularCarriage
from tidings.protocols.routing.carrier import UNADVERTISED, BatchCarrier
from tidings.protocols.routing.interests import (
    MASK,
    Interest,
    InterestAsked,
    InterestCensus,
    Interested,
    InterestNamed,
    Pair,
    digest_of,
    named_contact,
)
from tidings.protocols.routing.popularity import StreamKey
from tidings.pubsub.notes import GossipTaken
from tidings.pubsub.publications import BadPublication, Publications
from tidings.pubsub.signals import AdvertisementId, Matched, Wants

NO_NEIGHBOUR = "about interests, from a node that is no neighbour"
OTHER_WAY = "about interests, and not from the way it should come"
UNASKED = "names who was not asked for"


class NamedBrokers(NamedTuple):
    """Who is behind a link, as far as they were named."""

    interest: Interest
    """What was told when they were asked."""
    pairs: dict[Pair, None]
    contacts: dict[NodeId, Contact]
    asked_at: float

    @property
    def is_complete(self) -> bool:
        if len(self.pairs) != self.interest.pairs:
            return False
        return sum(digest_of(*pair) for pair in self.pairs) & MASK == self.interest.digest


class AsideCarriage(PopularCarriage):
    messages: ClassVar[tuple[type[Message], ...]] = (Interested, InterestAsked, InterestNamed)

    def __init__(self, carrier: BatchCarrier) -> None:
        super().__init__(carrier)
        assert isinstance(carrier.census, InterestCensus)
        self.interests = carrier.census
        self.named: dict[StreamKey, NamedBrokers] = {}
        self.address: Callable[[], str] = lambda: ""
        """Where this broker listens."""

    def start(self) -> None:
        super().start()
        self.named.clear()

    # At the publisher's broker.

    def everybody(
        self, now: float, neighbour: NodeId, advertisement: AdvertisementId, effects: list[Effect]
    ) -> NamedBrokers | None:
        """Who is behind the link, if all are known and may be reached beside the tree; else they are asked for."""
        key = neighbour, advertisement
        interest = self.interests.interest(neighbour, advertisement)
        if not interest.pairs or interest.is_sure or interest.pairs > self.params.aside_max:
            return None
        named = self.named.get(key)
        if named is not None and named.interest == interest and named.is_complete:
            return named
        is_due = named is None or named.interest != interest or now >= named.asked_at + self.params.evaluated_every
        if is_due:
            self.forget(key, effects)
            self.named[key] = NamedBrokers(interest, {}, {}, now)
            effects += self.ask(neighbour, advertisement)
        return None

    def way_of(self, key: StreamKey) -> str:
        named, interest = self.named.get(key), self.interests.interest(*key)
        is_known = named is not None and named.interest == interest and named.is_complete and not interest.is_sure
        return super().way_of(key) if is_known else "tree"

    def ask(self, neighbour: NodeId, advertisement: AdvertisementId) -> list[Effect]:
        raise NotImplementedError

    def forget(self, key: StreamKey, effects: list[Effect]) -> None:
        """Who is there is not known any more."""
        self.named.pop(key, None)

    def came(self, key: StreamKey, named: NamedBrokers) -> list[Effect]:
        """Everybody is known."""
        return []

    def close(self, neighbour: NodeId) -> list[Effect]:
        effects: list[Effect] = []
        for key in [key for key in self.named if key[0] == neighbour]:
            self.forget(key, effects)
        return effects + super().close(neighbour)

    # On the way.

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        link = self.carrier.links.get(sender)
        if link is None or not link.is_heard:
            return [Drop(message, NO_NEIGHBOUR)]
        if isinstance(message, Interested):
            return self.interests.interested(now, link, message)
        if isinstance(message, InterestNamed):
            return self.pass_name_on(sender, message)
        return self.pass_down(now, sender, message)

    def hop_toward(self, advertisement: AdvertisementId) -> tuple[bool, NodeId | None]:
        """Whether it is known, and the neighbour on the way to its publisher."""
        chosen = self.carrier.tables.chosen(advertisement)
        return (False, None) if chosen is None else (True, chosen[0])

    def pass_down(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        """From the way to the publisher."""
        assert isinstance(message, InterestAsked)
        if self.hop_toward(message.advertisement) != (True, sender):
            return [Drop(message, OTHER_WAY)]
        return self.interests.asked(sender, message, self.address())

    def pass_name_on(self, sender: NodeId, named: InterestNamed) -> list[Effect]:
        is_known, hop = self.hop_toward(named.advertisement)
        if not is_known or hop == sender:
            return [Drop(named, OTHER_WAY)]
        if hop is not None:
            return self.send_named(hop, named)
        known = self.named.get((sender, named.advertisement))
        if known is None or len(known.pairs) > self.params.aside_max:
            return [Drop(named, UNASKED)]
        was_complete = known.is_complete
        for text in named.filters or ("",):
            known.pairs[named.broker, text] = None
        known.contacts[named.broker] = named_contact(named)
        is_complete = known.is_complete and not was_complete
        return self.came((sender, named.advertisement), known) if is_complete else []

    def send_named(self, hop: NodeId, named: InterestNamed) -> list[Effect]:
        return [Send(hop, named)]

    # What comes beside the tree.

    def take_aside(self, now: float, batch: Publications) -> list[Effect]:
        """For our own clients, as far as it is new."""
        carrier = self.carrier
        chosen = carrier.tables.chosen(batch.advertisement)
        if chosen is None:
            return [Drop(batch, UNADVERTISED)]
        if chosen[1].publisher != batch.publisher:
            return [Drop(batch, OTHER_PUBLISHER)]
        if not batch.numbers or not do_ascend(batch.numbers):
            return [Drop(batch, NOT_ASCENDING)]
        effects: list[Effect] = []
        new = carrier.passage.take(batch)
        if new is not None:
            batch = carrier.without_passed(batch, new, effects)
        if not batch.numbers:
            return effects
        matched = self.match_here(batch)
        if matched is not None:
            effects.append(matched)
        if self.params.notes_forwards:
            wanted = matched.wanted if matched is not None else [()] * len(batch.numbers)
            effects += [GossipTaken(matches=len(keys)) for keys in wanted]
        return effects

    def match_here(self, batch: Publications) -> Matched | None:
        try:
            places = self.carrier.tables.local_index.find_heads(list(batch.heads)).places
        except BadPublication:
            return None
        return Matched(batch, Wants(len(batch.numbers), places)) if places else None

    def check(self) -> None:
        super().check()
        assert all(neighbour in self.flows for neighbour, _ in self.named), "asked for behind a link that is gone"
