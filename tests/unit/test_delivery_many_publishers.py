"""More publishers than one message can name, and a client that connects again: nothing lost, nothing twice."""

from tests.worlds.desk import Desk, items, of
from tests.worlds.edge import EdgeDesk
from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import Received
from tidings.machine.streams import random_stream
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.delivery.session.session import Session
from tidings.pubsub.client import Arrived, Missed, OpenSubscription, Took
from tidings.pubsub.signals import PeerDown, PeerUp, Settled, Want

PUBLISHERS = 4400


class Reader(Desk[Session]):
    """A session that talks to an edge and takes everything at once."""

    is_checked = False

    def __init__(self, desk: EdgeDesk) -> None:
        super().__init__(Session(SessionParams(), random_stream(1, "session")))
        self.desk = desk
        self.got: list[tuple[str, int]] = []
        self.missed: list[Missed] = []

    def connect(self) -> None:
        self.desk.up("c")
        self.exchange(self.handle(PeerUp("a", 1)))

    def lose(self) -> None:
        self.desk.down("c")
        self.handle(PeerDown("a", 1))

    def exchange(self, effects: list[Effect]) -> None:
        """What each says to the other, until both are silent."""
        while effects:
            self.missed += items(effects, Missed)
            answers: list[Effect] = []
            for arrived in items(effects, Arrived):
                self.got += [(arrived.publisher, number) for number in arrived.numbers]
                effects = effects + self.handle(Took(arrived.subscription, len(arrived.numbers)))
            for send in of(Send, effects):
                answers += self.desk.say("c", send.message)
                for want in of(Want, answers):
                    answers += self.desk.handle(Settled(want.ticket, ("a",), 1))
                    break
            effects = [effect for it in of(Send, answers) for effect in self.handle(Received("a", it.message))]


def test_no_event_comes_twice_after_a_break_however_many_publishers_there_are() -> None:
    desk = EdgeDesk(EdgeParams(subscriptions_max=10))
    desk.is_checked = False
    reader = Reader(desk)
    reader.connect()
    names = [f"p{place:04d}" for place in range(PUBLISHERS)]
    for name in names:
        desk.up(name)
        desk.advertise(name)
    reader.exchange(reader.handle(OpenSubscription("want", "x >= 0")))
    for name in names:
        desk.publish(name, 1, 1)
    reader.lose()
    reader.connect()
    assert sorted(reader.got) == [(name, 1) for name in names]
    reader.lose()
    reader.connect()
    assert sorted(reader.got) == [(name, 1) for name in names]
    assert reader.missed == []
