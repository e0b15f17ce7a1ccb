"""The network under the transport: links and brokers that take their time.

What the experiments of this folder run are the nodes that ship, as dispatchers or as brokers with clients
(`networks.py`); here is what is around them. The source ran a broker and its clients on one machine, so what goes
between a client and its broker takes no time and is not lost.

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
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tidings.machine.effects import Transport
from tidings.machine.node import Node
from tidings.machine.streams import random_stream
from tidings.matching.bloom import BloomProfile
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.model.values import Value
from tidings.protocols.routing.destinations.messages import Directed
from tidings.protocols.routing.destinations.router import DestinationRouter
from tidings.protocols.transport.params import TransportParams
from tidings.sim.hardware import Processing
from tidings.sim.network.bandwidth import HEADERS_BYTES, Bandwidth, DropTail
from tidings.sim.network.latency import Constant, Matrix, Uniform, Wandering
from tidings.sim.network.loss import Duplication, Loss, Reordering
from tidings.sim.network.rule import Fates, Rule, Wrapper
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

PUBLISHED_ROWS = TransportParams(profile=BloomProfile(bits=128), tells_ranges=False)
"""Headers as the sources have them: Bloom rows of 128 bits that say nothing about ranges. The rest is ours; with
`as_published` (`protocols/transport/params.py`) nothing is."""

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

    def processing(self, factor: float = 1.0) -> Processing:
        """Of a broker that takes `factor` times as long as others over a publication from elsewhere. What brokers tell
        of themselves, and what comes over a client's connection, is taken at once."""
        mean = self.handling * self.slowdown * factor
        return Processing(self.workers, mean, max(1, round(self.queue * self.workers / mean)), takes=Directed)

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


def encoded_bytes(message: Any) -> int:
    return len(encode(message))


def payload_bytes(message: Any) -> int:
    return sum(map(len, message.batch.payloads)) if type(message) is Directed else encoded_bytes(message)


class Substrate:
    """A simulated network, still without nodes. `rates_bps` has the links with another bandwidth than others."""

    def __init__(
        self,
        seed: int,
        trace: Writer | None,
        topology: Topology,
        params: SubstrateParams,
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

    def links_of(self, broker: NodeId) -> tuple[NodeId, ...]:
        """Those that it makes: one end of a link is enough."""
        return tuple(edge.b for edge in self.topology.edges if edge.a == broker)

    def link(self, sender: NodeId, to: NodeId) -> DropTail:
        """The link in this direction, with its queue."""
        return self.links.link((sender, to))

    def set_rate(self, one: NodeId, other: NodeId, rate_bps: float) -> None:
        """From now on, both ways; given before slowing down. What comes next waits for what waits at the new rate."""
        for pair in ((one, other), (other, one)):
            link, rate = self.link(*pair), rate_bps / self.params.slowdown
            link.free_at = self.simulator.now + link.wait(self.simulator.now) * link.rate_bps / rate
            link.rate_bps = rate

    def warm_up(self, others: Iterable[NodeId] = ()) -> None:
        """Afterwards all brokers, and others that route too, know each other and what is wanted where."""
        self.simulator.run(WARM_UP)
        everybody = sorted((*self.topology.nodes, *others))
        for broker in everybody:
            knowledge = self.router(broker).knowledge
            known = sorted([broker, *knowledge.topology.routes()]), sorted(knowledge.rows)
            assert known == (everybody, everybody), f"{broker} does not know all brokers after the warm-up"

    def router(self, broker: NodeId) -> DestinationRouter:
        node = self.simulator.nodes[broker].machine
        assert isinstance(node, Node)
        router = node.parts["routing"]
        assert isinstance(router, DestinationRouter)
        return router


def named(publisher: NodeId, number: int, content: Mapping[str, Value]) -> Event:
    """An event that a trace knows by "PUBLISHER NUMBER"."""
    return Event({"source": publisher, "id": str(number), **content}, PAYLOAD)
