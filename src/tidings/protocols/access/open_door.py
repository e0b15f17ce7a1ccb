"""The plainest access: whoever is linked is a peer, at once.

For runs of thousands of nodes, and wherever nobody has to be asked who he is. Nothing is said on a link before it is
used. Links are kept as access keeps them (`wanted.py`): those that are given, and those that other parts ask for; one
that nobody here wants any more is ended, and comes back if the other end wants it.

Guaranteed: up and down of one node come in turns. A wanted link is asked for until it is there.
"""

from random import Random

import msgspec

from tidings.machine.effects import CancelTimer, Disconnect, Effect
from tidings.machine.inputs import Fired, Input, LinkDown, LinkUp, Signal
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.access.params import check_spans
from tidings.protocols.access.wanted import WantedLinks
from tidings.pubsub.signals import LinkFailed, LinkUnwanted, LinkWanted, PeerDown, PeerUp

STARTED_AGAIN = "started again"
NOT_WANTED = "the link is not wanted any more"
REFUSED = "as many links as are allowed are kept already, or it is the node itself"


class OpenDoorParams(msgspec.Struct, frozen=True, kw_only=True):
    links: tuple[NodeId, ...] = ()
    """Nodes to which a link is kept. One end of a link is enough."""

    links_wanted_max: int = 1000
    """Links that are kept at the same time, those that are asked for at run time included."""

    retry_first: float = 0.1
    retry_max: float = 1.0
    """As in `AccessParams`."""

    def __post_init__(self) -> None:
        check_spans(self.retry_first, self.retry_first, self.retry_max)
        if self.links_wanted_max < len(self.links):
            raise UsageError(f"links_wanted_max: {self.links_wanted_max}, but links names {len(self.links)}; raise it")


class OpenDoor:
    """`OpenDoor("a", OpenDoorParams(links=("b",)), rng)`."""

    messages: tuple[type, ...] = ()
    hears: tuple[type, ...] = (LinkUp, LinkDown, LinkWanted, LinkUnwanted)
    tells: tuple[type[Signal], ...] = (PeerUp, PeerDown, LinkFailed)

    def __init__(self, node_id: NodeId, params: OpenDoorParams, rng: Random) -> None:
        self.node_id, self.params = node_id, params
        self.wanted = WantedLinks(params.links, params.retry_first, params.retry_max, rng)
        self.peers: dict[NodeId, int] = {}
        """With the epochs of their links."""

    def start(self, now: float) -> list[Effect]:
        downs = [PeerDown(peer, epoch, STARTED_AGAIN) for peer, epoch in self.peers.items()]
        self.peers.clear()
        self.wanted.restart()
        return [*downs, *map(self.wanted.dial, self.wanted.users)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case LinkUp(node, epoch) if epoch > self.peers.get(node, -1):
                return self.link_up(node, epoch)
            case LinkDown(node, epoch, reason) if epoch >= self.peers.get(node, -1):
                return self.link_down(now, node, reason)
            case Fired(("connect", str(node))) if node in self.wanted and node not in self.peers:
                return [self.wanted.dial(node)]
            case LinkWanted(contact, user):
                return self.want(contact.node, user)
            case LinkUnwanted(broker, user) if self.wanted.remove(broker, user):
                is_there = broker in self.peers or self.wanted.is_calling(broker)
                ending: list[Effect] = [Disconnect(broker, NOT_WANTED)] if is_there else []
                return [CancelTimer(("connect", broker)), *ending]
        return []

    def want(self, node: NodeId, user: str) -> list[Effect]:
        is_too_many = node not in self.wanted and len(self.wanted) >= self.params.links_wanted_max
        if node == self.node_id or is_too_many:
            return [LinkFailed(node, REFUSED, is_refused=True)]
        is_new = self.wanted.add(node, user)
        return [self.wanted.dial(node)] if is_new and node not in self.peers else []

    def link_up(self, node: NodeId, epoch: int) -> list[Effect]:
        was_dialled = self.wanted.heard_of(node)
        if was_dialled and node not in self.wanted:
            return [Disconnect(node, NOT_WANTED)]
        replaced: list[Effect] = [PeerDown(node, self.peers[node], STARTED_AGAIN)] if node in self.peers else []
        self.peers[node] = epoch
        self.wanted.came(node)
        return [*replaced, PeerUp(node, epoch, is_configured=self.wanted.is_configured(node))]

    def link_down(self, now: float, node: NodeId, reason: str) -> list[Effect]:
        self.wanted.heard_of(node)
        epoch = self.peers.pop(node, None)
        effects: list[Effect] = [] if epoch is None else [PeerDown(node, epoch, reason)]
        if node in self.wanted:
            effects.append(self.wanted.failed(now, node))
            if epoch is None and self.wanted.is_on_demand(node):
                effects.append(LinkFailed(node, reason))
        return effects

    def why_unsettled(self) -> str:
        waiting = self.wanted.untried()
        return f"waiting for a first answer of {', '.join(waiting)}" if waiting else ""

    def check(self) -> None:
        assert len(self.wanted) <= self.params.links_wanted_max, "more links are wanted than links_wanted_max allows"
        assert all(self.wanted.users.values()), "a link is kept that nobody wants"
