"""Brokers and clients as they ship, over the best-effort network of `substrate.py`.

A broker routes by destination over all its links (B-DRP), with publications as datagrams, which links lose, delay and
reorder. A client has a session with the broker on its machine, and on it a transport (order, recovery, congestion
control), the one that people install. The network promises nothing, so subscriptions ask for no guarantee; applications
take at once whatever is delivered.

How to use it:

    network = BrokerNetwork(
        seed, trace, topology, SubstrateParams(link_loss=0.01), clients={"p": "n0", "s": "n1"}, wants={"s": "a = 1"},
        transports=TransportParams(is_reliable=True), modes=Modes(is_reliable=True),
    )
    network.publish(named("p", 0, {"a": 1}))
    network.simulator.run(WARM_UP + 60.0)
    network.transport("s").recovery                              # to look at its parts

`transports` may also be a function from the name of a client to its parameters. Each client that wants something has
one subscription, with these `modes`. A client that publishes only is in `clients` alone.

Only publications between brokers take a worker. Those of a client are taken from it at once and in their order, as over
the connection that it has to its broker: over k brokers an event is handled k - 1 times.

**Trace.** Rows are the usual ones, of what the ends see (`EndsTrace`). An event has a source and an id, which are its
key; recovery's own notes know it by the id of the publisher's transport and its sequence.

Filters. A publication record tells equal from unequal, and nothing of less and more: to a subscriber that wants
`a < 8` every event with an `a` seems to be for it, and what it does not get seems lost. Workloads for recovery and for
congestion control ask for equality.
"""

from collections.abc import Callable, Mapping
from functools import partial

from tidings.lab.transport.substrate import DATAGRAM, PAYLOAD, Substrate, SubstrateParams
from tidings.machine.effects import Deliver, Effect
from tidings.machine.inputs import Input
from tidings.machine.machine import Machine
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.transport_client import TransportClient
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.overlay.all_peers import AllPeersParams
from tidings.protocols.routing.destinations.messages import Directed
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.destinations.router import DestinationRouter
from tidings.protocols.transport.carrier import Modes, OpenCarried
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.client import Arrived, OpenAdvertisement, OpenSubscription, PublishBatch, Took
from tidings.pubsub.publications import encode_head
from tidings.sim.network.workers import Processing
from tidings.sim.node import Draws, Make, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.topologies.topology import Topology
from tidings.trace.writer import Writer

READY_AT = 1.0
"""Seconds after which clients have their broker, and ask."""

OFFER = 1
"""The number of a publisher's advertisement, which is its first."""

QUEUE_MAX = 100_000
WINDOW = 1024


class Takers(Observer):
    """Applications that take what they are given at once."""

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Deliver and isinstance(effect.item, Arrived):
                node.world.inject(now, node.id, Took(effect.item.subscription, len(effect.item.numbers)))


class BrokerNetwork(Substrate):
    """Like `Substrate`; the transport of a client is `transport(client)`."""

    def __init__(
        self,
        seed: int,
        trace: Writer | None,
        topology: Topology,
        params: SubstrateParams,
        clients: Mapping[NodeId, NodeId],
        wants: Mapping[NodeId, str],
        rates_bps: Mapping[tuple[NodeId, NodeId], float] | None = None,
        transports: TransportParams | Callable[[NodeId], TransportParams] = TransportParams(),  # noqa: B008 - frozen
        modes: Modes = Modes(),  # noqa: B008 - frozen
    ) -> None:
        self.transports, self.modes = transports, modes
        super().__init__(seed, trace, topology, params, clients, wants, rates_bps=rates_bps, observers=(Takers(),))

    def processing(self, factor: float) -> Processing | None:
        return self.params.processing(factor, takes=Directed)

    def broker(self, node_id: NodeId) -> Make:
        links = tuple([edge.b for edge in self.topology.edges if edge.a == node_id])
        return partial(make_broker, node_id, links)

    def client(self, node_id: NodeId, home: NodeId) -> Make:
        params = self.transports if isinstance(self.transports, TransportParams) else self.transports(node_id)
        return partial(make_client, node_id, home, params)

    def begin(self, clients: Mapping[NodeId, NodeId], wants: Mapping[NodeId, str]) -> None:
        for client in clients:
            if client in wants:
                request = OpenSubscription(
                    "want", wants[client], "none", policy="drop oldest", queue_max=QUEUE_MAX, window=WINDOW
                )
                self.simulator.inject(READY_AT, client, OpenCarried(request, self.modes))
            else:
                self.simulator.inject(READY_AT, client, OpenAdvertisement("offer", "TRUE"))

    def router(self, broker: NodeId) -> DestinationRouter:
        node = self.simulator.nodes[broker].machine
        assert isinstance(node, BrokerNode) and isinstance(node.routing, DestinationRouter)
        return node.routing

    def publish(self, event: Event) -> None:
        self.tell(str(event.attributes["source"]), PublishBatch(OFFER, (encode_head(event.attributes),), (PAYLOAD,)))

    def tell(self, client: NodeId, input: Input) -> None:
        self.simulator.nodes[client].inject(self.simulator.now, input)

    def transport(self, client: NodeId) -> TransportNode:
        machine = self.simulator.nodes[client].machine
        assert isinstance(machine, TransportClient)
        return machine.transport


def make_broker(node_id: NodeId, links: tuple[NodeId, ...], draws: Draws) -> Machine:
    params = BrokerParams(
        access=AccessParams(links=links),
        overlay=AllPeersParams(),
        routing=DestinationParams(transport=DATAGRAM, engine="plain"),
        delivery=EdgeParams(history_age=0.0),
    )
    return BrokerNode(node_id, params, draws("access"))


def make_client(node_id: NodeId, home: NodeId, params: TransportParams, draws: Draws) -> Machine:
    access = GuestParams(brokers=(home,))
    return TransportClient(node_id, access, SessionParams(), draws("access"), params, draws("transport"))
