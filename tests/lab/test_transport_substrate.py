"""The network under the transport: what is wanted arrives once, out of order, later by what brokers and links take."""

import json
from collections import Counter

import pytest

from tidings.lab.transport.network.chain import brokers_of, constant_delay
from tidings.lab.transport.network.chain import run as run_chain
from tidings.lab.transport.network.rising_load import HUBS, STREAMS, OfferedLoad
from tidings.lab.transport.networks import DispatcherNetwork
from tidings.lab.transport.substrate import SubstrateParams, named
from tidings.machine.effects import Send, Transport
from tidings.protocols.routing.destinations.messages import Directed
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.destinations.router import Queues
from tidings.pubsub.publications import Publications, encode_head
from tidings.sim.topologies.shapes import chain
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer

EVERYTHING = 1_000_000


def records_of(brokers: int, messages: int, alike: bool = True) -> list[Record]:
    trace = RingBuffer(EVERYTHING, "run", 1)
    run_chain("", {"brokers": brokers, "messages": messages, "alike": alike}, 1, trace)
    return trace.records()


def test_each_subscriber_gets_each_event_once_and_later_than_the_links_take() -> None:
    records = records_of(brokers=3, messages=50)
    published = {record.key: record.time for record in records if record.kind == "publish"}
    delivered = [record for record in records if record.kind == "deliver"]
    assert Counter(record.node for record in delivered) == {"n0": 50, "n1": 50, "n2": 50}
    assert len({(record.node, record.key) for record in delivered}) == 150
    for record in delivered:
        assert record.key is not None
        delay = record.time - published[record.key]
        assert delay > constant_delay(brokers_of(record.node))


def test_a_delivery_tells_when_its_event_was_published_and_which_it_was() -> None:
    records = records_of(brokers=2, messages=5)
    published = {record.key: record.time for record in records if record.kind == "publish"}
    for record in records:
        if record.kind == "deliver":
            said = json.loads(record.detail or "")
            assert record.message == "Event"
            assert record.key == f"{said['publisher']} {said['number'] - 1}"
            assert said["accepted_at"] == published[record.key]


def test_hops_in_between_are_not_traced() -> None:
    assert {record.kind for record in records_of(brokers=3, messages=5)} == {"start", "link", "publish", "deliver"}


def test_what_finds_the_queue_of_a_broker_full_is_dropped_with_a_reason() -> None:
    params = SubstrateParams(workers=1, handling=0.1, queue=0.5)
    trace = RingBuffer(EVERYTHING, "run", 1)
    network = DispatcherNetwork(1, trace, chain(2), params, {"p": "n0"}, {"n1": ["a = 1"]})
    for number in range(20):
        network.publish(named("p", number, {"a": 1}))
    network.simulator.run(60.0)
    records = trace.records()
    dropped = [record for record in records if record.kind == "drop"]
    delivered = [record for record in records if record.kind == "deliver"]
    assert len(delivered) + len(dropped) == 20
    assert {record.reason for record in dropped} == {"processing queue is full"}


def test_a_slower_run_takes_longer_over_each_message_and_keeps_queues_as_long() -> None:
    params = SubstrateParams()
    fast, slow = params.processing(), SubstrateParams(slowdown=10.0).processing()
    assert slow.mean == pytest.approx(10 * fast.mean)
    assert slow.queue_max * slow.mean == pytest.approx(fast.queue_max * fast.mean, rel=0.01)


def test_publications_may_travel_as_datagrams() -> None:
    batch = Publications("p", "p", 0.0, 0, (1,), (encode_head({"a": 1}),), (b"",))
    for transport in Transport:
        queues = Queues(DestinationParams(transport=transport))
        queues.open("b")
        message = Directed(("b",), 3, batch)
        assert queues.put(0.0, "b", message) == [Send("b", message, transport)]


def test_the_hubs_are_at_most_three_links_apart() -> None:
    around = HUBS.neighbours()
    assert sorted(len(found) for found in around.values()) == [1, 1, 1, 1, 1, 1, 4, 4]
    assert len(OfferedLoad(1, STREAMS["both sides"]).homes) == 400


def test_a_few_clients_want_most_of_a_stream_and_all_others_a_topic() -> None:
    load = OfferedLoad(1, STREAMS["both sides"])
    wanted = {client: interest["publisher"] for client, interest in load.interests.items() if interest["publisher"]}
    assert Counter((client[:2], publisher) for client, publisher in wanted.items()) == {
        ("b1", "p48"): 11,
        ("a2", "p49"): 11,
    }
    assert (load.publishers[48], load.publishers[49]) == ("a1.c10", "b2.c10")
    assert all(0.82 <= load.interests[client]["share"] <= 0.95 for client in wanted)
    assert len(load.interests) == 400


def test_slow_publishers_become_faster_up_to_25_a_second() -> None:
    times = [
        at
        for at, event in OfferedLoad(1, STREAMS["one side"], slowdown=4.0).events()
        if event.attributes["topic"] != "intense"
    ]
    assert len(times) == pytest.approx(48 * 300 * (1.5 + 25) / 2 / 4, rel=0.02)
    assert sum(at >= 290 for at in times) == pytest.approx(48 * 246 / 4, rel=0.1)
    assert sum(at < 10 for at in times) == pytest.approx(48 * 19 / 4, rel=0.2)
