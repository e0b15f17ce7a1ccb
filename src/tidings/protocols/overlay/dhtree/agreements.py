"""Neighbours in the tree by agreement of both ends.

Each broker works out its neighbours for itself, from what it knows at that moment; two may differ for a while. So a
link carries what the tree carries only while both ends say so, and say the same: "I sit at this key of the reference
tree and you at that one" (`TreeWish`). An end whose own key changes has taken back what it said before it says
anything else.

Because of that there is no cycle at any moment. Of two brokers that take each other for neighbours, one says to sit
above the other, and each is right about itself; around a cycle somebody would sit above itself.

Taking back (`TreeUnwish`) is answered, and nothing is said anew before the answer is here: on a link that keeps its
order, everything that was sent for the former life of the neighbour has arrived then.
"""

import msgspec

from tidings.machine.effects import Effect, Send
from tidings.model.identity import NodeId
from tidings.protocols.overlay.dhtree.messages import TreeUnwish, TreeWish
from tidings.pubsub.signals import NeighbourDown, NeighbourUp

UNWISHED = "it has another place in the tree"

Claim = tuple[int, int]
"""Where we sit, and where the other does."""


class TreeAgreement(msgspec.Struct):
    """With one peer."""

    wanted: Claim | None = None
    """What we would say; it is said as soon as may be."""
    said: Claim | None = None
    heard: Claim | None = None
    """As it is seen from here."""
    is_leaving: bool = False
    """We took back what we had said, and wait for the answer."""
    epoch: int | None = None
    """That of the neighbour, while it is one."""


class TreeAgreements:
    def __init__(self) -> None:
        self.peers: dict[NodeId, TreeAgreement] = {}
        self.epochs = 0

    @property
    def neighbours(self) -> list[NodeId]:
        return [name for name, peer in self.peers.items() if peer.epoch is not None]

    def peer_up(self, name: NodeId) -> None:
        self.peers[name] = TreeAgreement()

    def peer_down(self, name: NodeId, reason: str) -> list[Effect]:
        peer = self.peers.pop(name, None)
        return [] if peer is None else self.take_down(name, peer, reason)

    def want(self, name: NodeId, claim: Claim | None) -> list[Effect]:
        """From now on this is how we see it; None where it is no neighbour."""
        peer = self.peers.get(name)
        if peer is None or peer.wanted == claim:
            return []
        peer.wanted = claim
        if peer.is_leaving:
            return []
        if peer.said is None:
            return self.say(name, peer)
        peer.is_leaving, peer.said, peer.heard = True, None, None
        return [*self.take_down(name, peer, UNWISHED), Send(name, TreeUnwish())]

    def wished(self, name: NodeId, wish: TreeWish) -> list[Effect]:
        peer = self.peers[name]
        if peer.is_leaving:
            # It was said before that end heard of our leaving; if it still holds, it is said again.
            return []
        taken_down = self.take_down(name, peer, UNWISHED) if peer.heard is not None else []
        peer.heard = wish.yours, wish.mine
        return [*taken_down, *self.bring_up(name, peer)]

    def unwished(self, name: NodeId) -> list[Effect]:
        peer = self.peers[name]
        if peer.is_leaving:
            peer.is_leaving = False
            return self.say(name, peer)
        taken_down = self.take_down(name, peer, UNWISHED)
        peer.said = peer.heard = None
        return [*taken_down, Send(name, TreeUnwish()), *self.say(name, peer)]

    def say(self, name: NodeId, peer: TreeAgreement) -> list[Effect]:
        if peer.wanted is None:
            return []
        peer.said = peer.wanted
        return [Send(name, TreeWish(*peer.said)), *self.bring_up(name, peer)]

    def bring_up(self, name: NodeId, peer: TreeAgreement) -> list[Effect]:
        if peer.said is None or peer.said != peer.heard or peer.epoch is not None:
            return []
        self.epochs += 1
        peer.epoch = self.epochs
        return [NeighbourUp(name, self.epochs)]

    def take_down(self, name: NodeId, peer: TreeAgreement, reason: str) -> list[Effect]:
        epoch, peer.epoch = peer.epoch, None
        return [] if epoch is None else [NeighbourDown(name, epoch, reason)]

    def check(self, key: int | None) -> None:
        for peer in self.peers.values():
            assert (peer.epoch is not None) == (peer.said is not None and peer.said == peer.heard)
            assert not (peer.is_leaving and (peer.said or peer.heard)), "something holds with whom we leave"
            assert peer.epoch is None or (peer.said is not None and peer.said[0] == key), "a neighbour at a former key"
