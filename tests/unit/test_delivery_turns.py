"""Questions for history, where there are more than one step may ask."""

from collections import Counter

from tests.worlds.desk import of, sent
from tests.worlds.edge import EdgeDesk, answer, received
from tidings.machine.effects import Effect, SetTimer
from tidings.model.work import UNITS_PER_MS, WORK, limited
from tidings.protocols.delivery.edge.clients import ServedClient, TenantUse
from tidings.protocols.delivery.edge.looks import LookTurns
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.subscriptions import ENDED_AT_ONCE_MAX, LOOKED_AT_ONCE_MAX
from tidings.protocols.delivery.messages import PackedReferences, Reference
from tidings.pubsub.client import Receipt
from tidings.pubsub.signals import ClientUp, Unwant

MANY = LOOKED_AT_ONCE_MAX + 10


def asking(effects: list[Effect]) -> Counter[int]:
    """How often each subscription asks."""
    packed = [question for pack in sent(effects, PackedReferences) for question in pack.questions]
    return Counter(question.subscription for question in (*packed, *sent(effects, Reference)))


def crowded() -> EdgeDesk:
    """A broker with many subscriptions that are installed."""
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    for number in range(1, MANY + 1):
        desk.installed("c", number)
    return desk


def test_few_subscriptions_ask_in_the_step_in_which_an_advertisement_becomes_known() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    for number in range(1, LOOKED_AT_ONCE_MAX + 1):
        desk.installed("c", number)
    assert asking(desk.know("p/1")) == dict.fromkeys(range(1, LOOKED_AT_ONCE_MAX + 1), 1)


def test_few_subscriptions_for_which_there_is_no_time_ask_later() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    desk.installed("c", 1)
    with limited(0):
        assert not asking(desk.know("p/1"))
    assert asking(desk.advance(1.0)) == {1: 1}
    assert not desk.edge.subscriptions.unlooked


def test_many_subscriptions_ask_once_for_all_advertisements_that_came_meanwhile() -> None:
    desk = crowded()
    for number in range(1, 6):
        assert not asking(desk.know(f"p/{number}"))
    effects = desk.advance(1.0)
    assert asking(effects) == dict.fromkeys(range(1, MANY + 1), 1)
    packed = [question for pack in sent(effects, PackedReferences) for question in pack.questions]
    assert all(len(question.wanted) == 5 for question in packed)
    assert not desk.edge.subscriptions.unlooked


def test_nothing_of_a_publisher_is_passed_on_to_who_has_not_asked_because_of_its_news() -> None:
    desk = crowded()
    desk.know("p/1")
    effects = desk.arrive("p", [7], (("c", 1),))
    assert received(effects, "c") == []
    assert asking(effects) == {1: 1}, "the others get nothing of it, and ask when there is time"
    assert asking(desk.advance(1.0)) == dict.fromkeys(range(2, MANY + 1), 1)
    assert received(answer(desk, "p", 5, 6, at=1.0), "c") == [5, 6, 7]
    desk.know("p/1")
    assert received(desk.arrive("p", [8], (("c", 1),)), "c") == [], "it is known anew, and asked for once more"


def test_questions_for_which_there_is_no_time_are_held_and_asked_later() -> None:
    desk = crowded()
    desk.know("p/1")
    with limited(0):
        effects = desk.arrive("p", [7], (("c", 1),))
    assert not asking(effects) and received(effects, "c") == []
    assert of(SetTimer, effects)
    assert asking(desk.advance(1.0)) == dict.fromkeys(range(1, MANY + 1), 1)
    assert not desk.edge.fetching.held
    assert received(answer(desk, "p", 5, 6, 7, at=1.0), "c") == [5, 6, 7]
    assert received(desk.arrive("p", [8], (("c", 1),)), "c") == [8]


def test_who_has_to_look_once_has_a_turn_before_those_whose_looking_never_ends() -> None:
    desk = EdgeDesk(EdgeParams(scanned_max=10))
    desk.up("p", "greedy", "c")
    desk.advertise("p")
    for first in range(1, 2001, 100):
        desk.publish("p", first, *range(first, first + 100))
    for number in range(1, 51):
        # Each of them looks at all that is stored, ten at a time, and finds nothing.
        desk.subscribe("greedy", number, f"x = {5000 + number}", guarantee="reference", since=0.0)
    desk.edge.references.flows.looks.spend(desk.now, 20 * UNITS_PER_MS)
    desk.subscribe("c", 1, "x > 1990", guarantee="reference", after=(("p", 1990),), is_continued=True)
    assert received(desk.effects, "c") == [], "there is no time for it now"
    turns = 0
    while not received(desk.effects, "c"):
        desk.fire_next()
        turns += 1
    assert len(desk.edge.fetching.held) == 1, "the other one is far from its end"
    assert turns <= 10


def test_what_was_looked_at_while_nobody_waited_is_held_against_nobody() -> None:
    old, new = (ServedClient(ClientUp(name, ""), 1, TenantUse("")) for name in ("old", "new"))
    turns = LookTurns()
    turns.spend(old, 1_000_000)
    turns.wait(old)
    turns.wait(new)
    served = []
    for _ in range(10):
        client = turns.next()
        served.append(client.name)
        turns.spend(client, 10)
        assert turns.has_priority_over(client)
        turns.wait(client)
        turns.check()
    assert served == ["old", "new"] * 5


def test_who_comes_later_does_not_make_up_for_the_time_before() -> None:
    old, new = (ServedClient(ClientUp(name, ""), 1, TenantUse("")) for name in ("old", "new"))
    turns = LookTurns()
    for _ in range(100):
        turns.wait(old)
        assert turns.next() is old
        turns.spend(old, 10)
    turns.wait(old)
    turns.wait(new)
    served = []
    for _ in range(10):
        client = turns.next()
        served.append(client.name)
        turns.spend(client, 10)
        turns.wait(client)
    assert served.count("old") == 5


def test_who_subscribes_when_a_publisher_is_known_does_not_ask_for_what_others_have_not_looked_at_yet() -> None:
    desk = crowded()
    desk.up("new")
    desk.know("p/1")
    desk.subscribe("new", 1)
    desk.begin(p=6)
    desk.settle()
    assert desk.edge.subscriptions.unlooked, "the others have not asked"
    assert received(desk.arrive("p", [7], (("new", 1),)), "new") == [7]


def test_a_client_that_leaves_takes_with_it_what_was_held() -> None:
    desk = crowded()
    desk.know("p/1")
    with limited(0):
        desk.arrive("p", [7], (("c", 1),))
    desk.know("q/1")
    desk.down("c")
    assert not asking(desk.advance(1.0))
    assert not desk.edge.fetching.held and not desk.edge.subscriptions.unlooked


def test_of_a_client_that_leaves_with_many_subscriptions_routing_is_told_in_several_steps() -> None:
    desk = EdgeDesk()
    desk.up("c")
    for number in range(1, 3 * ENDED_AT_ONCE_MAX + 1):
        desk.installed("c", number)
    steps = [of(Unwant, desk.down("c"))]
    while desk.edge.subscriptions.ended:
        steps.append(of(Unwant, desk.fire_next()))
    assert max(map(len, steps)) == ENDED_AT_ONCE_MAX
    assert [each.key for step in steps for each in step] == [
        ("c", number) for number in range(1, 3 * ENDED_AT_ONCE_MAX + 1)
    ]


def test_a_client_that_is_back_before_that_keeps_what_it_asks_for_again() -> None:
    desk = EdgeDesk()
    desk.up("c")
    for number in range(1, 2 * ENDED_AT_ONCE_MAX + 1):
        desk.installed("c", number)
    desk.down("c")
    desk.up("c")
    again = 2 * ENDED_AT_ONCE_MAX
    desk.installed("c", again)
    assert ("c", again) not in [each.key for each in of(Unwant, desk.advance(1.0))]
    assert ("c", again) in desk.edge.subscriptions.all
    assert not desk.edge.subscriptions.ended


def test_many_readers_that_ask_at_once_are_served_one_after_the_other() -> None:
    """Each look at what is stored is short; the sum of all of them in one moment must be, too."""
    desk = EdgeDesk()
    desk.up("p")
    desk.advertise("p", 1, "x >= 0")
    for number in range(1, 1001):
        desk.publish("p", number, number)
    clients = [f"c{number}" for number in range(40)]
    desk.up(*clients)
    before = WORK.units
    for client in clients:
        desk.subscribe(client, 1, guarantee="reference", since=0.0, window=2000, queue_max=2000)
    at_once = WORK.units - before
    assert at_once < 20 * UNITS_PER_MS
    desk.advance(60.0)
    assert WORK.units - before > 3 * at_once, "nothing here was dear; make it more hostile"
    streams = [each.streams["p"].position for each in desk.edge.subscriptions.all.values()]
    assert streams == [1000] * len(clients), "everybody gets everything in the end"
    assert not desk.edge.fetching.held


def test_a_publisher_that_goes_while_there_is_no_time_to_ask_for_it_holds_up_no_receipt() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    desk.know("p/1")
    with limited(0):
        desk.subscribe("c", guarantee="reference")
    desk.forget("p/1")
    effects = [*desk.settle(), *desk.advance(1.0)]
    assert len(sent(effects, Receipt)) == 1
