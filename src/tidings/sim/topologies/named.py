"""Topologies by name, for commands and scenario files: a shape, a map, or a matrix.

- ring, chain, star, clique, balanced_tree, random_tree, bounded_tree, scale_free: with a number of nodes
- planetlab, seattle: so many hosts of the matrix, each linked to each
- zoo:Abilene, topohub:sndlib/polska: the largest part of a map; zoo-tree:Abilene: a spanning tree of that
- internet: 2852 autonomous systems
"""

import inspect
from collections.abc import Callable

from tidings.model.errors import UsageError
from tidings.sim.topologies.autonomous import internet
from tidings.sim.topologies.matrices import planetlab_matrix, seattle_matrix
from tidings.sim.topologies.shapes import SHAPES
from tidings.sim.topologies.topology import Topology
from tidings.sim.topologies.zoo import from_topohub, zoo

MATRICES: dict[str, Callable[[int, int], Topology]] = {
    "planetlab": lambda nodes, seed: planetlab_matrix().topology(nodes, seed),
    "seattle": lambda nodes, seed: seattle_matrix().topology(nodes, seed),
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
