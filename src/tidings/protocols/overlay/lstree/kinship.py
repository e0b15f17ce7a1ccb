"""Where a broker stands in its tree: its place, who is above it, who is below, and the links to them.

What routing hears of it: a neighbour is whoever is above or below. Both ends see the same, because the one above takes
the one below when it accepts (and says so on the link at once), and the one below takes the one above when it reads
that; a link keeps its order, so what routing sends behind the acceptance is read behind it. Who reads an acceptance
that he does not wait for any more answers `ChildLeave`, which names the request that was accepted: over a link that
stays, because somebody else wants it too, several may be accepted late and at once, and the last of them may count.

Links. The broker below wants the link (`LinkWanted`), and lets go of it when it is below no more; the one above keeps
no link of its own. Candidates and contacts that are tried are linked for as long as that takes. A link that is wanted
for more than one of these reasons is let go when the last of them is gone.

The name of a reconfiguration is that of the lost link: the broker below it and the number of its request, so that both
ends know it without asking. The new link carries it in the request that makes it.

Source: dynamic-topologies.md 3.9.1, 3.9.2, 2.3 (levels); D-3, D-5, D-6.
"""

from enum import Enum

import msgspec

from tidings.machine.effects import Effect, Send
from tidings.machine.message import Contact, Message
from tidings.machine.streams import RandomStream
from tidings.model.bounds import COLOUR_STEP_MAX, DEPTH_MAX, SIBLINGS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.overlay.lstree.caches import RegionalCache
from tidings.protocols.overlay.lstree.messages import ColourUpdate, RegionalUpdate
from tidings.protocols.overlay.lstree.order import STEP_MIN, BrokerPlace, Colour, comes_before, may_be_below
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.pubsub.signals import LinkUnwanted, LinkWanted, NeighbourDown, NeighbourUp, ReconfigurationId

USER = "overlay"
"""Under which name it asks access for links."""

NAME_SHOWN_CHARS = 200
"""Of the name of a broker, in that of a reconfiguration."""


class TreeMode(Enum):
    SEARCHING = "searching"
    """An orphan, or somebody who is new: below nobody, and asks."""
    ATTACHED = "attached"
    ROOT = "root"
    MERGING = "merging"
    """A root that asks to be below somebody of another tree."""


class Relative(msgspec.Struct):
    """A broker above or below."""

    contact: Contact
    epoch: int
    link: ReconfigurationId
    """The name under which its loss is told."""
    depth: float = 0.0
    """Of the one above: the last that was heard from it. It may have a smaller one by now."""


class Kinship:
    def __init__(self, node_id: NodeId, params: LsTreeParams, rng: RandomStream) -> None:
        self.node_id, self.params, self.rng = node_id, params, rng
        self.mode = TreeMode.SEARCHING
        self.place = BrokerPlace()
        self.above: Relative | None = None
        self.below: dict[NodeId, Relative] = {}
        self.regional = RegionalCache()
        self.peers: dict[NodeId, Contact] = {}
        """Who is linked, and where each listens."""
        self.wanted: dict[NodeId, None] = {}
        """Links that we asked for."""
        self.epochs = 0
        self.moving_to: NodeId = ""
        self.is_moving = False
        """Whom we ask to be above us, though somebody is; and whether the request is on its way."""
        self.has_led = False
        """Somebody has been below us in this life."""
        self.is_drained = False
        """We are going to be stopped: nobody is to come below us, but for those who find nobody else."""

    @property
    def neighbours(self) -> list[NodeId]:
        above = [] if self.above is None else [self.above.contact.node]
        return [*above, *self.below]

    @property
    def degree(self) -> int:
        """With the place for somebody above, which a broker that searches keeps free."""
        return len(self.below) + (self.above is not None or self.mode is TreeMode.SEARCHING)

    @property
    def is_asking(self) -> bool:
        """Our place is in a request that has not been answered, perhaps, and must not change."""
        return self.is_moving or self.mode is TreeMode.SEARCHING

    def is_above(self, node: NodeId) -> bool:
        return self.above is not None and self.above.contact.node == node

    def is_neighbour(self, node: NodeId) -> bool:
        return node in self.below or self.is_above(node)

    # Links.

    def want(self, contact: Contact) -> list[Effect]:
        self.wanted[contact.node] = None
        return [LinkWanted(contact, USER)]

    def unwant(self, node: NodeId) -> list[Effect]:
        """Nobody is asked or tried there any more; if it is a neighbour, or is to be one, the link stays."""
        if node not in self.wanted or self.is_neighbour(node) or node == self.moving_to:
            return []
        del self.wanted[node]
        return [LinkUnwanted(node, USER)]

    # Neighbours come and go.

    def take_above(self, relative: Relative, replaces: ReconfigurationId) -> list[Effect]:
        self.above, self.mode = relative, TreeMode.ATTACHED
        return [NeighbourUp(relative.contact.node, relative.epoch, replaces)]

    def lose_above(self, reason: str) -> list[Effect]:
        assert self.above is not None
        lost, self.above = self.above, None
        self.mode = TreeMode.SEARCHING
        down = NeighbourDown(lost.contact.node, lost.epoch, reason, lost.link)
        return [down, *self.unwant(lost.contact.node)]

    def take_below(self, relative: Relative, replaces: ReconfigurationId) -> list[Effect]:
        self.below[relative.contact.node] = relative
        self.has_led = True
        return [NeighbourUp(relative.contact.node, relative.epoch, replaces)]

    def lose_below(self, node: NodeId, reason: str) -> list[Effect]:
        lost = self.below.pop(node)
        return [NeighbourDown(node, lost.epoch, reason, lost.link), *self.unwant(node)]

    def next_epoch(self) -> int:
        self.epochs += 1
        return self.epochs

    # Our place changes.

    def adopt(self, colour: Colour, above_depth: float) -> None:
        """Below somebody who has this colour and this depth."""
        assert comes_before(self.place.colour, colour), "a colour that is no later one"
        self.place = BrokerPlace(colour, self.depth_below(above_depth))

    def depth_below(self, above_depth: float) -> float:
        return above_depth + (1.0 if self.params.is_integer else max(STEP_MIN, 1.0 - self.rng.random()))

    def become_root(self) -> list[Effect]:
        """Of those below us, under a colour of our own."""
        self.place = BrokerPlace(self.place.colour.of_new_root(self.node_id), self.place.depth)
        self.mode = TreeMode.ROOT
        self.regional.clear()
        return [*self.tell_colour(), *self.tell_region()]

    def start_over(self) -> None:
        """As if we were new. Nobody was ever below us, so nobody counts on our place."""
        assert not self.has_led and self.above is None
        self.place, self.mode = BrokerPlace(), TreeMode.SEARCHING

    # What the one above tells.

    def is_beyond(self, colour: Colour, depth: float) -> bool:
        own = self.place.colour
        return abs(depth) > DEPTH_MAX - 1 or (bool(own) and colour.length > own.length + COLOUR_STEP_MAX)

    def follow_depth(self) -> None:
        """A number of hops is one more than that of the one above, and never grows within a colour."""
        if self.params.is_integer and self.above is not None:
            depth = min(self.place.depth, self.above.depth + 1)
            self.place = BrokerPlace(self.place.colour, depth)

    def take_region(self, sender: NodeId, ancestors: tuple[Contact, ...], siblings: tuple[Contact, ...]) -> None:
        """The one above knows where it listens by what it said to access, and others by what it was told."""
        above = tuple(contact for contact in ancestors[1:] if contact.node != self.node_id)
        self.regional.ancestors = (self.peers[sender], *above)[: self.params.ancestors]
        self.regional.siblings = tuple(contact for contact in siblings if contact.node != self.node_id)

    # What those below are told.

    def tell_colour(self) -> list[Effect]:
        return self.tell_below(ColourUpdate(*place_fields(self.place)))

    def tell_below(self, message: Message) -> list[Effect]:
        return [Send(node, message) for node in self.below]

    def tell_region(self, but: NodeId = "") -> list[Effect]:
        """To all of them: who is above, who is beside, and our depth."""
        return [Send(node, self.region_of(node)) for node in self.below if node != but]

    def region_of(self, node: NodeId) -> RegionalUpdate:
        return RegionalUpdate(self.chain(), self.beside(node), self.place.depth)

    def chain(self) -> tuple[Contact, ...]:
        """Those above whoever is below us. We do not know where we listen; access at the other end does."""
        return (Contact(self.node_id), *self.regional.ancestors[: self.params.ancestors - 1])

    def beside(self, node: NodeId) -> tuple[Contact, ...]:
        if not self.params.has_siblings:
            return ()
        others = [relative.contact for name, relative in self.below.items() if name != node]
        return tuple(others if len(others) <= SIBLINGS_MAX else self.rng.sample(others, SIBLINGS_MAX))

    def check(self) -> None:
        above = self.above
        assert (above is not None) == (self.mode is TreeMode.ATTACHED), "below somebody, and looking for it"
        if above is not None:
            # L-INV1, with what we last heard: the one above has risen since, if anything.
            assert may_be_below(self.place, BrokerPlace(self.place.colour, above.depth)), "not below the one above"
            assert above.contact.node not in self.below, "above and below at once"
        if self.mode in (TreeMode.ROOT, TreeMode.MERGING):
            assert self.place.colour, "a root without a colour"
        assert self.node_id not in self.below, "below itself"
        assert all(node in self.peers for node in self.neighbours), "a neighbour without a link"
        assert len(self.below) <= self.params.children_max, "more brokers below than children_max"
        assert len(self.regional.ancestors) <= self.params.ancestors, "more ancestors than are kept"


def place_fields(place: BrokerPlace) -> tuple[Colour, float]:
    return place.colour, place.depth


def link_name(child: NodeId, number: int) -> ReconfigurationId:
    return f"{child[:NAME_SHOWN_CHARS]}/{number:x}"
