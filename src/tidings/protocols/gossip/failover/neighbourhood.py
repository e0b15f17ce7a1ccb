"""deltaFT: everybody knows the tree around, and sends past up to delta brokers that failed (dependable.md 3.3.7).

The baseline that knows the topology. Each broker tells every neighbour who is behind it on the other sides, and what
each of these branches wants, `delta` hops far; so everybody knows all brokers within delta + 1 hops along each branch,
each with the one before it, and what is wanted at it and behind. (In the source subscriptions carry the last delta + 1
brokers of their way; it comes to the same tables.) When a neighbour failed, an event goes straight to the first broker
that lives on each branch behind it where somebody wants it, and from there on over the tree. Where all delta + 1
brokers of a branch are down, it is dropped.

To know who lives there are links to all of the neighbourhood. Its price is that: a neighbourhood grows exponentially
with delta, and so do what is told and who has to be watched. In each period a broker probes, along each branch, up to
the first one that lives.

Messages: `Nearby`, when something has changed, at most once in a period; `PublicationsBeyond`. Timer: "cycle".
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import Contact, FilterText, Message, Name
from tidings.matching import Index
from tidings.model.bounds import NEARBY_FILTERS_MAX, NEARBY_HOPS_MAX, NEARBY_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.protocols.gossip.failover.links import SideLinks
from tidings.protocols.gossip.failover.params import NeighbourhoodParams
from tidings.protocols.gossip.failover.propagation import plain
from tidings.pubsub.notes import CycleEnded
from tidings.pubsub.publications import Publications, pick, read_head
from tidings.pubsub.rows import Gauge
from tidings.pubsub.signals import (
    LinkFailed,
    LinkUnwanted,
    LinkWanted,
    NeighbourDown,
    NeighbourUp,
    PeerDown,
    PeerUp,
    Rescued,
    Stranded,
)

IDLE_CYCLES = 2
WAITING_MAX = 256

NOT_A_NEIGHBOUR = "comes from a broker that is no neighbour"
NOT_LINKED = "comes from a node that is not linked"
ALL_FAILED = "all brokers that are known behind the one that failed have failed too"


class NearbyBroker(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    contact: Contact
    before: Name
    """The broker before it, as seen from the receiver."""
    hops: Annotated[int, Meta(ge=1, le=NEARBY_HOPS_MAX)]
    """From the receiver."""
    filters: Annotated[tuple[FilterText, ...], Meta(max_length=NEARBY_FILTERS_MAX)]
    """What is wanted there and behind it."""


class Nearby(Message, frozen=True):
    """Everybody behind me, as far as you need to know."""

    brokers: Annotated[tuple[NearbyBroker, ...], Meta(max_length=NEARBY_MAX)]


class PublicationsBeyond(Message, frozen=True):
    """These had to go to you by `before`, which failed."""

    batch: Publications
    before: Name


class WantedFilters(Protocol):
    def wanted_by(self, neighbour: NodeId) -> tuple[str, ...]:
        """The filters that are known to be wanted by a neighbour and behind it."""
        ...


class NearbyBranch:
    """What is known behind one neighbour."""

    def __init__(self, brokers: tuple[NearbyBroker, ...]) -> None:
        self.brokers = {broker.contact.node: broker for broker in brokers}
        self.behind: dict[NodeId, list[NearbyBroker]] = {}
        for broker in brokers:
            self.behind.setdefault(broker.before, []).append(broker)
        self.index = Index("plain", decode=read_head)
        for broker in brokers:
            for text in broker.filters:
                try:
                    self.index.add((broker.contact.node, text), parse(text), broker.contact.node)
                except UsageError:
                    continue


class Neighbourhood:
    """`Neighbourhood("b", NeighbourhoodParams(), routes)`."""

    messages: tuple[type, ...] = (Nearby, PublicationsBeyond)
    hears: tuple[type, ...] = (PeerUp, PeerDown, LinkFailed, NeighbourUp, NeighbourDown, Stranded)
    tells: tuple[type[Signal], ...] = (Rescued, LinkWanted, LinkUnwanted)

    def __init__(self, node_id: NodeId, params: NeighbourhoodParams, routes: WantedFilters) -> None:
        self.node_id, self.params, self.routes = node_id, params, routes
        self.links = SideLinks(WAITING_MAX)
        self.branches: dict[NodeId, NearbyBranch] = {}
        """Of neighbours, and of those that are lost and may come back."""
        self.told: dict[NodeId, Nearby] = {}
        self.cycle = self.sent = 0

    def start(self, now: float) -> list[Effect]:
        self.told.clear()
        return [*self.links.restart(), SetTimer("cycle", now + self.params.period)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, Nearby() as nearby):
                return self.hear(sender, nearby)
            case Received(sender, PublicationsBeyond(batch, before) as message):
                is_linked = sender in self.links.peers
                return [Rescued(batch, before)] if is_linked else [Drop(message, NOT_LINKED)]
            case Stranded(neighbour, batch):
                return self.strand(neighbour, batch)
            case PeerUp(broker):
                return self.links.came(broker, input.address)
            case PeerDown(broker):
                self.links.went(broker)
            case LinkFailed(broker):
                return self.links.failed(broker)
            case NeighbourUp(neighbour):
                self.links.neighbours[neighbour] = None
                self.told.pop(neighbour, None)
            case NeighbourDown(neighbour):
                self.links.neighbours.pop(neighbour, None)
            case Fired("cycle"):
                return [*self.tend(), SetTimer("cycle", now + self.params.period)]
        return []

    def hear(self, sender: NodeId, nearby: Nearby) -> list[Effect]:
        if sender not in self.links.neighbours:
            return [Drop(nearby, NOT_A_NEIGHBOUR)]
        near = tuple(broker for broker in nearby.brokers if broker.contact.node != self.node_id)
        self.branches[sender] = NearbyBranch(near)
        return []

    def tend(self) -> list[Effect]:
        self.cycle += 1
        effects: list[Effect] = []
        for neighbour in self.links.neighbours:
            nearby = Nearby(tuple(self.beyond(neighbour))[:NEARBY_MAX])
            if nearby != self.told.get(neighbour):
                self.told[neighbour] = nearby
                effects.append(Send(neighbour, nearby))
        known = [broker.contact for branch in self.branches.values() for broker in branch.brokers.values()]
        effects += self.links.keep(self.cycle, known, IDLE_CYCLES)
        return [*effects, CycleEnded(self.cycle, self.probed())]

    def beyond(self, receiver: NodeId) -> Iterator[NearbyBroker]:
        """Who is behind us, seen from that neighbour."""
        for neighbour in dict.fromkeys((*self.links.neighbours, *self.branches)):
            if neighbour == receiver or (neighbour not in self.links.neighbours and neighbour not in self.branches):
                continue
            yield NearbyBroker(
                self.links.contact(neighbour), self.node_id, 2, self.routes.wanted_by(neighbour)[:NEARBY_FILTERS_MAX]
            )
            branch = self.branches.get(neighbour)
            for broker in branch.brokers.values() if branch is not None else ():
                if broker.hops <= self.params.delta and broker.contact.node != receiver:
                    yield NearbyBroker(broker.contact, broker.before, broker.hops + 1, broker.filters)

    def probed(self) -> int:
        """Along each branch those up to the first that lives."""
        count = 0
        for neighbour in dict.fromkeys((*self.links.neighbours, *self.branches)):
            ahead = [neighbour]
            while ahead:
                node = ahead.pop()
                count += 1
                if not self.is_alive(node) and neighbour in self.branches:
                    ahead += [broker.contact.node for broker in self.branches[neighbour].behind.get(node, ())]
        return count

    def is_alive(self, node: NodeId) -> bool:
        return node in self.links.peers or node in self.links.neighbours

    def strand(self, failed: NodeId, batch: Publications) -> list[Effect]:
        branch = self.branches.get(failed)
        if branch is None:
            return [Drop(batch, ALL_FAILED)]
        effects: list[Effect] = []
        places_of: Mapping[NodeId, list[int]] = branch.index.find_heads_links(batch.heads).places
        ahead = list(branch.behind.get(failed, ()))
        while ahead:
            broker = ahead.pop(0)
            places = places_of.get(broker.contact.node)
            if not places:
                continue
            if self.is_alive(broker.contact.node):
                part = plain(pick(batch, places, receipt=0))
                self.sent += 1
                effects += self.links.send(self.cycle, broker.contact, PublicationsBeyond(part, broker.before))
                continue
            behind = branch.behind.get(broker.contact.node, [])
            if not behind:
                effects.append(Drop(pick(batch, places, receipt=0), ALL_FAILED))
            ahead += behind
        return effects

    @property
    def known(self) -> int:
        """How many brokers have to be known."""
        return len(
            {node for branch in self.branches.values() for node in branch.brokers} | self.links.neighbours.keys()
        )

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("failover_known", "brokers within reach of a direct send", self.known)
        yield Gauge("failover_told", "messages with publications that went around a failure", self.sent)

    def check(self) -> None:
        self.links.check()
        assert all(self.node_id not in branch.brokers for branch in self.branches.values())
