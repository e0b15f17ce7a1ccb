"""Where a broker stands in a WiTree: its neighbours, which of them is above it, its leader, and the links to them.

The tree has no natural direction: routing sees neighbours only. That one of them is *above* says where the way to the
leader goes, and it changes when a part of the tree is taken in at another place (`RootHandover`), while links and
neighbours stay.

    leader      nobody is above us, and the tree is ours
    attached    somebody is above us
    orphan      nobody is above us, and we are looking; there is one in each part without a leader

Links. Whoever asked to join keeps the link (`LinkWanted`), whichever way it is turned later. A link has the name of the
request that made it, at both ends; under that name its loss is told to routing, and the link that takes its place.

Source: dynamic-topologies.md 3.11.3, 2.3; D-3, D-5, D-6.
"""

import msgspec

from tidings.machine.effects import Effect, Send
from tidings.machine.message import Message
from tidings.model.bounds import RADIO_DISTANCE_MAX
from tidings.model.identity import NodeId
from tidings.protocols.overlay.witree.messages import TreeHello
from tidings.protocols.overlay.witree.params import WiTreeParams
from tidings.pubsub.notes import LinkChanged
from tidings.pubsub.signals import LinkUnwanted, NeighbourDown, NeighbourUp, ReconfigurationId

USER = "overlay"
"""Under which name it asks access for links."""

NAME_SHOWN_CHARS = 200
"""Of the name of a broker, in that of a link."""

RouteKey = tuple[NodeId, int]
"""Who requests, and the number of the request."""


class Branch(msgspec.Struct):
    """A neighbour."""

    epoch: int
    link: ReconfigurationId
    """The name under which its loss is told."""
    is_ours: bool
    """We asked for the link."""
    heard_at: float
    is_asked: bool = False
    """It was silent for too long, and we asked whether it is there."""


class LostBranch(msgspec.Struct, frozen=True):
    neighbour: NodeId
    at: float


class Branches:
    def __init__(self, node_id: NodeId, params: WiTreeParams) -> None:
        self.node_id, self.params = node_id, params
        self.peers: dict[NodeId, None] = {}
        """Who is linked."""
        self.neighbours: dict[NodeId, Branch] = {}
        self.above: NodeId | None = None
        self.is_leader = False
        self.leader: NodeId = ""
        """The last that we heard of, also while our part has none."""
        self.sequence, self.distance = 0, RADIO_DISTANCE_MAX
        self.mark: RouteKey | None = None
        """The part that we are in has no leader, and this is its request."""
        self.hello_at = 0.0
        """When we heard of our leader last."""
        self.epochs = self.numbers = 0
        self.lost: dict[ReconfigurationId, LostBranch] = {}
        """Links to those above us that are lost, until we hear which took their place; the oldest are forgotten."""

    @property
    def is_attached(self) -> bool:
        """As far as we know: who is above us may have lost its leader."""
        return self.is_leader or self.above is not None

    @property
    def below(self) -> list[NodeId]:
        return [name for name in self.neighbours if name != self.above]

    def next_number(self) -> int:
        self.numbers += 1
        return self.numbers

    # Neighbours come and go.

    def take(self, now: float, node: NodeId, link: ReconfigurationId, is_ours: bool) -> int:
        """It is a neighbour from now on; which of the two is above is said elsewhere."""
        self.epochs += 1
        self.neighbours[node] = Branch(self.epochs, link, is_ours, heard_at=now)
        return self.epochs

    def take_above(self, now: float, node: NodeId, number: int, replaces: ReconfigurationId) -> list[Effect]:
        self.above, self.is_leader, self.mark = node, False, None
        epoch = self.take(now, node, link_name(self.node_id, number), is_ours=True)
        return [*changed(replaces), NeighbourUp(node, epoch, replaces)]

    def take_below(self, now: float, node: NodeId, number: int, replaces: ReconfigurationId) -> list[Effect]:
        """What stood in the place of the new link is gone, whether we have noticed or not (D-6)."""
        stale = [name for name in self.below if replaces and self.neighbours[name].link == replaces]
        downs = [effect for name in stale for effect in self.lose(now, name, REPLACED)]
        up = NeighbourUp(node, self.take(now, node, link_name(node, number), False), replaces)
        return [*downs, *changed(replaces), up]

    def lose(self, now: float, node: NodeId, reason: str) -> list[Effect]:
        """Whoever was below it has nobody above now."""
        branch = self.neighbours.pop(node)
        if self.above == node:
            self.above = None
            self.lost[branch.link] = LostBranch(node, now)
            if len(self.lost) > self.params.requests_max:
                del self.lost[next(iter(self.lost))]
        down: list[Effect] = [*changed(branch.link), NeighbourDown(node, branch.epoch, reason, branch.link)]
        return [*down, LinkUnwanted(node, USER)] if branch.is_ours else down

    # Our leader.

    def follow(self, now: float, leader: NodeId, sequence: int, distance: int) -> bool:
        """Of these we hear from above. Whether it is the first hello with this number."""
        is_news = (leader, sequence) != (self.leader, self.sequence)
        if is_news:
            self.hello_at = now
        self.leader, self.sequence, self.distance, self.mark = leader, sequence, distance, None
        return is_news

    def lead(self) -> None:
        if self.leader != self.node_id:
            self.leader, self.sequence = self.node_id, 0
        self.sequence += 1
        self.is_leader, self.distance, self.mark = True, 0, None

    def tell_below(self, message: Message) -> list[Effect]:
        return [Send(node, message) for node in self.below]

    def tell_leader(self) -> list[Effect]:
        """To those below, and by them to theirs."""
        if self.distance >= RADIO_DISTANCE_MAX:
            return []
        return self.tell_below(TreeHello(self.leader, self.sequence, self.distance + 1))

    def check(self) -> None:
        assert self.above is None or self.above in self.neighbours, "below somebody who is no neighbour"
        assert not (self.is_leader and self.above is not None), "a leader below somebody"
        assert self.node_id not in self.neighbours, "a neighbour of itself"
        assert all(node in self.peers for node in self.neighbours), "a neighbour without a link"
        assert len(self.neighbours) <= self.params.neighbours_max + 1, "more neighbours than neighbours_max"
        assert len(self.lost) <= self.params.requests_max, "more lost links than are remembered"


REPLACED = "replaced by another link"


def changed(reconfiguration: ReconfigurationId) -> list[Effect]:
    """For the trace: what brokers tell each other from here on has to do with it."""
    return [LinkChanged(reconfiguration)] if reconfiguration else []


def link_name(asker: NodeId, number: int) -> ReconfigurationId:
    return f"{asker[:NAME_SHOWN_CHARS]}/{number:x}"
