"""Trees of brokers with few links each and a given longest way: the source gives sizes and diameters, and no maps.

    low_degree(46, diameter=15)        # E7; 46 and 11, 12 and 5 for the experiments on recovery

At most three neighbours each. Trees are drawn until one has the diameter, so the same arguments give the same tree.
"""

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.topologies.shapes import bounded_tree
from tidings.sim.topologies.topology import Topology, breadth_first

DEGREE = 3
TREES_MAX = 10_000
"""How many are drawn before we say that there is none."""


def low_degree(brokers: int, diameter: int, first_seed: int = 1) -> Topology:
    for seed in range(first_seed, first_seed + TREES_MAX):
        topology = bounded_tree(brokers, seed, DEGREE)
        if longest_way(topology)[2] == diameter:
            return topology
    raise UsageError(f"diameter: no tree of {brokers} brokers with {diameter} links from end to end was found")


def longest_way(tree: Topology) -> tuple[NodeId, NodeId, int]:
    """Two brokers that no others are farther apart than, and the links between them."""
    one, _ = farthest(tree, tree.nodes[0])
    other, links = farthest(tree, one)
    return one, other, links


def farthest(tree: Topology, root: NodeId) -> tuple[NodeId, int]:
    depths = {root: 0}
    for node, parent in breadth_first(tree.neighbours(), root):
        if parent is not None:
            depths[node] = depths[parent] + 1
    # The first of several.
    return max(depths.items(), key=lambda item: item[1])
