"""Direct delivery: what few want goes from its publisher's broker to the brokers of those few, past all others.

The problem. Every broker between a publisher and a distant subscriber takes, matches and forwards what none of its own
clients wants.

The idea. The publisher's broker knows who is behind a link for an unpopular stream, broker by broker, with their
filters (`aside.py`). It matches each publication with these, and sends it to each broker that wants it, once, over a
link that was asked for when they became known. The other end delivers to its clients and passes nothing on. The
publisher's broker knows filters of brokers, and no client.

Where a link is not there, or does not take more (a window of bytes, as on any link), publications go by the tree.

State. `targets`: the brokers that are written to, and which streams each is for. `sieves`: who wants what behind a link
of an advertisement. Messages: `DirectPublications`, `DirectTaken`. A link for which there is no stream any more is let
go at the next evaluation.

Guaranteed: each publication goes to the brokers that want it, once to each, and by the tree or directly, never both.
Not guaranteed: order between what came directly and what came by the tree; what is on its way over a link that breaks.

Source: PopSub 5.4.1, specification 3.4.4, repair G-30.
"""

from collections.abc import Iterable
from typing import ClassVar

from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.inputs import Input, Signal
from tidings.machine.message import Contact, Count, Message
from tidings.machine.window import SendWindow, TakenBytes
from tidings.matching import Index
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.protocols.routing.carriage.aside import AsideCarriage, NamedBrokers
from tidings.protocols.routing.carrier import BatchCarrier
from tidings.protocols.routing.interests import InterestAsked
from tidings.protocols.routing.params import TAKEN_STEPS
from tidings.protocols.routing.parcels import size_of
from tidings.protocols.routing.popularity import StreamKey
from tidings.pubsub.notes import Forwarded
from tidings.pubsub.publications import Publications, pick, read_head
from tidings.pubsub.rows import Gauge
from tidings.pubsub.signals import AdvertisementId, LinkFailed, LinkUnwanted, LinkWanted, PeerDown, PeerUp

USER = "direct"
NOT_ITS_BROKER = "sent directly, and not by the broker of its publisher"
NO_PEER = "sent directly by a node that is no peer"


class DirectPublications(Message, frozen=True):
    """For clients of yours."""

    batch: Publications


class DirectTaken(Message, frozen=True):
    """Of what you sent directly since our link is up, so many bytes are taken."""

    total_bytes: Count


class DirectTarget:
    """A broker that is written to."""

    def __init__(self, contact: Contact, window_bytes: int) -> None:
        self.contact, self.window = contact, SendWindow(window_bytes)
        self.is_asked = False
        """Whether we asked for the link."""
        self.streams: dict[StreamKey, None] = {}


class DirectCarriage(AsideCarriage):
    messages: ClassVar[tuple[type[Message], ...]] = (*AsideCarriage.messages, DirectPublications, DirectTaken)
    hears: ClassVar[tuple[type, ...]] = (*AsideCarriage.hears, PeerUp, PeerDown, LinkFailed)
    tells: ClassVar[tuple[type[Signal], ...]] = (LinkWanted, LinkUnwanted)
    is_prompt: ClassVar[bool] = True

    def __init__(self, carrier: BatchCarrier) -> None:
        super().__init__(carrier)
        self.peers: dict[NodeId, TakenBytes] = {}
        """Brokers with a link, and what we took of them."""
        self.targets: dict[NodeId, DirectTarget] = {}
        self.sieves: dict[StreamKey, Index] = {}
        self.sent = 0
        """Copies of publications."""

    def start(self) -> None:
        super().start()
        self.peers.clear()
        self.targets.clear()
        self.sieves.clear()

    # Who is written to.

    def ask(self, neighbour: NodeId, advertisement: AdvertisementId) -> list[Effect]:
        return [Send(neighbour, InterestAsked(advertisement))]

    def came(self, key: StreamKey, named: NamedBrokers) -> list[Effect]:
        sieve = Index("plain", decode=read_head)
        for broker, text in named.pairs:
            try:
                sieve.add((broker, text), parse(text), broker)
            except UsageError:
                # Nobody tells filters that cannot be read; without all of them nothing leaves the tree.
                return []
        self.sieves[key] = sieve
        effects: list[Effect] = []
        for broker, contact in named.contacts.items():
            effects += self.want(broker, contact, key)
        return effects

    def want(self, broker: NodeId, contact: Contact, key: StreamKey) -> list[Effect]:
        target = self.targets.get(broker)
        if target is None:
            target = self.targets[broker] = DirectTarget(contact, self.params.publications_window_bytes)
        target.streams[key] = None
        return self.link(broker, target)

    def link(self, broker: NodeId, target: DirectTarget) -> list[Effect]:
        """Ask for a link, unless there is one, which is others' concern."""
        if target.is_asked or broker in self.peers:
            return []
        target.is_asked = True
        return [LinkWanted(target.contact, USER)]

    def forget(self, key: StreamKey, effects: list[Effect]) -> None:
        named = self.named.get(key)
        for broker in named.contacts if named is not None else ():
            if broker in self.targets:
                self.targets[broker].streams.pop(key, None)
        self.sieves.pop(key, None)
        super().forget(key, effects)

    def evaluated(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for key in [key for key in self.named if key not in self.popularity.streams]:
            self.forget(key, effects)
        for broker in [broker for broker, target in self.targets.items() if not target.streams]:
            if self.targets.pop(broker).is_asked:
                effects.append(LinkUnwanted(broker, USER))
        return effects

    def hear(self, now: float, input: Input) -> list[Effect]:
        match input:
            case PeerUp(broker):
                self.peers[broker] = TakenBytes(self.params.publications_window_bytes // TAKEN_STEPS)
                if broker in self.targets:
                    self.targets[broker].window = SendWindow(self.params.publications_window_bytes)
            case PeerDown(broker):
                self.peers.pop(broker, None)
                if broker in self.targets:
                    return self.link(broker, self.targets[broker])
            case LinkFailed(broker, _, is_refused) if is_refused:
                self.targets.pop(broker, None)
            case _:
                return super().hear(now, input)
        return []

    # At the publisher's broker.

    def divert(self, now: float, neighbour: NodeId, parcel: Publications, effects: list[Effect]) -> bool:
        key = neighbour, parcel.advertisement
        named = self.everybody(now, neighbour, parcel.advertisement, effects)
        sieve = self.sieves.get(key)
        if named is None or sieve is None or not all(self.is_ready(broker) for broker in named.contacts):
            return False
        wanted = sieve.match_heads_links(list(parcel.heads))
        if any(brokers is None for brokers in wanted):
            return False
        places: dict[NodeId, list[int]] = {}
        for place, brokers in enumerate(wanted):
            for broker in dict.fromkeys(brokers or ()):
                assert isinstance(broker, str)
                places.setdefault(broker, []).append(place)
        for broker, own in places.items():
            self.sent += len(own)
            message = DirectPublications(pick(parcel, own, receipt=0))
            self.targets[broker].window.send(size_of(message.batch))
            effects.append(Send(broker, message))
        if self.params.notes_forwards:
            for place, brokers in enumerate(wanted):
                effects.append(self.told_directly(pick(parcel, [place], 0), len(brokers or ())))
        return True

    def told_directly(self, single: Publications, links: int) -> Forwarded:
        return self.forwarded(single, "direct", links, 1.0)

    def is_ready(self, broker: NodeId) -> bool:
        target = self.targets.get(broker)
        return target is not None and broker in self.peers and target.window.has_room

    # At the other end.

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        match message:
            case DirectTaken(total_bytes):
                if sender in self.targets:
                    self.targets[sender].window.hear(total_bytes)
                return []
            case DirectPublications(batch):
                return self.take_directly(now, sender, batch)
        return super().receive(now, sender, message)

    def take_directly(self, now: float, sender: NodeId, batch: Publications) -> list[Effect]:
        taken = self.peers.get(sender)
        if taken is None:
            return [Drop(batch, NO_PEER)]
        total_bytes = taken.take(size_of(batch))
        told: list[Effect] = [] if total_bytes is None else [Send(sender, DirectTaken(total_bytes))]
        if batch.advertisement.rpartition("@")[2] != sender:
            return [*told, Drop(batch, NOT_ITS_BROKER)]
        return told + self.take_aside(now, batch)

    # What others may look at.

    def gauges(self) -> Iterable[Gauge]:
        yield from super().gauges()
        yield Gauge("popularity_direct_brokers", "brokers that are written to directly", len(self.targets))
        yield Gauge("popularity_direct_copies", "copies of publications that were sent directly", self.sent)

    def check(self) -> None:
        super().check()
        for key in self.sieves:
            assert key in self.named and self.named[key].is_complete, "sieved for somebody who is not known"
