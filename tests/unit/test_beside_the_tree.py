"""Direct delivery and gossip, input by input: who is asked, who is told, and what stays on the tree."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_routing import act, change_links
from tests.scenarios.test_popularity import PopularNetwork
from tests.worlds.routers import RoutingModel
from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.inputs import Received
from tidings.machine.message import Contact
from tidings.model.language.parser import parse
from tidings.protocols.routing.carriage.aside import OTHER_WAY
from tidings.protocols.routing.carriage.direct import NO_PEER, NOT_ITS_BROKER, DirectCarriage, DirectPublications
from tidings.protocols.routing.carriage.gossiping import GossipingCarriage, GroupClosed, GroupOpened
from tidings.protocols.routing.interests import (
    Interest,
    InterestAsked,
    InterestCensus,
    Interested,
    InterestNamed,
    digest_of,
)
from tidings.protocols.routing.messages import AdvertisementAdded, Counted, SubscriptionAdded, TablesBegun
from tidings.protocols.routing.params import PopularityName, RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.notes import GossipTaken
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.requests import RatesForeseen
from tidings.pubsub.signals import (
    Forward,
    GroupHeard,
    GroupJoined,
    GroupLeft,
    GroupSaid,
    LinkWanted,
    Matched,
    NeighbourUp,
    Offer,
    PeerUp,
    Unwant,
    Want,
)

A = "p/1@b"


def of(*numbers: int, x: int = 1, publisher: str = "p", advertisement: str = A, at: float = 0.0) -> Publications:
    heads = (encode_head({"x": x}),) * len(numbers)
    return Publications(publisher, advertisement, at, 0, numbers, heads, (b"",) * len(numbers))


def broker(way: PopularityName, **params: Any) -> Router:
    """Its client publishes; behind q are s, which wants x < 3, and t, which wants x > 1. Nothing is popular."""
    router = Router("b", RoutingParams(engine="plain", popularity=way, capacity=1.0, phi=0.01, **params))
    router.handle(0.0, NeighbourUp("q", 1))
    router.handle(0.0, Received("q", TablesBegun(1, router.lives)))
    router.handle(0.0, Offer(A, "p", parse("TRUE")))
    for text in ("x < 3", "x > 1"):
        router.handle(0.0, Received("q", SubscriptionAdded(1, text)))
    router.handle(0.0, Received("q", Counted(A, 2, 4)))
    router.handle(0.0, Received("q", interested(("s", "x < 3"), ("t", "x > 1"), way=way)))
    carriage = router.carrier.carriage
    assert isinstance(carriage, DirectCarriage | GossipingCarriage)
    carriage.popularity.offer("q", A, 1)
    carriage.popularity.streams["q", A].is_popular = False
    carriage.popularity.has_unpopular = True
    return router


def interested(*pairs: tuple[str, str], way: PopularityName = "direct", is_sure: bool = False) -> Interested:
    named = {(name, text if way == "direct" else "") for name, text in pairs}
    return Interested(A, len(named), sum(digest_of(*pair) for pair in named) & (2**48 - 1), is_sure)


def sent(effects: list[Effect], kind: type) -> list[Any]:
    return [
        (effect.to, effect.message) for effect in effects if isinstance(effect, Send) and type(effect.message) is kind
    ]


def name_all(router: Router) -> list[Effect]:
    effects = router.handle(0.1, Received("q", InterestNamed(A, "s", "h:1", ("x < 3",))))
    return effects + router.handle(0.1, Received("q", InterestNamed(A, "t", "h:2", ("x > 1",))))


# Direct.


@pytest.mark.spec("S-59")
def test_each_broker_that_wants_a_publication_gets_it_once_and_no_client_is_named() -> None:
    router = broker("direct")
    # Until everybody is known it goes by the tree, and they are asked for.
    effects = router.handle(0.0, Forward(of(1)))
    assert sent(effects, InterestAsked) == [("q", InterestAsked(A))] and sent(effects, Publications)
    assert name_all(router) == [LinkWanted(Contact("s", "h:1"), "direct"), LinkWanted(Contact("t", "h:2"), "direct")]
    assert sent(router.handle(0.2, Forward(of(2))), Publications), "there are no links yet"
    for name in "st":
        router.handle(0.3, PeerUp(name, 1))
    for number, (x, wanted) in enumerate([(0, "s"), (2, "st"), (5, "t")], 3):
        effects = router.handle(0.4, Forward(of(number, x=x)))
        assert not sent(effects, Publications)
        assert sent(effects, DirectPublications) == [(name, DirectPublications(of(number, x=x))) for name in wanted]
    router.check()


def test_one_more_or_one_less_behind_the_link_sends_the_stream_back_to_the_tree_until_all_are_known() -> None:
    router = broker("direct")
    router.handle(0.0, Forward(of(1)))
    name_all(router)
    for name in "stu":
        router.handle(0.3, PeerUp(name, 1))
    assert sent(router.handle(0.4, Forward(of(2))), DirectPublications)
    router.handle(0.5, Received("q", interested(("s", "x < 3"), ("t", "x > 1"), ("u", "x = 1"))))
    effects = router.handle(0.5, Forward(of(3)))
    assert sent(effects, Publications) and sent(effects, InterestAsked)
    name_all(router)
    assert sent(router.handle(0.6, Forward(of(4))), Publications), "u is not named"
    router.handle(0.7, Received("q", InterestNamed(A, "u", "h:3", ("x = 1",))))
    told = sent(router.handle(0.8, Forward(of(5))), DirectPublications)
    assert [name for name, _ in told] == ["s", "u"]
    router.check()


def test_nothing_leaves_the_tree_where_somebody_was_promised_something_or_where_there_are_too_many() -> None:
    for params, told in (
        ({}, interested(("s", "x < 3"), ("t", "x > 1"), is_sure=True)),
        ({"aside_max": 1}, interested(("s", "x < 3"), ("t", "x > 1"))),
    ):
        router = broker("direct", **params)
        router.handle(0.0, Received("q", told))
        effects = router.handle(0.1, Forward(of(1)))
        assert sent(effects, Publications) and not sent(effects, InterestAsked)


def test_a_publication_with_a_receipt_goes_by_the_tree() -> None:
    router = broker("direct")
    router.handle(0.0, Forward(of(1)))
    name_all(router)
    for name in "st":
        router.handle(0.3, PeerUp(name, 1))
    ((_, batch),) = sent(router.handle(0.4, Forward(of(2), ticket="t")), Publications)
    assert batch.receipt


def test_where_a_link_takes_no_more_publications_go_by_the_tree() -> None:
    router = broker("direct", publications_window_bytes=1024)
    router.handle(0.0, Forward(of(1)))
    name_all(router)
    for name in "st":
        router.handle(0.3, PeerUp(name, 1))
    ways = [
        "direct" if sent(router.handle(0.4, Forward(of(number))), DirectPublications) else "tree"
        for number in range(2, 6)
    ]
    assert ways == ["direct", "direct", "tree", "tree"], "2 of 512 bytes"


def taker(way: PopularityName, **params: Any) -> Router:
    """Behind p publishes its client; ours wants x < 3."""
    router = Router("s", RoutingParams(engine="plain", popularity=way, **params))
    for neighbour in "pq":
        router.handle(0.0, NeighbourUp(neighbour, 1))
        router.handle(0.0, Received(neighbour, TablesBegun(1, router.lives)))
    router.handle(0.0, Received("p", AdvertisementAdded(1, A, "p", "TRUE", "b", 1)))
    return router


@pytest.mark.spec("S-69")
def test_what_comes_beside_the_tree_is_for_our_clients_and_comes_once() -> None:
    router = taker("direct")
    router.handle(0.0, Want(("c", 1), parse("x < 3")))
    router.handle(0.0, Received("q", SubscriptionAdded(1, "x < 9")))
    assert router.handle(0.1, Received("b", DirectPublications(of(7)))) == [Drop(of(7), NO_PEER)]
    router.handle(0.1, PeerUp("b", 1))
    router.handle(0.1, PeerUp("x", 1))
    assert router.handle(0.1, Received("x", DirectPublications(of(7)))) == [Drop(of(7), NOT_ITS_BROKER)]
    (matched,) = router.handle(0.1, Received("b", DirectPublications(of(7))))
    assert isinstance(matched, Matched) and list(matched.wanted) == [(("c", 1),)], "and q, who wants it too, has it so"
    # Out of order, and then again by the tree.
    assert len(router.handle(0.2, Received("b", DirectPublications(of(5))))) == 1
    (again,) = router.handle(0.3, Received("p", of(5, 7)))
    assert isinstance(again, Drop)
    # What nobody here wants is nothing.
    assert router.handle(0.4, Received("b", DirectPublications(of(8, x=9)))) == []
    router.check()


# Gossip.


@pytest.mark.spec("S-63", "S-64")
def test_the_first_unpopular_publication_goes_by_the_tree_beside_the_notice_with_the_view() -> None:
    router = broker("gossip")
    effects = router.handle(0.0, Forward(of(1)))
    assert GroupJoined(A, "p") in effects
    assert sent(effects, GroupOpened) == [("q", GroupOpened(A, (Contact("b"),), 0))], "the publisher's broker at least"
    assert sent(effects, Publications) == [("q", of(1))]
    # The second goes by the tree still, since nobody has joined; then the group is told.
    assert not sent(router.handle(0.1, Forward(of(2))), GroupOpened)
    name_all_in_group(router)
    effects = router.handle(0.2, Forward(of(3)))
    assert GroupSaid(of(3)) in effects and not sent(effects, Publications)
    router.check()


def name_all_in_group(router: Router) -> None:
    for name in "st":
        router.handle(0.1, Received("q", InterestNamed(A, name, "", ())))


@pytest.mark.spec("S-65")
def test_the_way_back_to_the_tree_is_told_once_and_the_next_turn_is_told_again() -> None:
    router = broker("gossip")
    router.handle(0.0, Forward(of(1)))
    name_all_in_group(router)
    carriage = router.carrier.carriage
    assert isinstance(carriage, GossipingCarriage)
    stream = carriage.popularity.streams["q", A]
    stream.is_popular = True
    effects = router.handle(0.2, Forward(of(2)))
    assert [type(message).__name__ for _, message in sent_all(effects)] == ["GroupClosed", "Publications"]
    assert GroupLeft(A) in effects
    assert sent_all(router.handle(0.3, Forward(of(3)))) == [("q", of(3))], "once"
    stream.is_popular = False
    assert sent(router.handle(0.4, Forward(of(4))), GroupOpened), "and again"
    router.check()


def sent_all(effects: list[Effect]) -> list[Any]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


@pytest.mark.spec("S-65", "S-66")
def test_a_notice_is_passed_on_to_all_who_want_something_of_the_advertisement() -> None:
    """Whether they want the publication beside it or not; our own client wants none such as that."""
    router = taker("gossip")
    router.handle(0.0, Want(("c", 1), parse("x > 100")))
    router.handle(0.0, Received("q", Interested(A, 1, 7, False)))
    effects = router.handle(0.1, Received("p", GroupOpened(A, (Contact("b"),), 4)))
    assert sent(effects, GroupOpened) == [("q", GroupOpened(A, (Contact("b"),), 4))]
    assert GroupJoined(A, "p", (Contact("b"),), 4) in effects
    assert sent(effects, InterestNamed) == [("p", InterestNamed(A, "s", "", ()))]
    assert router.handle(0.2, Received("q", GroupOpened(A, (), 0))) == [Drop(GroupOpened(A, (), 0), OTHER_WAY)]
    effects = router.handle(0.3, Received("p", GroupClosed(A)))
    assert sent(effects, GroupClosed) == [("q", GroupClosed(A))] and GroupLeft(A) in effects
    router.check()


def test_with_a_group_of_everybody_whoever_wants_nothing_is_told_and_delivers_nothing() -> None:
    """The straightforward variant of 5.4.3."""
    publisher = broker("gossip", group_of="everybody")
    publisher.handle(0.0, NeighbourUp("r", 1))
    publisher.handle(0.0, Received("r", TablesBegun(1, publisher.lives)))
    effects = publisher.handle(0.1, Forward(of(1)))
    assert [to for to, _ in sent(effects, GroupOpened)] == ["r", "q"], "nobody behind r wants any"
    name_all_in_group(publisher)
    carriage = publisher.carrier.carriage
    assert isinstance(carriage, GossipingCarriage)
    carriage.popularity.streams["q", A].is_popular = True
    assert sorted(to for to, _ in sent(publisher.handle(0.2, Forward(of(2))), GroupClosed)) == ["q", "r"]
    indifferent = taker("gossip", group_of="everybody")
    effects = indifferent.handle(0.1, Received("p", GroupOpened(A, (Contact("b"),), 0)))
    assert GroupJoined(A, "p", (Contact("b"),), 0) in effects and sent(effects, GroupOpened)
    assert not sent(effects, InterestNamed), "it is not among those that have to be known"
    assert not indifferent.handle(0.2, GroupHeard(of(1, x=50)))
    assert GroupLeft(A) in indifferent.handle(0.3, Received("p", GroupClosed(A)))
    publisher.check()
    indifferent.check()


def test_whoever_wants_nothing_of_it_any_more_leaves_the_group() -> None:
    router = taker("gossip")
    router.handle(0.0, Want(("c", 1), parse("x > 100")))
    router.handle(0.1, Received("p", GroupOpened(A, (), 0)))
    effects = router.handle(0.2, Unwant(("c", 1)))
    assert GroupLeft(A) in effects and sent(effects, Interested) == [("p", Interested(A, 0, 0, False))]
    router.check()


@pytest.mark.spec("S-69")
def test_what_is_heard_in_a_group_is_filtered_by_our_clients_and_noted() -> None:
    router = Router("s", RoutingParams(engine="plain", popularity="gossip", notes_forwards=True))
    router.handle(0.0, NeighbourUp("p", 1))
    router.handle(0.0, Received("p", TablesBegun(1, router.lives)))
    router.handle(0.0, Received("p", AdvertisementAdded(1, A, "p", "TRUE", "b", 1)))
    router.handle(0.0, Want(("c", 1), parse("x < 3")))
    matched, note = router.handle(0.1, GroupHeard(of(1)))
    assert isinstance(matched, Matched) and note == GossipTaken(matches=1)
    assert router.handle(0.1, GroupHeard(of(2, x=9))) == [GossipTaken(matches=0)], "a false positive, counted"


@pytest.mark.spec("S-66")
@pytest.mark.parametrize("way", ["direct", "gossip"])
def test_subscribers_that_come_after_the_switch_get_everything_published_later(way: PopularityName) -> None:
    """G-26 and G-27: one who is there and wants other events of the advertisement, and one who comes late."""
    network = PopularNetwork(way, 6, Random(3))
    network.run(1.0)
    network.advertise(2)
    network.run(1.0)
    other = network.subscribe("b5", "kind = 0 AND x = 7")
    first = network.subscribe("b4", "kind = 0 AND x < 3")
    for name in network.names * 2:
        network.subscribe(name, "kind = 1")
    network.run(2.0)
    for _ in range(12):
        network.publish(1, 0)
        network.publish(0, 1)
        network.run(0.5)
    assert network.carriage("b0").diverted["diverted"]
    late = network.subscribe("b3", "kind = 0 AND x < 3")
    network.run(1.0)
    for x in (7, 1, 2, 7, 1):
        network.publish(0, x)
        network.run(0.3)
    network.run(15.0)
    for key in (other, first, late):
        assert Counter(network.got(key)) == Counter(network.owed.get(key, [])), key


# Interests.


@given(st.integers(0, 2**32))
def test_at_rest_the_publishers_broker_knows_the_digest_of_all_pairs(seed: int) -> None:
    rng = Random(seed)
    way: PopularityName = rng.choice(["direct", "gossip"])
    model = RoutingModel(rng, "advertisement", rng.choice(["plain", "covering"]), rng.randint(2, 7), popularity=way)
    for _ in range(rng.randint(5, 30)):
        act(model, rng)
        if rng.random() < 0.2 and model.edges:
            change_links(model, rng)
        model.world.run(rng.choice([0, 1, 3, 30]))
    model.world.settle()
    for advertisement, (home, text) in model.offers.items():
        census = model.routers[home].census
        assert isinstance(census, InterestCensus)
        sides = [
            census.own(advertisement),
            *(each[advertisement] for each in census.stated.values() if advertisement in each),
        ]
        offered = parse(text)
        pairs = {
            (at, parse(wanted).text() if way == "direct" else "")
            for at, wanted in model.wants.values()
            if parse(wanted).overlaps(offered)
        }
        reached = Interest(sum(side.pairs for side in sides), sum(side.digest for side in sides) & (2**48 - 1))
        assert reached == Interest(len(pairs), sum(digest_of(*pair) for pair in pairs) & (2**48 - 1))
    for router in model.routers.values():
        router.check()


LARGE = st.integers(0, 2**63 - 1)
MESSAGES = st.one_of(
    st.builds(
        Interested, st.sampled_from([A, "x"]), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.booleans()
    ),
    st.builds(InterestAsked, st.sampled_from([A, "x"])),
    st.builds(
        InterestNamed,
        st.sampled_from([A, "x"]),
        st.sampled_from(["s", "t", "b"]),
        st.sampled_from(["", "h:1", "nonsense"]),
        st.lists(st.sampled_from(["x < 3", "nonsense (", "TRUE"]), max_size=4).map(tuple),
    ),
    st.builds(GroupOpened, st.sampled_from([A, "x"]), st.just((Contact("b"),)), st.integers(0, 2**63 - 1)),
    st.builds(GroupClosed, st.sampled_from([A, "x"])),
    st.builds(lambda numbers: DirectPublications(of(*numbers)), st.lists(st.integers(0, 9), max_size=4)),
)


@given(st.lists(st.tuples(st.sampled_from(["q", "p", "b", "stranger"]), MESSAGES), max_size=25), st.booleans())
def test_a_liar_about_interests_makes_nothing_raise_and_nothing_pass_twice(
    lies: list[tuple[str, Any]], is_taker: bool
) -> None:
    ways: tuple[PopularityName, ...] = ("direct", "gossip")
    for way in ways:
        router = taker(way) if is_taker else broker(way)
        if is_taker:
            router.handle(0.0, Want(("c", 1), parse("x < 3")))
        if way == "direct":
            router.handle(0.0, PeerUp("b", 1))
        got: list[int] = []
        for place, (sender, lie) in enumerate(lies):
            if type(lie) not in router.messages:
                continue
            for effect in router.handle(float(place), Received(sender, lie)):
                if isinstance(effect, Matched):
                    got += effect.batch.numbers
            if not is_taker:
                router.handle(float(place), Forward(of(100 + place, at=float(place))))
            router.check()
        assert len(got) == len(set(got))


def test_rates_are_foreseen_for_advertisements_and_for_publishers() -> None:
    router = broker("direct")
    carriage = router.carrier.carriage
    assert isinstance(carriage, DirectCarriage)
    assert carriage.foreseen(A) is None
    router.handle(0.0, RatesForeseen((("p", 3.0), ("other", 5.0))))
    assert carriage.foreseen(A) == 3.0
    router.handle(0.0, RatesForeseen(((A, 4.0), ("p", 3.0))))
    assert carriage.foreseen(A) == 4.0
    router.handle(0.0, RatesForeseen(()))
    assert carriage.foreseen(A) is None
