"""RGEPS: gossip around failures to brokers drawn at random, the baseline beside similarity (dependable.md 3.3.7).

Every broker knows a few others, of the whole network, and has a view of some of them, drawn anew in every period. What
cannot go over a neighbour that failed goes to the whole view; whoever gets it carries it on by its tables, and tells
its own view, for `hops` in all. It needs no groups and no counters, reaches about everybody, and costs accordingly.

Who is known is exchanged with one broker of the view in every period, a random half each way (a shuffle), so that views
stay random while brokers come and go. At first somebody has to introduce a few (`Introduce`).

Timer: "cycle". Bounds: `known` brokers; what was told on is remembered as in GEPS.
"""

from collections.abc import Iterator
from random import Random
from typing import Annotated

from msgspec import Meta

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import Contact, Message, Name
from tidings.machine.streams import random_stream
from tidings.model.bounds import GOSSIP_HOPS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.gossip.failover.introduction import Introduce
from tidings.protocols.gossip.failover.links import SideLinks
from tidings.protocols.gossip.failover.messages import Contacts
from tidings.protocols.gossip.failover.params import RandomViewsParams
from tidings.protocols.gossip.failover.propagation import NO_VIEW, Relayed, do_ascend, plain
from tidings.pubsub.notes import CycleEnded
from tidings.pubsub.publications import Publications, pick
from tidings.pubsub.rows import Gauge
from tidings.pubsub.signals import LinkFailed, LinkUnwanted, LinkWanted, PeerDown, PeerUp, Rescued, Stranded

IDLE_CYCLES = 2
WAITING_MAX, RELAYS_MAX = 256, 65_536

NOT_LINKED = "comes from a node that is not linked"
NOT_ASCENDING = "its numbers do not ascend"


class ViewsShuffled(Message, frozen=True):
    """Some brokers that I know, for some that you know."""

    contacts: Contacts
    is_answer: bool = False


class RandomGossip(Message, frozen=True):
    """These could not go over `failed`; carry them on, and tell others while hops are `left`."""

    batch: Publications
    failed: Name
    left: Annotated[int, Meta(ge=0, le=GOSSIP_HOPS_MAX)]


class RandomViews:
    """`RandomViews("b", RandomViewsParams(), rng)`."""

    messages: tuple[type, ...] = (ViewsShuffled, RandomGossip)
    hears: tuple[type, ...] = (PeerUp, PeerDown, LinkFailed, Stranded, Introduce)
    tells: tuple[type[Signal], ...] = (Rescued, LinkWanted, LinkUnwanted)

    def __init__(self, node_id: NodeId, params: RandomViewsParams, rng: Random) -> None:
        self.node_id, self.params = node_id, params
        self.rng = random_stream(rng.getrandbits(64), "random views")
        self.links = SideLinks(WAITING_MAX)
        self.known: dict[NodeId, Contact] = {}
        self.view: dict[NodeId, Contact] = {}
        self.relayed = Relayed(RELAYS_MAX)
        self.cycle = self.told = 0

    def start(self, now: float) -> list[Effect]:
        return [*self.links.restart(), SetTimer("cycle", now + self.rng.random() * self.params.period)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, message) if sender not in self.links.peers:
                return [Drop(message, NOT_LINKED)]
            case Received(_, RandomGossip() as message):
                return self.hear(message)
            case Received(sender, ViewsShuffled(contacts, is_answer)):
                return self.shuffled(sender, contacts, is_answer)
            case Stranded(neighbour, batch):
                return self.strand(neighbour, batch)
            case PeerUp(broker):
                return self.links.came(broker, input.address)
            case PeerDown(broker):
                self.links.went(broker)
            case LinkFailed(broker):
                self.known.pop(broker, None)
                self.view.pop(broker, None)
                return self.links.failed(broker) + self.links.keep(self.cycle, self.view.values(), IDLE_CYCLES)
            case Introduce(contacts):
                self.learn(contacts)
                return self.draw()
            case Fired("cycle"):
                return [*self.draw(), SetTimer("cycle", now + self.params.period)]
        return []

    def learn(self, contacts: tuple[Contact, ...]) -> None:
        for contact in contacts:
            if contact.node != self.node_id:
                self.known.pop(contact.node, None)
                self.known[contact.node] = contact
        while len(self.known) > self.params.known:
            del self.known[self.rng.choice(list(self.known))]

    def draw(self) -> list[Effect]:
        """A new view; one of it is told whom we know."""
        self.cycle += 1
        chosen = self.rng.sample(list(self.known.values()), min(self.params.members, len(self.known)))
        self.view = {contact.node: contact for contact in chosen}
        effects = self.links.keep(self.cycle, chosen, IDLE_CYCLES)
        if chosen:
            partner = self.rng.choice(chosen)
            effects += self.links.send(self.cycle, partner, ViewsShuffled(self.sample()))
        return [*effects, CycleEnded(self.cycle, min(1, len(chosen)))]

    def sample(self) -> tuple[Contact, ...]:
        """Ourselves, and half of those we know."""
        others = self.rng.sample(list(self.known.values()), len(self.known) // 2)
        return (Contact(self.node_id), *others)[: self.params.known]

    def shuffled(self, sender: NodeId, contacts: tuple[Contact, ...], is_answer: bool) -> list[Effect]:
        answer: list[Effect] = [] if is_answer else [Send(sender, ViewsShuffled(self.sample(), True))]
        # It does not know where it listens; access at our end does.
        self.learn(tuple(self.links.contact(sender) if each.node == sender else each for each in contacts))
        return answer

    def strand(self, failed: NodeId, batch: Publications) -> list[Effect]:
        if not self.view:
            return [Drop(batch, NO_VIEW)]
        places = self.relayed.take(batch, failed)
        if not places:
            return []
        return self.tell(RandomGossip(plain(pick(batch, places, 0)), failed, self.params.hops - 1))

    def hear(self, message: RandomGossip) -> list[Effect]:
        if not message.batch.numbers or not do_ascend(message.batch.numbers):
            return [Drop(message, NOT_ASCENDING)]
        effects: list[Effect] = []
        if message.left:
            places = self.relayed.take(message.batch, message.failed)
            left = min(message.left, self.params.hops) - 1
            if places:
                batch = pick(message.batch, places, 0)
                effects = self.tell(RandomGossip(batch, message.failed, left))
        return [*effects, Rescued(message.batch)]

    def tell(self, message: RandomGossip) -> list[Effect]:
        chosen = [contact for node, contact in self.view.items() if node != message.failed]
        self.told += len(chosen)
        return [effect for contact in chosen for effect in self.links.send(self.cycle, contact, message)]

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("failover_told", "messages with publications that went around a failure", self.told)

    def check(self) -> None:
        self.links.check()
        assert len(self.known) <= self.params.known and len(self.view) <= self.params.members
        assert self.node_id not in self.known
