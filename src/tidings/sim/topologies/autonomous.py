"""The graph of autonomous systems of a synthetic internet, as a topology.

It is made like the graph that `network/internet.py` takes latencies from, for protocols that run between AS rather than
between hosts.
"""

from tidings.machine.streams import random_stream
from tidings.sim.network.internet import build_graph
from tidings.sim.topologies.topology import Topology, TopologyEdge


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
