"""Publications that come faster than a neighbour takes them: a window, a few that wait, and a mark for the rest."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_routing_carrying import broker
from tests.worlds.desk import sent
from tests.worlds.edge import C1, answer, asked, received, served
from tests.worlds.routers import RoutingModel
from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.inputs import Received
from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.protocols.routing.around import OTHER_PUBLISHER
from tidings.protocols.routing.carrier import OTHER_WAY, UNADVERTISED
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    NotReached,
    PublicationsSkipped,
    PublicationsTaken,
    SubscriptionAdded,
)
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.parcels import LEFT_OUT, LINK_GONE, MESSAGE_BYTES, ParcelFlow, size_of
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import Missed
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import Forward, NeighbourDown, Offer, Settled, Skipped, Want

HEAD = encode_head({"x": 1})
LARGE = 10_000


def large(number: int, publisher: str = "pub", receipt: int = 0) -> Publications:
    payload = bytes(LARGE - MESSAGE_BYTES - len(HEAD))
    return Publications(publisher, f"{publisher}/1", 1.0, receipt, (number,), (HEAD,), (payload,))


def narrow_broker() -> Router:
    """Two batches are on the way to a neighbour at most, and three wait."""
    return broker(publications_window_bytes=2 * LARGE, parcels_bytes_max=3 * LARGE)


def to_q(effects: list[Effect]) -> list[object]:
    """What leaves for q, publications by their number."""
    messages = [effect.message for effect in effects if isinstance(effect, Send) and effect.to == "q"]
    return [each.numbers[0] if isinstance(each, Publications) else each for each in messages]


def test_what_a_neighbour_does_not_take_waits_and_the_rest_is_left_out_and_marked() -> None:
    b = narrow_broker()
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    left: list[object] = []
    for number in range(1, 10):
        effects = b.handle(0.0, Received("p", large(number)))
        left += to_q(effects)
        assert [each.reason for each in effects if isinstance(each, Drop)] == ([LEFT_OUT] if number > 5 else [])
        b.check()
    assert left == [1, 2]
    assert to_q(b.handle(0.0, Received("q", PublicationsTaken(LARGE)))) == [3]
    assert to_q(b.handle(0.0, Received("p", large(10)))) == [], "it waits behind the mark"
    skipped = PublicationsSkipped("pub", "pub/1", 9)
    assert to_q(b.handle(0.0, Received("q", PublicationsTaken(3 * LARGE)))) == [4, 5]
    assert to_q(b.handle(0.0, Received("q", PublicationsTaken(5 * LARGE)))) == [skipped, 10]
    b.check()


def test_a_mark_goes_ahead_of_what_its_publisher_publishes_next_under_any_advertisement() -> None:
    flow, effects = ParcelFlow("q", LARGE, LARGE), list[Effect]()
    for number in (1, 2, 3):
        flow.put(large(number), effects)
    flow.hear(LARGE, effects)
    flow.put(Publications("pub", "pub/2", 1.0, 0, (4,), (HEAD,), (b"",)), effects)
    flow.hear(2 * LARGE, effects)
    assert to_q(effects) == [1, 2, PublicationsSkipped("pub", "pub/1", 3), 4]


def test_a_mark_leaves_without_anything_behind_it() -> None:
    b = narrow_broker()
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    for number in range(1, 8):
        b.handle(0.0, Received("p", large(number)))
    assert to_q(b.handle(0.0, Received("q", PublicationsTaken(2 * LARGE)))) == [3, 4]
    assert to_q(b.handle(0.0, Received("q", PublicationsTaken(4 * LARGE)))) == [
        5,
        PublicationsSkipped("pub", "pub/1", 7),
    ]


def test_a_receipt_of_what_is_left_out_fails_and_says_why() -> None:
    b = narrow_broker()
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    for number in range(1, 6):
        b.handle(0.0, Received("p", large(number)))
    assert Send("p", NotReached(7, LEFT_OUT)) in b.handle(0.0, Received("p", large(6, receipt=7)))
    b.handle(0.0, Offer("own/1", "own", parse("x > 0")))
    answer = b.handle(0.0, Forward(large(1, "own"), "ticket"))
    assert Settled("ticket", problem=LEFT_OUT) in answer
    b.check()


def test_a_mark_is_passed_on_in_its_place_and_told_to_delivery() -> None:
    b = narrow_broker()
    for neighbour in "qr":
        b.handle(0.0, Received(neighbour, SubscriptionAdded(1, "x > 0")))
    b.handle(0.0, Want(("c", 1), parse("x > 0")))
    for number in (1, 2, 3):
        b.handle(0.0, Received("p", large(number)))
    skipped = PublicationsSkipped("pub", "pub/1", 7)
    effects = b.handle(0.0, Received("p", skipped))
    assert Skipped("pub/1", "pub", 7) in effects and not to_q(effects), "3 is not on its way yet"
    assert to_q(b.handle(0.0, Received("q", PublicationsTaken(2 * LARGE)))) == [3, skipped]


@pytest.mark.parametrize(
    ("sender", "skipped", "reason"),
    [
        ("p", PublicationsSkipped("pub", "pub/2", 7), UNADVERTISED),
        ("q", PublicationsSkipped("pub", "pub/1", 7), OTHER_WAY),
        ("p", PublicationsSkipped("thief", "pub/1", 7), OTHER_PUBLISHER),
    ],
)
def test_a_mark_that_cannot_be_right_is_dropped(sender: str, skipped: PublicationsSkipped, reason: str) -> None:
    b = narrow_broker()
    b.handle(0.0, Received("r", SubscriptionAdded(1, "x > 0")))
    assert b.handle(0.0, Received(sender, skipped)) == [Drop(skipped, reason)]


def test_what_waits_for_a_neighbour_that_is_lost_is_dropped_and_said() -> None:
    b = narrow_broker()
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    for number in range(1, 6):
        b.handle(0.0, Received("p", large(number)))
    gone = [each for each in b.handle(0.0, NeighbourDown("q", 1)) if isinstance(each, Drop)]
    assert gone == [Drop(large(number), LINK_GONE) for number in (3, 4, 5)]
    b.check()


def test_the_taker_tells_its_total_an_eighth_of_the_window_at_a_time() -> None:
    b = narrow_broker()
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 5")))
    small = Publications("pub", "pub/1", 1.0, 0, (1,), (HEAD,), (bytes(2000 - MESSAGE_BYTES - len(HEAD)),))
    assert Send("p", PublicationsTaken(2000)) not in b.handle(0.0, Received("p", small))
    effects = b.handle(0.0, Received("p", large(2)))
    assert Send("p", PublicationsTaken(2000 + LARGE)) in effects


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40_000)), max_size=60), st.randoms(use_true_random=False))
def test_everything_arrives_in_order_or_a_mark_above_it_does(put: list[tuple[int, int]], rng: Random) -> None:
    flow, effects = ParcelFlow("q", 20_000, 30_000), list[Effect]()
    arrived: list[Publications | PublicationsSkipped] = []
    total, taken = 0, 0

    def move(most: int) -> None:
        nonlocal total, taken
        while taken < len(effects) and most:
            sent = effects[taken]
            taken, most = taken + 1, most - 1
            if isinstance(sent, Send):
                assert isinstance(sent.message, Publications | PublicationsSkipped)
                arrived.append(sent.message)
                total += size_of(sent.message) if isinstance(sent.message, Publications) else MESSAGE_BYTES
                flow.hear(total, effects)

    for number, (publisher, size) in enumerate(put, 1):
        name = f"p{publisher}"
        flow.put(Publications(name, f"{name}/{rng.randrange(2)}", 1.0, 0, (number,), (HEAD,), (bytes(size),)), effects)
        flow.check()
        move(rng.randrange(3))
    move(1000)
    assert not flow.waiting and not flow.marks
    for publisher in range(3):
        name, expected = f"p{publisher}", [number for number, (who, _) in enumerate(put, 1) if who == publisher]
        mine = [each for each in arrived if each.publisher == name]
        numbers = [each.numbers[0] if isinstance(each, Publications) else each.through for each in mine]
        assert numbers == sorted(set(numbers)), "out of order, or a mark behind what is later than it"
        got = [each.numbers[0] for each in mine if isinstance(each, Publications)]
        for missing in set(expected) - set(got):
            after = [each for each in mine if isinstance(each, PublicationsSkipped) and each.through >= missing]
            assert after, "left out without a mark"


def test_large_events_through_three_brokers_do_not_fill_a_queue() -> None:
    """Nothing is taken at the far end for a while: what is on a link stays below a window and one batch."""
    edges = [("b0", "b1"), ("b1", "b2")]
    model = RoutingModel(
        Random(1),
        "advertisement",
        "covering",
        3,
        True,
        edges,
        publications_window_bytes=2 * LARGE,
        parcels_bytes_max=LARGE,
    )
    model.offer("b0", "p", "TRUE")
    model.want(("b2", 1), "x >= 0")
    model.world.rest()
    for number in range(1, 101):
        batch = Publications("p", "p", 1.0, 0, (number,), (HEAD,), (bytes(LARGE),))
        model.published["p", number] = 5
        model.world.tell("b0", Forward(batch))
        assert sum(map(len, model.world.queues["b0", "b1"])) < 4 * LARGE
    model.world.rest()
    got = [number for _, number in model.delivered["b2", 1]]
    skipped = model.world.told("b2", Skipped)
    assert len(got) < 100 and skipped and skipped[-1].through == 100
    model.published["p", 101] = 5
    model.world.tell("b0", Forward(Publications("p", "p", 1.0, 0, (101,), (HEAD,), (b"",))))
    model.world.rest()
    assert len(model.delivered["b2", 1]) == len(got) + 1, "there is room again"


def test_subscriptions_with_a_guarantee_ask_for_what_was_left_out_and_the_others_are_told() -> None:
    desk = served()
    desk.installed("c", 1)
    desk.subscribe("c", 2, guarantee="none")
    desk.arrive("p", [1, 4], C1)
    effects = desk.handle(Skipped("p/1@z", "p", 9))
    assert [question[:2] for question in asked(effects)] == [("b", (("p/1", 4),))]
    assert [(each.subscription, each.publisher) for each in sent(effects, Missed, "c")] == [(2, "p")]
    assert received(answer(desk, "p", 6, 9), "c") == [6, 9]


@pytest.mark.parametrize("wrong", [{"publications_window_bytes": 1}, {"parcels_bytes_max": -1}])
def test_windows_that_let_nothing_through_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        RoutingParams(**wrong)  # type: ignore[arg-type]


def test_a_total_of_somebody_who_took_nothing_changes_nothing() -> None:
    b = narrow_broker()
    assert b.handle(0.0, Received("q", PublicationsTaken(10**9))) == []
    b.handle(0.0, Received("q", AdvertisementAdded(1, "q/1", "q", "TRUE", "q", 1)))
    b.check()
