"""Publications on their way through a broker."""

from random import Random

import pytest
from msgspec.structs import replace

from tests.worlds.brokers import BrokerWorld
from tests.worlds.routers import RoutingModel, events_of
from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.inputs import Received
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.routing.carrier import (
    BAD_HEAD,
    NOT_ASCENDING,
    OTHER_PUBLISHER,
    OTHER_WAY,
    PASSED_ALREADY,
    UNADVERTISED,
    UNWANTED,
)
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    NotReached,
    Reached,
    SubscriptionAdded,
    SubscriptionRemoved,
    TablesBegun,
    TablesTold,
)
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.repairs.choice import MakeRepair
from tidings.protocols.routing.requests import LINK_LOST, NOT_ACKNOWLEDGED, TIMED_OUT
from tidings.protocols.routing.router import Router
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import Forward, Matched, NeighbourDown, NeighbourUp, Offer, Settled, Want


def broker(neighbours: str = "pqr", make_repair: MakeRepair | None = None, **params: object) -> Router:
    """A broker whose neighbour p leads to a publisher of everything."""
    made = Router("b", RoutingParams(engine="plain", **params), make_repair)  # type: ignore[arg-type]
    for neighbour in neighbours:
        made.handle(0.0, NeighbourUp(neighbour, 1))
        made.handle(0.0, Received(neighbour, TablesBegun(1, made.lives)))
    made.handle(0.0, Received("p", AdvertisementAdded(1, "pub/1", "pub", "TRUE", "p", 1)))
    return made


def batch(*events: dict[str, Value], first: int = 1, receipt: int = 0) -> Publications:
    numbers = tuple(range(first, first + len(events)))
    heads = tuple(encode_head(event) for event in events)
    return Publications("pub", "pub/1", 1.0, receipt, numbers, heads, tuple(b"%d" % number for number in numbers))


def sent(effects: list[Effect], to: str) -> list[Publications]:
    messages = [effect.message for effect in effects if isinstance(effect, Send) and effect.to == to]
    return [message for message in messages if isinstance(message, Publications)]


@pytest.mark.spec("S-6")
def test_an_event_goes_only_where_it_matches() -> None:
    """X-1: S1, a client, wants values below 0, q below 20; 10 goes to q only."""
    b = broker()
    b.handle(0.0, Want(("S1", 1), parse("class = 'temp' AND area = 'munich' AND value < 0")))
    b.handle(0.0, Received("q", SubscriptionAdded(1, "class = 'temp' AND area = 'munich' AND value < 20")))
    arrived = batch({"class": "temp", "area": "munich", "value": 10})
    assert b.handle(0.0, Received("p", arrived)) == [Send("q", arrived)]


def test_a_batch_with_one_destination_set_is_passed_on_as_the_object_it_is() -> None:
    b = broker()
    for neighbour in "qr":
        b.handle(0.0, Received(neighbour, SubscriptionAdded(1, "x > 0")))
    b.handle(0.0, Want(("c", 1), parse("x > 0")))
    arrived = batch({"x": 1}, {"x": 2})
    effects = b.handle(0.0, Received("p", arrived))
    assert all(parcel is arrived for neighbour in "qr" for parcel in sent(effects, neighbour))
    assert effects[-1] == Matched(arrived, ((("c", 1),), (("c", 1),)))


def test_a_mixed_batch_is_cut_by_destination_and_keeps_its_order() -> None:
    b = broker("pqrs")
    for neighbour, text in (("q", "x >= 2"), ("r", "x < 3"), ("s", "x >= 2")):
        b.handle(0.0, Received(neighbour, SubscriptionAdded(1, text)))
    b.handle(0.0, Want(("c", 1), parse("x = 2")))
    effects = b.handle(0.0, Received("p", batch({"x": 3}, {"x": 2}, {"x": 1}, {"x": 4})))
    (to_q,), (to_r,), (to_s,) = (sent(effects, neighbour) for neighbour in "qrs")
    assert to_q.numbers == (1, 2, 4) and to_q.payloads == (b"1", b"2", b"4") and to_q.accepted_at == 1.0
    assert to_r.numbers == (2, 3)
    assert to_s is to_q, "the same choice is one object, so that it is encoded once"
    assert [(each.batch.numbers, each.wanted) for each in effects if isinstance(each, Matched)] == [
        ((2,), ((("c", 1),),))
    ]


def test_a_changed_table_changes_where_known_heads_go() -> None:
    b = broker()
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    assert sent(b.handle(0.0, Received("p", batch({"x": 1}))), "q")
    b.handle(0.0, Received("r", SubscriptionAdded(1, "x > 0")))
    assert sent(b.handle(0.0, Received("p", batch({"x": 1}, first=2))), "r")
    b.handle(0.0, Received("q", SubscriptionRemoved(2, "x > 0")))
    assert not sent(b.handle(0.0, Received("p", batch({"x": 1}, first=3))), "q")


def test_heads_remembered_are_bounded() -> None:
    b = broker(memo_max=4)
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 2")))
    for size in (3, 4, 5, 5, 3, 9):
        events: list[dict[str, Value]] = [{"x": x} for x in range(size)]
        effects = b.handle(0.0, Received("p", batch(*events, first=b.carrier.passage.last.get("pub/1", 0) + 1)))
        wanted = [len(parcel.numbers) for parcel in sent(effects, "q")]
        assert wanted == ([size - 3] if size > 3 else [])
        b.check()


def test_what_does_not_decode_is_dropped_and_the_rest_goes_on() -> None:
    b = broker()
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    good = batch({"x": 1}, {"x": 1}, {"x": 1})
    arrived = Publications("pub", "pub/1", 1.0, 0, (1, 2, 3), (good.heads[0], b"\xc1", good.heads[2]), good.payloads)
    effects = b.handle(0.0, Received("p", arrived))
    assert [parcel.numbers for parcel in sent(effects, "q")] == [(1, 3)]
    assert [(each.item.numbers, each.reason) for each in effects if isinstance(each, Drop)] == [((2,), BAD_HEAD)]


def test_an_event_never_goes_back_to_where_it_came_from() -> None:
    b = broker()
    b.handle(0.0, Received("p", SubscriptionAdded(2, "x > 0")))
    arrived = batch({"x": 1})
    assert b.handle(0.0, Received("p", arrived)) == [Drop(arrived, UNWANTED)]


@pytest.mark.spec("D-13")
def test_what_passed_already_is_dropped_and_the_new_rest_goes_on() -> None:
    b = broker()
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    b.handle(0.0, Received("p", batch({"x": 1}, {"x": 2})))
    effects = b.handle(0.0, Received("p", batch({"x": 2}, {"x": 3}, first=2)))
    assert [parcel.numbers for parcel in sent(effects, "q")] == [(3,)]
    assert [(each.item.numbers, each.reason) for each in effects if isinstance(each, Drop)] == [((2,), PASSED_ALREADY)]
    again = batch({"x": 2}, {"x": 3}, first=2)
    assert b.handle(0.0, Received("p", again)) == [Drop(again, PASSED_ALREADY)]


@pytest.mark.parametrize("rescue_window", [0, 8])
def test_what_its_broker_accepted_again_after_a_crash_passes_again(rescue_window: int) -> None:
    """The first time it was passed on before it was saved, and whoever asked for history since then found it gone."""
    b = broker(rescue_window=rescue_window)
    b.handle(0.0, Want(("c", 1), parse("x > 0")))
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    b.handle(0.0, Received("p", batch({"x": 1}, {"x": 2}, {"x": 3})))
    for again in (batch({"x": 2}, first=2), batch({"x": 3}, {"x": 4}, first=3)):
        # One batch to its broker, which has sent it in two pieces.
        anew = replace(again, accepted_at=9.0)
        effects = b.handle(9.0, Received("p", anew))
        assert sent(effects, "q") == [anew] and [each.batch for each in effects if isinstance(each, Matched)] == [anew]
        assert b.handle(9.0, Received("p", anew)) == [Drop(anew, PASSED_ALREADY)], "that too passes once"
        b.check()


def test_what_a_broker_whose_clock_was_set_back_accepted_again_passes_again() -> None:
    """Its link broke when it crashed, so its advertisement becomes known anew ahead of what it accepts then."""
    b = broker()
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    b.handle(0.0, Received("p", batch({"x": 1}, {"x": 2})))
    b.handle(5.0, NeighbourDown("p", 1))
    b.handle(6.0, NeighbourUp("p", 2))
    b.handle(6.0, Received("p", TablesBegun(2, b.lives)))
    b.handle(6.0, Received("p", AdvertisementAdded(1, "pub/1", "pub", "TRUE", "p", 1)))
    b.handle(6.0, Received("p", TablesTold()))
    anew = replace(batch({"x": 2}, {"x": 3}, first=2), accepted_at=0.5)
    assert sent(b.handle(6.0, Received("p", anew)), "q") == [anew]
    assert b.handle(6.0, Received("p", anew)) == [Drop(anew, PASSED_ALREADY)]
    b.check()


def test_what_another_broker_accepted_passes_whatever_its_clock_says() -> None:
    b = broker()
    b.handle(0.0, Received("q", AdvertisementAdded(1, "pub/1@q", "pub", "TRUE", "q", 1)))
    b.handle(0.0, Want(("c", 1), parse("x > 0")))
    b.handle(0.0, Received("p", batch({"x": 1})))
    moved = replace(batch({"x": 1}), advertisement="pub/1@q", accepted_at=0.5)
    assert b.handle(0.0, Received("q", moved)) == [Matched(moved, ((("c", 1),),))]


@pytest.mark.parametrize(
    ("sender", "arrived", "reason"),
    [
        ("q", batch({"x": 1}), OTHER_WAY),
        ("p", Publications("pub", "pub/2", 1.0, 0, (1,), (b"\x80",), (b"",)), UNADVERTISED),
        ("p", Publications("other", "pub/1", 1.0, 0, (1,), (b"\x80",), (b"",)), OTHER_PUBLISHER),
        ("p", Publications("pub", "pub/1", 1.0, 0, (2, 1), (b"\x80",) * 2, (b"",) * 2), NOT_ASCENDING),
    ],
)
def test_publications_that_cannot_be_right_are_dropped(sender: str, arrived: Publications, reason: str) -> None:
    assert broker().handle(0.0, Received(sender, arrived)) == [Drop(arrived, reason)]


def test_publishers_remembered_are_bounded() -> None:
    b = broker(publishers_max=2)
    for number, publisher in enumerate(["r", "s", "r", "t"]):
        b.handle(0.0, Forward(Publications(publisher, f"{publisher}/1", 1.0, 0, (number,), (b"\x80",), (b"",))))
    assert b.carrier.passage.last == {"r/1": 2, "t/1": 3}
    b.check()


def test_what_nobody_wants_is_counted_once_for_a_batch() -> None:
    b = broker()
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 5")))
    effects = b.handle(0.0, Received("p", batch({"x": 1}, {"x": 9}, {"x": 2})))
    assert [(each.item.numbers, each.reason) for each in effects if isinstance(each, Drop)] == [((1, 3), UNWANTED)]
    assert b.handle(0.0, Forward(batch({"x": 1}, first=7))) == [], "whoever publishes what nobody wants did no wrong"


def test_an_imperfect_merge_brings_events_that_nobody_wants_and_they_are_dropped_with_a_reason() -> None:
    params = RoutingParams(reduction="merging", merge_share_max=1.0, engine="plain")
    world = BrokerWorld({name: Router(name, params) for name in "ab"}, Random(1), checks=True)
    world.link("a", "b")
    world.rest()
    world.tell("b", Offer("pub/1", "pub", parse("EXISTS x")))
    world.rest()
    world.tell("a", Want(("c", 1), parse("x = 1 AND y = 1")))
    world.rest()
    world.tell("b", Forward(batch({"x": 1, "y": 1})))
    world.rest()
    world.drops.clear()
    world.tell("a", Want(("c", 2), parse("x = 9 AND y = 9")))
    world.rest()
    b = world.nodes["b"]
    assert isinstance(b, Router) and len(b.tables.texts["a"]) == 1
    events: list[dict[str, Value]] = [{"x": x, "y": y} for x in (1, 9) for y in (1, 9)]
    world.tell("b", Forward(batch(*events, first=3)))
    world.rest()
    assert world.drops == {UNWANTED: 1}
    assert world.told("a", Matched)[-1].batch.numbers == (3, 6)


@pytest.mark.spec("S-115")
def test_a_receipt_comes_when_all_brokers_with_subscribers_have_the_events() -> None:
    edges = [("b0", "b1"), ("b1", "b2"), ("b1", "b3"), ("b3", "b4")]
    model = RoutingModel(Random(1), "advertisement", "covering", 5, edges=edges)
    model.world.rest()
    model.offer("b0", "p", "TRUE")
    model.world.rest()
    for name in ("b2", "b4"):
        model.want((name, 1), "x >= 2")
    model.world.rest()
    ticket = model.publish("p", sorted(events_of("x = 3")), receipt=True)
    assert ticket is not None
    while ticket not in model.settled:
        assert model.world.step()
    assert model.settled[ticket] == Settled(ticket)
    assert len(model.delivered["b2", 1]) == len(model.delivered["b4", 1]) == len(events_of("x = 3"))
    answers = {edge[:2]: n for edge, n in model.world.crossed.items() if edge[2] == "Reached"}
    assert answers == {("b2", "b1"): 1, ("b4", "b3"): 1, ("b3", "b1"): 1, ("b1", "b0"): 1}


@pytest.mark.spec("S-115")
def test_a_broker_that_passes_the_events_to_nobody_answers_at_once() -> None:
    b = broker()
    b.handle(0.0, Want(("c", 1), parse("x > 0")))
    arrived = batch({"x": 1}, receipt=7)
    assert b.handle(0.0, Received("p", arrived)) == [Matched(arrived, ((("c", 1),),)), Send("p", Reached(7))]
    assert b.handle(0.0, Forward(batch({"x": 0}), "t")) == [Settled("t")]


@pytest.mark.spec("S-115")
def test_a_receipt_fails_with_the_link_or_after_the_timeout() -> None:
    for reason in (LINK_LOST, TIMED_OUT):
        b = broker()
        b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
        (parcel,) = sent(b.handle(0.0, Received("p", batch({"x": 1}, receipt=7))), "q")
        assert parcel.receipt not in (0, 7)
        effects = b.handle(1.0, NeighbourDown("q", 1)) if reason == LINK_LOST else b.ledger.expire(30.0)
        assert Send("p", NotReached(7, reason)) in effects
        assert b.handle(31.0, Received("q", Reached(parcel.receipt)))[1:] == []


@pytest.mark.spec("D-10")
def test_without_acknowledgements_events_go_on_and_receipts_are_refused() -> None:
    b = broker(acknowledges=False)
    b.handle(0.0, Received("q", SubscriptionAdded(1, "x > 0")))
    arrived = b.handle(0.0, Received("p", batch({"x": 1}, receipt=7)))
    assert arrived == [Send("p", NotReached(7, NOT_ACKNOWLEDGED)), Send("q", batch({"x": 1}))]
    b.handle(0.0, Offer("me/1", "me", parse("x > 0")))
    own = Publications("me", "me/1", 1.0, 0, (1,), (encode_head({"x": 1}),), (b"",))
    assert b.handle(0.0, Forward(own, "ticket")) == [Send("q", own), Settled("ticket", problem=NOT_ACKNOWLEDGED)]
    b.check()


def test_flooding_takes_one_message_for_each_link() -> None:
    for seed in range(5):
        model = RoutingModel(Random(seed), "flooding", "plain", 7)
        model.world.rest()
        model.offer("b3", "p", "TRUE")
        for name in ("b0", "b5", "b6"):
            model.want((name, 1), "x >= 2")
        model.world.rest()
        model.publish("p", sorted(events_of("x = 3"))[:1])
        model.world.rest()
        carried = [n for edge, n in model.world.crossed.items() if edge[2] == "Publications"]
        assert carried == [1] * 6
        assert {key for key, got in model.delivered.items() if got} == {("b0", 1), ("b5", 1), ("b6", 1)}


@pytest.mark.spec("D-17")
def test_hierarchical_events_reach_the_root_and_every_subscriber() -> None:
    edges = [("b0", "b1"), ("b0", "b2"), ("b1", "b3"), ("b1", "b4"), ("b2", "b5")]
    model = RoutingModel(Random(1), "hierarchical", "covering", 6, edges=edges)
    model.world.rest()
    model.offer("b3", "p", "TRUE")
    for name in ("b4", "b5"):
        model.want((name, 1), "x >= 2")
    model.world.rest()
    model.publish("p", sorted(events_of("x = 3"))[:1])
    model.world.rest()
    carried = {edge[:2] for edge in model.world.crossed if edge[2] == "Publications"}
    assert carried == {("b3", "b1"), ("b1", "b0"), ("b1", "b4"), ("b0", "b2"), ("b2", "b5")}
    model.publish("p", sorted(events_of("x = 0"))[:1])
    model.world.rest()
    assert model.world.crossed["b1", "b0", "Publications"] == 2, "also what nobody wants"


def test_a_ring_does_not_carry_an_event_twice() -> None:
    """The tree may be a ring for a moment; every broker still takes an event once."""
    model = RoutingModel(Random(1), "flooding", "plain", 4, edges=[("b0", "b1"), ("b1", "b2"), ("b2", "b3")])
    model.world.link("b0", "b3")
    model.world.rest()
    model.offer("b0", "p", "TRUE")
    for name in model.names:
        model.want((name, 1), "x >= 2")
    model.world.rest()
    model.publish("p", sorted(events_of("x >= 2"))[:10])
    model.world.rest()
    assert {key: len(got) for key, got in model.delivered.items()} == {(name, 1): 10 for name in model.names}
    assert model.world.drops[OTHER_WAY] > 0
