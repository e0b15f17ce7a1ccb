"""Around a failure, as routing sees it: who rests is stranded for, what came around is marked and takes any way, what
the tree brings is not stopped by it where something is promised, and filters stay told for advertisements adrift."""

from typing import Any

from tests.unit.test_routing_carriage import stranded
from tests.unit.test_routing_carrying import batch, broker, sent
from tidings.machine.effects import Drop, Effect, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.model.language.parser import parse
from tidings.protocols.routing.adrift import TIMER
from tidings.protocols.routing.around import PASSED_ALREADY, as_around
from tidings.protocols.routing.carrier import UNADVERTISED
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    SubscriptionAdded,
    SubscriptionRemoved,
)
from tidings.protocols.routing.router import Router
from tidings.pubsub.publications import PublicationsAround
from tidings.pubsub.signals import Forgotten, Known, Matched, NeighbourDown, Rescued, Want


def routed(is_apart: bool = False, rescue_window: int = 10) -> Router:
    """Neighbours p, towards the publisher, q and r, which want something, with the usual repair."""
    made = broker(rescue_window=rescue_window, is_apart=is_apart, census=True)
    for neighbour, text in (("q", "x > 0"), ("r", "x > 5")):
        made.handle(0.0, Received(neighbour, SubscriptionAdded(1, text)))
    return made


def changes(effects: list[Effect], to: str, kind: type) -> list[Any]:
    return [each for each in sent_all(effects, to) if isinstance(each, kind)]


def sent_all(effects: list[Effect], to: str) -> list[Any]:
    from tidings.machine.effects import Send

    return [each.message for each in effects if isinstance(each, Send) and each.to == to]


def numbers_to(effects: list[Effect], to: str) -> list[tuple[type, tuple[int, ...]]]:
    return [(type(parcel), parcel.numbers) for parcel in sent(effects, to)]


def test_what_had_to_go_to_a_neighbour_that_rests_is_stranded() -> None:
    b = routed()
    b.handle(0.0, NeighbourDown("q", 1))
    effects = b.handle(0.0, Received("p", batch({"x": 0}, {"x": 1}, {"x": 9})))
    assert stranded(effects) == [("q", (2, 3))]
    assert [parcel.numbers for parcel in sent(effects, "r")] == [(3,)]
    b.check()


def test_what_came_around_is_taken_from_any_neighbour_and_stays_marked() -> None:
    b = routed()
    b.handle(0.0, NeighbourDown("p", 1))
    assert b.hop_toward("pub/1") is None
    plain = batch({"x": 9})
    assert Drop(plain, UNADVERTISED) in b.handle(0.0, Received("q", plain))
    effects = b.handle(0.0, Received("q", as_around(plain)))
    assert numbers_to(effects, "r") == [(PublicationsAround, (1,))] and sent(effects, "q") == []
    assert Drop(as_around(plain), PASSED_ALREADY) in b.handle(0.0, Received("r", as_around(plain)))


def test_nothing_comes_around_where_nobody_brings_it() -> None:
    b = routed(rescue_window=0)
    effects = b.handle(0.0, Received("q", as_around(batch({"x": 9}))))
    assert sent(effects, "r") == [] and any(isinstance(each, Drop) for each in effects)


def test_where_something_is_promised_the_tree_brings_again_what_came_around_and_not_the_other_way_round() -> None:
    b = routed(is_apart=True)
    b.handle(0.0, Want(("c", 1), parse("x > 0")))
    around = b.handle(0.0, Rescued(batch({"x": 9}, first=2)))
    assert numbers_to(around, "r") == [(PublicationsAround, (2,))]
    assert [type(each.batch) for each in around if isinstance(each, Matched)] == [PublicationsAround]
    tree = b.handle(0.0, Received("p", batch({"x": 9}, {"x": 9}, {"x": 9})))
    assert [parcel.numbers for parcel in sent(tree, "r")] == [(1, 2, 3)]
    again = b.handle(0.0, Rescued(batch({"x": 9}, {"x": 9}, first=3)))
    assert [parcel.numbers for parcel in sent(again, "r")] == [(4,)], "3 came by the tree"
    b.check()


def adrift(b: Router) -> list[Effect]:
    """Behind p the way to the publisher is lost."""
    return b.handle(1.0, Received("p", AdvertisementRemoved(9, "pub/1", is_lost=True)))


def test_filters_stay_told_for_an_advertisement_adrift_and_no_longer_than_the_rest() -> None:
    b = routed()
    effects = adrift(b)
    assert Forgotten("pub/1", is_lost=True) in effects and b.hop_toward("pub/1") is None
    assert changes(effects, "p", SubscriptionRemoved) == []
    assert SetTimer(TIMER, 1.0 + b.params.rest_for) in effects
    b.check()
    late = b.handle(1.0 + b.params.rest_for, Fired(TIMER))
    assert changes(late, "p", SubscriptionRemoved) and not b.tables.adrift
    b.check()


def test_an_advertisement_that_is_known_again_is_no_longer_adrift() -> None:
    b = routed()
    adrift(b)
    effects = b.handle(2.0, Received("p", AdvertisementAdded(10, "pub/1", "pub", "TRUE", "p", 7)))
    assert [each.hop for each in effects if isinstance(each, Known)] == ["p"]
    assert changes(effects, "p", SubscriptionAdded) == [], "they are told still"
    assert not b.tables.adrift
    b.check()


def test_an_advertisement_that_is_withdrawn_is_not_adrift() -> None:
    b = routed()
    effects = b.handle(1.0, Received("p", AdvertisementRemoved(9, "pub/1")))
    assert changes(effects, "p", SubscriptionRemoved) and not b.tables.adrift
    c = routed()
    adrift(c)
    effects = c.handle(2.0, Received("p", AdvertisementRemoved(10, "pub/1")))
    assert changes(effects, "p", SubscriptionRemoved) and not c.tables.adrift
    c.check()


def test_without_ways_around_nothing_is_adrift() -> None:
    b = routed(rescue_window=0)
    assert changes(adrift(b), "p", SubscriptionRemoved) and not b.tables.adrift


def test_counts_are_kept_while_a_neighbour_is_lost() -> None:
    from tidings.protocols.routing.messages import Counted

    b = routed()
    b.handle(0.0, Received("q", Counted("pub/1", 3, 4)))
    assert b.census is not None and b.census.counts() == {"pub/1": 3}
    b.handle(0.0, NeighbourDown("q", 1))
    assert b.census.counts() == {"pub/1": 3} and b.census.behind("pub/1") == {}
    b.check()
