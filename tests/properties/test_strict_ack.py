"""The strict reading of a receipt (G-45): whatever is accepted anywhere once the subscription is in place everywhere
is delivered, also what reaches the subscriber's broker before the last acknowledgement does; and nothing comes before
the receipt, out of order or twice, whatever links take."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worlds.edge import head
from tidings.nodes.broker import BrokerParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.pubsub.client import Arrived, Confirmed, OpenAdvertisement, OpenSubscription, PublishBatch
from tidings.sim.library.brokers import cast_brokers, client_of, with_clients
from tidings.sim.network.latency import Matrix
from tidings.sim.simulator import Simulator
from tidings.sim.topologies.shapes import chain

CLIENT_LATENCY = 0.001
SUBSCRIBED_AT = 6.0
PERIOD = 0.005


class Heard:
    """Of a subscriber at n0, while clients at the brokers n1 and n2 behind it publish every 5 ms."""

    def __init__(self, near: float, far: float, is_strict: bool) -> None:
        topology = with_clients(chain(3))
        delays = {("n0", "n1"): near, ("n1", "n0"): near, ("n1", "n2"): far, ("n2", "n1"): far}
        simulator = Simulator(1, Matrix(delays, CLIENT_LATENCY))
        params = BrokerParams(delivery=EdgeParams(strict_ack=is_strict, history_age=0.0))
        for name, make in cast_brokers(topology, params).items():
            simulator.add(name, make)
        publishers = [client_of(broker) for broker in ("n1", "n2")]
        for publisher in publishers:
            simulator.inject(3.0, publisher, OpenAdvertisement("advertise", "x >= 0"))
            for place in range(400):
                simulator.inject(5.0 + place * PERIOD, publisher, PublishBatch(1, (head(place),), (b"",)))
        here = client_of("n0")
        simulator.inject(SUBSCRIBED_AT, here, OpenSubscription("all", "x >= 0", guarantee="installed"))
        simulator.run(9.0)
        items = simulator.delivered(here)
        [self.receipt_at] = [at for at, item in items if isinstance(item, Confirmed)]
        arrived = [(at, item) for at, item in items if isinstance(item, Arrived)]
        self.first_at = arrived[0][0]
        self.numbers = {
            publisher: [each for _, item in arrived if item.publisher == publisher for each in item.numbers]
            for publisher in publishers
        }
        self.in_place_at = SUBSCRIBED_AT + CLIENT_LATENCY + near + far
        """Everywhere: when the last broker has heard of it."""

    def first_accepted_in_place(self) -> int:
        """The number of the first publication that is accepted then."""
        return next(place for place in range(400) if 5.0 + place * PERIOD + CLIENT_LATENCY >= self.in_place_at) + 1


delays = st.integers(1, 150).map(lambda milliseconds: milliseconds / 1000 + 0.0003)


@given(near=delays, far=delays)
@settings(max_examples=15, deadline=None)
def test_with_strict_ack_whatever_is_accepted_in_place_is_delivered(near: float, far: float) -> None:
    heard = Heard(near, far, is_strict=True)
    assert heard.first_at >= heard.receipt_at
    for numbers in heard.numbers.values():
        assert numbers == list(range(numbers[0], 401)), "a gap, a repetition, or out of order"
        assert numbers[0] <= heard.first_accepted_in_place()


def test_without_it_what_arrives_before_the_acknowledgement_is_not() -> None:
    # The algorithm's contract. n1 accepts in place from 111 ms on, and the acknowledgement of n2 comes at 211 ms.
    heard = Heard(0.01, 0.1, is_strict=False)
    assert heard.first_at >= heard.receipt_at
    near, _ = heard.numbers.values()
    assert near[0] - heard.first_accepted_in_place() > 10
    assert near == list(range(near[0], 401))
