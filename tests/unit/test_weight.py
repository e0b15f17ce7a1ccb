"""What filters may cost, and what is refused because of it."""

import msgspec

from tests.worlds.desk import sent
from tests.worlds.edge import EdgeDesk
from tidings.model.bounds import STRING_BYTES_MAX
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.model.sets.patterns import SearchWeight, search_weight
from tidings.model.weight import units_at_most, weight_of
from tidings.model.work import UNITS_PER_MS, WORK, limited
from tidings.protocols.delivery.edge.acceptance import JUDGE_UNITS_MAX
from tidings.protocols.delivery.edge.history import SCAN_UNITS_MAX
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.messages import Advertise, PublishMessage, Refusal, Unsubscribe
from tidings.pubsub.client import Declined

HOSTILE = "a LIKE '%" + "a_" * 1900 + "b%'"
LONG = "ab" * (STRING_BYTES_MAX // 2)


def test_only_what_is_searched_for_has_a_weight() -> None:
    assert weight_of(parse("a > 1 AND b IN ('x', 'y') AND c LIKE 'x%y_z' AND d != 'q'")) == SearchWeight()
    assert weight_of(parse("a LIKE '%x_y%' AND b LIKE '%x_y%' OR c = 1")) == search_weight("%x_y%")
    assert weight_of(parse("a NOT LIKE '%x_y%'")) == search_weight("%x_y%")


def test_an_expression_without_normal_form_weighs_what_its_functions_and_patterns_do() -> None:
    light, heavy = parse("b < c"), parse("LOWER(a) LIKE '%x_y%' OR b < c")
    assert weight_of(light).finds == 0
    assert weight_of(heavy).finds > search_weight("%x_y%").finds


def test_matching_costs_no_more_than_the_weight() -> None:
    for text in (HOSTILE, "a LIKE '%a_c%'", "a LIKE '%c%' OR a LIKE '%ab_c%'"):
        filter = parse(text)
        before = WORK.units
        assert not filter.matches(Event({"a": LONG}))
        assert 0 < WORK.units - before <= units_at_most(filter)


def subscribed(desk: EdgeDesk, number: int, filter: str) -> list[Refusal]:
    return sent(desk.subscribe("c", number, filter), Refusal)


def test_what_exceeds_the_patterns_of_a_principal_is_refused_with_the_figure() -> None:
    most = 2 * units_at_most(parse(HOSTILE)) + UNITS_PER_MS
    desk = EdgeDesk(EdgeParams(search_units_max=most))
    desk.up("c")
    assert not subscribed(desk, 1, HOSTILE) and not subscribed(desk, 2, HOSTILE)
    (refusal,) = subscribed(desk, 3, HOSTILE)
    assert str(most) in refusal.reason and str(3 * units_at_most(parse(HOSTILE))) in refusal.reason
    assert not refusal.may_retry
    assert not subscribed(desk, 4, "a LIKE 'word%' AND b = 1"), "what is not searched for costs nothing"
    desk.say("c", Unsubscribe(1))
    assert not subscribed(desk, 5, HOSTILE)
    desk.down("c")
    assert not desk.edge.subscriptions.search_units


def test_a_subscription_that_is_made_again_is_counted_once() -> None:
    desk = EdgeDesk(EdgeParams(search_units_max=units_at_most(parse(HOSTILE))))
    desk.up("c")
    for _ in range(3):
        assert not subscribed(desk, 1, HOSTILE)


def test_many_ordinary_patterns_are_allowed() -> None:
    desk = EdgeDesk()
    desk.up("c")
    for number in range(500):
        assert not subscribed(desk, number + 1, f"a LIKE '%word{number}%' AND b LIKE '%.pdf'")


def heads(*texts: str) -> tuple[bytes, ...]:
    return tuple(msgspec.msgpack.encode({"a": text}) for text in texts)


def test_publications_that_take_too_long_to_compare_with_their_advertisement_are_declined() -> None:
    desk = EdgeDesk()
    desk.up("p")
    desk.say("p", Advertise(1, f"{HOSTILE} OR a LIKE '%b'"))
    desk.settle()
    texts = [LONG[number:-1] + "b" for number in range(0, 20, 2)]
    before = WORK.units
    effects = desk.say("p", PublishMessage(1, 1, False, heads(*texts), (b"",) * len(texts)))
    assert WORK.units - before < 2 * JUDGE_UNITS_MAX
    (declined,) = sent(effects, Declined)
    assert 0 < len(declined.numbers) < len(texts)
    assert str(JUDGE_UNITS_MAX) in declined.reason


def test_a_look_at_what_is_stored_ends_when_it_has_taken_long_enough_and_goes_on_later() -> None:
    desk = EdgeDesk()
    desk.up("p", "c")
    desk.advertise("p", 1, "EXISTS a")
    texts = [LONG[number:-1] + "b" for number in range(0, 40, 2)]
    for number, head in enumerate(heads(*texts), 1):
        desk.say("p", PublishMessage(1, number, False, (head,), (b"",)))
    costs = []
    with limited(SCAN_UNITS_MAX):
        before = WORK.units
        desk.subscribe("c", 1, f"{HOSTILE} OR a = '{texts[-1][:50]}'", guarantee="reference", since=0.0)
        costs.append(WORK.units - before)
    (subscription,) = desk.edge.subscriptions.all.values()
    while subscription.streams["p"].state != "active":
        with limited(SCAN_UNITS_MAX):
            before = WORK.units
            desk.fire_next()
            costs.append(WORK.units - before)
    assert max(costs) < 3 * SCAN_UNITS_MAX
    assert sum(costs) > 4 * SCAN_UNITS_MAX, "nothing here was dear; make it more hostile"
