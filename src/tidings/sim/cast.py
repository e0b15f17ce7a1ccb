"""Which machine runs on which node: nodes by name, given to all nodes of a topology or to some.

    ping, gossip         the teaching protocols; each node knows its neighbours in the topology
    broker               as `tidings broker` starts it; its links are those to the brokers it is linked with
    client               an application's end; the brokers that it is linked with serve it, unless it names others
    transport-client     the same, with order, recovery and congestion control
    dispatcher           overlay and routing with the application in the same node, linked with other dispatchers

The parameters of a broker or a dispatcher say which overlay and which routing it is made of, by their `kind`
(`nodes/choices.py`).
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from tidings.machine.node import Machine
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.nodes.transport_client import TransportClient
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.teaching.gossip import Gossip, GossipParams
from tidings.protocols.teaching.ping import Ping, PingParams
from tidings.protocols.transport.params import TransportParams
from tidings.sim.node import Draws, Make
from tidings.sim.topologies import Topology


class Surroundings(msgspec.Struct, frozen=True):
    """What a node knows of the topology."""

    node: NodeId
    neighbours: tuple[NodeId, ...]
    brokers: tuple[NodeId, ...]
    """Those of its neighbours that are brokers."""
    links: tuple[NodeId, ...]
    """Neighbours of its own kind to which it is for this node to ask for a link: one end of each edge does."""


class ClientRole(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a client in a scenario."""

    brokers: tuple[NodeId, ...] = ()
    """Where to be served, in this order; without them by the brokers that it is linked with."""
    delivery: SessionParams = SessionParams()

    def access(self, around: Surroundings) -> GuestParams:
        if not self.brokers and not around.brokers:
            raise UsageError(f"role: the client {around.node!r} is linked with no broker; link it, or name its brokers")
        return GuestParams(brokers=self.brokers or around.brokers)


class TransportClientRole(ClientRole, frozen=True, kw_only=True, forbid_unknown_fields=True):
    transport: TransportParams = TransportParams()


class NodeKind(msgspec.Struct, frozen=True):
    """A node that can be cast: its parameters, and how its machine is made."""

    params: type[Any]
    make: Callable[[Surroundings, Any, Draws], Machine]


def make_broker(around: Surroundings, params: BrokerParams, draws: Draws) -> Machine:
    links = dict.fromkeys((*params.access.links, *around.links))
    return BrokerNode(around.node, replace(params, access=replace(params.access, links=tuple(links))), draws("access"))


def make_dispatcher(around: Surroundings, params: DispatcherParams, draws: Draws) -> Machine:
    links = dict.fromkeys((*params.links.links, *around.links))
    return Dispatcher(around.node, replace(params, links=replace(params.links, links=tuple(links))), draws("links"))


def make_client(around: Surroundings, params: ClientRole, draws: Draws) -> Machine:
    return ClientNode(around.node, params.access(around), params.delivery, draws("access"))


def make_transport_client(around: Surroundings, params: TransportClientRole, draws: Draws) -> Machine:
    access, rng = params.access(around), draws("access")
    return TransportClient(around.node, access, params.delivery, rng, params.transport, draws("transport"))


KINDS: dict[str, NodeKind] = {
    "ping": NodeKind(PingParams, lambda around, params, draws: Ping([*around.neighbours], params, draws("ping"))),
    "gossip": NodeKind(
        GossipParams, lambda around, params, draws: Gossip([*around.neighbours], params, draws("gossip"))
    ),
    "broker": NodeKind(BrokerParams, make_broker),
    "client": NodeKind(ClientRole, make_client),
    "transport-client": NodeKind(TransportClientRole, make_transport_client),
    "dispatcher": NodeKind(DispatcherParams, make_dispatcher),
}
"""By the name under which a scenario asks for them."""

CLIENTS = ("client", "transport-client")
APPLICATIONS = (*CLIENTS, "dispatcher")
"""Those to which an application says what it advertises, subscribes and publishes."""

Roles = Mapping[NodeId, tuple[str, Any]]
"""For each node its kind, and the parameters of it."""


def cast(name: str, params: Any, topology: Topology, nodes: Iterable[NodeId] | None = None) -> dict[NodeId, Make]:
    """Give these nodes, or all, the machine of this name."""
    return cast_all(dict.fromkeys(topology.nodes if nodes is None else nodes, (name, params)), topology)


def cast_all(roles: Roles, topology: Topology) -> dict[NodeId, Make]:
    around, asked = topology.neighbours(), [(edge.a, edge.b) for edge in topology.edges]
    kind_of = {node: name for node, (name, _) in roles.items()}
    made: dict[NodeId, Make] = {}
    for node, (name, params) in roles.items():
        if name not in KINDS:
            raise UsageError(f"there is no protocol {name!r}; there are {', '.join(KINDS)}")
        surroundings = Surroundings(
            node,
            tuple(around[node]),
            tuple(each for each in around[node] if kind_of.get(each) == "broker"),
            tuple(b for a, b in asked if a == node and kind_of.get(b) == name),
        )
        if name in CLIENTS:
            # Said now, and not in the middle of the run.
            params.access(surroundings)
        made[node] = partial(KINDS[name].make, surroundings, params)
    return made
