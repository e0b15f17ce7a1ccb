"""Brokers whose tree a plan may change, in the simulator: clients publish and want, and everything that they get is
written down."""

from functools import partial
from typing import Any

from tests.worlds.both import Draws
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.planning.plan import TopologyPlan
from tidings.planning.tree import OverlayTree
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.coordination.messages import CarryOut
from tidings.protocols.coordination.params import CoordinationParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.overlay.scripted import ScriptedParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import Accepted, Arrived, Failed, OpenAdvertisement, OpenSubscription, PublishBatch, Took
from tidings.pubsub.publications import encode_head
from tidings.sim.checkers import Checker, Judges
from tidings.sim.network.latency import Constant, Drawn, Uniform
from tidings.sim.node import SimulatedNode
from tidings.sim.simulator import Simulator

QUICK = CoordinationParams(step_timeout=20.0, engage_timeout=5.0, prepare_timeout=5.0, is_durable=True)


def steered_broker(tree: OverlayTree, name: NodeId, draws: Draws, **coordination: Any) -> BrokerNode:
    neighbours = tuple(tree.neighbours()[name]) if name in tree.brokers else ()
    return BrokerNode(
        name,
        BrokerParams(
            access=AccessParams(),
            overlay=ScriptedParams(neighbours=neighbours, is_durable=True),
            routing=RoutingParams(engine="plain", repair="shift"),
            delivery=EdgeParams(is_durable=True),
            coordination=CoordinationParams(**coordination) if coordination else QUICK,
        ),
        draws("access"),
    )


def network_of(tree: OverlayTree, seed: int = 1, more: tuple[NodeId, ...] = (), latency: float = 0.01) -> Simulator:
    simulator = Simulator(seed, Constant(latency), checking=True)
    for name in (*tree.brokers, *more):
        simulator.add(name, partial(steered_broker, tree, name))
    return simulator


def broker_of(simulator: Simulator, name: NodeId) -> BrokerNode:
    node = simulator.node(name).machine
    assert isinstance(node, BrokerNode)
    return node


def tree_now(simulator: Simulator, names: tuple[NodeId, ...]) -> set[tuple[NodeId, NodeId]]:
    """The links that both ends list."""
    near = {name: set(broker_of(simulator, name).overlay.neighbours) for name in names}
    return {(a, b) for a in names for b in near[a] if a < b and a in near.get(b, ())}


class LoadedNetwork(Checker):
    """Brokers with a client each, which publishes from `BEGIN_AT` on and wants everything that others publish. It is
    written down what each got, and it is asserted at once that nothing comes twice and everything in order."""

    def __init__(self, tree: OverlayTree, seed: int, until: float, rate: float = 20.0, more: tuple[NodeId, ...] = ()):
        self.tree, self.until = tree, until
        self.got: dict[NodeId, dict[str, list[int]]] = {}
        self.accepted: dict[NodeId, int] = {}
        self.failed: list[Any] = []
        self.names = (*tree.brokers, *more)
        self.world = Simulator(seed, Drawn(Uniform(0.001, 0.03)), checking=True, observers=[Judges([self])])
        for name in self.names:
            self.world.add(name, partial(steered_broker, tree, name))
        for name in tree.brokers:
            client = partial(client_at, name)
            self.world.add(f"c-{name}", client)
            self.got[f"c-{name}"] = {}
            self.world.inject(1.5, f"c-{name}", OpenAdvertisement("offer", f"x = '{name}'"))
            self.world.inject(2.5, f"c-{name}", OpenSubscription("want", "EXISTS x"))
            at = BEGIN_AT
            while at < until:
                self.world.inject(at, f"c-{name}", PublishBatch(1, (encode_head({"x": name}),), (b"",)))
                at += 1.0 / rate
        self.world.run(BEGIN_AT - 0.5)

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        match item:
            case Arrived(subscription, publisher=publisher, numbers=numbers):
                mine = self.got[node.id].setdefault(publisher, [])
                for number in numbers:
                    assert not mine or number > mine[-1], f"{node.id} got {publisher} {number} twice, or out of order"
                    mine.append(number)
                node.world.inject(now, node.id, Took(subscription, len(numbers)))
            case Accepted(through=through):
                self.accepted[node.id] = through
            case Failed():
                self.failed.append((node.id, item))

    def carry_out(self, at: float, plan: TopologyPlan, deployer: NodeId) -> None:
        self.world.inject(at, deployer, CarryOut(plan))

    def state(self, deployer: NodeId) -> Any:
        (row,) = broker_of(self.world, deployer).coordination.deployer.plan_rows(self.world.now)
        return row

    def missing(self) -> dict[tuple[NodeId, str], list[int]]:
        """What was published and did not come; publications count from 1 in each client."""
        count = max((numbers[-1] for mine in self.got.values() for numbers in mine.values()), default=0)
        expected = set(range(1, count + 1))
        return {
            (client, f"c-{name}"): lost
            for client, mine in self.got.items()
            for name in self.tree.brokers
            if (lost := sorted(expected - set(mine_of(mine, f"c-{name}"))))
        }


def mine_of(mine: dict[str, list[int]], client: str) -> list[int]:
    """By the name of the client, without its life."""
    return next((numbers for publisher, numbers in mine.items() if publisher.split("/")[0] == client), [])


BEGIN_AT = 4.0


def client_at(broker: NodeId, draws: Draws) -> ClientNode:
    return ClientNode(f"c-{broker}", GuestParams(brokers=(broker,)), SessionParams(), draws("access"))
