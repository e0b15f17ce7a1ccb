"""Topologies that are made, not measured: the regular ones, and random ones drawn from a seed.

Nodes are called n0, n1, ... in the order in which they stand. A random shape draws from a stream of its own, named
after the shape, so the same seed gives the same graph whatever else a run draws.

| shape         | edges for n nodes       | drawn |
|---|---|---|
| chain, star   | n - 1                   | |
| ring          | n (n at least 3)        | |
| clique        | n (n - 1) / 2           | |
| balanced_tree | n - 1                   | |
| random_tree   | n - 1                   | uniform among all n**(n-2) trees on named nodes |
| bounded_tree  | n - 1                   | each node joins an earlier one that has a place free |
| scale_free    | m (m + 1) / 2 + m (n - m - 1) | each node joins m earlier ones, preferring those with many edges |

`make_topology` makes them by name, for commands and scenario files, and maps and matrices too:

- ring, chain, star, clique, balanced_tree, random_tree, bounded_tree, scale_free: with a number of nodes
- planetlab, seattle: so many hosts of the matrix, each linked to each
- zoo:Abilene, topohub:sndlib/polska: the largest part of a map; zoo-tree:Abilene: a spanning tree of that
- internet: 2852 autonomous systems

The graph of autonomous systems is made like the one that `network/internet.py` takes latencies from,
for protocols that run between AS rather than between hosts.
"""

import inspect
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from tidings.machine.streams import RandomStream, random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.network.internet import build_graph
from tidings.sim.topologies.topology import Topology, TopologyEdge
from tidings.sim.topologies.zoo import from_topohub, zoo
from tidings.workloads.latencies import LatencyMatrix, planetlab_matrix, seattle_matrix

NODES_MAX = 100_000
"""Nodes of a made topology."""

CLIQUE_NODES_MAX = 2_000
"""A clique has a number of edges that grows with the square of this."""


def chain(nodes: int) -> Topology:
    return join("chain", nodes, ((place - 1, place) for place in range(1, nodes)))


def star(nodes: int) -> Topology:
    """All others around n0."""
    return join("star", nodes, ((0, place) for place in range(1, nodes)))


def ring(nodes: int) -> Topology:
    require("nodes", nodes, 3, NODES_MAX)
    return join("ring", nodes, ((place, (place + 1) % nodes) for place in range(nodes)))


def clique(nodes: int) -> Topology:
    require("nodes", nodes, 1, CLIQUE_NODES_MAX)
    return join("clique", nodes, ((a, b) for a in range(nodes) for b in range(a + 1, nodes)))


def balanced_tree(nodes: int, degree: int = 3) -> Topology:
    """No node has more than `degree` neighbours; level after level is filled, so the depth is the least possible."""
    require("degree", degree, 2, NODES_MAX)

    def parent(place: int) -> int:
        return 0 if place <= degree else (place - 2) // (degree - 1)

    return join("balanced_tree", nodes, ((parent(place), place) for place in range(1, nodes)))


def random_tree(nodes: int, seed: int) -> Topology:
    """Uniform among all trees: a random Pruefer sequence, decoded."""
    require("nodes", nodes, 1, NODES_MAX)
    rng = random_stream(seed, "topology", "random_tree")
    return join("random_tree", nodes, decode_pruefer([rng.below(nodes) for _ in range(nodes - 2)], nodes))


def decode_pruefer(sequence: list[int], nodes: int) -> list[tuple[int, int]]:
    """The tree of this sequence. A node occurs in it once less than it has edges, so who is left out is a leaf."""
    if nodes < 2:
        return []
    missing = [1] * nodes
    for place in sequence:
        missing[place] += 1
    leaves = [place for place in range(nodes) if missing[place] == 1]
    heapify(leaves)
    edges = []
    for place in sequence:
        edges.append((heappop(leaves), place))
        missing[place] -= 1
        if missing[place] == 1:
            heappush(leaves, place)
    return [*edges, (heappop(leaves), heappop(leaves))]


def bounded_tree(nodes: int, seed: int, degree: int = 3) -> Topology:
    """A random tree in which no node has more than `degree` neighbours."""
    require("degree", degree, 2, NODES_MAX)
    rng = random_stream(seed, "topology", "bounded_tree")
    free, degrees, edges = [0], [0] * max(nodes, 1), []
    for place in range(1, nodes):
        chosen = rng.below(len(free))
        parent = free[chosen]
        edges.append((parent, place))
        degrees[place] = 1
        degrees[parent] += 1
        if degrees[parent] == degree:
            free[chosen] = free[-1]
            free.pop()
        free.append(place)
    return join("bounded_tree", nodes, edges)


def scale_free(nodes: int, seed: int, edges_each: int = 2) -> Topology:
    """Barabasi and Albert 1999: begins as a clique of `edges_each + 1`; few nodes end up with very many edges."""
    require("edges_each", edges_each, 1, NODES_MAX)
    require("nodes", nodes, edges_each + 1, NODES_MAX)
    rng = random_stream(seed, "topology", "scale_free")
    first = edges_each + 1
    edges = [(a, b) for a in range(first) for b in range(a + 1, first)]
    ends = [place for edge in edges for place in edge]
    for place in range(first, nodes):
        for other in draw_distinct(rng, ends, edges_each):
            edges.append((other, place))
            ends += (other, place)
    return join("scale_free", nodes, edges)


def draw_distinct(rng: RandomStream, ends: list[int], count: int) -> list[int]:
    """Different members; one that occurs often in `ends` is drawn more often."""
    drawn: dict[int, None] = {}
    available = len(ends)
    while len(drawn) < count:
        drawn[ends[rng.below(available)]] = None
    return sorted(drawn)


def join(name: str, nodes: int, edges: Iterable[tuple[int, int]]) -> Topology:
    require("nodes", nodes, 1, NODES_MAX)
    names = node_names(nodes)
    return Topology(name, tuple(names), tuple(TopologyEdge(names[a], names[b]) for a, b in edges))


def node_names(count: int) -> list[NodeId]:
    return [f"n{place}" for place in range(count)]


def require(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UsageError(f"{name}: {value} is not possible here; give {least} to {most}")


SHAPES: dict[str, Callable[..., Topology]] = {
    "chain": chain,
    "star": star,
    "ring": ring,
    "clique": clique,
    "balanced_tree": balanced_tree,
    "random_tree": random_tree,
    "bounded_tree": bounded_tree,
    "scale_free": scale_free,
}


def internet(seed: int) -> Topology:
    """2852 AS, transit AS first and stubs last; two links between the same two are one, the shorter."""
    links = build_graph(random_stream(seed, "topology", "internet"))
    names = [f"as{number}" for number in range(len(links))]
    shortest: dict[tuple[int, int], float] = {}
    for one, others in enumerate(links):
        for other, round_trip in others:
            if one < other:
                shortest[one, other] = min(round_trip, shortest.get((one, other), round_trip))
    edges = [
        TopologyEdge(names[one], names[other], None, round_trip / 2) for (one, other), round_trip in shortest.items()
    ]
    return Topology("internet", tuple(names), tuple(edges))


MATRICES: dict[str, Callable[[int, int], Topology]] = {
    "planetlab": lambda nodes, seed: linked_hosts(planetlab_matrix(), nodes, seed),
    "seattle": lambda nodes, seed: linked_hosts(seattle_matrix(), nodes, seed),
}

INTERNET = "internet"

MAPS: dict[str, Callable[[str], Topology]] = {
    "zoo": lambda name: zoo(name).largest_part(),
    "zoo-tree": lambda name: zoo(name).largest_part().spanning_tree(),
    "topohub": lambda key: from_topohub(key).largest_part(),
}


def make_topology(name: str, nodes: int, seed: int, **settings: int) -> Topology:
    """`settings` go to the shape: the degree of a tree, the edges of a node in a scale-free graph."""
    if name in SHAPES:
        shape = SHAPES[name]
        parameters = inspect.signature(shape).parameters
        unknown = [setting for setting in settings if setting not in parameters]
        if unknown:
            allowed = ", ".join(each for each in parameters if each != "seed")
            raise UsageError(f"{unknown[0]}: a {name} does not take it; it takes {allowed}")
        if "seed" in parameters:
            settings["seed"] = seed
        return shape(nodes, **settings)
    if name in MATRICES:
        return MATRICES[name](nodes, seed)
    if name == INTERNET:
        return internet(seed)
    source, _, key = name.partition(":")
    if source in MAPS and key:
        return MAPS[source](key)
    maps = ", ".join(f"{each}:NAME" for each in MAPS)
    raise UsageError(f"there is no topology {name!r}; give {', '.join([*SHAPES, *MATRICES, INTERNET])}, or {maps}")


def linked_hosts(measured: LatencyMatrix, nodes: int, seed: int) -> Topology:
    """Everybody linked to everybody: `nodes` different hosts, drawn at random, at half their mean round trip."""
    rows, names = measured.rows, node_names(nodes)
    if not 1 <= nodes <= len(rows):
        raise UsageError(f"nodes: {nodes} is not possible here; {measured.name} has {len(rows)} hosts")
    chosen = random_stream(seed, "topology", measured.name).sample(range(len(rows)), nodes)
    edges = [
        TopologyEdge(names[a], names[b], None, (rows[i][j] + rows[j][i]) / 4)
        for a, i in enumerate(chosen)
        for b, j in enumerate(chosen[a + 1 :], a + 1)
    ]
    return Topology(measured.name, tuple(names), tuple(edges))
