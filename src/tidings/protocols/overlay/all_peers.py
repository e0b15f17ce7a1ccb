"""The plainest overlay: every peer is a neighbour.

For routing that finds its own way through any graph, and as the baseline next to the spanning tree. It tells what
access tells, under another name. Both ends of a link have accepted each other when access calls them peers, and a link
keeps its order; so nothing has to be agreed on.
"""

import msgspec

from tidings.machine.effects import Effect
from tidings.machine.inputs import Input, Signal
from tidings.model.identity import NodeId
from tidings.pubsub.signals import Level, NeighbourDown, NeighbourUp, PeerDown, PeerUp


class AllPeersParams(msgspec.Struct, frozen=True, tag_field="kind", tag="all-peers"):
    is_tree: bool = False
    """Whether whoever makes the links sees to it that they form a tree, as routing with tables needs it."""


class AllPeers:
    """`AllPeers("b")`: every peer is a neighbour."""

    level = Level.LINKS
    messages: tuple[type, ...] = ()
    hears: tuple[type, ...] = (PeerUp, PeerDown)
    tells: tuple[type[Signal], ...] = (NeighbourUp, NeighbourDown)

    def __init__(self, node_id: NodeId, params: AllPeersParams | None = None) -> None:
        self.node_id, self.params = node_id, params or AllPeersParams()
        self.peers: dict[NodeId, int] = {}

    @property
    def is_tree(self) -> bool:
        return self.params.is_tree

    @property
    def neighbours(self) -> list[NodeId]:
        return list(self.peers)

    def start(self, now: float) -> list[Effect]:
        downs: list[Effect] = [NeighbourDown(*peer, "started again") for peer in self.peers.items()]
        self.peers.clear()
        return downs

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case PeerUp(broker, epoch) if broker not in self.peers:
                self.peers[broker] = epoch
                return [NeighbourUp(broker, epoch)]
            case PeerDown(broker, epoch, reason) if broker in self.peers:
                del self.peers[broker]
                return [NeighbourDown(broker, epoch, reason)]
        return []

    def why_unsettled(self) -> str:
        """Nothing is ever to be found out."""
        return ""

    def check(self) -> None:
        pass
