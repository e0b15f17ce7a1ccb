"""Around a failure, and other ways of getting parcels to neighbours."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_routing_carrying import batch, broker, sent
from tests.worlds.routers import RoutingModel, events_of
from tidings.machine.effects import BROADCAST, Drop, Effect, Send, SetTimer, Transport
from tidings.machine.inputs import Fired, Received, TimerKey
from tidings.machine.message import Message
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.protocols.routing import passage
from tidings.protocols.routing.around import as_around
from tidings.protocols.routing.carriage.carriage import Parcel
from tidings.protocols.routing.carriage.plain import PlainCarriage
from tidings.protocols.routing.carrier import (
    NOT_ASCENDING,
    OTHER_PUBLISHER,
    PASSED_ALREADY,
    UNWANTED,
    BatchCarrier,
    Passage,
)
from tidings.protocols.routing.messages import AdvertisementAdded, NotReached, SubscriptionAdded, TablesBegun
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.repairs.timed import TimedRepair
from tidings.protocols.routing.requests import LINK_LOST
from tidings.protocols.routing.router import Router
from tidings.protocols.routing.tables import LiveHop
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import Matched, NeighbourDown, NeighbourUp, Rescued, Stranded, Want


def rescued_broker(rescue_window: int = 10) -> Router:
    """Neighbours p, towards the publisher, q and r, which want something; somebody knows ways around."""
    made = broker(make_repair=TimedRepair, rescue_window=rescue_window)
    for neighbour, text in (("q", "x > 0"), ("r", "x > 5")):
        made.handle(0.0, Received(neighbour, SubscriptionAdded(1, text)))
    return made


def stranded(effects: list[Effect]) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.neighbour, each.batch.numbers) for each in effects if isinstance(each, Stranded)]


def test_what_had_to_go_to_a_lost_neighbour_is_stranded() -> None:
    b = rescued_broker()
    b.handle(0.0, NeighbourDown("q", 1, reconfiguration="r1"))
    effects = b.handle(0.0, Received("p", batch({"x": 0}, {"x": 1}, {"x": 9})))
    assert stranded(effects) == [("q", (2, 3))]
    assert [parcel.numbers for parcel in sent(effects, "r")] == [(3,)]
    b.handle(1.0, Fired(("unsubscribe", next(iter(b.tables.ghosts)))))
    assert stranded(b.handle(1.0, Received("p", batch({"x": 1}, first=4)))) == [], "given up"
    b.check()


def test_nothing_is_stranded_where_nobody_would_hear_it() -> None:
    b = rescued_broker(rescue_window=0)
    assert Stranded not in b.tells and Rescued not in b.hears
    b.handle(0.0, NeighbourDown("q", 1))
    arrived = batch({"x": 1})
    assert b.handle(0.0, Received("p", arrived)) == [Drop(arrived, UNWANTED)]
    assert b.handle(0.0, Rescued(arrived, "p")) == []


def test_nothing_is_stranded_for_a_neighbour_that_is_back_or_that_it_came_from() -> None:
    b = rescued_broker()
    b.handle(0.0, NeighbourDown("q", 1))
    assert stranded(b.handle(0.0, Rescued(batch({"x": 1}), "q"))) == []
    b.handle(0.0, NeighbourUp("q", 2))
    assert b.tables.ghosts and stranded(b.handle(0.0, Received("p", batch({"x": 1}, first=2)))) == []


def test_a_receipt_fails_where_something_is_stranded() -> None:
    b = rescued_broker()
    b.handle(0.0, NeighbourDown("q", 1))
    effects = b.handle(0.0, Received("p", batch({"x": 1}, receipt=7)))
    assert Send("p", NotReached(7, LINK_LOST)) in effects and stranded(effects) == [("q", (1,))]


def test_what_was_rescued_is_carried_on_as_if_its_neighbour_had_brought_it() -> None:
    b = rescued_broker()
    b.handle(0.0, Want(("c", 1), parse("x = 6")))
    b.handle(0.0, Received("p", batch({"x": 1}, first=4)))
    b.handle(0.0, NeighbourDown("p", 1))
    late = batch({"x": 6}, {"x": 7}, first=2)
    assert b.handle(0.0, Rescued(late, stand_in_for="p")) == [
        Send("q", as_around(late)),
        Send("r", as_around(late)),
        Matched(as_around(batch({"x": 6}, first=2)), ((("c", 1),),)),
    ]
    assert b.handle(0.0, Rescued(late, stand_in_for="p")) == [Drop(late, PASSED_ALREADY)]
    b.check()


def test_what_came_around_does_not_stop_what_the_tree_brings_before_it() -> None:
    b = rescued_broker()
    b.handle(0.0, Rescued(batch({"x": 1}, first=5), "p"))
    effects = b.handle(0.0, Received("p", batch({"x": 1}, {"x": 1}, {"x": 1}, first=4)))
    assert [parcel.numbers for parcel in sent(effects, "q")] == [(4, 6)]
    assert Drop(batch({"x": 1}, first=5), PASSED_ALREADY) in effects


@pytest.mark.parametrize(
    ("arrived", "reason"),
    [
        (Publications("thief", "pub/1", 1.0, 0, (1,), (encode_head({"x": 1}),), (b"",)), OTHER_PUBLISHER),
        (Publications("pub", "pub/1", 1.0, 0, (2, 1), (encode_head({"x": 1}),) * 2, (b"", b"")), NOT_ASCENDING),
    ],
)
def test_rescued_publications_that_cannot_be_right_are_dropped(arrived: Publications, reason: str) -> None:
    assert rescued_broker().handle(0.0, Rescued(arrived, "p")) == [Drop(arrived, reason)]


# Twice is once.


def passing(advertisement: str, *numbers: int, at: float = 0.0) -> Publications:
    return Publications("p", advertisement, at, 0, numbers, (b"",) * len(numbers), (b"",) * len(numbers))


@given(st.lists(st.sets(st.integers(0, 40), min_size=1, max_size=6), max_size=20), st.integers(0, 8))
def test_a_number_is_taken_once_and_everything_new_within_the_window_is_taken(
    batches: list[set[int]], window: int
) -> None:
    kept = Passage(publishers_max=2, window=window)
    taken: set[int] = set()
    for each in batches:
        numbers = tuple(sorted(each))
        below = sorted(taken)[: -window or None]
        places = kept.take(passing("p", *numbers))
        kept.check()
        new = set(numbers) if places is None else {numbers[place] for place in places}
        assert not new & taken, "taken twice"
        assert new == {number for number in each - taken if not below or number > below[-1]}
        taken |= new


@given(st.integers(0, 8), st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=20))
def test_all_that_is_accepted_passes_once_however_often_its_broker_forgets_some(
    window: int, rounds: list[tuple[int, int]]
) -> None:
    kept = Passage(publishers_max=2, window=window)
    through = 0
    for at, (count, forgotten) in enumerate(rounds):
        # After a crash the broker lacks the last of them, and accepts these and more.
        begin = max(0, through - forgotten)
        through = begin + count
        batches = [passing("p", number, at=float(at)) for number in range(begin + 1, through + 1)]
        assert [kept.take(each) for each in batches] == [None] * count
        assert [kept.take(each) for each in batches] == [[]] * count
        kept.check()


def test_publishers_and_their_numbers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage, "NUMBERS_MAX", 6)
    kept = Passage(publishers_max=3, window=4)
    for publisher in "abcd":
        kept.take(passing(publisher, 1, 2, 3))
        kept.check()
    assert list(kept.last) == ["b", "c", "d"] and list(kept.numbers) == ["c", "d"]
    assert kept.take(passing("b", 3)) == [], "without a window, what is below the highest counts as passed"
    assert kept.take(passing("a", 1)) is None, "forgotten"
    kept.check()


def test_a_window_below_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^rescue_window:"):
        RoutingParams(rescue_window=-1)


# Other carriages.


class Heard(Message, frozen=True):
    batch: Publications


class Gathering(PlainCarriage):
    """Tells everybody in reach, a little later, and takes what it hears from whoever tells it."""

    messages: ClassVar[tuple[type[Message], ...]] = (Heard,)

    def __init__(self, carrier: BatchCarrier) -> None:
        super().__init__(carrier)
        self.carrier = carrier
        self.waiting: list[Publications] = []

    def pass_on(self, now: float, source: LiveHop, parcels: Sequence[Parcel]) -> list[Effect]:
        self.waiting += {id(parcel): parcel for _, parcel in parcels}.values()
        return [SetTimer(("tell",), now + 1.0)]

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        assert isinstance(message, Heard)
        return self.carrier.rescue(now, Rescued(message.batch, None))

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        waiting, self.waiting = self.waiting, []
        return [Send(BROADCAST, Heard(parcel), self.transport) for parcel in waiting]


def test_a_carriage_has_its_own_messages_and_timers_and_hears_from_everybody() -> None:
    params = RoutingParams(engine="plain", transport=Transport.DATAGRAM, rescue_window=10)
    b = Router("b", params, make_carriage=Gathering)
    assert Heard in b.messages
    for neighbour in "pq":
        b.handle(0.0, NeighbourUp(neighbour, 1))
        b.handle(0.0, Received(neighbour, TablesBegun(1, b.lives)))
    b.handle(0.0, Received("p", AdvertisementAdded(1, "pub/1", "pub", "TRUE", "p", 1)))
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    b.handle(0.0, Want(("c", 1), parse("x > 0")))
    arrived = batch({"x": 1})
    effects = b.handle(0.0, Received("stranger", Heard(arrived)))
    assert effects == [SetTimer(("tell",), 1.0), Matched(arrived, ((("c", 1),),))]
    assert b.handle(0.0, Received("other", Heard(arrived))) == [Drop(arrived, PASSED_ALREADY)]
    assert b.handle(1.0, Fired(("tell",))) == [Send(BROADCAST, Heard(arrived), Transport.DATAGRAM)]
    b.check()


def test_how_publications_travel_is_a_parameter() -> None:
    b = broker(transport=Transport.DATAGRAM)
    told = b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    assert all(effect.transport is Transport.STREAM for effect in told if isinstance(effect, Send))
    arrived = batch({"x": 1})
    assert b.handle(0.0, Received("p", arrived)) == [Send("q", arrived, Transport.DATAGRAM)]


def test_events_reach_a_broker_cut_off_and_nothing_arrives_twice_when_it_is_back() -> None:
    """b0 - b1 - b2: the link to b2 breaks, b1 strands what b2 wants, and somebody takes it there."""
    edges = [("b0", "b1"), ("b1", "b2")]
    model = RoutingModel(
        Random(1), "subscription", "covering", 3, True, edges, TimedRepair, rescue_window=20, acknowledges=False
    )
    model.offer("b0", "p", "TRUE")
    model.want(("b2", 1), "x >= 2")
    model.world.rest()
    model.publish("p", sorted(events_of("x = 3"))[:2])
    model.world.rest()
    model.world.cut("b1", "b2")
    model.world.run(1)
    while not model.routers["b1"].tables.ghosts:
        model.world.step()
    model.publish("p", sorted(events_of("x = 3")))
    model.world.rest()
    found = model.world.told("b1", Stranded)
    assert [(each.neighbour, each.batch.numbers) for each in found] == [("b2", (3, 4, 5, 6, 7))]
    model.world.tell("b2", Rescued(found[0].batch, stand_in_for="b1"))
    assert [number for _, number in model.delivered["b2", 1]] == [1, 2, 3, 4, 5, 6, 7]
    model.world.link("b1", "b2")
    model.world.rest()
    model.world.tell("b2", Received("b1", found[0].batch))
    assert model.world.drops[PASSED_ALREADY] == 1
    while model.world.timers:
        model.world.fire()
        model.world.rest()
    model.check_rest()
    model.check_deliveries()
