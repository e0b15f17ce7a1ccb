"""Presence: a neighbour that is silent is out of reach, or it is gone, and these are two states.

The problem. A link tells of its own end when the process at the other end dies. It tells nothing when a machine loses
its power or a cable is cut, and it tells nothing when the other process stands still for two seconds. The first two
should be known within a second, so that the tree mends itself. The third should not be noticed at all: everything
would be torn down and built again for nothing. To somebody who merely listens all three are silence.

The idea, in three steps. Neighbours send each other beacons. One that is not heard for `silent_after` is *out of reach*
and nothing more: its link and its routes stay. We look for it by another way: a *probe* (`ProbeNode`, an effect) asks
the machine where it listens whether anything does, which the operating system there answers for a process that stands
still, and does not for one that is dead. And we ask bystanders, other neighbours, who hear it or probe it themselves.
Only if our own probe and theirs find nobody is it *gone*: then its link is ended, and overlay and routing hear of it
as of any other link that ends (routing keeps its routes as ghosts for as long as its repair says).

Who is ill? A broker that stood still finds all others silent when it wakes. So a timer that fires late says that it was
we who did not listen: everybody begins anew. And where there are neighbours that we hear, none is gone on our word
alone. (The first rule and the second are those of Lifeguard, Dadgar, Phillips and Currey 2017; that others are asked is
SWIM's, Das, Gupta and Motivala 2002.)

State. `watched`: the neighbours, when each was heard, and the suspicion that is open against it. `inquiries`: whom we
probe for others, and where. `addresses`: where peers listen, as they say themselves.

Timers. "beacon". ("silent", node): nothing was heard for too long. ("confirm", node): whoever was asked had his time;
for a neighbour that is out of reach and not gone, it is looked for again.

Takes `PeerUp`, `PeerDown` from access, `NeighbourUp`, `NeighbourDown` from the overlay, `NodeProbed` from the world.

Guaranteed. A neighbour in whose place something listens is never gone by our word, however many say so: who lies can
only keep others waiting, until the host gives the stream up (`silence_max`). Where others say that a broker listens is
believed for their own question alone: for a peer of ours it does not count, and it is not kept. Not guaranteed: that
a machine which stands still as a whole, its operating system included, is told from a dead one.
"""

from collections.abc import Iterator

import msgspec

from tidings.machine.effects import CancelTimer, Disconnect, Drop, Effect, ProbeNode, Send, SetTimer
from tidings.machine.inputs import Fired, Input, NodeProbed, Received, Signal
from tidings.machine.message import Contact
from tidings.model.bounds import INQUIRERS_MAX, INQUIRIES_MAX
from tidings.model.identity import NodeId
from tidings.protocols.presence.messages import Beacon, ReachAnswer, ReachQuestion
from tidings.protocols.presence.params import PresenceParams
from tidings.pubsub.notes import NeighbourGone, NeighbourSilent
from tidings.pubsub.rows import Gauge
from tidings.pubsub.signals import NeighbourDown, NeighbourUp, PeerDown, PeerUp

NOT_A_NEIGHBOUR = "comes from a broker that is no neighbour"
NOT_ASKED = "answers what was not asked"
TOO_MANY = "as many brokers as are allowed are looked for already"
GONE = "is not heard, and nobody finds it"


class Suspicion(msgspec.Struct):
    """Against a neighbour that is silent."""

    found: bool | None = None
    """What our own probe says."""
    bystanders: dict[NodeId, bool | None] = {}
    """What each says that was asked."""
    is_found: bool = False
    """Something is there; it is looked for again when the timer fires."""

    @property
    def is_there(self) -> bool:
        return self.found is True or any(said is True for said in self.bystanders.values())


class WatchedNeighbour(msgspec.Struct):
    heard_at: float
    suspicion: Suspicion | None = None


class PresenceWatch:
    """`PresenceWatch("b", PresenceParams())`."""

    messages: tuple[type, ...] = (Beacon, ReachQuestion, ReachAnswer)
    hears: tuple[type, ...] = (PeerUp, PeerDown, NeighbourUp, NeighbourDown, NodeProbed)
    tells: tuple[type[Signal], ...] = ()

    def __init__(self, node_id: NodeId, params: PresenceParams) -> None:
        self.node_id, self.params = node_id, params
        self.addresses: dict[NodeId, str] = {}
        self.watched: dict[NodeId, WatchedNeighbour] = {}
        self.inquiries: dict[Contact, dict[NodeId, None]] = {}
        self.silences = self.departures = 0

    def start(self, now: float) -> list[Effect]:
        self.addresses.clear()
        self.watched.clear()
        self.inquiries.clear()
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, Beacon() | ReachQuestion() | ReachAnswer() as message):
                return self.hear(now, sender, message) if sender in self.watched else self.refuse(message)
            case Fired("beacon"):
                return self.send_beacons(now)
            case Fired(("silent", str(node))) if node in self.watched:
                return self.not_heard(now, node)
            case Fired(("confirm", str(node))) if node in self.watched:
                return self.confirm(now, node)
            case NodeProbed(node, is_there, address):
                return self.probed(now, Contact(node, address), is_there)
            case PeerUp(broker):
                self.addresses[broker] = input.address
            case PeerDown(broker):
                self.addresses.pop(broker, None)
            case NeighbourUp(neighbour):
                return self.neighbour_up(now, neighbour)
            case NeighbourDown(neighbour):
                self.watched.pop(neighbour, None)
                return [CancelTimer(("silent", neighbour)), CancelTimer(("confirm", neighbour))]
        return []

    def refuse(self, message: Beacon | ReachQuestion | ReachAnswer) -> list[Effect]:
        """The last beacons of a link that ends are nothing to speak of."""
        return [] if isinstance(message, Beacon) else [Drop(message, NOT_A_NEIGHBOUR)]

    # Beacons.

    def neighbour_up(self, now: float, node: NodeId) -> list[Effect]:
        first: list[Effect] = [] if self.watched else [SetTimer("beacon", now + self.params.beacon_period)]
        self.watched[node] = WatchedNeighbour(now)
        return [*first, Send(node, Beacon()), self.silent_timer(now, node)]

    def silent_timer(self, heard_at: float, node: NodeId) -> Effect:
        return SetTimer(("silent", node), heard_at + self.params.silent_after)

    def send_beacons(self, now: float) -> list[Effect]:
        if not self.watched:
            return []
        beacon = Beacon()
        return [SetTimer("beacon", now + self.params.beacon_period), *(Send(node, beacon) for node in self.watched)]

    def hear(self, now: float, sender: NodeId, message: Beacon | ReachQuestion | ReachAnswer) -> list[Effect]:
        watched = self.watched[sender]
        watched.heard_at = now
        parted: list[Effect] = [] if watched.suspicion is None else [CancelTimer(("confirm", sender))]
        watched.suspicion = None
        effects = [self.silent_timer(now, sender), *parted]
        match message:
            case ReachQuestion(contact):
                effects += self.inquire(sender, contact)
            case ReachAnswer(node, is_there):
                effects += self.answered(now, sender, node, is_there, message)
        return effects

    # A neighbour is silent.

    def not_heard(self, now: float, node: NodeId) -> list[Effect]:
        watched = self.watched[node]
        late = now - watched.heard_at - self.params.silent_after
        if late > self.params.stood_still_after:
            return self.wake(now)
        self.silences += 1
        watched.suspicion = Suspicion()
        bystanders = [other for other in self.watched if other != node and self.is_heard(now, other)]
        return [NeighbourSilent(node, len(bystanders)), *self.look_for(now, node, bystanders)]

    def wake(self, now: float) -> list[Effect]:
        """We stood still: nobody is silent on our word."""
        for watched in self.watched.values():
            watched.heard_at, watched.suspicion = now, None
        timers = [self.silent_timer(now, node) for node in self.watched]
        return [*timers, *(CancelTimer(("confirm", node)) for node in self.watched)]

    def is_heard(self, now: float, node: NodeId) -> bool:
        watched = self.watched[node]
        return watched.suspicion is None and now - watched.heard_at < self.params.silent_after

    def look_for(self, now: float, node: NodeId, bystanders: list[NodeId]) -> list[Effect]:
        suspicion = self.watched[node].suspicion
        assert suspicion is not None
        # Those who were heard last are the likeliest to answer.
        bystanders.sort(key=lambda other: -self.watched[other].heard_at)
        suspicion.found, suspicion.is_found = None, False
        suspicion.bystanders = dict.fromkeys(bystanders[: self.params.bystanders])
        contact = Contact(node, self.addresses.get(node, ""))
        asked = [Send(other, ReachQuestion(contact)) for other in suspicion.bystanders]
        timer = SetTimer(("confirm", node), now + self.params.confirm_within)
        return [self.probe(contact), *asked, timer]

    def probe(self, contact: Contact) -> Effect:
        return ProbeNode(contact.node, self.params.probe_timeout, contact.address)

    def probed(self, now: float, contact: Contact, is_there: bool) -> list[Effect]:
        node = contact.node
        answers = [Send(asker, ReachAnswer(node, is_there)) for asker in self.inquiries.pop(contact, ())]
        watched, is_where_we_look = self.watched.get(node), contact.address == self.addresses.get(node, "")
        if watched is None or watched.suspicion is None or not is_where_we_look:
            return [*answers]
        watched.suspicion.found = is_there
        return [*answers, *self.judge(now, node, watched.suspicion)]

    def answered(self, now: float, sender: NodeId, node: NodeId, is_there: bool, message: ReachAnswer) -> list[Effect]:
        watched = self.watched.get(node)
        suspicion = None if watched is None else watched.suspicion
        if suspicion is None or sender not in suspicion.bystanders:
            # Mostly one that was heard again meanwhile.
            return [Drop(message, NOT_ASKED)]
        suspicion.bystanders[sender] = is_there
        return self.judge(now, node, suspicion)

    def judge(self, now: float, node: NodeId, suspicion: Suspicion, is_time_up: bool = False) -> list[Effect]:
        """Gone, if we find nobody and neither do the others, or those of them who can be heard."""
        if suspicion.found is not False or suspicion.is_there:
            return []
        said = [answer is not None for answer in suspicion.bystanders.values()]
        waiting = [other for other, answer in suspicion.bystanders.items() if answer is None]
        is_alone = not any(other in self.watched and self.is_heard(now, other) for other in waiting)
        if all(said) or (is_time_up and (any(said) or is_alone)):
            return self.depart(now, node, suspicion)
        return []

    def confirm(self, now: float, node: NodeId) -> list[Effect]:
        watched = self.watched[node]
        suspicion = watched.suspicion
        if suspicion is None:
            return []
        if suspicion.is_there and not suspicion.is_found:
            suspicion.is_found = True
            return [SetTimer(("confirm", node), now + self.params.ask_again)]
        if gone := self.judge(now, node, suspicion, is_time_up=True):
            return gone
        return self.look_for(
            now, node, [other for other in self.watched if other != node and self.is_heard(now, other)]
        )

    def depart(self, now: float, node: NodeId, suspicion: Suspicion) -> list[Effect]:
        self.departures += 1
        silent_for = now - self.watched.pop(node).heard_at
        confirmed = sum(said is False for said in suspicion.bystanders.values())
        timers = [CancelTimer(("silent", node)), CancelTimer(("confirm", node))]
        return [*timers, NeighbourGone(node, silent_for, confirmed), Disconnect(node, GONE)]

    # We are a bystander.

    def inquire(self, asker: NodeId, contact: Contact) -> list[Effect]:
        node = contact.node
        watched = self.watched.get(node)
        if node == self.node_id or (watched is not None and watched.suspicion is None):
            return [Send(asker, ReachAnswer(node, True))]
        where = Contact(node, self.addresses.get(node, contact.address))
        if where in self.inquiries:
            if len(self.inquiries[where]) >= INQUIRERS_MAX:
                return [Drop(contact, TOO_MANY)]
            self.inquiries[where][asker] = None
            return []
        if len(self.inquiries) >= INQUIRIES_MAX:
            return [Drop(contact, TOO_MANY)]
        self.inquiries[where] = {asker: None}
        return [self.probe(where)]

    # What others may look at.

    def gauges(self) -> Iterator[Gauge]:
        silent = sum(watched.suspicion is not None for watched in self.watched.values())
        yield Gauge("neighbours_silent", "neighbours that are not heard, and are looked for", silent)
        yield Gauge("neighbour_silences", "times that a neighbour was not heard for a while", self.silences)
        yield Gauge("neighbour_departures", "neighbours that nobody found any more", self.departures)

    def check(self) -> None:
        assert len(self.inquiries) <= INQUIRIES_MAX, "more brokers are looked for than may be"
        assert all(len(askers) <= INQUIRERS_MAX for askers in self.inquiries.values()), "more askers than may be"
        for node, watched in self.watched.items():
            suspicion = watched.suspicion
            assert suspicion is None or len(suspicion.bystanders) <= self.params.bystanders, (
                "more bystanders than asked"
            )
            assert suspicion is None or node not in suspicion.bystanders, "a bystander for itself"
