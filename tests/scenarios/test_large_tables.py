"""Tables that are larger than the queue of a link, on sockets: a connection that breaks comes back, and stays."""

from random import Random
from typing import Any

from tests.worlds.loopback import Relay
from tests.worlds.sockets import QUIET, patient, play, until
from tidings.net import Host
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import OpenAdvertisement, OpenSubscription

FILTERS = 2000
QUEUE_MESSAGES = 500
"""Of a link: a fourth of what has to be told."""


def dispatcher_of(name: str, *links: str) -> Host:
    params = DispatcherParams(
        links=OpenDoorParams(links=links, retry_first=0.01, retry_max=0.1), routing=RoutingParams(engine="plain")
    )
    bounds = patient(queue_messages_max=QUEUE_MESSAGES)
    return Host(name, Dispatcher(name, params, Random(name)), params=bounds, log=QUIET)


def filters_heard(host: Host, neighbour: str) -> int:
    machine: Any = host.machine
    return len(machine.routing.tables.texts.get(neighbour, ()))


def neighbours_of(host: Host) -> Any:
    machine: Any = host.machine
    return machine.overlay.neighbours


def test_a_link_with_more_filters_than_its_queue_holds_comes_back_after_a_break_and_stays() -> None:
    async def scenario() -> None:
        wanting, offering = dispatcher_of("a", "b"), dispatcher_of("b")
        async with wanting, offering, Relay(lambda: offering.address) as relay:
            for number in range(FILTERS):
                wanting.inject(OpenSubscription(number, f"x = {number}"))
            await wanting.learn("b", relay.address)
            # The first advertisement asks for all filters at once.
            offering.inject(OpenAdvertisement(1, "x >= 0"))
            await until(lambda: filters_heard(offering, "a") == FILTERS)
            for _ in range(2):
                relay.break_all()
                await until(lambda: not neighbours_of(offering))
                await until(lambda: filters_heard(offering, "a") == FILTERS)
            assert wanting.counts.drops.get("queue full", 0) == offering.counts.drops.get("queue full", 0) == 0

    play(scenario())
