"""More is waiting than the queue of a link holds: it is paced, arrives, and no link ends by it. In the simulator, where
a stream over a link of limited bandwidth ends by "queue full" as on sockets."""

from typing import Any

import pytest

from tests.worlds.edge import head
from tidings.nodes.broker import BrokerParams
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Missed,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    Took,
)
from tidings.sim.checkers import Checker, Judges
from tidings.sim.library.brokers import cast_brokers, client_of, with_clients
from tidings.sim.network.bandwidth import Bandwidth
from tidings.sim.network.latency import Constant
from tidings.sim.network.rule import STREAM_OVERFULL
from tidings.sim.node import SimulatedNode
from tidings.sim.simulator import Simulator
from tidings.sim.topologies.shapes import make_topology

FIRST, LAST = client_of("n0"), client_of("n2")


class Applications(Checker):
    """The client at the first broker publishes `count` events of one size, `together` at a time, as fast as they are
    accepted; that at the last reads them with a pause after each."""

    def __init__(self, count: int, size: int, together: int = 1, pause: float = 0.0) -> None:
        self.left, self.size, self.together, self.pause = count, size, together, pause
        self.numbers: list[int] = []
        self.read_at = 0.0
        self.missed: list[Missed] = []

    def begin(self, world: Simulator) -> None:
        world.inject(3.0, FIRST, OpenAdvertisement("offer", "x >= 0"))
        world.inject(3.5, LAST, OpenSubscription("want", "x >= 0"))
        world.run(4.0)

    def publish(self, world: Simulator, at: float) -> None:
        count = min(self.left, self.together)
        if count:
            self.left -= count
            world.inject(at, FIRST, PublishBatch(1, (head(1),) * count, (b"y" * self.size,) * count))

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        match item:
            case Missed():
                self.missed.append(item)
            case Accepted():
                self.publish(node.world, now)
            case Arrived(subscription, numbers=numbers):
                self.numbers += numbers
                for _ in numbers:
                    self.read_at = max(self.read_at, now) + self.pause
                    node.world.inject(self.read_at, node.id, Took(subscription, 1))


def chain_of_three(applications: Applications, rate_bps: float = 100e6) -> Simulator:
    topology = with_clients(make_topology("chain", 3, 0))
    world = Simulator(1, Bandwidth(Constant(0.005), rate_bps), observers=[Judges([applications])])
    for name, make in cast_brokers(topology, BrokerParams()).items():
        world.add(name, make)
    applications.begin(world)
    return world


def test_a_backlog_larger_than_the_queue_of_a_link_arrives_after_the_broker_was_restarted() -> None:
    applications = Applications(12_000, 1000, together=100)
    world = chain_of_three(applications)
    world.crash("n2")
    applications.publish(world, 5.0)
    world.run(20.0)
    assert (applications.left, applications.numbers) == (0, [])
    world.restart("n2", keep_state=False)
    world.run(40.0)
    assert applications.numbers == list(range(1, 12_001))
    assert applications.missed == []
    assert STREAM_OVERFULL.reason not in world.counters().lost


@pytest.mark.parametrize("pause", [0.0, 0.3], ids=["a prompt reader", "a slow reader"])
def test_large_events_reach_their_reader_however_slow_it_is(pause: float) -> None:
    applications = Applications(250, 400_000, pause=pause)
    world = chain_of_three(applications)
    applications.publish(world, 5.0)
    world.run(110.0)
    assert applications.numbers == list(range(1, 251))
    assert applications.missed == []
    assert STREAM_OVERFULL.reason not in world.counters().lost
