"""Scripted: the neighbours are those that somebody says.

The problem. Experiments replace chosen links at chosen moments, and so does whoever carries out a plan for another
topology. Neither wants a tree that repairs itself; both know more of a change than any overlay could find out.

The idea. An application asks for a neighbour (`AddNeighbour`) or for there to be none (`RemoveNeighbour`), at one end
of a link or at both. The end that is asked tells the other: `Linked`, and `Unlinked`, which is answered by `Unlinked`.
A broker that has let go takes the neighbour again only after that answer: on a link that keeps its order, everything
sent before has arrived then. Links to brokers that are not configured are asked of access (`LinkWanted`).

Replacing a link has two phases, as routing hears it: at the break both of its ends lose their neighbour under the name
of the reconfiguration; later the ends of the new link become neighbours under the same name, and when they are, the
ends of the old one hear which link it is, and all brokers in between (`TellReplaced`). `rewiring` makes the requests.

State. `wanted`: the neighbours we were asked for. `peers`: who is linked, and how far each link is. A link has one
more number each time that an end asks for it, and `Unlinked` says which number it has heard of, so that it does not
undo what was asked after it.

A plan that is carried out by brokers themselves asks by signals (`NeighbourWanted`, `NeighbourUnwanted`). Its link
changes hands at one end, the one that moves, and what that end has left it does not take back unasked. Where changes
are to survive a crash, the overlay says when they do (`NeighboursKept`): before that nobody may count on them. A disk
that is full is tried again with whatever happens next, and when it is asked for. And until the disk has answered, at a
start, no configured broker is taken: it may be one that we left.

Takes `PeerUp`, `PeerDown` from access; tells `NeighbourUp`, `NeighbourDown`, `NeighbourReplaced`, `LinkWanted` and
`LinkUnwanted`. No timers. A stream that breaks takes the neighbour down, and its return brings it up again.

Guaranteed: when nothing is under way, A lists B exactly when B lists A; what is asked when nothing is under way is what
then holds. A removal and a request for the same link that cross are settled for both ends in the same way, either way.
Not guaranteed: that the links form a tree, and that a replaced link lies where it is said to. That is the script's.

Source: dynamic-topologies.md 2.3 (two phases, level L2) and ch. 7 of its source, whose experiments run on it.
"""

from collections.abc import Sequence

import msgspec

from tidings.machine.effects import Drop, Effect, Load, Save, Send
from tidings.machine.inputs import Input, Loaded, Received, Request, Saved, Signal
from tidings.machine.message import Contact
from tidings.model.identity import NodeId
from tidings.protocols.overlay.messages import Linked, Unlinked
from tidings.pubsub.signals import (
    KeepNeighbours,
    Level,
    LinkUnwanted,
    LinkWanted,
    NeighbourDown,
    NeighbourReplaced,
    NeighboursKept,
    NeighbourUnwanted,
    NeighbourUp,
    NeighbourWanted,
    PeerDown,
    PeerUp,
    Placed,
    ReconfigurationId,
    ShiftDecided,
)

USER = "overlay"
"""Under which name it asks access for links."""

NOT_A_PEER = "comes from a node that is no peer"
NOT_LINKED = "unlinks what is not linked"
STARTED_AGAIN = "started again"
REMOVED = "the script took it away"


class ScriptedParams(msgspec.Struct, frozen=True, tag_field="kind", tag="scripted"):
    neighbours: tuple[NodeId, ...] = ()
    """The neighbours at first. One end of a link is enough."""

    above: NodeId | None = None
    """The neighbour on the way to the root, where somebody asks for places (`Placed`)."""
    depth: int = 0

    takes_configured: bool = False
    """Whether the links that are configured are the neighbours at first, beside those that are named."""

    is_durable: bool = False
    """Whether a change of neighbours by a plan survives a crash."""


class AddNeighbour(Request, frozen=True):
    contact: Contact
    reconfiguration: ReconfigurationId = ""


class RemoveNeighbour(Request, frozen=True):
    neighbour: NodeId
    reconfiguration: ReconfigurationId = ""


class TellReplaced(Request, frozen=True):
    """At an end of a link that was removed under this name; see `NeighbourReplaced`."""

    reconfiguration: ReconfigurationId
    lost: NodeId
    near: NodeId
    far: NodeId
    path: tuple[NodeId, ...] = ()


LEFT_MAX = 1000
"""Neighbours of which it is remembered that they were left."""

Step = tuple[NodeId, Request]
"""A broker, and what is asked of it."""


def rewiring(
    reconfiguration: ReconfigurationId, head: Sequence[NodeId], tail: Sequence[NodeId]
) -> tuple[list[Step], list[Step], list[Step]]:
    """What to ask of whom, at the break, when the new link is found, and when it is there, to replace the link between
    the first of `head` and the last of `tail` by one between the last of `head` and the first of `tail`. Each lists the
    brokers on its way in the tree."""
    first, near, far, last = head[0], head[-1], tail[0], tail[-1]
    path = (*head, *tail)
    broken: list[Step] = [
        (first, RemoveNeighbour(last, reconfiguration)),
        (last, RemoveNeighbour(first, reconfiguration)),
    ]
    linked: list[Step] = [
        (near, AddNeighbour(Contact(far), reconfiguration)),
        (far, AddNeighbour(Contact(near), reconfiguration)),
    ]
    told: list[Step] = [
        (first, TellReplaced(reconfiguration, last, near, far, path)),
        (last, TellReplaced(reconfiguration, first, far, near, path[::-1])),
    ]
    return broken, linked, told


KEPT = "neighbours"


class KeptNeighbours(msgspec.Struct, frozen=True):
    """What survives a crash, as JSON."""

    wanted: list[Contact]
    left: list[NodeId]


class Wanted(msgspec.Struct):
    """A neighbour that we were asked for: its `number` grows with each time."""

    number: int
    reconfiguration: ReconfigurationId


class ScriptedPeer(msgspec.Struct):
    epoch: int | None = None
    """That of the neighbour, while it is one."""
    heard: int = 0
    """The number of the other end's last `Linked`; 0 for none that holds."""
    is_leaving: bool = False
    """We said `Unlinked`, and wait for the answer."""


class ScriptedOverlay:
    """`ScriptedOverlay("b", ScriptedParams(neighbours=("a", "c")))`."""

    messages: tuple[type, ...] = (Linked, Unlinked)
    hears: tuple[type, ...] = (
        *(PeerUp, PeerDown, AddNeighbour, RemoveNeighbour, TellReplaced),
        *(NeighbourWanted, NeighbourUnwanted, ShiftDecided, KeepNeighbours),
    )
    tells: tuple[type[Signal], ...] = (NeighbourUp, NeighbourDown, NeighbourReplaced, LinkWanted, LinkUnwanted)
    level = Level.PATHS
    is_tree = True

    def __init__(self, node_id: NodeId, params: ScriptedParams | None = None) -> None:
        self.node_id, self.params = node_id, params or ScriptedParams()
        self.numbers = len(self.params.neighbours)
        self.wanted = {name: Wanted(number, "") for number, name in enumerate(self.params.neighbours, start=1)}
        self.peers: dict[NodeId, ScriptedPeer] = {}
        self.undecided: dict[NodeId, None] = {}
        """Neighbours for the sake of a shift that is not decided: after a crash they are none."""
        self.saved = b""
        self.saving = 0
        """How often it was ordered and not answered."""
        self.is_unsaved = False
        """The disk has refused the last one."""
        self.contacts: dict[NodeId, Contact] = {}
        self.is_loaded = not self.params.is_durable
        self.early: dict[NodeId, Contact] = {}
        """Configured brokers that are there before the disk has answered: a plan may have had us leave them."""
        self.left: dict[NodeId, None] = {}
        """Neighbours that we left by a plan. One that has not heard of it, or has forgotten it in a crash, may say
        still that it was asked for the link; then it is told again."""
        self.epochs = 0
        self.is_telling_places = False
        if self.params.is_durable:
            self.tells = (*self.tells, NeighboursKept)

    def tell_places(self) -> None:
        """Somebody wants to know where we are: where the script says."""
        self.is_telling_places, self.tells = True, (*self.tells, Placed)

    @property
    def neighbours(self) -> list[NodeId]:
        return [name for name, peer in self.peers.items() if peer.epoch is not None]

    def why_unsettled(self) -> str:
        waiting = [name for name in self.wanted if name not in self.neighbours]
        return f"not yet linked with {', '.join(waiting)}" if waiting else ""

    @property
    def is_kept(self) -> bool:
        """Whether a crash would leave us the neighbours that we are to have now."""
        return not self.saving and not self.is_unsaved

    def start(self, now: float) -> list[Effect]:
        self.saving = 0
        self.is_loaded, self.early = not self.params.is_durable, {}
        effects = [effect for name in list(self.peers) for effect in self.lose(name, STARTED_AGAIN)]
        place = [Placed(self.params.above, self.params.depth)] if self.is_telling_places else []
        if self.params.is_durable:
            return [*effects, *place, Load(KEPT)]
        return [*effects, *place, *(LinkWanted(Contact(name), USER) for name in self.wanted)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        if type(input) is Saved:
            return self.answered(input)
        effects = self.take(now, input)
        return effects if not self.params.is_durable or type(input) is Loaded else [*effects, *self.keep()]

    def answered(self, saved: Saved) -> list[Effect]:
        """One of ours is on the disk, or is not."""
        self.saving = max(0, self.saving - 1)
        self.is_unsaved = saved.error is not None
        return [NeighboursKept()] if self.is_kept and self.params.is_durable else []

    def loaded(self, entries: tuple[tuple[str, bytes], ...]) -> list[Effect]:
        """What a plan has made of us before we started."""
        try:
            kept = msgspec.json.decode(dict(entries).get(KEPT, b"null"), type=KeptNeighbours | None)
        except msgspec.DecodeError:
            kept = None
        if kept is not None:
            self.wanted = {each.node: Wanted(number, "") for number, each in enumerate(kept.wanted, start=1)}
            self.numbers, self.left = len(self.wanted), dict.fromkeys(kept.left)
            self.contacts = {each.node: each for each in kept.wanted}
            self.saved = dict(entries)[KEPT]
        asked = [LinkWanted(self.contacts.get(name, Contact(name)), USER) for name in self.wanted]
        self.is_loaded = True
        for contact in self.early.values():
            self.take_configured(contact)
        self.early = {}
        effects: list[Effect] = []
        for name, peer in self.peers.items():
            if peer.epoch is not None and name in self.left and name not in self.wanted:
                peer.is_leaving = True
                effects += [*self.take_down(name, peer, REMOVED), self.unlink(name, peer, "")]
        return [*asked, *effects, *(effect for name in list(self.peers) for effect in self.link(name))]

    def take_configured(self, contact: Contact) -> None:
        """A broker that was configured is to be a neighbour, where no plan has said who is."""
        if self.saved:
            return
        self.contacts[contact.node] = contact
        if contact.node not in self.left and contact.node not in self.wanted:
            self.numbers += 1
            self.wanted[contact.node] = Wanted(self.numbers, "")

    def keep(self) -> list[Effect]:
        """Save who our neighbours are to be, where that has changed."""
        wanted = [name for name in self.wanted if name not in self.left and name not in self.undecided]
        kept = KeptNeighbours([self.contacts.get(name, Contact(name)) for name in wanted], list(self.left))
        data = msgspec.json.encode(kept)
        is_as_before = data == self.saved and not (self.is_unsaved and not self.saving)
        if is_as_before or (not self.saved and not self.left):
            return []
        self.saved, self.saving = data, self.saving + 1
        return [Save(KEPT, data)]

    def take(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Loaded(_, entries):
                return self.loaded(entries)
            case ShiftDecided(_, old, new):
                self.undecided.pop(new, None)
                self.left[old] = None
                return []
            case Received(sender, message):
                peer = self.peers.get(sender)
                return [Drop(message, NOT_A_PEER)] if peer is None else self.hear(sender, peer, message)
            case PeerUp(broker):
                effects = self.lose(broker, STARTED_AGAIN)
                self.peers[broker] = ScriptedPeer()
                if self.params.takes_configured and input.is_configured:
                    contact = Contact(broker, input.address)
                    if self.is_loaded:
                        self.take_configured(contact)
                    else:
                        self.early[broker] = contact
                return [*effects, *self.link(broker)]
            case PeerDown(broker, _, reason):
                self.early.pop(broker, None)
                return self.lose(broker, reason)
            case AddNeighbour(contact, reconfiguration) | NeighbourWanted(contact, reconfiguration):
                return self.add(contact, reconfiguration)
            case RemoveNeighbour(neighbour, reconfiguration) | NeighbourUnwanted(neighbour, reconfiguration):
                self.left.pop(neighbour, None)
                self.undecided.pop(neighbour, None)
                if type(input) is NeighbourUnwanted:
                    self.left[neighbour] = None
                    if len(self.left) > LEFT_MAX:
                        del self.left[next(iter(self.left))]
                return self.remove(neighbour, reconfiguration)
            case TellReplaced(reconfiguration, lost, near, far, path):
                return [NeighbourReplaced(reconfiguration, lost, near, far, path)]
        return []

    def add(self, contact: Contact, reconfiguration: ReconfigurationId) -> list[Effect]:
        self.left.pop(contact.node, None)
        self.contacts[contact.node] = contact
        if contact.node in self.wanted:
            return []
        if reconfiguration:
            self.undecided[contact.node] = None
        self.numbers += 1
        self.wanted[contact.node] = Wanted(self.numbers, reconfiguration)
        return [LinkWanted(contact, USER), *self.link(contact.node)]

    def remove(self, name: NodeId, reconfiguration: ReconfigurationId) -> list[Effect]:
        was_wanted, peer = self.wanted.pop(name, None) is not None, self.peers.get(name)
        if peer is not None and peer.epoch is not None:
            peer.is_leaving = True
            return [*self.take_down(name, peer, REMOVED, reconfiguration), self.unlink(name, peer, reconfiguration)]
        # While we are leaving, the answer lets go of the link.
        is_leaving = peer is not None and peer.is_leaving
        return [LinkUnwanted(name, USER)] if was_wanted and not is_leaving else []

    def link(self, name: NodeId) -> list[Effect]:
        """Tell a peer that we want it, unless it has to answer first."""
        wanted, peer = self.wanted.get(name), self.peers.get(name)
        if wanted is None or peer is None or peer.is_leaving:
            return []
        linked = Send(name, Linked(wanted.number, wanted.reconfiguration))
        return [linked, *self.bring_up(name, peer, wanted.reconfiguration)]

    def hear(self, sender: NodeId, peer: ScriptedPeer, message: object) -> list[Effect]:
        match message:
            case Linked(number, reconfiguration):
                if peer.is_leaving:
                    # It has not heard that we let go; if it wants us still, it says so again.
                    return []
                if sender in self.left and sender not in self.wanted:
                    if not reconfiguration:
                        return [Send(sender, Unlinked(number, reconfiguration))]
                    del self.left[sender]
                peer.heard = number
                return self.bring_up(sender, peer, reconfiguration)
            case Unlinked() if peer.is_leaving:
                peer.is_leaving = False
                return self.link(sender) if sender in self.wanted else [LinkUnwanted(sender, USER)]
            case Unlinked(heard, reconfiguration) if peer.epoch is not None:
                effects = self.take_down(sender, peer, REMOVED, reconfiguration)
                effects.append(self.unlink(sender, peer, reconfiguration))
                wanted = self.wanted.get(sender)
                if wanted is not None and wanted.number <= heard:
                    del self.wanted[sender]
                    effects.append(LinkUnwanted(sender, USER))
                return effects + self.link(sender)
        return [Drop(message, NOT_LINKED)]

    def unlink(self, name: NodeId, peer: ScriptedPeer, reconfiguration: ReconfigurationId) -> Effect:
        heard, peer.heard = peer.heard, 0
        return Send(name, Unlinked(heard, reconfiguration))

    def bring_up(self, name: NodeId, peer: ScriptedPeer, reconfiguration: ReconfigurationId) -> list[Effect]:
        if peer.epoch is not None:
            return []
        self.epochs += 1
        peer.epoch = self.epochs
        return [NeighbourUp(name, self.epochs, reconfiguration)]

    def take_down(
        self, name: NodeId, peer: ScriptedPeer, reason: str, reconfiguration: ReconfigurationId = ""
    ) -> list[Effect]:
        epoch, peer.epoch = peer.epoch, None
        return [] if epoch is None else [NeighbourDown(name, epoch, reason, reconfiguration)]

    def lose(self, name: NodeId, reason: str) -> list[Effect]:
        peer = self.peers.pop(name, None)
        if peer is None:
            return []
        if peer.epoch is not None and name in self.wanted:
            # If it comes back that is no change any more.
            self.wanted[name].reconfiguration = ""
        effects = self.take_down(name, peer, reason)
        return [*effects, LinkUnwanted(name, USER)] if peer.is_leaving and name not in self.wanted else effects

    def check(self) -> None:
        for name, peer in self.peers.items():
            assert peer.epoch is None or not peer.is_leaving, "a neighbour that we left"
            is_due = not peer.is_leaving and (name in self.wanted or peer.heard > 0)
            assert (peer.epoch is not None) == is_due, "a neighbour that nobody asked for, or none that somebody did"
