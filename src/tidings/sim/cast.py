"""What scenarios are made of: who plays which part, rough networks, publications, and nodes that come and go.

A part is a machine, known by name, and is given to all nodes of a topology or to some:

    ping, gossip         the teaching protocols; each node knows its neighbours in the topology
    broker               as `tidings broker` starts it; its links are those to the brokers it is linked with
    client               an application's end; the brokers that it is linked with serve it, unless it names others
    transport-client     the same, with order, recovery and congestion control
    dispatcher           overlay and routing with the application in the same node, linked with other dispatchers

The parameters of a broker or a dispatcher say which overlay and which routing it is made of, by their `kind`
(`nodes/choices.py`).

Each of the others is a frozen value with parameters that a scenario file can set, and one method that makes of it what
a run needs: rules, timed inputs, faults. Trouble ends: a rough network becomes calm at the end of a scenario's
duration, so that what a protocol promises "once messages arrive" can be judged.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tidings.machine.effects import Transport
from tidings.machine.inputs import Input
from tidings.machine.node import Machine
from tidings.model.bounds import CONTACTS_MAX
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.nodes.transport_client import TransportClient
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.overlay.witree.params import WiTreeParams
from tidings.protocols.teaching.gossip import Gossip, GossipParams
from tidings.protocols.teaching.ping import Ping, PingParams
from tidings.protocols.transport.params import TransportParams
from tidings.pubsub.requests import Publish
from tidings.sim.faults import Fault, crashes_of
from tidings.sim.network.internet import Internet
from tidings.sim.network.latency import Constant, Exponential, Fluctuating, Jittered, Matrix, Pareto
from tidings.sim.network.loss import Duplication, Loss, Reordering
from tidings.sim.network.radio import Earshot
from tidings.sim.network.rule import Fates, Rule, Wrapper, check_positive, check_probability
from tidings.sim.node import Draws, Make
from tidings.sim.topologies import Topology
from tidings.workloads.churn import (
    FOR_EVER,
    Absence,
    Spread,
    Weibull,
    mass_failure,
    read_churn,
    session_churn,
    traced_churn,
)
from tidings.workloads.plain import EVENTS_MAX, Scattered, scattered
from tidings.workloads.workload import Workload


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
    is_named: bool = False
    """Whether the application chose its name, so that a process which lost its memory comes back under the same one: as
    another life of it."""

    def life(self, draws: Draws) -> str:
        return f"{draws('life').getrandbits(40):x}" if self.is_named else ""

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
    if isinstance(params.overlay, WiTreeParams):
        return BrokerNode(around.node, params, draws("access"))
    if isinstance(params.overlay, LsTreeParams):
        return BrokerNode(around.node, replace(params, overlay=joining(params.overlay, around)), draws("access"))
    links = dict.fromkeys((*params.access.links, *around.links))
    return BrokerNode(around.node, replace(params, access=replace(params.access, links=tuple(links))), draws("access"))


def joining(overlay: LsTreeParams, around: Surroundings) -> LsTreeParams:
    """A tree that finds itself has no links that are given: those of the topology are the contacts it begins with."""
    contacts = dict.fromkeys((*overlay.contacts, *around.links))
    return replace(overlay, contacts=tuple(contacts)[:CONTACTS_MAX])


def make_dispatcher(around: Surroundings, params: DispatcherParams, draws: Draws) -> Machine:
    if isinstance(params.overlay, WiTreeParams):
        return Dispatcher(around.node, params, draws("links"))
    if isinstance(params.overlay, LsTreeParams):
        return Dispatcher(around.node, replace(params, overlay=joining(params.overlay, around)), draws("links"))
    links = dict.fromkeys((*params.links.links, *around.links))
    return Dispatcher(around.node, replace(params, links=replace(params.links, links=tuple(links))), draws("links"))


def make_client(around: Surroundings, params: ClientRole, draws: Draws) -> Machine:
    return ClientNode(around.node, params.access(around), params.delivery, draws("access"), life=params.life(draws))


def make_transport_client(around: Surroundings, params: TransportClientRole, draws: Draws) -> Machine:
    access, rng, life = params.access(around), draws("access"), params.life(draws)
    return TransportClient(around.node, access, params.delivery, rng, params.transport, draws("transport"), life=life)


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


class TimedInput(msgspec.Struct, frozen=True):
    """At this time this happens to this node, if it is up."""

    at: float
    node: NodeId
    input: Input


class RandomPublications(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Events published at random nodes, at random times; or those of a workload, its publishers on nodes by turns."""

    events: int = 20
    begin: float = 0.0
    end: float = 30.0
    payload_bytes: int = 16
    law: str = ""
    """One of `tidings workload list`; then `events` is how many there are at most."""
    parameters: dict[str, Any] = {}
    """Of that workload."""

    def __post_init__(self) -> None:
        if not 0 <= self.events <= EVENTS_MAX:
            raise UsageError(f"events: {self.events}; give 0 to {EVENTS_MAX}")
        if not 0 <= self.begin <= self.end < math.inf:
            raise UsageError(f"begin {self.begin}, end {self.end}: give 0 <= begin <= end")
        if self.law:
            self.workload(1)

    def workload(self, seed: int) -> Workload:
        from tidings.workloads.registry import make

        return make(self.law, {"seed": seed, **self.parameters})

    def inputs(self, nodes: tuple[NodeId, ...], seed: int) -> list[TimedInput]:
        made = []
        for number, each in enumerate(self.drawn(len(nodes), seed)):
            node = nodes[each.place]
            event = Event({"source": node, "id": f"e{number}", **each.attributes}, each.payload)
            made.append(TimedInput(each.at, node, Publish(event)))
        return made

    def drawn(self, places: int, seed: int) -> Iterable[Scattered]:
        if not self.law:
            return scattered(seed, self.events, places, self.begin, self.end, self.payload_bytes)
        placed, payload = dict[str, int](), bytes(self.payload_bytes)
        span, found = self.end - self.begin, islice(self.workload(seed).planned_events(), self.events)
        evenly = (place * span / max(1, self.events) for place in range(self.events))
        timed = ((after if each.at is None else each.at, each) for after, each in zip(evenly, found, strict=False))
        return [
            Scattered(
                self.begin + at, placed.setdefault(each.publisher, len(placed)) % places, each.attributes, payload
            )
            for at, each in timed
            if at <= span
        ]


class RoughNetwork(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network that loses, doubles and reorders packets until it is calm."""

    latency: float = 0.05
    """Seconds one way, between nodes whose distance is not known from the topology."""

    jitter: float = 0.0
    """Up to this many seconds more for each packet."""

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    """Probabilities."""

    detour: float = 0.5
    """Mean of the seconds that a reordered packet takes longer."""

    earshot: bool = False
    """Nodes hear, and can reach, only those with which the topology links them, as on a radio."""

    internet: bool = False
    """Distances are those between hosts of an internet (`network/internet.py`), and fluctuate."""

    def __post_init__(self) -> None:
        for name in ("latency", "jitter"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds from 0")
        for name in ("loss", "duplication", "reordering"):
            check_probability(name, getattr(self, name))
        check_positive("detour", self.detour)

    def rules(self, topology: Topology, calm_at: float, seed: int) -> Rule:
        calm = rough = self.distances(topology)
        if self.reordering:
            rough = Reordering(rough, self.reordering, Exponential(self.detour))
        if self.duplication:
            rough = Duplication(rough, self.duplication)
        if self.loss:
            rough = Loss(rough, self.loss)
        rules = Until(calm_at, rough, calm)
        return Earshot(rules, [(edge.a, edge.b) for edge in topology.edges]) if self.earshot else rules

    def distances(self, topology: Topology) -> Rule:
        if self.internet:
            return Fluctuating(Internet())
        known = [(edge.a, edge.b, edge.delay) for edge in topology.edges if edge.delay is not None]
        delays = {pair: delay for a, b, delay in known for pair in ((a, b), (b, a))}
        base: Rule = Matrix(delays, self.latency) if delays else Constant(self.latency)
        return Jittered(base, self.jitter) if self.jitter else base


class Until(Wrapper):
    """A network up to a moment, and from then on only the part of it that is innermost."""

    def __init__(self, at: float, inner: Rule, innermost: Rule) -> None:
        super().__init__(inner)
        self.at, self.innermost = at, innermost

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        return (self.inner if now < self.at else self.innermost).fate(now, sender, to, size_bytes, transport)


class Span(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long sessions or absences last: a kind of distribution, its mean, and its shape where it has one."""

    kind: Literal["exponential", "weibull", "pareto"] = "exponential"
    mean: float = 60.0
    shape: float = 1.5

    def __post_init__(self) -> None:
        check_positive("mean", self.mean)
        check_positive("shape", self.shape)
        if self.kind == "pareto" and self.shape <= 1:
            raise UsageError(f"shape: a Pareto distribution of shape {self.shape} has no mean; give more than 1")

    def spread(self) -> Spread:
        if self.kind == "weibull":
            return Weibull(self.mean / math.gamma(1 + 1 / self.shape), self.shape)
        if self.kind == "pareto":
            return Pareto(self.mean * (self.shape - 1) / self.shape, self.shape)
        return Exponential(self.mean)


class Churn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that come and go. `kind` says which of the other fields count."""

    kind: Literal["off", "sessions", "trace", "mass_failure", "machines"] = "off"
    exempt: tuple[NodeId, ...] = ()
    """Nodes that stay."""

    forgetting: bool = False
    """Whether they come back without their state."""

    there: Span = Span()
    away: Span = Span()
    """Sessions."""

    file: str = ""
    interval: float = 1200.0
    """A recorded trace, and the seconds between its probes."""

    share: float = 0.3
    at: float = 10.0
    back_at: float = FOR_EVER
    """A mass failure; a network that is not to get its nodes back leaves out `back_at`. Failures of machines have no
    parameters: those of a cluster in a month are squeezed into the run."""

    def crashes(self, nodes: tuple[NodeId, ...], until: float, seed: int) -> list[Fault]:
        """Up to the time `until`; who is away then stays away, so that churn is over."""
        absences = [
            Absence(absence.begin, absence.end if absence.end <= until else FOR_EVER, absence.node)
            for absence in self.absences(nodes, until, seed)
            if absence.begin < until
        ]
        return crashes_of(absences, self.forgetting)

    def absences(self, nodes: tuple[NodeId, ...], until: float, seed: int) -> list[Absence]:
        if self.kind == "sessions":
            return session_churn(nodes, self.there.spread(), self.away.spread(), until, seed, self.exempt)
        if self.kind == "trace":
            return traced_churn(read_churn(self.file, self.interval), nodes, seed, self.exempt)
        if self.kind == "mass_failure":
            return mass_failure(nodes, self.share, self.at, seed, self.back_at, self.exempt)
        if self.kind == "machines":
            from tidings.workloads.machines import Machines

            failing = [node for node in nodes if node not in self.exempt]
            outages = Machines(seed=seed, nodes=len(failing), duration=until).outage_plan() if failing else []
            return [Absence(each.down_at, each.up_at, failing[each.node]) for each in outages]
        return []
