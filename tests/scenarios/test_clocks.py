"""What is promised from the receipt on holds whatever clocks say: brokers whose clocks are apart, publishers that come
after the receipt, clients that lose their connection in the moment of the receipt. In the simulator."""

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.edge import head
from tidings.nodes.broker import BrokerParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.pubsub.client import Arrived, Confirmed, OpenAdvertisement, OpenSubscription, PublishBatch, Took
from tidings.sim.cast import ClientRole, cast_all
from tidings.sim.checkers import Checker, Judges
from tidings.sim.library.brokers import client_of, with_clients
from tidings.sim.network.latency import Constant
from tidings.sim.node import SimulatedNode
from tidings.sim.simulator import Simulator
from tidings.sim.topologies.shapes import make_topology

READER, WRITER = client_of("n0"), client_of("n2")
COUNT = 50


class AtTheReceipt(Checker):
    """The moment the reader has its receipt the writer publishes, `COUNT` times; it has advertised before, or does now.
    Perhaps the connection of the reader breaks in this very moment, and it goes to another broker."""

    def __init__(self, is_late: bool, breaks: bool, steps: bool = False) -> None:
        self.is_late, self.breaks, self.steps = is_late, breaks, steps
        self.numbers: list[int] = []

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        world = node.world
        match item:
            case Confirmed("want"):
                if self.is_late:
                    world.inject(now, WRITER, OpenAdvertisement("offer", "x >= 0"))
                for place in range(COUNT):
                    world.inject(now + place * 0.01, WRITER, PublishBatch(1, (head(place),), (b"",)))
                if self.steps:
                    for place, broker in enumerate(("n0", "n2", "n1", "n0", "n2")):
                        world.call_at(now + place * 0.1, partial(world.set_clock, broker, offset=0.1 + place * 0.2))
                if self.breaks:
                    world.call_at(now, lambda: world.crash("n0"))
            case Arrived(subscription, numbers=numbers):
                self.numbers += numbers
                world.inject(now, node.id, Took(subscription, len(numbers)))


def play(clock_error: float, is_late: bool, breaks: bool, steps: bool = False) -> list[int]:
    applications = AtTheReceipt(is_late, breaks, steps)
    topology = with_clients(make_topology("chain", 3, 0))
    params = BrokerParams()
    roles: dict[str, tuple[str, Any]] = {
        name: ("broker", replace(params, delivery=EdgeParams(clock_offset=offset)))
        for name, offset in (("n0", clock_error), ("n1", clock_error), ("n2", 0.0))
    }
    roles[READER] = "client", ClientRole(brokers=("n0", "n1"))
    roles[WRITER] = "client", ClientRole(brokers=("n2",))
    roles[client_of("n1")] = "client", ClientRole(brokers=("n1",))
    world = Simulator(1, Constant(0.005), checking=True, observers=[Judges([applications])])
    for name, make in cast_all(roles, topology).items():
        world.add(name, make)
    if not is_late:
        world.inject(3.0, WRITER, OpenAdvertisement("offer", "x >= 0"))
        for place in range(10):
            world.inject(3.2 + place * 0.01, WRITER, PublishBatch(1, (head(place),), (b"",)))
    world.inject(4.0, READER, OpenSubscription("want", "x >= 0"))
    world.run(30.0)
    return applications.numbers


@pytest.mark.parametrize("breaks", [False, True], ids=["connected", "reconnecting at the receipt"])
@pytest.mark.parametrize("is_late", [False, True], ids=["advertised before", "advertised after the receipt"])
@pytest.mark.parametrize("clock_error", [0.05, 0.5, -0.5, 3600.0])
def test_everything_published_after_the_receipt_arrives(clock_error: float, is_late: bool, breaks: bool) -> None:
    before = 0 if is_late else 10
    assert play(clock_error, is_late, breaks) == list(range(before + 1, before + COUNT + 1))


@pytest.mark.parametrize("is_late", [False, True], ids=["advertised before", "advertised after the receipt"])
def test_clocks_that_are_set_while_brokers_run_cost_nothing(is_late: bool) -> None:
    before = 0 if is_late else 10
    for breaks in (False, True):
        assert play(0.05, is_late, breaks, steps=True) == list(range(before + 1, before + COUNT + 1))
