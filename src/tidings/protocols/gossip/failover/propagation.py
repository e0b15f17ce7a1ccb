"""Publications around a failure: told to whom, by whom told on, and what is remembered of it (dependable.md 3.3.4).

What could not go over a neighbour that failed (`Stranded`) goes to all members of a view: those of the child view if
the neighbour is below, those of the parent view, and the other brokers below it, if it is above. Whoever gets it does
two things. Routing carries it on by its tables, as if it had come on the tree (`Rescued`); and while hops are left it
is told on to the members of our view of the next level in the same direction, so that it passes beyond the broker that
failed.

The two are apart (G-20a): a broker that had the publication already, by the tree, drops it in routing and tells it on
all the same, since those beyond the failure need not have it. It does so once for each publication and failure.

Large publications are offered, and sent to who lacks them; for small ones the question would take longer than the
answer, so they are sent at once.

Bounds: `relays_max` names are remembered, `held_bytes_max` is held for who may ask.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import lt
from typing import Protocol

from tidings.machine.effects import Drop, Effect
from tidings.machine.message import Contact, Message
from tidings.model.identity import NodeId
from tidings.protocols.gossip.failover.messages import GossipAsked, GossipOffered, GossipPublications
from tidings.protocols.gossip.failover.params import FailoverParams
from tidings.pubsub.publications import Numbers, Publications, pick
from tidings.pubsub.signals import AdvertisementId, Rescued

NO_VIEW = "failed around, and nobody is known who could bring it there"
NOT_HELD = "asks for what is not held any more"
NOT_ASCENDING = "its numbers do not ascend"
HELD_NO_LONGER = "offered around a failure, and newer ones need the room"

RelayName = tuple[AdvertisementId, int, NodeId]
"""An advertisement, a number under it, and the broker that failed."""

Sender = Callable[[Contact, Message], list[Effect]]


class Passed(Protocol):
    """What gossip reads of routing."""

    def has_passed(self, advertisement: AdvertisementId, number: int) -> bool:
        """Whether this publication came here before."""
        ...


class CountedRoutes(Passed, Protocol):
    """What failover reads of routing."""

    def subscription_counts(self) -> Mapping[AdvertisementId, int]:
        """How many subscriptions passed here, for each advertisement (S-18)."""
        ...

    def filter_texts(self) -> Iterable[str]:
        """What is wanted, here or behind a neighbour."""
        ...

    def sent_lately(self, now: float, neighbour: NodeId) -> list[Publications]:
        """What went to a neighbour that is lost, in the last moments before: it may have been on its way."""
        ...

    def publication_rates(self) -> Mapping[AdvertisementId, float]:
        """How many publications passed lately, for each advertisement, in any unit."""
        ...


class Relayed:
    """What was told on, in the order in which it was."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.names: dict[RelayName, None] = {}

    def take(self, batch: Publications, failed: NodeId) -> list[int]:
        """The places of those that were not told on around this failure; now they are."""
        places = []
        for place, number in enumerate(batch.numbers):
            name = batch.advertisement, number, failed
            if name not in self.names:
                self.names[name] = None
                places.append(place)
        while len(self.names) > self.most:
            del self.names[next(iter(self.names))]
        return places


class OfferedGossip:
    """Publications that were offered."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max, self.size_bytes = bytes_max, 0
        self.messages: dict[RelayName, GossipPublications] = {}

    def put(self, message: GossipPublications) -> list[Effect]:
        effects: list[Effect] = []
        for place, number in enumerate(message.batch.numbers):
            name = message.batch.advertisement, number, message.failed
            if name not in self.messages:
                one = pick(message.batch, (place,), receipt=0)
                self.messages[name] = with_batch(message, one)
                self.size_bytes += batch_bytes(one)
        while self.size_bytes > self.bytes_max:
            gone = self.messages.pop(next(iter(self.messages)))
            self.size_bytes -= batch_bytes(gone.batch)
            effects.append(Drop(gone.batch, HELD_NO_LONGER))
        return effects


class GossipPropagation:
    """`send` brings a message to a broker; `around` says to whom something goes that had to go over a broker that
    failed, and `onward` to whom it goes from us."""

    def __init__(self, own: NodeId, params: FailoverParams, routes: Passed, send: Sender) -> None:
        self.own, self.params, self.routes, self.send = own, params, routes, send
        self.relayed = Relayed(params.relays_max)
        self.held = OfferedGossip(params.held_bytes_max)
        self.asked: dict[tuple[AdvertisementId, int], None] = {}
        """What was asked for lately."""
        self.told = self.taken = self.repeated = 0

    def strand(
        self,
        batch: Publications,
        failed: NodeId,
        is_down: bool,
        beyond: tuple[tuple[NodeId, ...], ...],
        recipients: Iterable[Contact],
    ) -> list[Effect]:
        """Routing could not send these to a neighbour."""
        chosen = [contact for contact in recipients if contact.node not in (failed, self.own)]
        if not chosen:
            return [Drop(batch, NO_VIEW)]
        places = self.relayed.take(batch, failed)
        if not places:
            return []
        message = GossipPublications(
            plain(pick(batch, places, receipt=0)), failed, is_down, self.params.hops - 1, beyond[: self.params.levels]
        )
        return self.tell(chosen, message)

    def tell(self, recipients: Sequence[Contact], message: GossipPublications) -> list[Effect]:
        self.told += len(recipients)
        if batch_bytes(message.batch) <= self.params.push_bytes_max:
            return [effect for contact in recipients for effect in self.send(contact, message)]
        effects = self.held.put(message)
        offered = GossipOffered(message.batch.advertisement, message.batch.numbers, message.failed)
        return effects + [effect for contact in recipients for effect in self.send(contact, offered)]

    def hear(self, message: GossipPublications, onward: Sequence[Contact]) -> list[Effect]:
        """Somebody tells us of a failure on the way of these; `onward` is to whom we tell it on."""
        batch = message.batch
        if not batch.numbers or not do_ascend(batch.numbers):
            return [Drop(message, NOT_ASCENDING)]
        self.taken += 1
        effects: list[Effect] = []
        places = self.relayed.take(batch, message.failed) if message.left > 0 else []
        if places and self.params.literal_seen:
            id = batch.advertisement
            places = [place for place in places if not self.routes.has_passed(id, batch.numbers[place])]
        chosen = [contact for contact in onward if contact.node not in (message.failed, self.own)]
        if places and chosen:
            onwards = GossipPublications(
                pick(batch, places, receipt=0),
                message.failed,
                message.is_down,
                min(message.left, self.params.hops) - 1,
                message.beyond[1:],
            )
            effects += self.tell(chosen, onwards)
        elif not places and message.left > 0:
            self.repeated += 1
        return [*effects, Rescued(batch)]

    # Large ones.

    def hear_offer(self, contact: Contact, offered: GossipOffered) -> list[Effect]:
        # What was kept for us (`retransmission.py`) is offered again where an answer was lost.
        id, is_for_us = offered.advertisement, offered.failed == self.own
        missing = [
            number
            for number in dict.fromkeys(offered.numbers)
            if not self.routes.has_passed(id, number) and (is_for_us or (id, number) not in self.asked)
        ]
        if not missing:
            return []
        self.asked.update(dict.fromkeys((id, number) for number in missing))
        while len(self.asked) > self.params.relays_max:
            del self.asked[next(iter(self.asked))]
        return self.send(contact, GossipAsked(id, tuple(missing), offered.failed))

    def hear_question(self, contact: Contact, asked: GossipAsked) -> list[Effect]:
        effects: list[Effect] = []
        for number in dict.fromkeys(asked.numbers):
            held = self.held.messages.get((asked.advertisement, number, asked.failed))
            effects += [Drop(asked, NOT_HELD)] if held is None else self.send(contact, held)
        return effects

    def check(self) -> None:
        assert len(self.relayed.names) <= self.params.relays_max and len(self.asked) <= self.params.relays_max
        assert self.held.size_bytes == sum(batch_bytes(held.batch) for held in self.held.messages.values())
        assert self.held.size_bytes <= self.params.held_bytes_max


def with_batch(message: GossipPublications, batch: Publications) -> GossipPublications:
    return GossipPublications(batch, message.failed, message.is_down, message.left, message.beyond)


def plain(batch: Publications) -> Publications:
    """As it stands in a message: how it came to us is no affair of others."""
    return Publications(
        batch.publisher, batch.advertisement, batch.accepted_at, 0, batch.numbers, batch.heads, batch.payloads
    )


def do_ascend(numbers: Numbers) -> bool:
    return all(map(lt, numbers, numbers[1:]))


def batch_bytes(batch: Publications) -> int:
    return sum(map(len, batch.heads)) + sum(map(len, batch.payloads))
