"""DHTree: the tree that everybody would draw, copied onto whoever is there.

The problem. Brokers come and go, nobody knows all of them, and yet their links should form one tree of a shape that was
chosen in advance: so many children each, so deep.

The idea. The shape is a reference tree whose nodes are labelled with all keys of a ring (`reference.py`). Brokers share
out the keys among themselves (`ring.py`). Each sits at the topmost of its keys, and works out from who owns which keys
who is above and who is below it (`neighbours.py`). Nobody searches for a parent and nobody is asked to be one: all who
know the same ring come to the same tree.

What happens. Whenever our keys change, a neighbour is lost, somebody says that a change concerns us (`TreeChanged`), or
some time has passed ("refresh"), the neighbours are worked out anew; owners that are not known are searched for on the
ring. With those that are neighbours then a link is asked for, and both ends agree (`agreements.py`). Whoever became
one, or is none any more, is told that something changed. Who finds nothing changed tells nobody, so that ends.

State: our `arc` and `seat`; `owners`, what was found out about the ring since we last began to look; `claims`, our
neighbours and where they sit. Timers: "refresh", "look", and those of the ring. Messages: TreeWish, TreeUnwish,
TreeChanged, and those of the ring.

Guaranteed: neighbours are neighbours at both ends when nothing is under way; of the links that both ends take for one
there is no cycle, at any moment and whatever brokers believe of the ring; once the ring is in order the tree spans all
brokers, and has the degrees of the reference tree (binary: always at most two children). Not guaranteed: that the tree
is whole while the ring is not. A lying broker can draw neighbours to itself, or refuse to be one, as a dead one does;
links among others stay without cycle, since each is agreed on by its own two ends.

It tells of single links only (level LINKS): which new link stands for which old one, nobody here knows.

Source: dynamic-topologies.md 3.10.
"""

import msgspec

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import Contact
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.overlay.dhtree.agreements import Claim, TreeAgreements
from tidings.protocols.overlay.dhtree.messages import TreeChanged, TreeUnwish, TreeWish
from tidings.protocols.overlay.dhtree.neighbours import KeyOwner, KeyOwners, places_of
from tidings.protocols.overlay.dhtree.reference import Arc, ReferenceTree
from tidings.protocols.overlay.dhtree.ring import KeyRing, RingParams
from tidings.pubsub.signals import (
    Level,
    LinkFailed,
    LinkUnwanted,
    LinkWanted,
    NeighbourDown,
    NeighbourUp,
    PeerDown,
    PeerUp,
)

USER = "overlay"
"""Under which name links of the tree are asked for."""

NOT_A_PEER = "comes from a node that is no peer"
STARTED_AGAIN = "started again"


class DhTreeParams(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="dhtree"):
    arity: int = 2
    """Children of a node of the reference tree. With 2, a broker never has more; with more, seldom."""
    levels: int = 30
    """Of the reference tree, the same for all brokers of a network; it has many more keys than there are brokers."""
    ring: RingParams = RingParams()
    refresh_first: float = 0.5
    refresh_max: float = 16.0
    """Seconds after which the neighbours are worked out anew although nothing was heard: soon after a change, and then
    twice as long each time that nothing has changed."""
    look_again: float = 0.5
    """Seconds after which owners that were not found are searched for again."""
    owners_max: int = 4096
    """KeyOwners that are remembered of one look at the ring; a broker of a tree in order needs few."""

    def __post_init__(self) -> None:
        ReferenceTree(self.arity, self.levels)
        if not 0 < self.refresh_first <= self.refresh_max or self.look_again <= 0 or self.owners_max < 16:
            raise UsageError("use 0 < refresh_first <= refresh_max, 0 < look_again, and owners_max of at least 16")


class DhTree:
    """`DhTree("b")`: links to first contacts are access's affair."""

    messages: tuple[type, ...] = (*KeyRing.messages, TreeWish, TreeUnwish, TreeChanged)
    hears: tuple[type, ...] = (PeerUp, PeerDown, LinkFailed)
    tells: tuple[type[Signal], ...] = (NeighbourUp, NeighbourDown, LinkWanted, LinkUnwanted)
    level = Level.LINKS
    is_tree = True

    def __init__(self, node_id: NodeId, params: DhTreeParams | None = None) -> None:
        self.node_id, self.params = node_id, params or DhTreeParams()
        self.reference = ReferenceTree(self.params.arity, self.params.levels)
        self.ring = KeyRing(node_id, self.reference, self.params.ring)
        self.agreements = TreeAgreements()
        self.arc: Arc | None = None
        """Our keys when we last looked."""
        self.seat: int | None = None
        """The topmost of them, which is where we sit. It stays while it is not known what keys we have."""
        self.owners = KeyOwners(self.reference)
        self.contacts: dict[NodeId, Contact] = {}
        """Where the owners are that were found."""
        self.claims: dict[NodeId, Claim] = {}
        """Our neighbours as they were last worked out: a link is kept with each."""
        self.is_looking = True
        """Whether they are being worked out anew."""
        self.is_timed = False
        self.refresh_after = self.params.refresh_first

    @property
    def neighbours(self) -> list[NodeId]:
        return self.agreements.neighbours

    def why_unsettled(self) -> str:
        if self.is_looking:
            return "looking for its place in the tree"
        waiting = [name for name in self.claims if name not in self.agreements.neighbours]
        return f"not yet agreed with {', '.join(waiting)}" if waiting else ""

    def start(self, now: float) -> list[Effect]:
        effects: list[Effect] = [LinkUnwanted(name, USER) for name in self.claims]
        for name in list(self.agreements.peers):
            effects += self.agreements.peer_down(name, STARTED_AGAIN)
        self.claims, self.is_timed = {}, False
        effects += self.ring.start(now)
        self.refresh_after = self.params.refresh_first
        return [*effects, SetTimer("refresh", now + self.refresh_after), *self.renew(now)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, message) if sender not in self.agreements.peers:
                return [Drop(message, NOT_A_PEER)]
            case Received(sender, TreeWish() as wish):
                return self.wished(now, sender, wish)
            case Received(sender, TreeUnwish()):
                return self.agreements.unwished(sender)
            case Received(_, TreeChanged()):
                return self.renew(now)
            case Fired("refresh"):
                self.refresh_after = min(2 * self.refresh_after, self.params.refresh_max)
                return [SetTimer("refresh", now + self.refresh_after), *self.renew(now)]
            case Received(sender, message):
                return [*self.ring.receive(now, sender, message), *self.follow(now)]
            case PeerUp(broker, _, _, address):
                return self.peer_up(now, broker, address)
            case PeerDown(broker, _, reason):
                return [*self.agreements.peer_down(broker, reason), *self.lose(now, broker)]
            case LinkFailed(broker):
                self.ring.failed(now, broker)
                return self.lose(now, broker)
            case Fired("look"):
                self.is_timed = False
                return self.look(now) if self.is_looking else []
            case Fired(key):
                return [*self.ring.fired(now, key), *self.follow(now)]
        return []

    def peer_up(self, now: float, broker: NodeId, address: str) -> list[Effect]:
        effects = self.agreements.peer_down(broker, STARTED_AGAIN)
        self.agreements.peer_up(broker)
        effects += self.agreements.want(broker, self.claims.get(broker))
        return [*effects, *self.ring.peer_up(now, broker, address), *self.follow(now)]

    def lose(self, now: float, broker: NodeId) -> list[Effect]:
        effects = [*self.ring.lose(now, broker), *self.follow(now)]
        return [*effects, *self.renew(now)] if broker in self.claims else effects

    def wished(self, now: float, sender: NodeId, wish: TreeWish) -> list[Effect]:
        effects = self.agreements.wished(sender, wish)
        # One of us does not know what the other knows.
        return effects if sender in self.agreements.neighbours else [*effects, *self.renew(now)]

    # Our place.

    def follow(self, now: float) -> list[Effect]:
        """What the ring has found out meanwhile."""
        found, self.ring.found = self.ring.found, []
        if self.ring.arc != self.arc:
            return self.renew(now)
        if not self.is_looking:
            return []
        for contact, owner in found:
            self.know(contact, owner)
        return self.look(now) if found else []

    def know(self, contact: Contact, owner: KeyOwner) -> None:
        is_ours = self.arc is not None and owner.arc.through in self.arc
        if len(self.owners) < self.params.owners_max and not is_ours:
            self.owners.add(owner)
            self.contacts[owner.broker] = contact

    def renew(self, now: float) -> list[Effect]:
        """The ring has changed, or may have: what was found out about others is not believed any more."""
        self.arc = self.ring.arc
        self.owners, self.contacts, self.is_looking = KeyOwners(self.reference), {}, True
        effects: list[Effect] = []
        if self.arc is not None and self.seat != self.reference.topmost(self.arc):
            self.seat = self.reference.topmost(self.arc)
            effects += self.settle({})
        return [*effects, *self.look(now)]

    def look(self, now: float) -> list[Effect]:
        """Work out our place, or search for what is needed for that."""
        searches: list[Effect] = []
        # Whoever stands before us says so as soon as it knows us; until then nobody counts on us.
        if self.arc is not None:
            mine = KeyOwner(self.node_id, self.arc)
            self.owners.add(mine)
            places = places_of(self.owners, mine)
            if not places.unknown:
                self.is_looking = False
                seat = self.owners.top(mine)
                return self.settle({owner.broker: (seat, self.owners.top(owner)) for owner in places.neighbours})
            searches = [effect for key in places.unknown for effect in self.ring.search(now, key)]
        if self.is_timed:
            return searches
        self.is_timed = True
        return [*searches, SetTimer("look", now + self.params.look_again)]

    def settle(self, claims: dict[NodeId, Claim]) -> list[Effect]:
        """These are our neighbours from now on."""
        former, self.claims = self.claims, claims
        if former != claims:
            self.refresh_after = self.params.refresh_first
        new = [self.contacts.get(name, Contact(name)) for name in claims if name not in former]
        gone = [name for name in former if name not in claims]
        effects: list[Effect] = [LinkWanted(contact, USER) for contact in new]
        for name in self.agreements.peers:
            effects += self.agreements.want(name, claims.get(name))
        effects += [Send(name, TreeChanged()) for name in gone if name in self.agreements.peers]
        return [*effects, *(LinkUnwanted(name, USER) for name in gone)]

    def check(self) -> None:
        self.ring.check()
        self.agreements.check(self.seat)
        assert len(self.owners) <= self.params.owners_max + 1
        assert self.is_timed or not self.is_looking, "nobody looks on"
