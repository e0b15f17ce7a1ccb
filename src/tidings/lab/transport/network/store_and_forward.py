"""The baseline beside the best-effort network: nothing is lost, nothing overtakes, and whoever is too fast has to wait.

It stands in for the message brokers of industry (the source compares with one of them): each broker stores a message,
tells the one before that it has it, and passes it on to the next. Routing is that of B-DRP, so both send the same
messages over the same links; what differs is how they are kept.

- *Store.* One queue, in the order of arrival, with `store_max` places. A message that finds no place waits at the door
  and is not acknowledged.
- *One worker.* It handles one message after the other, each for an exponentially distributed time. Eight workers that
  take 2.75 ms each, or one that takes 0.34 ms: both handle as many messages a second, but only one keeps the order.
- *Acknowledgement per hop.* `Accepted(n)` tells a neighbour that n of its messages have come into the store. At most
  `window` messages are on the way to each.
- *Blocking.* If a copy of the first message cannot go because a window is full, the worker waits, and with it all
  messages behind. So a broker that is overloaded slows down those before it, up to the publishers: one that was not
  acknowledged sends nothing, and what its application publishes meanwhile is withheld (`PUBLISHER_BLOCKED`).

Two neighbours whose stores are both full, each with a message for the other at its head, wait for each other for ever.
This lock-up is as old as store-and-forward networks, and nothing here prevents it.
"""

from collections import deque
from collections.abc import Mapping
from functools import partial

import msgspec

from tidings.lab.transport.networks import DispatcherNetwork
from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.node import Machine, Node, Part
from tidings.machine.streams import RandomStream
from tidings.model.bounds import DESTINATION_HOPS_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.access.open_door import OpenDoor, OpenDoorParams
from tidings.protocols.delivery.local import LocalDelivery, LocalParams
from tidings.protocols.overlay.overlay import AllPeers
from tidings.protocols.routing.destinations.messages import Directed, LinkState, Predicates
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.destinations.router import DestinationRouter
from tidings.pubsub.client import Accepted
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.requests import Publish
from tidings.pubsub.signals import Forgotten, Known, LinkFailed
from tidings.sim.node import Draws

PUBLISHER_BLOCKED = "publisher is blocked"


class StoreParams(msgspec.Struct, frozen=True):
    handling: float
    """Seconds that a message takes the worker, on average."""
    store_max: int
    """Messages in the store."""
    window: int
    """Messages on the way to a neighbour; above rate times round trip, or it is the window that limits the rate."""

    def __post_init__(self) -> None:
        for name in ("handling", "store_max", "window"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}: {getattr(self, name)} must be above 0")


class StoreAndForward(DestinationRouter):
    messages: tuple[type, ...] = (LinkState, Predicates, Directed, Publications, Accepted)

    def __init__(self, node_id: NodeId, store: StoreParams, rng: RandomStream) -> None:
        super().__init__(node_id, DestinationParams())
        self.store, self.rng = store, rng
        self.door: deque[tuple[NodeId, Directed | Publications]] = deque()
        """What has arrived and found no place. Bounded by the windows of those before us."""
        self.stored: deque[Directed] = deque()
        self.accepted: dict[NodeId, int] = {}
        """How many messages of each neighbour and client came into the store."""
        self.sent: dict[NodeId, int] = {}
        self.arrived: dict[NodeId, int] = {}
        """How many messages went to each neighbour, and how many of them it has accepted."""
        self.is_working = self.is_handled = False
        """Whether the worker is at the first message; whether it is done with it and only waits to send it."""

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, (Directed() | Publications()) as message):
                self.door.append((sender, message))
                return self.admit(now)
            case Received(neighbour, Accepted(through)):
                self.arrived[neighbour] = through
                return self.pass_first(now) if self.is_handled else []
            case Fired("work"):
                self.is_working, self.is_handled = False, True
                return self.pass_first(now)
        return super().handle(now, input)

    def admit(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while self.door and len(self.stored) < self.store.store_max:
            sender, message = self.door.popleft()
            self.stored.append(message if isinstance(message, Directed) else self.addressed(message))
            self.accepted[sender] = self.accepted.get(sender, 0) + 1
            effects.append(Send(sender, Accepted(self.accepted[sender])))
        return effects + self.work(now)

    def addressed(self, batch: Publications) -> Directed:
        """A publication of a client of ours, with the brokers that may want it; we may be one of them."""
        return Directed((self.node_id, *(self.destinations_of(batch.heads[0]) or ())), DESTINATION_HOPS_MAX, batch)

    def work(self, now: float) -> list[Effect]:
        if not self.stored or self.is_working or self.is_handled:
            return []
        self.is_working = True
        return [SetTimer("work", now + self.rng.expovariate(1 / self.store.handling))]

    def pass_first(self, now: float) -> list[Effect]:
        """The first message leaves, if there is room for it on all its ways."""
        destinations, hops_left, batch = (first := self.stored[0]).destinations, first.hops_left, first.batch
        routes = self.knowledge.topology.routes()
        ways: dict[NodeId, list[NodeId]] = {}
        for name in destinations:
            if name in routes:
                ways.setdefault(routes[name], []).append(name)
        if any(self.sent.get(hop, 0) - self.arrived.get(hop, 0) >= self.store.window for hop in ways):
            return []
        self.stored.popleft()
        self.is_handled = False
        effects = self.deliver(batch) if self.node_id in destinations else []
        for hop, names in sorted(ways.items()):
            self.sent[hop] = self.sent.get(hop, 0) + 1
            effects.append(Send(hop, Directed(tuple(names), hops_left - 1, batch)))
        return effects + self.admit(now)

    def check(self) -> None:
        super().check()
        assert len(self.stored) <= self.store.store_max, "the store is too full"
        assert not (self.is_working and self.is_handled), "a message is being handled and done with"
        for hop, sent in self.sent.items():
            on_way = sent - self.arrived.get(hop, 0)
            assert 0 <= on_way <= self.store.window, f"{on_way} messages are on the way to {hop}"


class PatientPublisher:
    """Publishes nothing while its broker has not accepted what it published before."""

    def __init__(self, node_id: NodeId, home: NodeId) -> None:
        self.node_id, self.home = node_id, home
        self.number, self.is_blocked = 0, False

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Publish(event) if self.is_blocked:
                return [Drop(event, PUBLISHER_BLOCKED)]
            case Publish(event):
                self.number, self.is_blocked = self.number + 1, True
                head = encode_head(event.attributes)
                batch = Publications(self.node_id, self.node_id, now, 0, (self.number,), (head,), (event.payload,))
                return [Send(self.home, batch)]
            case Received(_, Accepted()):
                self.is_blocked = False
        return []

    def check(self) -> None:
        pass


class StoreAndForwardNetwork(DispatcherNetwork):
    """The same network with such brokers, dispatchers otherwise. As many messages are handled a second as there, and as
    many can wait."""

    STORE = 6.0
    """Seconds of work that a store holds."""
    WINDOW = 1000
    """Messages on the way, before slowing down."""

    def store(self) -> StoreParams:
        params = self.params
        handling = params.handling * params.slowdown / params.workers
        window = max(10, round(self.WINDOW / params.slowdown))
        return StoreParams(handling, round(self.STORE / handling), window)

    def add_brokers(self, factors: Mapping[NodeId, float]) -> None:
        """Brokers of this kind know themselves how long they take: they must be able to wait."""
        for broker in self.topology.nodes:
            self.simulator.add(broker, partial(storing_broker, broker, self.links_of(broker), self.store()))

    def add_publishers(self, publishers: Mapping[NodeId, NodeId]) -> list[NodeId]:
        for name, home in publishers.items():
            self.simulator.add(name, partial(patient_publisher, name, home))
        return []


def storing_broker(node_id: NodeId, links: tuple[NodeId, ...], store: StoreParams, draws: Draws) -> Machine:
    parts: dict[str, Part] = {
        "access": OpenDoor(node_id, OpenDoorParams(links=links), draws("access")),
        "overlay": AllPeers(node_id),
        "routing": StoreAndForward(node_id, store, draws("work")),
        "delivery": LocalDelivery(node_id, LocalParams()),
    }
    return Node(parts, tells=(Known, Forgotten, LinkFailed))


def patient_publisher(node_id: NodeId, home: NodeId, draws: Draws) -> Machine:
    return PatientPublisher(node_id, home)
