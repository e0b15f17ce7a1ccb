"""A transport client under any order of deliveries, losses, repairs and stored pages: nothing twice, nothing stuck."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.desk import items, sent
from tests.worlds.transport_client import ClientDesk, Other
from tidings.protocols.delivery.messages import Delivery, Fetch, Look
from tidings.protocols.transport.carrier import Modes
from tidings.protocols.transport.headers import decode_data
from tidings.protocols.transport.marks import Kind, mark
from tidings.protocols.transport.messages import LossRepair, encode_control
from tidings.protocols.transport.params import RecoveryParams, TransportParams
from tidings.pubsub.client import Arrived, Fetched, MarksReply, Missed, Took
from tidings.pubsub.pages import page_of
from tidings.pubsub.publications import encode_head

PARAMS = TransportParams(record=2, is_reliable=True, recovery=RecoveryParams(rounds_max=1, distance_first=0.01))

FATES = st.sampled_from(["both", "one", "two", "neither", "two later"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), FATES),
        st.tuples(st.just("catch up"), st.integers(1, 5)),
        st.tuples(st.just("repair"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.floats(0.01, 3.0)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.just("missed"), st.integers(1, 5)),
    ),
    max_size=60,
)


class ReceivingPlay:
    def __init__(self) -> None:
        self.desk = ClientDesk(PARAMS)
        modes = Modes(True, True)
        self.one, self.two = self.desk.subscribe("x >= 0", modes, "one"), self.desk.subscribe("x < 1000", modes, "two")
        self.other = Other(params=PARAMS)
        self.later: list[Any] = []
        """Events that wait at the broker for the second subscription, in their order."""
        self.got: Counter[tuple[int, bytes]] = Counter()
        self.waiting: Counter[int] = Counter()
        self.repairs = 0
        self.asked: list[Any] = []

    def see(self, effects: list[Any]) -> None:
        for item in items(effects, Arrived):
            assert item.subscription in (self.one, self.two)
            self.waiting[item.subscription] += len(item.payloads)
            for head, payload in zip(item.heads, item.payloads, strict=True):
                assert head == encode_head({"x": int(payload)})
                self.got[item.subscription, payload] += 1
        self.asked += [message for message in sent(effects) if isinstance(message, Fetch | Look)]

    def publish(self, fate: str) -> None:
        event = self.other.make(len(self.other.made), self.desk.now)
        if fate == "two later":
            self.later.append(event)
            self.see(self.desk.hear(self.other.delivery([event], self.one)))
            return
        if fate in ("both", "two") and self.later:
            # What waits for a subscription is delivered before what is newer.
            self.catch_up(len(self.later))
        numbers = {"both": (self.one, self.two), "one": (self.one,), "two": (self.two,)}.get(fate)
        if numbers is not None:
            self.see(self.desk.hear(self.other.delivery([event], *numbers)))

    def catch_up(self, count: int) -> None:
        events, self.later = self.later[:count], self.later[count:]
        if events:
            self.see(self.desk.hear(self.other.delivery(events, self.two)))

    def repair(self, place: int) -> None:
        if place >= len(self.other.made):
            return
        _, _, payload = self.other.made[place]
        header, body = decode_data(payload)
        message = LossRepair(55, self.desk.now, 1, 0.0, 0.0, header)
        self.repairs += 1
        head = mark(encode_head({"x": place}), Kind.REPAIR)
        data = encode_control(message, body)
        self.see(self.desk.hear(Delivery("cat", 60.0, (self.repairs,), (head,), (data,), ((self.one, self.two),))))

    def take(self, count: int) -> None:
        for number in (self.one, self.two):
            taken = min(count, self.waiting[number])
            if taken:
                self.waiting[number] -= taken
                self.see(self.desk.handle(Took(number, taken)))

    def answer(self) -> None:
        """The broker answers what it was asked; it stores everything."""
        asked, self.asked = self.asked, []
        for question in asked:
            if isinstance(question, Look):
                marks = MarksReply(question.number, (("pub", 0, self.other.published),), (), (), True)
                self.see(self.desk.hear(marks))
                continue
            rows = [row for row in self.other.made if (question.after or 0) < row[0] <= question.through]
            columns = [tuple(column) for column in zip(*rows, strict=True)] if rows else [(), (), ()]
            page = page_of([50.0] * len(rows), *columns)
            self.see(self.desk.hear(Fetched(question.number, question.through, False, False, page)))

    def wait(self, seconds: float) -> None:
        self.see(self.desk.advance(self.desk.now + seconds))
        self.answer()


@given(STEPS)
def test_nothing_comes_twice_and_nothing_is_stuck_in_the_window(steps: list[tuple[str, Any]]) -> None:
    world = ReceivingPlay()
    for what, argument in steps:
        match what:
            case "publish":
                world.publish(argument)
            case "catch up":
                world.catch_up(argument)
            case "repair":
                world.repair(argument)
            case "wait":
                world.wait(argument)
            case "take":
                world.take(argument)
            case "missed":
                world.see(world.desk.hear(Missed(world.two, "pub", argument, "full")))
    world.catch_up(len(world.later))
    for _ in range(10):
        world.wait(20.0)
    world.take(10_000)
    assert all(count == 1 for count in world.got.values()), world.got
    for number in (world.one, world.two):
        receiving = world.desk.client.session.receiving[number]
        assert (receiving.held, receiving.held_before) == (0, 0), "something is not taken, or was never there"
        assert world.desk.client.ledger.lent.get(number, 0) == 0
