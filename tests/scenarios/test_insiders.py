"""The insiders of `tests/worlds/insiders.py` on real sockets: the broker serves everybody else all the while."""

from random import Random

import pytest

from tests.worlds.insiders import KINDS, Insider
from tests.worlds.loopback import Broker, connect
from tests.worlds.sockets import PATIENT, QUIET, play, until
from tidings.machine.inputs import Fired
from tidings.machine.node import Machine
from tidings.model.identity import at
from tidings.net import Host
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.routing.params import RoutingParams

FORGED, PERIOD = 300, 0.005
LATER = 1e9
"""The test says when it begins."""


@pytest.mark.parametrize("role", ["client", "broker"])
@pytest.mark.parametrize("seed", range(2))
def test_an_insider_on_a_socket_harms_nobody(role: str, seed: int) -> None:
    async def scenario() -> None:
        async with Broker("b") as broker, connect(broker.url) as reader, connect(broker.url) as publisher:
            address, rng = at(*broker.address), Random(seed)
            access, routing = AccessParams(links=(address,)), RoutingParams(engine="plain")
            inner: Machine = (
                BrokerNode("m", BrokerParams(access=access, routing=routing), rng)
                if role == "broker"
                else ClientNode("m", GuestParams(brokers=(address,)), SessionParams(), rng)
            )
            insider = Insider(inner, rng, "b", KINDS, FORGED, LATER, PERIOD)
            subscription = await reader.subscribe("by = 'publisher'")
            await publisher.advertise("by = 'publisher'")
            peers = {address: broker.address}
            async with Host("m", insider, peers=peers, params=PATIENT, log=QUIET) as host:
                await until(lambda: "m" in broker.node.edge.clients or "m" in broker.node.overlay.neighbours)
                host.step(Fired("mischief"))
                number = 0
                while insider.left:
                    await publisher.publish({"by": "publisher", "number": number}, receipt=role == "client")
                    event = await anext(subscription)
                    assert event.attributes["number"] == number
                    number += 1
            await publisher.publish({"by": "publisher", "number": number}, receipt=True)
            assert (await anext(subscription)).attributes["number"] == number
            assert broker.is_running and sum(insider.sent.values()) > FORGED / 4
            broker.node.check()

    play(scenario())
