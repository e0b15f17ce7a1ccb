"""What an overlay is to the node around it.

An overlay decides which brokers are neighbours, and tells routing by signals when one comes and when one goes. How it
decides is its own affair: by a tree that it builds (`spanning_tree.py`), by taking every link as it is
(`AllPeers`), or as somebody says (`scripted.py`). Two things about it are known before it runs, because routing
that needs more is refused when a node is built: how much it tells of a change (`level`), and whether its neighbours
form a tree (`is_tree`).
"""

from typing import Protocol, runtime_checkable

import msgspec

from tidings.machine.effects import Effect
from tidings.machine.inputs import Input, Signal
from tidings.machine.node import Part
from tidings.model.identity import NodeId
from tidings.pubsub.signals import Level, NeighbourDown, NeighbourUp, PeerDown, PeerUp


class Overlay(Part, Protocol):
    @property
    def level(self) -> Level:
        """How much it tells of a change; with what it tells comes that promise."""
        ...

    @property
    def is_tree(self) -> bool:
        """Whether the neighbours of all brokers are, when nothing changes, the links of a tree."""
        ...

    @property
    def neighbours(self) -> list[NodeId]: ...

    def why_unsettled(self) -> str:
        """What is still to be found out before the neighbours are those that there will be; empty when nothing is."""
        ...


@runtime_checkable
class RootedOverlay(Overlay, Protocol):
    """One whose tree has a root."""

    def tell_places(self) -> None:
        """From now on `Placed` is told: somebody hears it."""
        ...


class AllPeersParams(msgspec.Struct, frozen=True, tag_field="kind", tag="all-peers"):
    is_tree: bool = False
    """Whether whoever makes the links sees to it that they form a tree, as routing with tables needs it."""


class AllPeers:
    """`AllPeers("b")`: every peer is a neighbour. For routing that finds its own way through any graph, and as the
    baseline next to the spanning tree. It tells what access tells, under another name. Both ends of a link have
    accepted each other when access calls them peers, and a link keeps its order; so nothing has to be agreed on."""

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
