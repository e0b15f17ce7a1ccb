"""The network under the transport: brokers that take their time, clients that sit on the same machine, links between.

What the experiments of this folder measure is a best-effort content-based network, before any transport is put on it.
A broker is `DestinationRouter` (B-DRP) between two small parts: `Counter`, which takes publications from clients, and
`Desk`, which hands each client what it wants, at once and without asking whether it arrived. Nothing is acknowledged or
sent again. The source ran a broker and its clients on one machine, so what goes between a client and its broker takes
no time and is not lost.

Where time goes (transport specification, 3.1):

- a broker handles `workers` messages at once, each for an exponentially distributed time, so that messages overtake
  each other inside it; what does not fit into the queue before the workers is dropped;
- a link takes `link_delay`, which drifts by `wander` to either side; it has a bandwidth, and a queue that drops its
  tail.

Links need not be alike, nor stay as they are (the experiments on recovery and on congestion):

    params = SubstrateParams(link_delay=0.05, link_delay_spread=0.025)     # each link has its own, 25 to 75 ms
    params = SubstrateParams(link_loss=0.01)                               # of each message, on each link
    network = Substrate(..., rates_bps={("a", "b"): 1e6})                  # this link has 1 Mbit/s, both ways
    network.simulator.call_at(WARM_UP + 40, partial(network.set_rate, "a", "b", 2e6))
    network.link("a", "b")                                                 # its queue, for a TCP flow beside

How many bytes a message takes on a link is what its encoding takes, and 40 for lower layers. The source counts header
and body alone: with `counts_payload_only` only the payload counts, which is the transport's header and 205 bytes.

The drift is what the source calls a run-time variability of 5 ms. It is slow, because the source also says that two
messages sent close to each other take equally long on a link; so all reordering happens in brokers.

**Slowing down.** A run at `slowdown` f has f times fewer messages in the same time: rates and bandwidth are divided by
f, handling times multiplied. How many messages overtake each other depends on rate times handling time and is the same.
The queue before the workers is given in seconds of work, so queueing delays are the same too. Latency of links is not
scaled. (Transport specification, 4.0.)

**Trace.** An event is known by "PUBLISHER NUMBER": `publish` and `deliver` rows carry this as their key. A `deliver`
row also tells when the event was published (`accepted_at`); all clocks are one. What is lost on the way is a `drop`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tidings.machine.effects import Deliver, Effect, Send, Transport
from tidings.machine.inputs import Input, Received, Signal
from tidings.machine.node import Node
from tidings.machine.streams import random_stream
from tidings.matching.bloom import BloomProfile
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.routing.destinations.messages import Directed
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.destinations.router import DestinationRouter
from tidings.protocols.transport.params import TransportParams
from tidings.pubsub.client import Arrived
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.requests import Publish
from tidings.pubsub.signals import Forgotten, Forward, Known, Matched, NeighbourUp, Settled, Want
from tidings.sim.network.bandwidth import HEADERS_BYTES, Bandwidth, DropTail
from tidings.sim.network.distributions import Uniform
from tidings.sim.network.drift import Wandering
from tidings.sim.network.latency import Constant, Matrix
from tidings.sim.network.loss import Duplication, Loss, Reordering
from tidings.sim.network.rule import Fates, Rule, Wrapper
from tidings.sim.network.workers import Processing
from tidings.sim.node import Draws, Make
from tidings.sim.observers import EndsTrace, Observer
from tidings.sim.simulator import Simulator, SimulatorParams
from tidings.sim.topologies.topology import Topology
from tidings.trace.writer import Writer
from tidings.wire.registry import encode

WARM_UP = 20.0
"""Seconds in which brokers get to know each other. The workload begins then, and times of experiments count from it."""

WANDER_PERIOD = 10.0

DETOUR = Uniform(0.02, 0.1)
"""Seconds by which a message that is overtaken comes later."""

WIRE_BYTES = 285
"""A message on a link, as derived from other experiments of the source (transport specification, 4.0)."""

PAYLOAD = bytes(205)

AS_PUBLISHED = TransportParams(profile=BloomProfile(bits=128), tells_ranges=False)
"""The transport as its sources have it, where ours does more by default: Bloom rows of 128 bits that say nothing about
ranges."""

DATAGRAM = Transport.DATAGRAM
AT_ONCE: Fates = (0.0,)


class SubstrateParams(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, unless a name says otherwise. Those of handling, and all rates, are before slowing down."""

    workers: int = 8
    handling: float = 0.00275
    """What a message takes a worker, on average: eight of them handle 2909 messages a second."""
    queue: float = 1.6
    """Messages that may wait for a worker: as many as are handled in this time."""
    link_delay: float = 0.05
    wander: float = 0.005
    link_rate_bps: float = 10e6
    link_queue_messages: int = 100
    """Not scaled: how long the queue of a link becomes, in messages, does not depend on the slowdown."""
    slowdown: float = 1.0
    link_delay_spread: float = 0.0
    """How much longer or shorter the delay of a link may be than `link_delay`; each link draws its own."""
    link_loss: float = 0.0
    """Probability that a message is lost on a link, beside what queues drop."""
    link_duplication: float = 0.0
    """Probability that it arrives twice."""
    link_reordering: float = 0.0
    """Probability that it takes `DETOUR` longer than others, which overtake it."""
    counts_payload_only: bool = False

    def processing(self, factor: float = 1.0, takes: type | None = None) -> Processing:
        """Of a broker that takes `factor` times as long as others, over messages of this type."""
        mean = self.handling * self.slowdown * factor
        return Processing(self.workers, mean, max(1, round(self.queue * self.workers / mean)), takes)

    def links(self, topology: Topology, seed: int) -> Bandwidth:
        wire: Rule = Wandering(self.delays(topology, seed), self.wander, WANDER_PERIOD)
        if self.link_reordering:
            wire = Reordering(wire, self.link_reordering, DETOUR)
        if self.link_duplication:
            wire = Duplication(wire, self.link_duplication)
        if self.link_loss:
            wire = Loss(wire, self.link_loss)
        rate, queue = self.link_rate_bps / self.slowdown, self.link_queue_messages * WIRE_BYTES
        return Bandwidth(wire, rate, queue, headers_bytes=0 if self.counts_payload_only else HEADERS_BYTES)

    def delays(self, topology: Topology, seed: int) -> Rule:
        if not self.link_delay_spread:
            return Constant(self.link_delay)
        drawn: dict[tuple[NodeId, NodeId], float] = {}
        for edge in topology.edges:
            rng = random_stream(seed, "link", edge.a, edge.b)
            delay = self.link_delay + rng.uniform(-self.link_delay_spread, self.link_delay_spread)
            drawn[edge.a, edge.b] = drawn[edge.b, edge.a] = delay
        return Matrix(drawn)


class BetweenBrokers(Wrapper):
    """Only what goes from broker to broker passes the network inside; clients are on the machine of their broker."""

    def __init__(self, inner: Rule, brokers: Iterable[NodeId]) -> None:
        super().__init__(inner)
        self.brokers = frozenset(brokers)

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        if sender in self.brokers and to in self.brokers:
            return self.inner.fate(now, sender, to, size_bytes, transport)
        return AT_ONCE


UNHEARD: tuple[type[Signal], ...] = (Settled, Known, Forgotten)
"""What routing tells to brokers that keep promises; these keep none."""


class Counter:
    """Takes publications from clients, whatever they are."""

    messages: tuple[type, ...] = (Publications,)
    hears: tuple[type, ...] = ()
    tells: tuple[type[Signal], ...] = (Forward,)

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(_, Publications() as batch):
                return [Forward(batch)]
        return []

    def check(self) -> None:
        pass


class Desk:
    """Hands each client what it wants."""

    messages: tuple[type, ...] = ()
    hears: tuple[type, ...] = (Matched,)
    tells: tuple[type[Signal], ...] = ()

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Matched(batch, wanted):
                clients = dict.fromkeys(client for keys in wanted for client, _ in keys)
                return [Send(client, batch, DATAGRAM) for client in clients]
        return []

    def check(self) -> None:
        pass


class LabClient:
    """Publishes one event at a time, numbered by its id, and delivers what comes."""

    def __init__(self, node_id: NodeId, home: NodeId) -> None:
        self.node_id, self.home = node_id, home

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(_, Publications() as batch):
                return [Deliver(arrived(batch))]
            case Publish(event):
                return [Send(self.home, publication_of(event, now), DATAGRAM)]
        return []

    def check(self) -> None:
        pass


def arrived(batch: Publications) -> Arrived:
    """Each client has one subscription."""
    return Arrived(1, batch.publisher, batch.accepted_at, batch.numbers, batch.heads, batch.payloads)


def named(publisher: NodeId, number: int, content: Mapping[str, Value]) -> Event:
    return Event({"source": publisher, "id": str(number), **content})


def publication_of(event: Event, now: float) -> Publications:
    """As it travels: source and id are publisher and number, so that equal contents have equal heads."""
    content = {name: value for name, value in event.attributes.items() if name not in ("source", "id")}
    publisher, number = str(event.attributes["source"]), int(str(event.attributes["id"]))
    return Publications(publisher, publisher, now, 0, (number,), (encode_head(content),), (PAYLOAD,))


def encoded_bytes(message: Any) -> int:
    return len(encode(message))


def payload_bytes(message: Any) -> int:
    return sum(map(len, message.batch.payloads)) if type(message) is Directed else encoded_bytes(message)


def best_effort_broker(node_id: NodeId, draws: Draws) -> Node:
    router = DestinationRouter(node_id, DestinationParams(transport=DATAGRAM))
    return Node({"counter": Counter(), "routing": router, "desk": Desk()}, tells=UNHEARD)


class Substrate:
    """A simulated network that is ready for a workload: all brokers know each other and what is wanted where.

    `clients` gives the broker of each client, `wants` the filter of each that subscribes, `factors` the brokers that
    take longer or shorter over a message than others, `rates_bps` the links that have another bandwidth than others.
    """

    def __init__(
        self,
        seed: int,
        trace: Writer | None,
        topology: Topology,
        params: SubstrateParams,
        clients: Mapping[NodeId, NodeId],
        wants: Mapping[NodeId, str],
        factors: Mapping[NodeId, float] | None = None,
        rates_bps: Mapping[tuple[NodeId, NodeId], float] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.topology, self.params = topology, params
        self.links = params.links(topology, seed)
        network = BetweenBrokers(self.links, topology.nodes)
        watching = observers if trace is None else (EndsTrace(trace), *observers)
        self.simulator = Simulator(seed, network, params=SimulatorParams(delivered_max=1), observers=watching)
        self.simulator.measure = payload_bytes if params.counts_payload_only else encoded_bytes
        for (one, other), rate_bps in (rates_bps or {}).items():
            self.set_rate(one, other, rate_bps)
        for broker in topology.nodes:
            processing = self.processing((factors or {}).get(broker, 1.0))
            self.simulator.add(broker, self.broker(broker), processing=processing)
        for client, home in clients.items():
            self.simulator.add(client, self.client(client, home))
        self.begin(clients, wants)
        self.simulator.run(WARM_UP)
        self.check()

    def begin(self, clients: Mapping[NodeId, NodeId], wants: Mapping[NodeId, str]) -> None:
        """Before the workload: each client that wants something has one subscription."""
        for edge in self.topology.edges:
            self.simulator.inject(0.0, edge.a, NeighbourUp(edge.b, 1))
            self.simulator.inject(0.0, edge.b, NeighbourUp(edge.a, 1))
        for client, text in wants.items():
            self.simulator.inject(0.0, clients[client], Want((client, 1), parse(text)))

    def link(self, sender: NodeId, to: NodeId) -> DropTail:
        """The link in this direction, with its queue."""
        return self.links.link((sender, to))

    def set_rate(self, one: NodeId, other: NodeId, rate_bps: float) -> None:
        """From now on, both ways; given before slowing down. What comes next waits for what waits at the new rate."""
        for pair in ((one, other), (other, one)):
            link, rate = self.link(*pair), rate_bps / self.params.slowdown
            link.free_at = self.simulator.now + link.wait(self.simulator.now) * link.rate_bps / rate
            link.rate_bps = rate

    def processing(self, factor: float) -> Processing | None:
        return self.params.processing(factor)

    def broker(self, node_id: NodeId) -> Make:
        return partial(best_effort_broker, node_id)

    def client(self, node_id: NodeId, home: NodeId) -> Make:
        return lambda draws: LabClient(node_id, home)

    def check(self) -> None:
        everybody = sorted(self.topology.nodes)
        for broker in everybody:
            router = self.router(broker)
            known = sorted([broker, *router.knowledge.topology.routes()]), sorted(router.knowledge.rows)
            assert known == (everybody, everybody), f"{broker} does not know all brokers after the warm-up"

    def router(self, broker: NodeId) -> DestinationRouter:
        node = self.simulator.nodes[broker].machine
        assert isinstance(node, Node)
        router = node.parts["routing"]
        assert isinstance(router, DestinationRouter)
        return router

    def publish(self, event: Event) -> None:
        self.simulator.nodes[str(event.attributes["source"])].inject(self.simulator.now, Publish(event))
