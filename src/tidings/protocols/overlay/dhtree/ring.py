"""A ring of brokers that share out keys among themselves, as in Chord.

The problem. Every key must have one owner, all must agree on who it is, and anybody must be able to find out, though
brokers come and go, no broker knows all others, and none is special.

The idea. A broker stands on the ring at a key of its own, drawn from its name, and has all keys between the broker
before it, its *predecessor*, and itself. It knows the next few behind it, its *successors*, and at growing distances
some further ones, its *fingers*. With each of these it keeps a link. Every `period` it asks its successor who stands
before that one: if somebody does who stands behind us, that one is our successor from now on. The question itself says
that we stand before it, and so brokers learn their predecessors. A search goes from broker to broker, each time as
far as somebody is known who does not stand behind the key; the fingers make that a logarithm of the number of brokers.
The answer comes back over the same brokers, since these have links.

A broker begins alone, with all keys. Through any peer it asks for its own key: whoever has it is its successor. Two
rings that were parted become one in the same way, because each broker asks for its own key now and then through
somebody that it does not count on otherwise (`probe`).

State: our `member`; `predecessor`, `successors`, `fingers`; `searches` under way; `links` that we asked for.
Timers: "stabilise", "probe", ("search", ticket). Messages: FindOwner, OwnerFound, AskRing, RingTold.

Guaranteed: when nothing changes for a few periods and everybody can reach somebody of each part, one ring, in which
every key has one owner. Not before: while brokers come and go two may believe to have a key, or nobody.
A broker may lie about who it is next to; it draws keys to itself that way, and nothing else (`dhtree.py`).

Source: dynamic-topologies.md 3.10.1 (DR-1 to DR-4); Chord as published, with recursive searches.
"""

from collections.abc import Iterable

import msgspec
import xxhash

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.message import Contact, Message
from tidings.model.bounds import RING_PATH_MAX, SUCCESSORS_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.overlay.dhtree.messages import AskRing, FindOwner, OwnerFound, RingMember, RingTold
from tidings.protocols.overlay.dhtree.neighbours import KeyOwner
from tidings.protocols.overlay.dhtree.reference import Arc, ReferenceTree
from tidings.pubsub.signals import LinkUnwanted, LinkWanted

USER = "ring"
"""Under which name it asks access for links."""

TOO_FAR = "a search that passed too many brokers"
NOT_ASKED = "an answer to what was not asked"
NOWHERE = "nobody is known to ask"
NO_KEY = "a key that there is not"


class RingParams(msgspec.Struct, frozen=True, kw_only=True):
    successors: int = 4
    """How many of those behind us we know: so many may vanish at once, less one."""
    period: float = 1.0
    """Seconds between two looks at the successor."""
    probe_period: float = 16.0
    """Seconds between two questions through others whether there is another ring; less, from `period` on, after one
    that was answered by somebody new."""
    search_timeout: float = 1.0
    searches_max: int = 64
    """Searches of ours that are under way; further ones are made when these have ended."""
    away_for: float = 16.0
    """Seconds for which nobody is believed that a broker stands behind us which could not be reached: longer than a
    list of successors takes from broker to broker, a `period` each."""
    contacts_max: int = 32
    """Brokers that were met and are remembered, to find others through them after everything else is gone."""

    def __post_init__(self) -> None:
        if not 1 <= self.successors <= SUCCESSORS_MAX:
            raise UsageError(f"successors: {self.successors}; use 1 to {SUCCESSORS_MAX}")
        if min(self.period, self.probe_period, self.search_timeout, self.away_for) <= 0:
            raise UsageError("period, probe_period, search_timeout and away_for must be above 0")
        if min(self.searches_max, self.contacts_max) < 1:
            raise UsageError("searches_max and contacts_max must be at least 1")


class KeyRing:
    """`arc` are our keys, `search` finds out who has others; `found` holds the answers until somebody takes them."""

    messages: tuple[type[Message], ...] = (FindOwner, OwnerFound, AskRing, RingTold)

    def __init__(self, node_id: NodeId, reference: ReferenceTree, params: RingParams) -> None:
        self.node_id, self.reference, self.params = node_id, reference, params
        self.attempt = 0
        self.member = self.place(0)
        self.peers: dict[NodeId, str] = {}
        """Whoever is linked, with its address."""
        self.predecessor: RingMember | None = None
        self.successors: list[RingMember] = []
        self.fingers: dict[int, RingMember] = {}
        """By the power of two that is their distance, at least."""
        self.next_finger = 0
        self.searches: dict[int, int] = {}
        """Keys that are searched for, by ticket; a ticket is never used again."""
        self.tickets = 0
        self.links: dict[NodeId, None] = {}
        self.contacts: dict[NodeId, Contact] = {}
        self.away: dict[NodeId, float] = {}
        """Those that could not be reached, and until when nobody is believed that they stand behind us."""
        self.probe_after = params.period
        self.probed: Contact | None = None
        """Somebody whom we ask whether there is another ring."""
        self.found: list[tuple[Contact, KeyOwner]] = []

    # Where everybody stands.

    def place(self, attempt: int) -> RingMember:
        key = xxhash.xxh64_intdigest(f"{self.node_id}/{attempt}".encode()) % self.reference.keys
        return RingMember(Contact(self.node_id), key)

    @property
    def key(self) -> int:
        return self.member.key

    @property
    def is_alone(self) -> bool:
        return not self.successors and self.predecessor is None

    @property
    def arc(self) -> Arc | None:
        """Our keys; None while it is not known who stands before us."""
        if self.is_alone:
            return Arc(self.key, self.key)
        return None if self.predecessor is None else Arc(self.predecessor.key, self.key)

    def distance(self, key: int) -> int:
        """From us to there, around the ring; all the way around to ourselves."""
        return (key - self.key - 1) % self.reference.keys + 1

    def known(self) -> list[RingMember]:
        members = [*self.successors, *self.fingers.values()]
        return members if self.predecessor is None else [*members, self.predecessor]

    # What happens.

    def start(self, now: float) -> list[Effect]:
        self.peers.clear()
        self.links.clear()
        self.away.clear()
        self.searches.clear()
        self.predecessor, self.successors, self.fingers, self.probed = None, [], {}, None
        self.probe_after = self.params.period
        # Not all brokers that are started together ask at the same moment.
        part = self.key / self.reference.keys
        return [
            SetTimer("stabilise", now + self.params.period * part),
            SetTimer("probe", now + self.params.period * (1 + part)),
        ]

    def peer_up(self, now: float, broker: NodeId, address: str) -> list[Effect]:
        self.peers[broker] = address
        self.away.pop(broker, None)
        self.remember(Contact(broker, address))
        is_probed = self.probed is not None and self.probed.node == broker
        is_next = bool(self.successors) and broker == self.successors[0].contact.node
        asking: list[Effect] = [Send(broker, AskRing(self.key))] if is_next or is_probed else []
        return [*asking, *(self.search(now, self.key, broker) if self.is_alone or is_probed else [])]

    def failed(self, now: float, broker: NodeId) -> None:
        """It does not answer. Others go on to name it: their lists come from each other, around the ring, and what
        everybody believes again as soon as it is said would go round for ever."""
        self.away.pop(broker, None)
        self.away[broker] = now + self.params.away_for
        self.away = {name: until for name, until in list(self.away.items())[-self.params.contacts_max :] if until > now}

    def lose(self, now: float, broker: NodeId) -> list[Effect]:
        """It cannot be reached: nobody counts on it, until it is heard of again."""
        self.peers.pop(broker, None)
        if self.probed is not None and self.probed.node == broker:
            self.probed = None
        self.fingers = {place: each for place, each in self.fingers.items() if each.contact.node != broker}
        if self.predecessor is not None and self.predecessor.contact.node == broker:
            self.predecessor = None
        was_first = bool(self.successors) and self.successors[0].contact.node == broker
        self.successors = [each for each in self.successors if each.contact.node != broker]
        effects = self.keep_links()
        if was_first and self.successors and self.successors[0].contact.node in self.peers:
            effects.append(Send(self.successors[0].contact.node, AskRing(self.key)))
        return effects

    def fired(self, now: float, key: object) -> list[Effect]:
        match key:
            case "stabilise":
                return [*self.stabilise(now), SetTimer("stabilise", now + self.params.period)]
            case "probe":
                self.probe_after = min(2 * self.probe_after, self.params.probe_period)
                return [*self.probe(now), SetTimer("probe", now + self.probe_after)]
            case ("search", int(ticket)):
                self.searches.pop(ticket, None)
        return []

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        match message:
            case FindOwner(key) if key >= self.reference.keys:
                return [Drop(message, NO_KEY)]
            case FindOwner():
                return self.pass_search(sender, message)
            case OwnerFound():
                return self.pass_answer(now, sender, message)
            case AskRing(key) if key < self.reference.keys:
                return self.asked(now, self.member_of(sender, key))
            case RingTold():
                return self.told(now, sender, message)
        return [Drop(message, NO_KEY)]

    # The ring is kept.

    def stabilise(self, now: float) -> list[Effect]:
        effects = self.keep_links()
        if not self.successors:
            # Whoever is before us may be behind us as well; and there may be others.
            around = [self.predecessor.contact.node] if self.predecessor is not None else []
            through = [name for name in (*around, *self.peers) if name in self.peers]
            return effects + (self.search(now, self.key, through[0]) if through else [])
        first = self.successors[0].contact.node
        if first in self.peers:
            effects.append(Send(first, AskRing(self.key)))
        return effects + self.refresh_finger(now)

    def refresh_finger(self, now: float) -> list[Effect]:
        nearest = self.distance(self.successors[0].key)
        while 2**self.next_finger <= nearest:
            self.fingers.pop(self.next_finger, None)
            self.next_finger += 1
        if 2**self.next_finger >= self.reference.keys:
            self.next_finger = 0
            return []
        target = (self.key + 2**self.next_finger) % self.reference.keys
        self.next_finger += 1
        return self.search(now, target)

    def asked(self, now: float, other: RingMember) -> list[Effect]:
        """It takes us for its successor."""
        if other.key == self.key:
            return self.move(now) if self.node_id > other.contact.node else []
        effects: list[Effect] = []
        before, hearing = self.predecessor, [other.contact.node]
        if before is None or other.key in Arc(before.key, self.key):
            self.predecessor = other
            if before is not None and before.contact.node != other.contact.node:
                # Whoever stood before us takes us for its successor, and hears at once that somebody is in between.
                hearing.append(before.contact.node)
        effects += self.choose_successors([*self.successors, other])
        told = RingTold(self.key, self.predecessor, tuple(self.successors))
        return [*effects, *self.keep_links(), *(Send(name, told) for name in hearing if name in self.peers)]

    def told(self, now: float, sender: NodeId, told: RingTold) -> list[Effect]:
        if not self.successors or sender != self.successors[0].contact.node:
            return [Drop(told, NOT_ASKED)]
        if told.key >= self.reference.keys or told.key == self.key:
            return [Drop(told, NO_KEY)]
        # Where it stands it says itself: somebody else may have told us otherwise.
        first = self.member_of(sender, told.key)
        named = [each for each in (told.predecessor, *told.successors) if each is not None and self.is_good(each)]
        named = [each for each in named if self.away.get(each.contact.node, now) <= now]
        return [*self.choose_successors([first, *named]), *self.keep_links()]

    def choose_successors(self, members: Iterable[RingMember]) -> list[Effect]:
        """Those of them that stand next behind us; a new first one is asked."""
        former = self.successors[0] if self.successors else None
        self.successors = self.nearest(members)
        first = self.successors[0].contact.node
        if self.successors[0] == former:
            return []
        self.probe_after = self.params.period
        if first not in self.peers:
            return []
        return [Send(first, AskRing(self.key))]

    def nearest(self, members: Iterable[RingMember]) -> list[RingMember]:
        by_node = {each.contact.node: each for each in members if each.contact.node != self.node_id}
        around = sorted(by_node.values(), key=lambda each: (self.distance(each.key), each.contact.node))
        return around[: self.params.successors]

    def is_good(self, member: RingMember) -> bool:
        return member.key < self.reference.keys and member.contact.node != self.node_id

    def move(self, now: float) -> list[Effect]:
        """Somebody has our key: we stand elsewhere."""
        self.attempt += 1
        self.member = self.place(self.attempt)
        self.predecessor, self.successors, self.fingers = None, [], {}
        through = next(iter(self.peers), None)
        return [*self.keep_links(), *([] if through is None else self.search(now, self.key, through))]

    def probe(self, now: float) -> list[Effect]:
        """Through somebody whom the ring does not need; if that one is of another ring, its answer says so."""
        needed = {each.contact.node for each in self.known()}
        linked = [name for name in self.peers if name not in needed]
        away = [contact for name, contact in self.contacts.items() if name not in needed and name not in self.peers]
        self.tickets += 1
        self.probed = None
        if linked:
            return [*self.keep_links(), *self.search(now, self.key, linked[self.tickets % len(linked)])]
        if away:
            self.probed = away[self.tickets % len(away)]
        return self.keep_links()

    # Searches.

    def search(self, now: float, key: int, through: NodeId | None = None) -> list[Effect]:
        """Find out who has this key; `found` says it, or nothing does."""
        is_searched = through is None and key in self.searches.values()
        if is_searched or len(self.searches) >= self.params.searches_max:
            return []
        hop = through or self.hop_toward(key)
        if hop is None:
            return []
        self.tickets += 1
        self.searches[self.tickets] = key
        timer = SetTimer(("search", self.tickets), now + self.params.search_timeout)
        return [timer, Send(hop, FindOwner(key, self.tickets, (self.node_id,)))]

    def hop_toward(self, key: int) -> NodeId | None:
        """The linked one that stands as far around as anybody who does not pass the key; else the next behind us."""
        limit = self.distance(key)
        best, far = None, 0
        for each in self.known():
            distance = self.distance(each.key)
            if far < distance < limit and each.contact.node in self.peers:
                best, far = each.contact.node, distance
        if best is None:
            linked = (each.contact.node for each in self.successors if each.contact.node in self.peers)
            best = next(linked, None)
        return best

    def pass_search(self, sender: NodeId, search: FindOwner) -> list[Effect]:
        if not search.path or search.path[-1] != sender:
            return [Drop(search, NOT_ASKED)]
        arc = self.arc
        if arc is not None and search.key in arc:
            found = OwnerFound(search.ticket, search.path[:-1], self.member, arc.after)
            return [Send(sender, found)]
        if len(search.path) >= RING_PATH_MAX:
            return [Drop(search, TOO_FAR)]
        hop = self.hop_toward(search.key)
        if hop is None or hop in search.path:
            return [Drop(search, NOWHERE)]
        return [Send(hop, FindOwner(search.key, search.ticket, (*search.path, self.node_id)))]

    def pass_answer(self, now: float, sender: NodeId, answer: OwnerFound) -> list[Effect]:
        if max(answer.owner.key, answer.after) >= self.reference.keys:
            return [Drop(answer, NO_KEY)]
        owner = self.filled(answer.owner, sender)
        if answer.path:
            back = answer.path[-1]
            if back not in self.peers:
                return [Drop(answer, NOWHERE)]
            return [Send(back, OwnerFound(answer.ticket, answer.path[:-1], owner, answer.after))]
        key = self.searches.pop(answer.ticket, None)
        arc = Arc(answer.after, owner.key)
        if key is None or key not in arc or owner.contact.node == self.node_id:
            return [CancelTimer(("search", answer.ticket))] if key is not None else [Drop(answer, NOT_ASKED)]
        self.found.append((owner.contact, KeyOwner(owner.contact.node, arc)))
        return [CancelTimer(("search", answer.ticket)), *self.learn(now, key, owner)]

    def learn(self, now: float, key: int, owner: RingMember) -> list[Effect]:
        """What an answer says of the ring itself."""
        self.remember(owner.contact)
        if key == self.key:
            if owner.key == self.key:
                return self.move(now) if self.node_id > owner.contact.node else []
            return self.found_elsewhere(owner)
        place = (self.distance(key)).bit_length() - 1
        if key == (self.key + 2**place) % self.reference.keys:
            self.fingers[place] = owner
            return self.keep_links()
        return []

    def found_elsewhere(self, owner: RingMember) -> list[Effect]:
        """Somebody else believes to have our key: it is of another ring, or ours winds around more than once. It hears
        that we stand before it, even if it is not the next behind us."""
        self.probe_after = self.params.period
        effects = self.choose_successors([*self.successors, owner])
        if owner.contact.node not in self.peers:
            self.probed = owner.contact
        elif self.successors[0] != owner:
            effects.append(Send(owner.contact.node, AskRing(self.key)))
        return [*effects, *self.keep_links()]

    # Whom we know, and how to reach them.

    def member_of(self, peer: NodeId, key: int) -> RingMember:
        return RingMember(Contact(peer, self.peers.get(peer, "")), key)

    def filled(self, member: RingMember, sender: NodeId) -> RingMember:
        """A broker does not know under which address others find it: whoever is linked with it does."""
        name, address = member.contact.node, member.contact.address
        if not address and name == sender:
            return self.member_of(name, member.key)
        return member

    def remember(self, contact: Contact) -> None:
        self.contacts.pop(contact.node, None)
        self.contacts[contact.node] = contact
        if len(self.contacts) > self.params.contacts_max:
            del self.contacts[next(iter(self.contacts))]

    def keep_links(self) -> list[Effect]:
        wanted = {each.contact.node: each.contact for each in self.known()}
        if self.probed is not None:
            wanted[self.probed.node] = self.probed
        new = [contact for name, contact in wanted.items() if name not in self.links]
        old = [name for name in self.links if name not in wanted]
        self.links = dict.fromkeys(wanted)
        return [
            *(LinkWanted(contact, USER) for contact in new),
            *(LinkUnwanted(name, USER) for name in old),
        ]

    def check(self) -> None:
        assert len(self.successors) <= self.params.successors
        assert len(self.searches) <= self.params.searches_max
        assert all(each.contact.node != self.node_id for each in self.known()), "we are next to ourselves"
        distances = [self.distance(each.key) for each in self.successors]
        assert distances == sorted(distances), "successors out of order"
