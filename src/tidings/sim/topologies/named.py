"""Topologies by name, for commands and scenario files: a shape, a map, or a matrix.

- ring, chain, star, clique, balanced_tree, random_tree, bounded_tree, scale_free: with a number of nodes
- planetlab, seattle: so many hosts of the matrix, each linked to each
- zoo:Abilene, topohub:sndlib/polska: the largest part of a map; zoo-tree:Abilene: a spanning tree of that
- internet: 2852 autonomous systems

The graph of autonomous systems is made like the graph that
`network/internet.py` takes latencies from, for protocols that run between AS rather than between hosts.
"""

import inspect
from collections.abc import Callable

from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.sim.network.internet import build_graph
from tidings.sim.topologies.shapes import SHAPES, node_names
from tidings.sim.topologies.topology import Topology, TopologyEdge
from tidings.sim.topologies.zoo import from_topohub, zoo
from tidings.workloads.latencies import LatencyMatrix, planetlab_matrix, seattle_matrix


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
