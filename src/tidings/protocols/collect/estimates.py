"""What a coordinator believes of paths and accesses, and how measured rates change it.

A path that was planned at f blocks a second and reached r is worth (Patel thesis, section 3.4.4.1):

    max(c, r)       where r >= f (1 - slack): it reached what was planned, so it may carry more, up to what was believed
    max(c / 2, r)   where it did not

Halving at most protects against what happens once; the slack, against seeing too much in a little less. A path over
which nothing was planned, or of which nothing could be measured, keeps its estimate. An access is never worth less than
what was seen to pass it, and a collection never lowers it.
"""

from collections.abc import Iterable, Mapping
from math import inf

from tidings.model.identity import NodeId
from tidings.planning.flows.graph import AccessRates, CollectionGraph, DataPath, FlowHost, Handback

Pair = tuple[NodeId, NodeId]


def updated_capacity(capacity: float, planned: float, reached: float | None, slack: float) -> float:
    if planned <= 0 or reached is None:
        return capacity
    if reached >= planned * (1 - slack):
        return max(capacity, reached)
    return max(capacity / 2, reached)


class Estimates:
    """In bits a second; a collection counts in blocks, of `block_bits` each."""

    def __init__(self, unknown: float) -> None:
        self.unknown = unknown
        self.paths: dict[Pair, float] = {}
        self.up: dict[NodeId, float] = {}
        self.down: dict[NodeId, float] = {}

    def path(self, sender: NodeId, receiver: NodeId) -> float:
        return self.paths.get((sender, receiver), self.unknown)

    def learn(self, sender: NodeId, receiver: NodeId, planned: float, reached: float | None, slack: float) -> None:
        known = self.path(sender, receiver)
        self.paths[sender, receiver] = updated_capacity(known, planned, reached, slack)

    def see_access(self, node: NodeId, up: float, down: float) -> None:
        """So much passed."""
        if node in self.up:
            self.up[node] = max(self.up[node], up)
        if node in self.down:
            self.down[node] = max(self.down[node], down)

    def graph(
        self,
        held: Mapping[NodeId, int],
        hosts: Iterable[NodeId],
        pairs: Iterable[Pair],
        block_bits: float,
        handbacks: Iterable[Handback] = (),
    ) -> CollectionGraph:
        members = {
            name: FlowHost(
                held.get(name, 0),
                (AccessRates(self.down.get(name, inf) / block_bits, self.up.get(name, inf) / block_bits),),
            )
            for name in hosts
        }
        paths = tuple(DataPath(x, y, self.path(x, y) / block_bits) for x, y in pairs if x in members and y in members)
        return CollectionGraph(members, paths, tuple(each for each in handbacks if each.blocks))
