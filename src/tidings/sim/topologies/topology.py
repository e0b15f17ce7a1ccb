"""A topology as a value: who there is, who is linked to whom, and how long each link is.

Nodes and edges stand in a fixed order, so whatever is drawn from a topology is drawn in the same order in every run. An
edge is undirected and is written once; it may know its length in kilometres (a map was at hand) and its one-way latency
in seconds. Where neither is known, the network rules of a scenario decide how long a message takes.

Routing protocols that need a tree take `spanning_tree()` of a graph; protocols that need everybody to be reachable take
`largest_part()`, since real maps are not always in one piece.
"""

import math
from collections import deque

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId

FIBRE_KM_PER_SECOND = 200_000.0
"""Light in glass goes at two thirds of its speed in a vacuum."""


class TopologyEdge(msgspec.Struct, frozen=True):
    a: NodeId
    b: NodeId
    length_km: float | None = None
    latency: float | None = None
    """Seconds from one end to the other. Where only the length is known, `delay` makes it of that."""

    @property
    def delay(self) -> float | None:
        if self.latency is None and self.length_km is not None:
            return self.length_km / FIBRE_KM_PER_SECOND
        return self.latency


class Topology(msgspec.Struct, frozen=True):
    """`Topology("pair", ("a", "b"), (Edge("a", "b"),))`; refuses loops, double edges and ends that are no nodes."""

    name: str
    nodes: tuple[NodeId, ...]
    edges: tuple[TopologyEdge, ...]

    def __post_init__(self) -> None:
        known = set(self.nodes)
        if len(known) < len(self.nodes):
            raise UsageError(f"topology {self.name}: a node is named twice")
        seen: set[tuple[NodeId, NodeId]] = set()
        for edge in self.edges:
            pair = (edge.a, edge.b) if edge.a < edge.b else (edge.b, edge.a)
            if edge.a == edge.b or pair in seen or not known.issuperset(pair):
                raise UsageError(f"topology {self.name}: {edge.a}-{edge.b} is a loop, a second edge, or ends nowhere")
            seen.add(pair)

    def neighbours(self) -> dict[NodeId, list[NodeId]]:
        """Of every node, in the order of the edges."""
        around: dict[NodeId, list[NodeId]] = {node: [] for node in self.nodes}
        for edge in self.edges:
            around[edge.a].append(edge.b)
            around[edge.b].append(edge.a)
        return around

    def parts(self) -> list[list[NodeId]]:
        """The connected pieces, each in the order in which a breadth-first search meets it."""
        around, met = self.neighbours(), set[NodeId]()
        pieces: list[list[NodeId]] = []
        for root in self.nodes:
            if root not in met:
                piece = [node for node, _ in breadth_first(around, root)]
                met.update(piece)
                pieces.append(piece)
        return pieces

    @property
    def is_connected(self) -> bool:
        return len(self.parts()) <= 1

    @property
    def is_tree(self) -> bool:
        return self.is_connected and len(self.edges) == len(self.nodes) - 1

    @property
    def degree_max(self) -> int:
        return max((len(others) for others in self.neighbours().values()), default=0)

    def largest_part(self) -> "Topology":
        """The piece with the most nodes; of two equal ones, the one that comes first."""
        pieces = self.parts()
        if len(pieces) <= 1:
            return self
        largest: list[NodeId] = max(pieces, key=len)
        kept = set(largest)
        nodes = tuple(node for node in self.nodes if node in kept)
        return Topology(self.name, nodes, tuple(edge for edge in self.edges if edge.a in kept))

    def spanning_tree(self, root: NodeId | None = None) -> "Topology":
        """A tree of fewest hops from `root` (the first node) to every other; edges keep their lengths."""
        if not self.nodes:
            return self
        if root is not None and root not in self.nodes:
            raise UsageError(f"topology {self.name} has no node {root!r} that could be the root of a tree")
        found = list(breadth_first(self.neighbours(), self.nodes[0] if root is None else root))
        if len(found) < len(self.nodes):
            raise UsageError(f"topology {self.name} is not in one piece; take the tree of its largest_part()")
        parents = {node: parent for node, parent in found if parent is not None}
        edges = [edge for edge in self.edges if parents.get(edge.a) == edge.b or parents.get(edge.b) == edge.a]
        return Topology(f"{self.name}-tree", self.nodes, tuple(edges))


def breadth_first(around: dict[NodeId, list[NodeId]], root: NodeId) -> list[tuple[NodeId, NodeId | None]]:
    """Every node that can be reached from `root`, with the node it was reached from."""
    met = {root}
    found: list[tuple[NodeId, NodeId | None]] = [(root, None)]
    waiting = deque([root])
    while waiting:
        node = waiting.popleft()
        for other in around[node]:
            if other not in met:
                met.add(other)
                found.append((other, node))
                waiting.append(other)
    return found


EARTH_RADIUS_KM = 6371.0


def great_circle_km(longitude: float, latitude: float, other_longitude: float, other_latitude: float) -> float:
    """Distance on the ground between two places given in degrees (haversine formula)."""
    phi, other_phi = math.radians(latitude), math.radians(other_latitude)
    half_phi, half_lambda = (other_phi - phi) / 2, math.radians(other_longitude - longitude) / 2
    h = math.sin(half_phi) ** 2 + math.cos(phi) * math.cos(other_phi) * math.sin(half_lambda) ** 2
    # Rounded to the metre, so that the last digit of a platform's sine cannot change a run.
    return round(2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(h))), 3)
