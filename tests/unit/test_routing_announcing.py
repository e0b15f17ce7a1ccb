"""What brokers tell each other, message by message, in small networks whose order of events we choose."""

from random import Random

import pytest

from tests.worlds.brokers import BrokerWorld
from tests.worlds.routers import RoutingModel
from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.node import Node
from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    Installed,
    NotInstalled,
    SubscriptionAdded,
    SubscriptionRemoved,
    TablesBegun,
    TablesTold,
)
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.requests import LINK_LOST, NOT_ACKNOWLEDGED, TIMED_OUT
from tidings.protocols.routing.router import Router
from tidings.protocols.routing.state import BAD_FILTER, NO_NEIGHBOUR, TABLE_FULL
from tidings.pubsub.signals import (
    Forgotten,
    Known,
    NeighbourDown,
    NeighbourReplaced,
    NeighbourUp,
    Offer,
    Settled,
    Unoffer,
    Unwant,
    Want,
)

QUAKES = "type = 'quake'"
LARGE = "type = 'quake' AND magnitude >= 5"
HUGE = "type = 'quake' AND magnitude >= 8"
LINE = [("a", "b"), ("b", "c")]


def routers(names: str, **params: object) -> dict[str, Router]:
    """A lost neighbour is forgotten at once, so that nothing is left to happen when these networks are at rest."""
    settings: dict[str, object] = {"engine": "plain", "repair": "strawman", **params}
    return {name: Router(name, RoutingParams(**settings)) for name in names}  # type: ignore[arg-type]


def network(edges: list[tuple[str, str]], **params: object) -> BrokerWorld:
    names = sorted({name for edge in edges for name in edge})
    world = BrokerWorld(dict(routers("".join(names), **params)), Random(1), checks=True)
    for first, second in edges:
        world.link(first, second)
    world.rest()
    world.crossed.clear()
    return world


def router(world: BrokerWorld, name: str) -> Router:
    node = world.nodes[name]
    assert isinstance(node, Router)
    return node


def offer(world: BrokerWorld, name: str, text: str = QUAKES, advertisement: str = "p/1") -> None:
    world.tell(name, Offer(advertisement, advertisement.partition("/")[0], parse(text), f"offer {advertisement}"))


def want(world: BrokerWorld, name: str, text: str, number: int = 1) -> str:
    ticket = f"want {name} {number}"
    world.tell(name, Want((f"client of {name}", number), parse(text), ticket))
    return ticket


def settled(world: BrokerWorld, ticket: str) -> Settled | None:
    found = [signal for _, signal in world.heard if isinstance(signal, Settled) and signal.ticket == ticket]
    assert len(found) <= 1
    return found[0] if found else None


def sent(world: BrokerWorld, kind: str) -> int:
    return sum(count for (_, _, name), count in world.crossed.items() if name == kind)


@pytest.mark.spec("S-4", "S-96")
def test_an_advertisement_is_known_everywhere_before_it_is_acknowledged_and_each_link_carries_one_answer() -> None:
    world = network([("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")])
    offer(world, "a")
    while settled(world, "offer p/1") is None:
        assert world.step()
    for name, hop in {"b": "a", "c": "b", "d": "b", "e": "d"}.items():
        assert router(world, name).hop_toward("p/1") == hop
    assert settled(world, "offer p/1") == Settled("offer p/1", ("a", "b", "c", "d", "e"), 5)
    added = {(to, sender): n for (sender, to, kind), n in world.crossed.items() if kind == "AdvertisementAdded"}
    answers = {(sender, to): n for (sender, to, kind), n in world.crossed.items() if kind == "Installed"}
    assert added == answers == dict.fromkeys([("b", "a"), ("c", "b"), ("d", "b"), ("e", "d")], 1)


@pytest.mark.spec("S-97")
def test_a_broker_with_two_links_further_waits_for_two_answers() -> None:
    """X-13: the advertisement comes from b1; b2 has out-links to b4 and b5."""
    world = network([("1", "2"), ("2", "4"), ("2", "5")])
    offer(world, "1")
    world.arrive("1", "2")
    waiting = router(world, "2").ledger.unanswered
    assert {name: len(entries) for name, entries in waiting.items() if entries} == {"4": 1, "5": 1}
    world.arrive("2", "4")
    world.arrive("4", "2")
    assert {name: len(entries) for name, entries in waiting.items() if entries} == {"5": 1}
    assert not world.queues["2", "1"]
    world.rest()
    assert settled(world, "offer p/1") is not None


@pytest.mark.spec("S-97")
def test_a_broker_that_is_alone_settles_everything_at_once() -> None:
    alone = Router("a", RoutingParams(engine="plain"))
    assert alone.why_unsettled() == ""
    assert alone.handle(0.0, Offer("p/1", "p", parse(QUAKES), "offer")) == [
        Known("p/1", "p", parse(QUAKES), None),
        Settled("offer", ("a",), 1),
    ]
    assert alone.handle(0.0, Want(("c", 1), parse(LARGE), "want")) == [Settled("want", ("a",), 1)]
    assert alone.handle(0.0, Unwant(("c", 1), "unwant")) == [Settled("unwant", ("a",), 1)]
    assert alone.handle(0.0, Unoffer("p/1", "unoffer")) == [Forgotten("p/1"), Settled("unoffer", ("a",), 1)]


@pytest.mark.spec("S-98")
def test_a_missing_acknowledgement_fails_the_request_after_the_timeout_and_a_late_one_is_ignored() -> None:
    world = network(LINE)
    offer(world, "c")
    world.rest()
    ticket = want(world, "a", LARGE)
    world.arrive("a", "b")
    assert world.timers == {("a", "unanswered"): 30.0, ("b", "unanswered"): 30.0}
    assert router(world, "a").handle(29.9, Fired("unanswered")) == [SetTimer("unanswered", 30.0)]
    world.fire()
    failed = settled(world, ticket)
    assert failed is not None and failed.problem == TIMED_OUT
    world.rest()
    assert settled(world, ticket) is failed and not world.timers


@pytest.mark.spec("S-98")
def test_a_broker_passes_on_that_a_later_one_failed() -> None:
    world = network(LINE)
    offer(world, "c")
    world.rest()
    ticket = want(world, "a", LARGE)
    world.arrive("a", "b")
    world.perform("b", router(world, "b").handle(30.0, Fired("unanswered")))
    world.arrive("b", "a")
    failed = settled(world, ticket)
    assert failed is not None and failed.problem == TIMED_OUT


@pytest.mark.spec("S-98")
def test_a_failed_subscription_stays_and_asking_again_is_told_again() -> None:
    world = network(LINE)
    offer(world, "c")
    world.rest()
    want(world, "a", LARGE)
    world.perform("a", router(world, "a").handle(30.0, Fired("unanswered")))
    world.rest()
    assert list(router(world, "c").tables.texts["b"]) == [parse(LARGE).text()]
    world.heard.clear()
    ticket = want(world, "a", LARGE)
    assert settled(world, ticket) is None
    world.rest()
    assert settled(world, ticket) == Settled(ticket, ("a", "b", "c"), 3)


def test_a_lost_link_fails_what_was_to_be_added_there_and_completes_what_was_to_be_removed() -> None:
    world = network(LINE)
    offer(world, "c")
    world.rest()
    want(world, "a", HUGE, 2)
    world.rest()
    added = want(world, "a", "type = 'quake' AND magnitude < 3")
    world.tell("a", Unwant(("client of a", 2), "unwant"))
    world.cut("a", "b")
    world.rest()
    answer = settled(world, added)
    assert answer is not None and answer.problem == LINK_LOST
    assert settled(world, "unwant") == Settled("unwant", ("a",), 1)
    assert not world.timers


@pytest.mark.spec("S-100")
def test_a_ready_cover_on_every_hop_settles_without_a_message() -> None:
    world = network(LINE)
    offer(world, "c")
    world.rest()
    want(world, "a", QUAKES)
    world.rest()
    world.crossed.clear()
    ticket = want(world, "a", LARGE, 2)
    assert settled(world, ticket) == Settled(ticket, ("a", "b", "c"), 3)
    assert not world.crossed


@pytest.mark.spec("S-101")
def test_a_cover_that_is_not_acknowledged_yet_is_waited_for() -> None:
    world = network(LINE)
    offer(world, "c")
    world.rest()
    first = want(world, "a", QUAKES)
    second = want(world, "a", LARGE, 2)
    assert settled(world, second) is None
    world.rest()
    assert settled(world, first) is not None and settled(world, second) is not None
    assert world.crossed["a", "b", "SubscriptionAdded"] == 1


@pytest.mark.spec("S-101", "S-102")
def test_a_cover_from_the_direction_of_the_publisher_hides_nothing_there() -> None:
    """G-42, G-43: c wants everything, a wants less; towards c only what a wants is told, and events go both ways."""
    world = network(LINE)
    offer(world, "c")
    world.rest()
    want(world, "c", QUAKES)
    world.rest()
    ticket = want(world, "a", LARGE)
    assert settled(world, ticket) is None
    world.rest()
    assert list(router(world, "c").tables.texts["b"]) == [parse(LARGE).text()]
    assert list(router(world, "b").tables.texts["a"]) == [parse(LARGE).text()]
    assert settled(world, ticket) == Settled(ticket, ("a", "b", "c"), 3)


@pytest.mark.spec("S-102")
def test_a_covered_filter_of_another_hop_has_its_own_entry() -> None:
    world = network([("a", "b"), ("b", "c"), ("b", "d")])
    offer(world, "c")
    world.rest()
    want(world, "a", QUAKES)
    world.rest()
    want(world, "d", LARGE)
    world.rest()
    tables = router(world, "b").tables
    assert list(tables.texts["a"]) == [parse(QUAKES).text()] and list(tables.texts["d"]) == [parse(LARGE).text()]
    assert list(router(world, "c").tables.texts["b"]) == [parse(QUAKES).text()]


@pytest.mark.spec("S-101")
def test_a_cover_acknowledged_before_a_publisher_came_is_not_ready_for_it() -> None:
    """a's QUAKES is acknowledged while only b publishes. When c begins, b has still to tell c of it; a new subscription
    at a, which already knows of c, must wait for that."""
    world = network(LINE)
    offer(world, "b")
    want(world, "a", QUAKES)
    world.rest()
    offer(world, "c", QUAKES, "q/1")
    world.arrive("c", "b")
    world.arrive("b", "a")
    assert router(world, "a").hop_toward("q/1") == "b" and not router(world, "c").tables.texts["b"]
    ticket = want(world, "a", LARGE, 2)
    assert settled(world, ticket) is None
    while settled(world, ticket) is None:
        assert world.step()
    assert list(router(world, "c").tables.texts["b"]) == [parse(QUAKES).text()]


@pytest.mark.spec("S-101")
def test_a_cover_under_way_before_a_publisher_came_is_not_trusted_for_it() -> None:
    """The same, while a's QUAKES still waits for d's acknowledgement."""
    world = network([("a", "b"), ("b", "c"), ("b", "d")])
    offer(world, "d")
    world.rest()
    want(world, "a", QUAKES)
    world.arrive("a", "b")
    offer(world, "c", QUAKES, "q/1")
    world.arrive("c", "b")
    world.arrive("b", "a")
    assert router(world, "a").hop_toward("q/1") == "b"
    ticket = want(world, "a", LARGE, 2)
    while any(world.queues[edge] for edge in (("a", "b"), ("b", "a"), ("b", "d"), ("d", "b"))):
        world.arrive(*next(edge for edge in (("a", "b"), ("b", "a"), ("b", "d"), ("d", "b")) if world.queues[edge]))
    assert settled(world, "want a 1") is not None and settled(world, ticket) is None
    world.rest()
    assert settled(world, ticket) is not None


@pytest.mark.spec("S-7", "D-19")
def test_a_covered_subscription_is_not_told_and_comes_to_light_when_its_cover_goes() -> None:
    """X-2: {temp, value < 40} hides {temp, munich, value < 20}."""
    world = network([("a", "b")])
    offer(world, "b", "class = 'temp'")
    world.rest()
    want(world, "a", "class = 'temp' AND value < 40", 1)
    world.rest()
    want(world, "a", "class = 'temp' AND area = 'munich' AND value < 20", 2)
    world.rest()
    assert world.crossed["a", "b", "SubscriptionAdded"] == 1
    world.tell("a", Unwant(("client of a", 1), "unwant"))
    kinds = [type(message) for message in world.under_way("a", "b")]
    assert kinds == [SubscriptionAdded, SubscriptionRemoved], "additions go first"
    world.rest()
    assert list(router(world, "b").tables.texts["a"]) == [
        parse("class = 'temp' AND area = 'munich' AND value < 20").text()
    ]
    assert settled(world, "unwant") == Settled("unwant", ("a", "b"), 2)


def test_filters_that_cover_each_other_do_not_hide_each_other_away() -> None:
    world = network([("a", "b")], strategy="subscription")
    same = ["x = 1 OR x = 2", "x IN (1, 2)", "(x >= 1 AND x <= 1) OR (x >= 2 AND x <= 2)"]
    for number, text in enumerate(same):
        want(world, "a", text, number)
    world.rest()
    for number in range(len(same)):
        told = [router(world, "b").tables.filters[text] for text in router(world, "b").tables.texts["a"]]
        assert any(each.covers(parse(same[0])) for each in told) and len(told) == 1
        world.tell("a", Unwant(("client of a", number)))
        world.rest()
    assert not router(world, "b").tables.texts["a"]


@pytest.mark.spec("S-8")
def test_a_late_advertisement_draws_the_subscriptions_that_wait_for_it_before_delivery_hears_of_it() -> None:
    world = network([("a", "b")])
    want(world, "a", LARGE)
    world.rest()
    assert not router(world, "b").tables.texts["a"]
    effects = router(world, "a").handle(0.0, Received("b", AdvertisementAdded(1, "p/1", "p", QUAKES, "b", 1)))
    kinds = [type(effect.message if isinstance(effect, Send) else effect) for effect in effects]
    assert kinds.index(SubscriptionAdded) < kinds.index(Known) < kinds.index(Installed)


@pytest.mark.spec("S-5")
def test_entries_exist_only_on_the_way_from_subscriber_to_publisher_or_everywhere_without_advertisements() -> None:
    edges = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")]
    for strategy, holders in (("advertisement", {"b", "c"}), ("subscription", {"b", "c", "d", "e"})):
        world = network(edges, strategy=strategy)
        offer(world, "c")
        world.rest()
        want(world, "a", LARGE)
        world.rest()
        holding = {name for name in world.nodes if len(router(world, name).tables.link_index)}
        assert holding == holders


@pytest.mark.spec("S-116")
def test_an_unsubscription_works_at_once_here_and_is_acknowledged_when_nobody_sends_for_it_any_more() -> None:
    world = network(LINE)
    offer(world, "c")
    world.rest()
    want(world, "a", LARGE)
    world.rest()
    world.tell("a", Unwant(("client of a", 1), "unwant"))
    assert not len(router(world, "a").tables.local_index)
    while settled(world, "unwant") is None:
        assert world.step()
    assert not router(world, "b").tables.texts["a"] and not router(world, "c").tables.texts["b"]
    assert settled(world, "unwant") == Settled("unwant", ("a", "b", "c"), 3)


@pytest.mark.spec("S-116")
def test_an_unadvertisement_is_acknowledged_when_nobody_knows_the_advertisement_any_more() -> None:
    world = network(LINE)
    offer(world, "c")
    world.rest()
    world.tell("c", Unoffer("p/1", "unoffer"))
    while settled(world, "unoffer") is None:
        assert world.step()
    assert not router(world, "a").tables.offers and not router(world, "b").tables.offers


@pytest.mark.spec("D-14")
def test_a_first_subscription_goes_to_everybody_and_a_later_one_to_the_nearest_who_has_it() -> None:
    """LAW-1 on the line a-b-c-d-e."""
    world = network([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")], strategy="subscription", reduction="plain")
    for name, messages in (("a", 4), ("d", 3), ("b", 0), ("e", 1)):
        world.crossed.clear()
        want(world, name, LARGE)
        world.rest()
        assert sent(world, "SubscriptionAdded") == messages, name


@pytest.mark.spec("D-15")
def test_an_unsubscription_goes_to_the_nearest_who_still_has_it_and_the_last_one_to_everybody() -> None:
    """LAW-2, the way back."""
    world = network([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")], strategy="subscription", reduction="plain")
    for name in "adbe":
        want(world, name, LARGE)
        world.rest()
    for name, messages in (("e", 1), ("b", 0), ("d", 3), ("a", 4)):
        world.crossed.clear()
        world.tell(name, Unwant((f"client of {name}", 1)))
        world.rest()
        assert sent(world, "SubscriptionRemoved") == messages, name
        assert sent(world, "SubscriptionAdded") == 0


@pytest.mark.spec("D-17")
def test_hierarchical_subscriptions_only_go_up() -> None:
    edges = [("b0", "b1"), ("b0", "b2"), ("b1", "b3"), ("b1", "b4")]
    model = RoutingModel(Random(1), "hierarchical", "plain", 5, edges=edges)
    model.world.rest()
    for number, name in enumerate(model.names):
        model.want((name, number), "x >= 2")
    model.world.rest()
    pairs = {(sender, to) for sender, to, kind in model.world.crossed if kind == "SubscriptionAdded"}
    assert pairs == {(child, parent) for parent, child in edges}


def test_neighbours_begin_whoever_hears_first_and_tell_their_tables_once() -> None:
    world = BrokerWorld(dict(routers("ab")), Random(1), checks=True)
    world.tell("a", Want(("c", 1), parse(LARGE)))
    world.tell("b", Offer("p/1", "p", parse(QUAKES)))
    world.link("a", "b")
    world.tell("a", world.news["a"].popleft())
    world.arrive("a", "b")
    assert world.drops[NO_NEIGHBOUR] == 1
    assert router(world, "a").why_unsettled()
    world.rest()
    assert router(world, "a").why_unsettled() == "" and router(world, "b").why_unsettled() == ""
    assert list(router(world, "b").tables.texts["a"]) == [parse(LARGE).text()]
    assert world.crossed["a", "b", "TablesTold"] == world.crossed["b", "a", "TablesTold"] == 1


def test_what_is_still_on_its_way_from_an_earlier_life_of_the_link_is_not_believed() -> None:
    world = network([("a", "b")])
    offer(world, "a")
    world.leave("a", "b")
    world.tell("a", Unoffer("p/1"))
    world.tell("b", world.news["b"].popleft())
    world.join("a", "b")
    world.tell("b", world.news["b"].popleft())
    world.arrive("a", "b")
    assert not router(world, "b").tables.offers
    world.rest()
    assert not router(world, "b").tables.offers and router(world, "b").why_unsettled() == ""


def test_a_neighbour_that_began_anew_unnoticed_is_told_everything_again() -> None:
    world = network([("a", "b")], strategy="subscription")
    want(world, "a", LARGE)
    world.rest()
    world.tell("b", NeighbourDown("a", 1))
    world.tell("b", NeighbourUp("a", 1))
    assert not router(world, "b").tables.texts["a"]
    world.rest()
    assert list(router(world, "b").tables.texts["a"]) == [parse(LARGE).text()]
    assert router(world, "a").why_unsettled() == "" and router(world, "b").why_unsettled() == ""


def test_whatever_lives_a_neighbour_names_nothing_is_left_of_the_earlier_ones() -> None:
    a = Router("a", RoutingParams("subscription", engine="plain", repair="strawman"))
    a.handle(0.0, Want(("c", 1), parse(LARGE)))
    a.handle(0.0, NeighbourUp("b", 1))
    for life in (1, 0, 2, 0):
        a.handle(0.0, Received("b", TablesBegun(life, a.lives)))
        a.check()
    a.handle(0.0, NeighbourDown("b", 1))
    assert not a.state.covers.filters


def test_a_link_down_of_an_earlier_stream_is_ignored() -> None:
    a = Router("a", RoutingParams(engine="plain"))
    a.handle(0.0, NeighbourUp("b", 2))
    assert a.handle(0.0, NeighbourDown("b", 1)) == []
    assert "b" in a.links


def test_a_replaced_link_is_a_lost_one() -> None:
    world = network([("a", "b")], strategy="subscription")
    want(world, "b", LARGE)
    world.rest()
    world.tell("a", NeighbourDown("b", 1, reconfiguration="r1"))
    assert not router(world, "a").links and not router(world, "a").tables.filters
    assert router(world, "a").handle(0.0, NeighbourReplaced("r1", "b", "a", "c")) == []


def test_a_new_way_to_a_publisher_is_told_to_everybody_behind() -> None:
    """c hears of p over b; then over d as well; when b goes, the way is d's, and e behind c hears of the change."""
    world = network([("a", "b"), ("b", "c"), ("a", "d"), ("c", "e")])
    offer(world, "a")
    world.rest()
    world.link("d", "c")
    world.rest()
    assert router(world, "c").hop_toward("p/1") == "b"
    world.heard.clear()
    world.cut("b", "c")
    world.rest()
    assert router(world, "c").hop_toward("p/1") == "d"
    for name, hop in (("c", "d"), ("e", "c")):
        assert world.told(name, Known) == [Known("p/1", "p", parse(QUAKES), hop)]
        assert not world.told(name, Forgotten)


def test_a_changed_advertisement_is_told_again_and_draws_other_subscriptions() -> None:
    world = network([("a", "b")])
    offer(world, "b", "x < 5")
    want(world, "a", "x > 7")
    want(world, "a", "x > 2", 2)
    world.rest()
    assert list(router(world, "b").tables.texts["a"]) == ["x > 2"]
    offer(world, "b", "x > 7 AND x < 9")
    world.rest()
    assert list(router(world, "b").tables.texts["a"]) == ["x > 2"]
    world.tell("a", Unwant(("client of a", 2)))
    world.rest()
    assert list(router(world, "b").tables.texts["a"]) == ["x > 7"]
    offer(world, "b", "x < 5")
    world.rest()
    assert not router(world, "b").tables.texts["a"]


def test_a_filter_that_cannot_be_read_is_refused() -> None:
    b = router(network([("a", "b")]), "b")
    message = SubscriptionAdded(99, "this is AND no filter")
    assert b.handle(0.0, Received("a", message)) == [Drop(message, BAD_FILTER), Send("a", NotInstalled(99, BAD_FILTER))]


def test_a_full_table_refuses_further_entries() -> None:
    b = router(network([("a", "b")], filters_max=1, advertisements_max=1), "b")
    b.handle(0.0, Received("a", SubscriptionAdded(90, LARGE)))
    effects = b.handle(0.0, Received("a", SubscriptionAdded(91, HUGE)))
    assert effects[-1] == Send("a", NotInstalled(91, TABLE_FULL))
    b.handle(0.0, Received("a", AdvertisementAdded(92, "p/1", "p", QUAKES, "a", 1)))
    effects = b.handle(0.0, Received("a", AdvertisementAdded(93, "p/2", "p", QUAKES, "a", 2)))
    assert effects[-1] == Send("a", NotInstalled(93, TABLE_FULL))
    b.handle(0.0, Want(("c", 1), parse(LARGE)))
    assert b.handle(0.0, Want(("c", 2), parse(LARGE), "t")) == [Settled("t", problem=TABLE_FULL)]
    b.handle(0.0, Offer("q/1", "q", parse(LARGE)))
    assert b.handle(0.0, Offer("q/2", "q", parse(LARGE), "t")) == [Settled("t", problem=TABLE_FULL)]


def test_strangers_are_not_listened_to() -> None:
    a = Router("a", RoutingParams(engine="plain"))
    for message in (TablesBegun(1, 1), TablesTold(), SubscriptionAdded(1, LARGE), Installed(1, (), 0)):
        assert a.handle(0.0, Received("x", message)) == [Drop(message, NO_NEIGHBOUR)]


def test_a_start_after_a_crash_finds_no_neighbours() -> None:
    world = network([("a", "b")], strategy="subscription")
    want(world, "b", LARGE)
    world.rest()
    a = router(world, "a")
    a.start(1.0)
    assert not a.links and not a.tables.texts.keys() - {None} and a.why_unsettled() == ""
    a.check()


@pytest.mark.parametrize(
    "wrong",
    [
        {"ack_timeout": 0.0},
        {"merge_share_max": 2.0},
        {"merge_share_max": 0.1},
        {"parent": "b"},
        {"memo_max": 0},
        {"merge_group_max": 1},
        {"unanswered_max": 5},
        {"repair": "shift", "strategy": "hierarchical"},
        {"repair": "shift", "strategy": "flooding"},
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        RoutingParams(**wrong)  # type: ignore[arg-type]


def test_a_lost_link_with_thousands_of_advertisements_is_heard_of_as_a_whole() -> None:
    class Listener:
        messages: tuple[type, ...] = ()
        hears: tuple[type, ...] = (Forgotten,)
        tells: tuple[type[Signal], ...] = ()

        def __init__(self) -> None:
            self.forgotten = 0

        def start(self, now: float) -> list[Effect]:
            return []

        def handle(self, now: float, input: Input) -> list[Effect]:
            self.forgotten += isinstance(input, Forgotten)
            return []

        def check(self) -> None: ...

    a, listener = Router("a", RoutingParams(engine="plain")), Listener()
    node = Node({"routing": a, "delivery": listener}, tells=a.tells)
    node.handle(0.0, NeighbourUp("b", 1))
    node.handle(0.0, Received("b", TablesBegun(1, 1)))
    for number in range(3000):
        node.handle(0.0, Received("b", AdvertisementAdded(number, f"p/{number}", "p", QUAKES, "b", number)))
    node.handle(0.0, NeighbourDown("b", 1))
    assert listener.forgotten == 3000


# Without acknowledgements.


def test_without_acknowledgements_a_ticket_is_settled_at_once_and_names_this_broker_only() -> None:
    world = network(LINE, strategy="subscription", acknowledges=False)
    offer(world, "c")
    ticket = want(world, "a", LARGE)
    for asked in (ticket, "offer p/1"):
        answer = settled(world, asked)
        assert answer is not None and not answer.problem
        assert answer.brokers_count == 1 and answer.brokers == (("a",) if asked == ticket else ("c",))
    world.rest()
    assert list(router(world, "c").tables.texts["b"]) == [parse(LARGE).text()]
    assert not {kind for _, _, kind in world.crossed} & {"Installed", "NotInstalled"} and not world.timers
    assert router(world, "a").is_best_effort and not Router("a").is_best_effort
    rows = list(router(world, "a").route_rows())
    assert rows and not any(row.is_pending for row in rows)


def test_whoever_asks_a_broker_that_does_not_acknowledge_hears_that_it_does_not() -> None:
    nodes = {
        "a": Router("a", RoutingParams("subscription", engine="plain")),
        "b": Router("b", RoutingParams("subscription", engine="plain", acknowledges=False)),
    }
    world = BrokerWorld(dict(nodes), Random(1), checks=True)
    world.link("a", "b")
    world.rest()
    ticket = want(world, "a", LARGE)
    world.rest()
    answer = settled(world, ticket)
    assert answer is not None and answer.problem == NOT_ACKNOWLEDGED
    assert list(nodes["b"].tables.texts["a"]) == [parse(LARGE).text()], "it is carried out all the same"
