"""Topologies: made ones, maps of real networks, matrices of measured round trips."""

from tidings.sim.topologies.autonomous import internet
from tidings.sim.topologies.matrices import Matrix, planetlab_matrix, read_matrix, seattle_matrix
from tidings.sim.topologies.shapes import (
    SHAPES,
    balanced_tree,
    bounded_tree,
    chain,
    clique,
    random_tree,
    ring,
    scale_free,
    star,
)
from tidings.sim.topologies.topology import Edge, Topology
from tidings.sim.topologies.zoo import from_topohub, zoo

__all__ = [
    "SHAPES",
    "Edge",
    "Matrix",
    "Topology",
    "balanced_tree",
    "bounded_tree",
    "chain",
    "clique",
    "from_topohub",
    "internet",
    "planetlab_matrix",
    "random_tree",
    "read_matrix",
    "ring",
    "scale_free",
    "seattle_matrix",
    "star",
    "zoo",
]
