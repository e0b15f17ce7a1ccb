"""A broker put together from its parts, and what it shows of itself."""

from random import Random
from typing import Any

import pytest

from tests.worlds.desk import sent
from tests.worlds.edge import head, subscription
from tidings.machine.effects import Effect
from tidings.machine.inputs import LinkUp, Loaded, Received
from tidings.model.errors import UsageError
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.choices import kind_of
from tidings.protocols.access.messages import Attach, Attached
from tidings.protocols.delivery.edge.edge import Close
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.messages import Advertise, Delivery, PublishMessage
from tidings.protocols.overlay.overlay import AllPeersParams
from tidings.protocols.overlay.scripted import ScriptedParams
from tidings.protocols.overlay.spanning_tree import SpanningTreeParams
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import Receipt
from tidings.pubsub.rows import AdvertisementRow, EventRow, PublisherRow, QueueRow, SubscriptionRow
from tidings.pubsub.signals import NeighbourUp


def broker(**params: Any) -> BrokerNode:
    node = BrokerNode("a", BrokerParams(**params), Random(1))
    node.start(0.0)
    return node


def say(node: BrokerNode, client: str, message: Any) -> list[Effect]:
    effects = node.handle(1.0, Received(client, message))
    node.check()
    return effects


def serving(*clients: str) -> BrokerNode:
    node = broker()
    for client in clients:
        node.handle(0.0, LinkUp(client, 1))
        assert sent(say(node, client, Attach("client", b"")), Attached)
    return node


def test_a_broker_alone_serves_its_clients() -> None:
    node = serving("c", "p")
    assert sent(say(node, "c", subscription(1, "x > 3")), Receipt)[0].brokers == ("a",)
    assert sent(say(node, "p", Advertise(1, "x >= 0")), Receipt)[0].kind == "advertise"
    effects = say(node, "p", PublishMessage(1, 1, True, (head(1), head(5)), (b"", b"five")))
    (delivery,) = sent(effects, Delivery, "c")
    assert (delivery.publisher, delivery.numbers, delivery.payloads) == ("p", (2,), (b"five",))
    assert sent(effects, Receipt, "p")[0].number == 2


def test_a_broker_shows_queues_publishers_and_stored_events() -> None:
    node = serving("c", "p")
    say(node, "c", subscription(1, "x > 3"))
    say(node, "p", Advertise(1, "x >= 0"))
    say(node, "p", PublishMessage(1, 1, False, (head(1), head(5)), (b"", b"five")))
    views = node.inspection.views
    (wanted,) = views["subscriptions"]("")
    assert callable(wanted) and wanted() == SubscriptionRow(client="c", number=1, filter="x > 3")
    (offered,) = views["advertisements"]("")
    assert callable(offered)
    assert offered() == AdvertisementRow(advertisement="p/1@a", publisher="p", filter="x >= 0")
    shown = {gauge.name: gauge.value for gauge in node.gauges()}
    assert (shown["clients"], shown["subscriptions"], shown["advertisements"], shown["publishers"]) == (2, 1, 1, 1)
    assert (shown["links"], shown["neighbours"]) == (0, 0)
    (queue,) = views["queues"]("")
    assert isinstance(queue, QueueRow)
    assert (queue.client, queue.sent, queue.positions, queue.state) == ("c", 1, {"p": 2}, "active")
    (publisher,) = views["publishers"]("")
    assert isinstance(publisher, PublisherRow)
    assert (publisher.publisher, publisher.accepted, publisher.stored, publisher.oldest) == ("p", 2, 2, 1)
    (event,) = views["event"]("p/2")
    assert isinstance(event, EventRow)
    assert (event.attributes, event.accepted_at) == ({"x": 5}, 1.0)
    for name in ("p/3", "q/1", "p/x", "nonsense"):
        assert list(views["event"](name)) == []
    assert list(views["routes"]("")) == []


def test_a_broker_is_ready_when_its_store_is_read_and_its_neighbours_told_their_tables() -> None:
    node = broker(delivery=EdgeParams(is_durable=True))
    assert "store" in node.why_not_ready()
    node.handle(0.0, Loaded("delivery/"))
    assert node.why_not_ready() == ""
    node.handle(0.0, NeighbourUp("b", 1))
    assert "b" in node.why_not_ready()
    assert node.row().not_ready == node.why_not_ready()


def test_a_broker_that_shuts_down_is_not_ready() -> None:
    node = broker(routing=RoutingParams(reduction="plain"))
    assert node.row().reduction == "plain"
    node.handle(0.0, Close())
    assert node.why_not_ready() == "shutting down"


@pytest.mark.parametrize(
    ("overlay", "routing"),
    [
        (SpanningTreeParams(), RoutingParams()),
        (AllPeersParams(is_tree=True), RoutingParams()),
        (AllPeersParams(), DestinationParams()),
        (SpanningTreeParams(), DestinationParams()),
        (ScriptedParams(), RoutingParams(acknowledges=False, census=True)),
    ],
)
def test_a_broker_is_made_of_the_overlay_and_routing_that_are_chosen(overlay: Any, routing: Any) -> None:
    node = broker(overlay=overlay, routing=routing)
    assert (node.row().overlay, node.row().routing) == (kind_of(overlay), kind_of(routing))
    assert bool(node.row().strategy) == isinstance(routing, RoutingParams)
    assert node.why_not_ready() == ""
    node.check()


def test_routing_with_tables_is_refused_where_links_need_not_form_a_tree() -> None:
    with pytest.raises(UsageError, match="routing tables needs links that form a tree, and overlay all-peers takes"):
        broker(overlay=AllPeersParams())
