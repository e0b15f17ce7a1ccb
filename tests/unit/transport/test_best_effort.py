"""A client with a transport over a network that promises nothing: in the simulator, where everybody hears everybody."""

from functools import partial
from typing import Any

from tidings.machine.effects import BROADCAST, Deliver, Drop, Send, Transport
from tidings.machine.inputs import Received
from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.overlay.overlay import AllPeersParams
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.transport.adapter.adapter import Adapter
from tidings.protocols.transport.carrier import NO_EVENT, NO_HISTORY, Broadcast, Carried, Posted
from tidings.protocols.transport.params import RecoveryParams, TransportParams
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.client import (
    Arrived,
    Begun,
    CloseSubscription,
    Confirmed,
    Failed,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    ReadHistory,
    ReadMarks,
)
from tidings.pubsub.publications import encode_head
from tidings.sim.network.latency import Constant
from tidings.sim.network.loss import Duplication, Loss
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator

RELIABLE = TransportParams(is_reliable=True, recovery=RecoveryParams(distance_first=0.01))
COUNT = 300


def make(node_id: NodeId, draws: Draws) -> Adapter:
    number = draws("transport id").below(2**32)
    return Adapter(Broadcast(), TransportNode(number, RELIABLE, draws("transport")))


def values(items: list[Any], subscription: int) -> list[int]:
    return [int(payload) for item in items if item.subscription == subscription for payload in item.payloads]


def over_dispatcher(node_id: NodeId, links: tuple[NodeId, ...], draws: Draws) -> Adapter:
    params = DispatcherParams(
        links=OpenDoorParams(links=links),
        overlay=AllPeersParams(is_tree=True),
        routing=DestinationParams(transport=Transport.DATAGRAM, engine="plain"),
    )
    number = draws("transport id").below(2**32)
    return Adapter(Dispatcher(node_id, params, draws("links")), TransportNode(number, RELIABLE, draws("transport")))


def test_over_dispatchers_that_lose_and_repeat_events_all_of_them_arrive_once() -> None:
    simulator = Simulator(5, Duplication(Loss(Constant(0.01), 0.05), 0.05), checking=True)
    for name, links in {"ann": (), "ben": ("ann",), "cat": ("ben",)}.items():
        simulator.add(name, partial(over_dispatcher, name, links))
    simulator.inject(5.0, "ann", OpenAdvertisement("a", "TRUE"))
    for name in ("ben", "cat"):
        simulator.inject(5.0, name, OpenSubscription("all", "x >= 0"))
    for x in range(COUNT):
        simulator.inject(10.0 + x / 100, "ann", PublishBatch(1, (encode_head({"x": x}),), (b"%d" % x,)))
    simulator.run(until=60.0)
    for name in ("ben", "cat"):
        arrived = [each.item for each in simulator.delivered(name) if isinstance(each.item, Arrived)]
        got = [int(payload) for item in arrived for payload in item.payloads]
        assert sorted(got) == list(range(min(got), COUNT)) and min(got) < 5
        assert {item.publisher for item in arrived} == {"ann"}
        assert "repaired" in {item.way for item in arrived if isinstance(item, Carried)}


def test_what_a_network_loses_and_repeats_arrives_once_at_everybody_who_wants_it() -> None:
    simulator = Simulator(3, Duplication(Loss(Constant(0.01), 0.1), 0.1), checking=True)
    for name in ("ann", "ben", "cat"):
        simulator.add(name, partial(make, name))
    for name in ("ben", "cat"):
        simulator.inject(0.0, name, OpenSubscription("all", "x >= 0"))
        simulator.inject(0.0, name, OpenSubscription("few", "x >= 0 AND x < 5"))
    for x in range(COUNT):
        simulator.inject(1.0 + x / 100, "ann", PublishBatch(0, (encode_head({"x": x}),), (b"%d" % x,)))
    simulator.run(until=60.0)
    for name in ("ben", "cat"):
        items = [delivery.item for delivery in simulator.delivered(name)]
        number = {item.ticket: item.number for item in items if isinstance(item, Begun)}
        arrived = [item for item in items if isinstance(item, Arrived)]
        everything = values(arrived, number["all"])
        # What was sent before the first one that came is missed by nobody (T-40).
        first = min(everything)
        assert first < 5
        assert sorted(everything) == list(range(first, COUNT))
        assert sorted(values(arrived, number["few"])) == list(range(first, 5))
        in_order = values([item for item in arrived if not isinstance(item, Carried)], number["all"])
        assert in_order == sorted(in_order)
        assert "repaired" in {item.way for item in arrived if isinstance(item, Carried)}


def test_requests_count_as_carried_out_at_once_and_nothing_is_stored() -> None:
    carrier = Broadcast()
    head = encode_head({"x": 1})
    assert carrier.handle(0.0, OpenSubscription("s", "x = 1")) == [
        Deliver(Begun("s", 1)),
        Deliver(Confirmed("s", None)),
    ]
    posted = Posted(head, b"1")
    assert carrier.handle(0.0, PublishBatch(0, (head,), (b"1",))) == [Send(BROADCAST, posted, Transport.DATAGRAM)]
    assert carrier.handle(0.0, Received("ben", posted)) == [Deliver(Arrived(1, "", 0.0, (0,), (head,), (b"1",)))]
    assert carrier.handle(0.0, Received("ben", Posted(encode_head({"x": 2}), b""))) == []
    unreadable = Posted(b"\xc1", b"")
    assert carrier.handle(0.0, Received("ben", unreadable)) == [Drop(unreadable, NO_EVENT)]
    for request in (ReadMarks("r", "TRUE"), ReadHistory("r", "TRUE", "ben", 0, None, 9, 10)):
        assert carrier.handle(0.0, request) == [Deliver(Failed("r", NO_HISTORY))]
    assert carrier.handle(0.0, CloseSubscription("c", 1)) == [Deliver(Confirmed("c", None))]
    assert carrier.handle(0.0, Received("ben", posted)) == []


def test_a_filter_that_is_none_fails() -> None:
    (told,) = Broadcast().handle(0.0, OpenSubscription("s", "x = = 1"))
    assert isinstance(told, Deliver) and isinstance(told.item, Failed)


def test_publishers_and_events_are_called_as_the_headers_call_them() -> None:
    rng = random_stream(1, "transport")
    one, two = (Adapter(Broadcast(), TransportNode(number, TransportParams(), rng)) for number in (7, 9))
    two.handle(0.0, OpenSubscription("s", "x >= 0"))
    head = encode_head({"x": 1})
    (send,) = [effect for effect in one.handle(0.0, PublishBatch(0, (head,), (b"1",))) if isinstance(effect, Send)]
    (told,) = [it for it in two.handle(0.0, Received("one", send.message)) if isinstance(it, Deliver)]
    assert told.item == Arrived(1, "00000007", 0.0, (0,), (head,), (b"1",))
