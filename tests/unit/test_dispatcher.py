"""Dispatchers: overlay and routing with an application in the same node, few and many."""

from functools import partial
from typing import Any

import pytest

from tidings.machine.effects import Deliver, Drop, Effect
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.delivery.local import NO_ADVERTISEMENT, NO_HISTORY, LocalParams
from tidings.protocols.overlay.overlay import AllPeersParams
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Begun,
    CloseSubscription,
    Confirmed,
    Failed,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    ReadMarks,
)
from tidings.pubsub.publications import encode_head
from tidings.pubsub.requests import Publish
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator

TREE = AllPeersParams(is_tree=True)


def alone(**params: Any) -> Dispatcher:
    dispatcher = Dispatcher("d", DispatcherParams(overlay=TREE, **params), random_stream(1))
    dispatcher.start(0.0)
    return dispatcher


def items(effects: list[Effect]) -> list[Any]:
    return [effect.item for effect in effects if isinstance(effect, Deliver)]


def test_an_application_subscribes_publishes_and_is_delivered_to() -> None:
    dispatcher = alone()
    begun, confirmed = items(dispatcher.handle(1.0, OpenSubscription("s", "x > 3")))
    assert begun == Begun("s", 1)
    assert isinstance(confirmed, Confirmed) and confirmed.receipt is not None
    assert (confirmed.receipt.brokers, confirmed.receipt.guarantee) == (("d",), "none")
    dispatcher.handle(2.0, OpenAdvertisement("a", "TRUE"))
    heads = tuple(encode_head({"x": x}) for x in (1, 5, 7))
    accepted, arrived = items(dispatcher.handle(3.0, PublishBatch(1, heads, (b"", b"five", b""))))
    assert accepted == Accepted(3)
    assert arrived == Arrived(1, "d", 3.0, (2, 3), heads[1:], (b"five", b""))
    assert items(dispatcher.handle(4.0, CloseSubscription("s", 1)))[0].ticket == "s"
    assert items(dispatcher.handle(5.0, Publish(Event({"x": 9})))) == []
    dispatcher.check()


def test_what_is_wrong_is_told_or_dropped() -> None:
    dispatcher = alone()
    assert isinstance(items(dispatcher.handle(1.0, OpenSubscription("s", "x >")))[0], Failed)
    assert items(dispatcher.handle(1.0, ReadMarks("m", "TRUE"))) == [Failed("m", NO_HISTORY)]
    batch = PublishBatch(1, (encode_head({}),), (b"",))
    assert dispatcher.handle(1.0, batch) == [Drop(batch, NO_ADVERTISEMENT)]
    with pytest.raises(UsageError, match="tree"):
        Dispatcher("d", DispatcherParams(overlay=AllPeersParams()), random_stream(1))


def make(name: str, params: DispatcherParams, draws: Draws) -> Dispatcher:
    return Dispatcher(name, params, draws("links"))


@pytest.mark.parametrize(
    ("count", "routing", "is_counting"),
    [
        (1000, RoutingParams(engine="plain"), True),
        (30, RoutingParams(engine="plain"), False),
        (30, DestinationParams(engine="plain"), True),
    ],
)
def test_many_dispatchers_deliver_exactly_what_is_wanted(count: int, routing: Any, is_counting: bool) -> None:
    draw = random_stream(count, "dispatchers")
    names = [f"d{place}" for place in range(count)]
    simulator = Simulator(1, Constant(0.01))
    for place, name in enumerate(names):
        links = OpenDoorParams(links=(names[draw.randrange(place)],) if place else ())
        params = DispatcherParams(
            links=links, overlay=TREE, routing=routing, delivery=LocalParams(is_counting=is_counting)
        )
        simulator.add(name, partial(make, name, params))
    simulator.run(5.0)
    wants = {
        name: f"x = {draw.randrange(20)} OR y > {draw.randrange(80, 100)}" for name in draw.sample(names, count // 2)
    }
    publishers = draw.sample(names, 5)
    for name in publishers:
        simulator.inject(5.0, name, OpenAdvertisement("a", "TRUE"))
    for name, text in wants.items():
        simulator.inject(10.0, name, OpenSubscription("s", text))
    simulator.run(30.0)
    events = [Event({"x": draw.randrange(20), "y": draw.randrange(100)}) for _ in range(20)]
    for place, event in enumerate(events):
        simulator.inject(30.0 + place, publishers[place % 5], Publish(event))
    simulator.run(80.0)
    for name in names:
        machine = simulator.nodes[name].machine
        assert isinstance(machine, Dispatcher) and machine.why_not_ready() == ""
        filter = parse(wants[name]) if name in wants else None
        expected = 0 if filter is None else sum(filter.matches(event) for event in events)
        assert machine.local.counts[1] == expected, name
        came = [each for each in simulator.delivered(name) if isinstance(each.item, Arrived)]
        assert len(came) == (0 if is_counting else expected)
