"""A whole broker among hostile peers: whatever anybody says, nothing is raised and the state stays whole."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.message_strategies import messages
from tests.worlds.desk import Desk
from tidings.machine.effects import Effect
from tidings.machine.inputs import Input, LinkDown, LinkUp, Received
from tidings.machine.streams import random_stream
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.protocols.access.messages import Attach, Attached
from tidings.protocols.access.params import AccessParams
from tidings.protocols.overlay.messages import Join
from tidings.protocols.routing.messages import TablesBegun, TablesTold
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router

CLIENT, PEER, STRANGER = "ann", "peer", "stranger"
PERIOD = 0.5

steps = st.lists(
    st.one_of(
        st.tuples(st.just("hear"), st.sampled_from([CLIENT, PEER, STRANGER]), messages),
        st.tuples(st.just("break"), st.sampled_from([CLIENT, PEER, STRANGER])),
        st.tuples(st.just("wait")),
    ),
    max_size=25,
)


class Room(Desk[BrokerNode]):
    """The broker, its links and its timers."""

    def __init__(self) -> None:
        params = BrokerParams(access=AccessParams(links=(PEER,)), routing=RoutingParams(engine="plain"))
        super().__init__(BrokerNode("b", params, random_stream(1, "access")))
        self.epoch = 0

    def handle(self, input: Input) -> list[Effect]:
        self.now += 0.001
        return super().handle(input)

    def link(self, name: str) -> None:
        self.epoch += 1
        self.handle(LinkUp(name, self.epoch))
        if name == CLIENT:
            self.handle(Received(CLIENT, Attach("client", b"")))
        elif name == PEER:
            for message in (Attach("broker", b""), Attached("b", "", ""), Join()):
                self.handle(Received(PEER, message))
            neighbour = router_of(self.machine).links.get(PEER)
            if neighbour is not None:
                self.handle(Received(PEER, TablesBegun(self.epoch, neighbour.life)))
                self.handle(Received(PEER, TablesTold()))


def router_of(broker: BrokerNode) -> Router:
    assert isinstance(broker.routing, Router)
    return broker.routing


@given(steps)
def test_whatever_anybody_says_a_broker_stays_whole(script: list[Any]) -> None:
    room = Room()
    for name in (CLIENT, PEER, STRANGER):
        room.link(name)
    for step in script:
        match step:
            case ("hear", sender, message):
                room.handle(Received(sender, message, 100))
            case ("break", name):
                room.handle(LinkDown(name, room.epoch, "broken"))
                room.link(name)
            case _:
                room.advance(room.now + PERIOD)


def test_the_client_and_the_peer_of_these_tests_are_let_in() -> None:
    room = Room()
    for name in (CLIENT, PEER, STRANGER):
        room.link(name)
    assert list(room.machine.edge.clients) == [CLIENT]
    assert [name for name, link in router_of(room.machine).links.items() if link.is_heard and link.is_told] == [PEER]
