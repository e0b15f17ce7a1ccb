"""Which machine runs on which node: protocols by name, given to all nodes of a topology or to some."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tidings.machine.machine import Machine
from tidings.machine.streams import Stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.teaching.gossip import Gossip, GossipParams
from tidings.protocols.teaching.ping import Ping, PingParams
from tidings.sim.node import Draws, Make
from tidings.sim.topologies import Topology


class Part(msgspec.Struct, frozen=True):
    """A protocol that can be cast: its parameters, and how a machine of it is made for a node."""

    params: type[Any]
    machine: Callable[[list[NodeId], Any, Stream], Machine]


PARTS: dict[str, Part] = {"ping": Part(PingParams, Ping), "gossip": Part(GossipParams, Gossip)}
"""By the name under which a scenario asks for them."""


def cast(name: str, params: Any, topology: Topology, nodes: Iterable[NodeId] | None = None) -> dict[NodeId, Make]:
    """Give the protocol of this name to these nodes, or to all; each knows its neighbours in the topology."""
    if name not in PARTS:
        raise UsageError(f"there is no protocol {name!r}; there are {', '.join(PARTS)}")
    part, around = PARTS[name], topology.neighbours()

    def role(node: NodeId) -> Make:
        def make(draws: Draws) -> Machine:
            return part.machine(around[node], params, draws(name))

        return make

    return {node: role(node) for node in (topology.nodes if nodes is None else nodes)}
