"""Brokers and clients as they ship over the simulated network, and links that differ, lose, and change their rate."""

import json
from functools import partial

import pytest

from tidings.lab.transport.networks import BrokerNetwork, DispatcherNetwork
from tidings.lab.transport.substrate import WARM_UP, SubstrateParams, named
from tidings.machine.effects import Transport
from tidings.nodes.transport_client import TransportClient
from tidings.protocols.transport.carrier import Modes
from tidings.protocols.transport.params import TransportParams
from tidings.pubsub.client import CloseSubscription, OpenSubscription
from tidings.sim.topologies.shapes import chain
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer

EVERYTHING = 1_000_000
CLIENTS = {"p": "n0", "near": "n0", "far": "n3"}
WANTS = {"near": "a = 1", "far": "a = 1"}


def play(
    loss: float = 0.0, events: int = 300, is_reliable: bool = False, period: float = 0.01
) -> tuple[BrokerNetwork, list[Record]]:
    trace = RingBuffer(EVERYTHING, "run", 1)
    params = SubstrateParams(link_loss=loss)
    transports = TransportParams(is_reliable=is_reliable)
    network = BrokerNetwork(
        1, trace, chain(4), params, CLIENTS, WANTS, transports=transports, modes=Modes(is_reliable=is_reliable)
    )
    for number in range(events):
        event = named("p", number, {"a": number % 2})
        network.simulator.call_at(WARM_UP + number * period, partial(network.publish, event))
    network.simulator.run(WARM_UP + events * period + 20.0)
    network.simulator.check()
    return network, trace.records()


def deliveries(records: list[Record], node: str) -> list[Record]:
    return [record for record in records if (record.kind, record.message, record.node) == ("deliver", "Event", node)]


def test_each_subscriber_gets_what_it_wants_once_and_in_order() -> None:
    _, records = play()
    for node in ("near", "far"):
        keys = [record.key for record in deliveries(records, node)]
        assert keys == [f"p {number}" for number in range(1, 300, 2)]


def test_publication_and_delivery_have_one_key_and_one_time_of_publication() -> None:
    _, records = play(events=20)
    published = {record.key: record.time for record in records if record.kind == "publish"}
    for record in deliveries(records, "far"):
        said = json.loads(record.detail or "")
        assert said["accepted_at"] == pytest.approx(published[record.key], abs=1e-6)
        assert said["publisher"] == "p"


def test_an_event_that_was_held_says_so() -> None:
    _, records = play(events=1000, period=0.002)
    told = [json.loads(record.detail or "") for record in deliveries(records, "far")]
    held = [said for said in told if said.get("hold")]
    assert 0 < len(held) < len(told)
    assert all(0 < said["hold"] < 1 and 0 <= said["latch"] < 1 for said in held)


def test_what_links_lose_is_repaired_where_that_is_wanted() -> None:
    _, plain = play(loss=0.05)
    network, repaired = play(loss=0.05, is_reliable=True)
    assert len(deliveries(plain, "far")) < 145
    arrived = deliveries(repaired, "far")
    assert len(arrived) >= 149
    told = [json.loads(record.detail or "") for record in arrived]
    assert sum(said.get("repaired", False) for said in told) > 5
    assert len({record.key for record in arrived}) == len(arrived)
    notes = [record for record in repaired if record.kind == "note" and record.message == "repair_requested"]
    assert notes
    of_publisher = f"{network.transport('p').node_id} "
    assert all(record.key is not None and record.key.startswith(of_publisher) for record in notes)


def test_a_subscription_may_come_and_go_while_the_network_runs() -> None:
    trace = RingBuffer(EVERYTHING, "run", 1)
    clients = {"p": "n0", "s": "n1"}
    network = BrokerNetwork(1, trace, chain(2), SubstrateParams(), clients, {"s": "a = 2"})
    for number in range(30):
        network.simulator.call_at(WARM_UP + number, partial(network.publish, named("p", number, {"a": 1})))
    opening = OpenSubscription("later", "a = 1", "none", policy="drop oldest")
    network.simulator.call_at(WARM_UP + 9.5, lambda: network.tell("s", opening))
    client = network.simulator.nodes["s"].machine
    assert isinstance(client, TransportClient)
    (first,) = client.subscriptions
    network.simulator.call_at(
        WARM_UP + 19.5,
        lambda: network.tell(
            "s", CloseSubscription("end", *(number for number in client.subscriptions if number > first))
        ),
    )
    network.simulator.run(WARM_UP + 40.0)
    arrived = deliveries(trace.records(), "s")
    assert [record.key for record in arrived] == [f"p {number}" for number in range(10, 20)]
    assert first not in {json.loads(record.detail or "")["subscription"] for record in arrived}


def test_the_same_seed_gives_the_same_trace() -> None:
    _, first = play(loss=0.05, is_reliable=True, events=100)
    _, second = play(loss=0.05, is_reliable=True, events=100)
    assert first == second


def test_each_link_has_a_delay_of_its_own_within_the_spread() -> None:
    params = SubstrateParams(link_delay=0.05, link_delay_spread=0.025, wander=0.0)
    links = params.delays(chain(12), 1)
    links.begin(1)
    delays = [links.fate(0.0, f"n{at}", f"n{at + 1}", 0, Transport.DATAGRAM)[0] for at in range(11)]
    assert all(0.025 <= delay <= 0.075 for delay in delays)
    assert len(set(delays)) == 11
    assert delays[3] == links.fate(9.0, "n4", "n3", 0, Transport.DATAGRAM)[0]
    assert params.delays(chain(12), 2) != links


def test_a_link_loses_the_share_of_messages_that_it_should() -> None:
    trace = RingBuffer(EVERYTHING, "run", 1)
    params = SubstrateParams(link_loss=0.1)
    network = DispatcherNetwork(1, trace, chain(2), params, {"p": "n0"}, {"n1": ["a = 1"]})
    for number in range(3000):
        network.simulator.call_at(WARM_UP + number * 0.005, partial(network.publish, named("p", number, {"a": 1})))
    network.simulator.run(WARM_UP + 30.0)
    assert len(deliveries(trace.records(), "n1")) == pytest.approx(2700, abs=60)


def test_a_bottleneck_passes_what_its_rate_allows_and_its_rate_may_change() -> None:
    trace = RingBuffer(EVERYTHING, "run", 1)
    params = SubstrateParams(counts_payload_only=True, link_queue_messages=50)
    bottleneck = {("n0", "n1"): 164e3}
    network = DispatcherNetwork(1, trace, chain(2), params, {"p": "n0"}, {"n1": ["a = 1"]}, rates_bps=bottleneck)
    for number in range(8000):
        network.simulator.call_at(WARM_UP + number * 0.005, partial(network.publish, named("p", number, {"a": 1})))
    network.simulator.call_at(WARM_UP + 20.0, lambda: network.set_rate("n0", "n1", 82e3))
    network.simulator.run(WARM_UP + 40.0)
    # A message is 205 bytes: 164 kbit/s are 100 messages a second.
    times = [record.time - WARM_UP for record in deliveries(trace.records(), "n1")]
    assert sum(5 <= at < 15 for at in times) == pytest.approx(1000, rel=0.02)
    assert sum(25 <= at < 35 for at in times) == pytest.approx(500, rel=0.02)
    assert network.link("n0", "n1").dropped > 1000
