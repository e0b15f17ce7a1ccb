"""All clients of a broker go elsewhere under load, and it is killed then: nothing is lost, doubled or late in order.

In the simulator, where a second is one whatever else the machine does; `python -m bench.drain` does it with processes.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial

import pytest

from tidings.machine.node import Machine
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.protocols.access.drain import SAFE, Drain
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Begun,
    Confirmed,
    Namesake,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    Took,
)
from tidings.pubsub.publications import decode_head, encode_head
from tidings.pubsub.rows import DrainRow
from tidings.pubsub.signals import PeerUp
from tidings.sim.network.latency import Constant, Jittered
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator, SimulatorParams

LINKS: Mapping[NodeId, tuple[NodeId, ...]] = {"b0": (), "b1": ("b0",), "b2": ("b1", "b0"), "b3": ("b2", "b0")}
HOME, SHARERS, ROUND = "b3", 10, 0.5
"""The broker that is drained; clients of a topic; seconds between two events of a client."""


def broker(name: NodeId, draws: Draws) -> Machine:
    access, routing = AccessParams(links=LINKS[name]), RoutingParams(engine="plain")
    return BrokerNode(name, BrokerParams(access=access, routing=routing), draws("access"))


def client(name: NodeId, draws: Draws) -> Machine:
    return ClientNode(name, GuestParams(brokers=(HOME,)), SessionParams(), draws("access"))


class Crowd:
    def __init__(self, count: int) -> None:
        params = SimulatorParams(delivered_max=10_000)
        self.world = Simulator(seed=1, network=Jittered(Constant(0.01), 0.01), params=params)
        self.names = [f"c{number}" for number in range(count)]
        self.published = 0
        for name in LINKS:
            self.world.add(name, partial(broker, name))
        for name in self.names:
            self.world.add(name, partial(client, name))
        self.world.run(5.0)
        for place, name in enumerate(self.names):
            self.tell(name, OpenAdvertisement("a", self.filter(place)))
            self.tell(name, OpenSubscription("s", self.filter(place)))
        self.world.run(15.0)

    def filter(self, place: int) -> str:
        return f"topic = {place // SHARERS}"

    def tell(self, name: NodeId, request: OpenAdvertisement | OpenSubscription | PublishBatch | Took) -> None:
        self.world.inject(self.world.now, name, request)

    def publish(self) -> None:
        """One event of each, every fifth with a receipt; and the applications take what has come."""
        for place, name in enumerate(self.names):
            head = encode_head({"topic": place // SHARERS, "by": name, "n": self.published})
            ticket = ("r", self.published) if self.published % 5 == 0 else None
            self.tell(name, PublishBatch(1, (head,), (b"",), ticket))
            came = [it.item for it in self.world.nodes[name].delivered if isinstance(it.item, Arrived)]
            self.tell(name, Took(1, sum(len(item.numbers) for item in came)))
        self.published += 1
        self.world.run(self.world.now + ROUND)

    def row(self) -> DrainRow:
        machine = self.world.nodes[HOME].machine
        assert isinstance(machine, BrokerNode)
        return machine.draining.row()

    def judge(self) -> Counter[str]:
        """What went wrong, and what applications heard besides what they wait for."""
        found: Counter[str] = Counter()
        for place, name in enumerate(self.names):
            got: dict[str, list[int]] = {}
            answered = 0
            for delivery in self.world.nodes[name].delivered:
                match delivery.item:
                    case Arrived(heads=heads):
                        for head in heads:
                            attributes = decode_head(head)
                            got.setdefault(str(attributes["by"]), []).append(int(str(attributes["n"])))
                    case Confirmed():
                        answered += 1
                    case Accepted() | Begun() | PeerUp():
                        pass
                    case Namesake() | _:
                        found[repr(delivery.item)] += 1
            first = place // SHARERS * SHARERS
            expected = {each: list(range(self.published)) for each in self.names[first : first + SHARERS]}
            found["not as it was published"] += got != expected
            found["unanswered"] += answered != 2 + -(-self.published // 5)
        return +found


def drained_crowd(count: int) -> DrainRow:
    crowd = Crowd(count)
    for _ in range(6):
        crowd.publish()
    crowd.world.inject(crowd.world.now, HOME, Drain())
    while crowd.row().state != SAFE:
        crowd.publish()
        assert crowd.row().seconds < 60.0, crowd.row()
    row = crowd.row()
    crowd.world.crash(HOME)
    for _ in range(6):
        crowd.publish()
    crowd.world.run(crowd.world.now + 30.0)
    assert crowd.judge() == {}
    assert (row.moved, row.let_go, row.clients) == (count, 0, 0)
    return row


def test_clients_publish_receive_and_get_receipts_while_their_broker_is_drained_and_killed() -> None:
    drained_crowd(60)


@pytest.mark.long
def test_a_thousand_clients_have_gone_within_half_a_minute() -> None:
    assert drained_crowd(1000).seconds <= 30.0
