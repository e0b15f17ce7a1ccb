"""The directory: who takes part, whose paths are measured to whom, and what came of it.

Every host has one. Hosts that have a *contact* enlist with it and tell it what they measure; whoever wants to collect
asks it who is there. Each host is given `peers` others, to which it measures its paths: drawn by chance and in such a
way that every host is the peer of as many as it has peers, since whoever is a peer of few can be reached by few. The
peers of a host are not those that have it as a peer. They change when hosts come or go, and never because of a
collection.

State. `members`: who has enlisted, and is linked. `paths`: the latest rate of each path that was measured.
"""

from collections.abc import Sequence
from random import Random

import msgspec

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import Contact
from tidings.model.bounds import COLLECTORS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.collect.messages import (
    Enlisted,
    MembersAsked,
    MembersTold,
    PathsMeasured,
    PathsTold,
    PeersAssigned,
)
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.signals import MembersKnown, StartCollection
from tidings.pubsub.signals import PeerDown, PeerUp

NOT_ENLISTED = "comes from a host that has not enlisted"
SETTLE = 1.0
"""Seconds in which further hosts may come before peers are assigned."""


def assigned_peers(names: Sequence[NodeId], count: int, rng: Random) -> dict[NodeId, tuple[NodeId, ...]]:
    """To each `count` others. On a circle in random order each has those so many places further, at the same random
    distances: as many have it as it has."""
    circle = list(names)
    rng.shuffle(circle)
    distances = rng.sample(range(1, len(circle)), min(count, len(circle) - 1)) if len(circle) > 1 else []
    return {
        name: tuple(circle[(place + distance) % len(circle)] for distance in distances)
        for place, name in enumerate(circle)
    }


class MembersDirectory:
    """`contact` is where this host enlists, as its peer is called ("" for nowhere: others enlist with it)."""

    messages: tuple[type, ...] = (Enlisted, MembersAsked, MembersTold, PathsMeasured, PathsTold)
    hears: tuple[type, ...] = (PeerUp, PeerDown, StartCollection)
    tells: tuple[type[Signal], ...] = (MembersKnown,)

    def __init__(self, node_id: NodeId, params: CollectParams, has_files: bool, rng: Random) -> None:
        self.node_id, self.params, self.rng = node_id, params, rng
        self.own = Enlisted(Contact(node_id), has_files, params.up_bps, params.down_bps)
        self.contacts: dict[NodeId, None] = {}
        """Directories that we have enlisted with."""
        self.members: dict[NodeId, Enlisted] = {}
        self.paths: dict[tuple[NodeId, NodeId], float] = {}
        self.told: MembersTold | None = None
        self.linked: dict[NodeId, str] = {}
        self.is_settling = False

    def start(self, now: float) -> list[Effect]:
        self.linked.clear()
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case PeerUp(peer, address=address, asked=asked, is_configured=is_configured):
                self.linked[peer] = address
                if asked or is_configured:
                    self.contacts[peer] = None
                    return [Send(peer, self.own), Send(peer, MembersAsked())]
                return []
            case StartCollection():
                # What was measured since we enlisted.
                return [Send(contact, MembersAsked()) for contact in self.contacts]
            case PeerDown(peer):
                self.linked.pop(peer, None)
                self.contacts.pop(peer, None)
                return self.settle(now) if self.members.pop(peer, None) is not None else []
            case Received(sender, message) if sender not in self.linked and sender != self.node_id:
                return [Drop(message, NOT_ENLISTED)]
            case Received(sender, Enlisted() as enlisted):
                if len(self.members) >= COLLECTORS_MAX - 1 or enlisted.contact.node != sender:
                    return [Drop(enlisted, NOT_ENLISTED)]
                # Where it listens is what it said when it came in: access has seen that.
                contact = Contact(sender, self.linked[sender] or enlisted.contact.address)
                self.members[sender] = msgspec.structs.replace(enlisted, contact=contact)
                return self.settle(now)
            case Received(sender, PathsMeasured(rates, up_bps, down_bps)) if sender in self.members:
                self.paths |= {
                    (sender, peer): rate for peer, rate in rates if peer in self.members or peer == self.node_id
                }
                known = self.members[sender]
                self.members[sender] = msgspec.structs.replace(
                    known, up_bps=up_bps or known.up_bps, down_bps=down_bps or known.down_bps
                )
                return []
            case Received(sender, PathsMeasured(rates, up_bps, down_bps)) if sender == self.node_id:
                self.paths |= {(sender, peer): rate for peer, rate in rates if peer in self.members}
                self.own = msgspec.structs.replace(self.own, up_bps=up_bps, down_bps=down_bps)
                return []
            case Received(sender, MembersAsked()):
                return self.tell(sender)
            case Received(sender, MembersTold() as told) if sender in self.contacts:
                self.told = told
                return [self.known()]
            case Received(sender, PathsTold(source, rates)) if sender in self.contacts:
                self.paths |= {(source, peer): rate for peer, rate in rates}
                return [self.known()]
            case Received(_, message):
                return [Drop(message, NOT_ENLISTED)]
            case Fired("settle"):
                return self.assign()
        return []

    def known(self) -> MembersKnown:
        told = self.told.members if self.told is not None else ()
        members = {each.contact.node: each for each in (*told, *self.members.values())}
        return MembersKnown(
            tuple(members.values()), tuple((sender, peer, rate) for (sender, peer), rate in self.paths.items())
        )

    def tell(self, sender: NodeId) -> list[Effect]:
        everybody = (self.own, *self.members.values())
        names = {each.contact.node for each in everybody}
        effects: list[Effect] = []
        for source in names:
            rates = tuple((peer, rate) for (each, peer), rate in self.paths.items() if each == source and peer in names)
            if rates:
                effects.append(Send(sender, PathsTold(source, rates[:COLLECTORS_MAX])))
        return [*effects, Send(sender, MembersTold(everybody))]

    def settle(self, now: float) -> list[Effect]:
        effects: list[Effect] = [self.known()]
        if not self.is_settling:
            self.is_settling = True
            effects.append(SetTimer("settle", now + SETTLE))
        return effects

    def assign(self) -> list[Effect]:
        self.is_settling = False
        contacts = {node: each.contact for node, each in self.members.items()}
        contacts[self.node_id] = Contact(self.node_id)
        names = set(contacts)
        self.paths = {pair: rate for pair, rate in self.paths.items() if names.issuperset(pair)}
        peers = assigned_peers(sorted(names), self.params.peers, self.rng)
        # An address of ours that we do not know is the one by which they reached us.
        return [Send(node, PeersAssigned(tuple(contacts[peer] for peer in peers[node]))) for node in sorted(names)]

    def check(self) -> None:
        assert self.members.keys() <= self.linked.keys()
