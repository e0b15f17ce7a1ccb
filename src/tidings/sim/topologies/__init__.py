"""Topologies: made ones, maps of real networks, hosts at measured round trips."""

from tidings.sim.topologies.shapes import (
    SHAPES,
    balanced_tree,
    bounded_tree,
    chain,
    clique,
    internet,
    linked_hosts,
    random_tree,
    ring,
    scale_free,
    star,
)
from tidings.sim.topologies.topology import Topology, TopologyEdge
from tidings.sim.topologies.zoo import from_topohub, zoo

__all__ = [
    "SHAPES",
    "Topology",
    "TopologyEdge",
    "balanced_tree",
    "bounded_tree",
    "chain",
    "clique",
    "from_topohub",
    "internet",
    "linked_hosts",
    "random_tree",
    "ring",
    "scale_free",
    "star",
    "zoo",
]
