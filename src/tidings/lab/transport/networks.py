"""The nodes that ship, over the links of `substrate.py`: dispatchers, and brokers with clients.

All of them route by destination over all their links (B-DRP), with publications as datagrams, which links lose, delay
and reorder. The network promises nothing.

**Dispatchers** (`nodes/dispatcher.py`) are the best-effort network by itself, before any transport is put on it. Each
subscriber is a subscription of the application at its broker; each publisher is a dispatcher of its own on the machine
of its broker, which takes what it hands over as it takes what comes from afar: over k brokers an event is handled k
times. Nothing is acknowledged or sent again.

    network = DispatcherNetwork(
        seed, trace, topology, SubstrateParams(), publishers={"p": "n0"}, wants={"n0": ["a = 1"], "n1": ["TRUE"]}
    )

**Brokers** (`nodes/broker.py`) have clients with a transport (`nodes/transport_client.py`): order, recovery, congestion
control, as people install it. Subscriptions ask for no guarantee, and applications take at once what is delivered.
Publications of a client are taken in their order, as over the connection that it has to its broker: over k brokers an
event is handled k - 1 times.

    network = BrokerNetwork(
        seed, trace, topology, SubstrateParams(link_loss=0.01), clients={"p": "n0", "s": "n1"}, wants={"s": "a = 1"},
        transports=TransportParams(is_reliable=True), modes=Modes(is_reliable=True),
    )
    network.transport("s").recovery                              # to look at its parts

`transports` may also be a function from the name of a client to its parameters. Each client that wants something has
one subscription, with these `modes`. A client that publishes only is in `clients` alone.

With either, `network.publish(named("p", 0, {"a": 1}))` and `network.simulator.run(WARM_UP + 60.0)`.

**Trace.** Rows are the usual ones, of what the ends see (`EndsTrace`). An event has a source and an id, which are its
key; recovery's own notes know it by the id of the publisher's transport and its sequence. A `deliver` row tells when
the event was published (`accepted_at`); all clocks are one. With dispatchers its node is the broker, and `subscription`
tells which subscriber it was (`samples.by_subscriber`).

Filters. A publication record tells equal from unequal, and nothing of less and more: to a subscriber that wants
`a < 8` every event with an `a` seems to be for it, and what it does not get seems lost. Workloads for recovery and for
congestion control ask for equality.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tidings.lab.transport.substrate import Substrate, SubstrateParams
from tidings.machine.effects import Deliver, Effect, Transport
from tidings.machine.inputs import Input
from tidings.machine.node import Machine
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.nodes.transport_client import TransportClient
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.overlay.overlay import AllPeersParams
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.transport.carrier import Modes, OpenCarried
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.client import Arrived, OpenAdvertisement, OpenSubscription, PublishBatch, Took
from tidings.pubsub.publications import encode_head
from tidings.pubsub.requests import Publish
from tidings.sim.node import Draws, Make, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.topologies.topology import Topology
from tidings.trace.writer import Writer

ROUTING = DestinationParams(transport=Transport.DATAGRAM, engine="plain")

READY_AT = 1.0
"""Seconds after which clients have their broker, and ask."""

OFFER = 1
"""The number of a publisher's advertisement, which is its first."""

QUEUE_MAX = 100_000
WINDOW = 1024


class DispatcherNetwork(Substrate):
    """A network that is ready for a workload. `publishers` gives the broker of each; `wants` the filters of the
    subscribers at each broker, whose subscriptions are numbered from 1 on; `factors` the brokers that take longer or
    shorter over a message than others."""

    def __init__(
        self,
        seed: int,
        trace: Writer | None,
        topology: Topology,
        params: SubstrateParams,
        publishers: Mapping[NodeId, NodeId],
        wants: Mapping[NodeId, Sequence[str]],
        factors: Mapping[NodeId, float] | None = None,
        rates_bps: Mapping[tuple[NodeId, NodeId], float] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        super().__init__(seed, trace, topology, params, rates_bps, observers)
        self.add_brokers(factors or {})
        for broker, filters in wants.items():
            for text in filters:
                self.simulator.inject(0.0, broker, OpenSubscription(None, text))
        self.warm_up(self.add_publishers(publishers))

    def add_brokers(self, factors: Mapping[NodeId, float]) -> None:
        for broker in self.topology.nodes:
            make = partial(make_dispatcher, broker, self.links_of(broker))
            self.simulator.add(broker, make, processing=self.params.processing(factors.get(broker, 1.0)))

    def add_publishers(self, publishers: Mapping[NodeId, NodeId]) -> list[NodeId]:
        """Those of them that route."""
        for name, home in publishers.items():
            self.simulator.add(name, partial(make_dispatcher, name, (home,)))
        return list(publishers)

    def publish(self, event: Event) -> None:
        self.simulator.nodes[str(event.attributes["source"])].inject(self.simulator.now, Publish(event))


def make_dispatcher(node_id: NodeId, links: tuple[NodeId, ...], draws: Draws) -> Machine:
    params = DispatcherParams(links=OpenDoorParams(links=links), overlay=AllPeersParams(), routing=ROUTING)
    return Dispatcher(node_id, params, draws("access"))


# Brokers.


class Takers(Observer):
    """Applications that take what they are given at once."""

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Deliver and isinstance(effect.item, Arrived):
                node.world.inject(now, node.id, Took(effect.item.subscription, len(effect.item.numbers)))


class BrokerNetwork(Substrate):
    """Ready for a workload; the transport of a client is `transport(client)`."""

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
        super().__init__(seed, trace, topology, params, rates_bps, (Takers(),))
        for broker in topology.nodes:
            make = partial(make_broker, broker, self.links_of(broker))
            self.simulator.add(broker, make, processing=params.processing())
        for client, home in clients.items():
            chosen = transports if isinstance(transports, TransportParams) else transports(client)
            self.simulator.add(client, self.client(client, home, chosen))
        for client in clients:
            self.simulator.inject(READY_AT, client, first_request(wants.get(client), modes))
        self.warm_up()

    def client(self, node_id: NodeId, home: NodeId, params: TransportParams) -> Make:
        return partial(make_client, node_id, home, params)

    def publish(self, event: Event) -> None:
        self.tell(
            str(event.attributes["source"]), PublishBatch(OFFER, (encode_head(event.attributes),), (event.payload,))
        )

    def tell(self, client: NodeId, input: Input) -> None:
        self.simulator.nodes[client].inject(self.simulator.now, input)

    def transport(self, client: NodeId) -> TransportNode:
        machine = self.simulator.nodes[client].machine
        assert isinstance(machine, TransportClient)
        return machine.transport


def first_request(wanted: str | None, modes: Modes) -> Input:
    """A client that wants nothing publishes."""
    if wanted is None:
        return OpenAdvertisement("offer", "TRUE")
    request = OpenSubscription("want", wanted, "none", policy="drop oldest", queue_max=QUEUE_MAX, window=WINDOW)
    return OpenCarried(request, modes)


def make_broker(node_id: NodeId, links: tuple[NodeId, ...], draws: Draws) -> Machine:
    params = BrokerParams(
        access=AccessParams(links=links),
        overlay=AllPeersParams(),
        routing=ROUTING,
        delivery=EdgeParams(history_age=0.0),
    )
    return BrokerNode(node_id, params, draws("access"))


def make_client(node_id: NodeId, home: NodeId, params: TransportParams, draws: Draws) -> Machine:
    access = GuestParams(brokers=(home,))
    return TransportClient(node_id, access, SessionParams(), draws("access"), params, draws("transport"))
