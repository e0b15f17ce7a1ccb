"""The transport over brokers in both worlds: the same machines, the same losses, the same events in the end."""

from typing import Any

import pytest

from tests.worlds.both import BROKERS, CLIENTS, Draws, confirmed, host_of, make_broker, simulator_of, started
from tests.worlds.sockets import play, until
from tidings.machine.node import Machine
from tidings.model.identity import NodeId
from tidings.nodes.transport_client import TransportClient
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.transport.carrier import Carried
from tidings.protocols.transport.params import RecoveryParams, TransportParams
from tidings.pubsub.client import Arrived, OpenAdvertisement, OpenSubscription, PublishBatch, Took
from tidings.pubsub.publications import encode_head
from tidings.trace.writers import RingBuffer

STEP = 1.0
"""Simulated seconds from one request to the next; all of them are settled by then."""

PARAMS = TransportParams(is_reliable=True, is_paced=True, recovery=RecoveryParams(distance_first=0.01))
COUNT = 20
HEADS = tuple(encode_head({"x": x}) for x in range(COUNT))
REQUESTS: list[tuple[NodeId, Any]] = [
    ("ann", OpenAdvertisement("offer", "x >= 0")),
    ("cat", OpenSubscription("all", "x >= 0")),
    # Ben's broker drops what does not fit, since nothing is taken before all is published.
    ("ben", OpenSubscription("some", "x >= 5", policy="drop oldest", queue_max=2, window=4)),
    ("ann", PublishBatch(1, HEADS, tuple(b"%d" % x for x in range(COUNT)), "published")),
]
SUBSCRIPTION = 2
"""Of the application: the first one of each client is the inbox of its transport."""

WANTED = {"ben": set(range(5, COUNT)), "cat": set(range(COUNT))}


def make(name: NodeId, draws: Draws) -> Machine:
    if name in BROKERS:
        return make_broker(name, draws)
    guest = GuestParams(brokers=(CLIENTS[name],))
    return TransportClient(name, guest, SessionParams(), draws("access"), PARAMS, draws("transport"))


def values_of(items: list[Any]) -> list[int]:
    chunks = [item for item in items if isinstance(item, Arrived)]
    return [int(payload) for chunk in chunks for payload in chunk.payloads]


class Outcome:
    """What the applications got."""

    def __init__(self, items: dict[NodeId, list[Any]]) -> None:
        got = {name: values_of(items[name]) for name in WANTED}
        self.events = {name: sorted(each) for name, each in got.items()}
        in_time = [item for item in items["ben"] if type(item) is Arrived]
        self.in_time = [int(payload) for item in in_time for payload in item.payloads]
        self.ways = {item.way for item in items["ben"] if isinstance(item, Carried)}


def in_the_simulator(trace: RingBuffer | None = None) -> Outcome:
    simulator = simulator_of(5, [*BROKERS, *CLIENTS], make, trace=trace)
    for number, (client, request) in enumerate(REQUESTS):
        simulator.inject(5.0 + STEP * number, client, request)
    end = 5.0 + STEP * len(REQUESTS)
    for client in WANTED:
        # Each application takes what has come, again and again.
        for step in range(100):
            simulator.inject(end + step / 10, client, Took(SUBSCRIPTION, 4))
    simulator.run(until=end + 30.0)
    return Outcome({name: [it.item for it in simulator.delivered(name)] for name in CLIENTS})


def on_sockets() -> Outcome:
    async def scenario() -> Outcome:
        hosts = await started(host_of(5, name, make) for name in [*BROKERS, *CLIENTS])
        items = await confirmed(hosts, REQUESTS)

        def is_complete() -> bool:
            for name, wanted in WANTED.items():
                fresh = hosts[name].items.take_all()
                items[name] += fresh
                if taken := len(values_of(fresh)):
                    hosts[name].inject(Took(SUBSCRIPTION, taken))
                if len(values_of(items[name])) < len(wanted):
                    return False
            return True

        await until(is_complete)
        for host in hosts.values():
            await host.stop()
        return Outcome(items)

    return play(scenario())


@pytest.mark.spec("T-101")
def test_what_a_broker_drops_is_recovered_in_both_worlds() -> None:
    for outcome in (in_the_simulator(), on_sockets()):
        assert outcome.events == {name: sorted(wanted) for name, wanted in WANTED.items()}
        assert outcome.in_time == sorted(outcome.in_time)
        assert outcome.ways & {"repaired", "history"}


@pytest.mark.spec("T-100")
def test_the_same_seed_gives_the_same_trace() -> None:
    traces = RingBuffer(100_000), RingBuffer(100_000)
    for trace in traces:
        in_the_simulator(trace)
    one, two = (list(trace.records()) for trace in traces)
    assert one == two
    assert any(record.kind == "deliver" and "repaired" in (record.detail or "") for record in one)
