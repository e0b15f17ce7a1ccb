"""The subscriber's side of an edge: from which publication on, and what comes in which way."""

import pytest

from tests.worlds.desk import drops, of, sent
from tests.worlds.edge import C1, C2, EdgeDesk, answer, asked, batch, received, served, subscription
from tidings.machine.effects import Send, SetTimer
from tidings.model.language.parser import parse
from tidings.protocols.delivery.edge.admission import NOT_ACTIVE, REPEATED
from tidings.protocols.delivery.edge.edge import CLIENT_LEFT
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.questions import AT_MOST, FORGOTTEN, GROUP_LATE, LATE_FORGOTTEN, OLD_ANSWER
from tidings.protocols.delivery.edge.references import TOO_FAR
from tidings.protocols.delivery.edge.subscriptions import NO_SUBSCRIPTION, TOO_MANY_POSITIONS
from tidings.protocols.delivery.messages import (
    Beginning,
    Behind,
    Delivery,
    LookFar,
    MarksFar,
    Reference,
    Refusal,
    Subscribe,
    Unsubscribe,
)
from tidings.pubsub.client import Missed, Receipt
from tidings.pubsub.signals import ClientUp, Matched, Settled, Skipped, Unwant, Want

# Installed.


@pytest.mark.spec("S-99")
def test_an_installed_subscription_gets_nothing_before_its_receipt_and_everything_after() -> None:
    desk = served()
    (want,) = of(Want, desk.subscribe("c"))
    assert (want.key, want.filter) == (("c", 1), parse("x >= 0"))
    effects = desk.arrive("p", [1, 2], C1)
    assert received(effects, "c") == []
    assert drops(effects) == [NOT_ACTIVE]
    desk.now = 2.0
    assert sent(desk.settle(), Receipt) == [Receipt("subscribe", 1, ("a", "b"), 2, 2.0, "x >= 0")]
    assert received(desk.arrive("p", [3, 4], C1), "c") == [3, 4]


def test_the_example_of_seven_publications_begins_where_the_subscription_is_in_place() -> None:
    # Golden example X-12: p1 and p2 come before the subscription, p3 to p5 while it spreads, p6 and p7 after.
    plain, installed, timed = served(), served(), served()
    plain.subscribe("c", guarantee="none")
    installed.subscribe("c")
    timed.now = 2.5
    timed.subscribe("c", guarantee="reference")
    lucky = [number for number in (3, 4, 5) if received(plain.arrive("p", [number], C1, at=number), "c")]
    assert lucky == [3, 4, 5], "whatever arrives while it spreads is a matter of luck, here all of it"
    for number in (3, 4, 5):
        assert received(installed.arrive("p", [number], C1, at=number), "c") == []
    installed.settle()
    assert received(installed.arrive("p", [6, 7], C1, at=6.0), "c") == [6, 7]
    assert received(answer(timed, "p", 3, 4, 5, at=3.0), "c") == [3, 4, 5]
    assert received(timed.arrive("p", [6, 7], C1, at=6.0), "c") == [6, 7]


def test_with_strict_ack_what_came_before_the_receipt_follows_it_as_far_as_it_was_accepted_in_place() -> None:
    # G-45: the definition promises what is accepted when the subscription is in place, the algorithm only what arrives
    # after the acknowledgement. The publisher's broker had accepted 4 when it heard of the subscription.
    desk = served(EdgeParams(strict_ack=True))
    desk.subscribe("c")
    assert received(desk.arrive("p", [3, 4, 5], C1, at=1.0), "c") == []
    desk.begin(p=4)
    assert received(desk.arrive("p", [6], C1, at=2.0), "c") == []
    effects = desk.settle()
    assert [type(each) for each in sent(effects, to="c")] == [Beginning, Receipt, Delivery, Delivery]
    assert received(effects, "c") == [5, 6]
    assert received(desk.arrive("p", [6, 7], C1, at=3.0), "c") == [7]
    assert desk.edge.subscriptions.admission.early_bytes == 0


def test_with_strict_ack_what_there_is_no_room_for_before_the_receipt_is_asked_for() -> None:
    desk = served(EdgeParams(strict_ack=True, early_bytes_max=300))
    desk.subscribe("c")
    desk.begin(p=4)
    assert drops(desk.arrive("p", [5], C1, size=400)) == [NOT_ACTIVE]
    assert asked(desk.settle()) == [("b", (("p/1", 4),), None)]
    assert received(answer(desk, "p", 5), "c") == [5]
    assert received(desk.arrive("p", [6], C1), "c") == [6]


def test_with_strict_ack_what_was_kept_is_forgotten_if_the_network_refuses_or_the_client_leaves() -> None:
    for leave in (True, False):
        desk = served(EdgeParams(strict_ack=True))
        desk.subscribe("c")
        desk.arrive("p", [1], C1)
        assert desk.edge.subscriptions.admission.early_bytes > 0
        if leave:
            desk.down("c")
        else:
            desk.settle(problem="too late")
            assert drops(desk.arrive("p", [2], C1)) == [NOT_ACTIVE]
        assert desk.edge.subscriptions.admission.early_bytes == 0


def test_a_filter_too_deep_or_too_long_beside_the_bound_of_its_client_is_refused() -> None:
    desk = served()
    desk.up("c", subscribe_bound=parse("(x = 1 OR LENGTH(y) > 3) AND z > 1"))
    deep, long = "NOT " * 61 + "x = z + 1", "x = z + 1 AND t = '" + "a" * 4060 + "'"
    for number, filter in enumerate((deep, long), 1):
        (refusal,) = sent(desk.subscribe("c", number, filter), Refusal)
        assert "too long together" in refusal.reason and not refusal.may_retry


def test_a_subscription_that_was_not_installed_stays_inactive_and_may_be_made_again() -> None:
    desk = served()
    desk.subscribe("c")
    (refusal,) = sent(desk.settle(problem="too late"), Refusal)
    assert refusal.may_retry
    assert drops(desk.arrive("p", [1], C1)) == [NOT_ACTIVE]
    desk.subscribe("c")
    desk.settle()
    assert received(desk.arrive("p", [2], C1), "c") == [2]


def test_the_answer_to_an_earlier_request_under_the_same_number_settles_nothing() -> None:
    desk = served()
    desk.subscribe("c")
    first = next(iter(desk.edge.requests.waiting))
    desk.subscribe("c")
    assert drops(desk.handle(Settled(first, ("a",), 1))) == [CLIENT_LEFT]
    assert drops(desk.arrive("p", [1], C1)) == [NOT_ACTIVE]
    assert sent(desk.settle(), Receipt) != []


@pytest.mark.spec("S-8")
def test_a_publisher_that_is_known_after_the_receipt_is_asked_for_everything_since_it_advertised() -> None:
    desk = served()
    desk.now = 3.0
    desk.installed("c")
    desk.now = 9.0
    assert asked(desk.know("q/1")) == [("b", (("q/1", None),), None)]
    assert received(desk.arrive("q", [2], C1), "c") == []
    assert received(answer(desk, "q", 1, 2, at=8.0), "c") == [1, 2]
    assert received(desk.arrive("q", [3], C1), "c") == [3]


def test_the_receipt_waits_until_it_is_known_where_the_subscription_begins_and_the_client_is_told() -> None:
    desk = served()
    desk.know("q/1")
    effects = desk.subscribe("c")
    (question,) = sent(effects, LookFar, "b")
    assert question.wanted == ("p/1@z", "q/1@z")
    ticket = next(iter(desk.edge.requests.waiting))
    assert sent(desk.handle(Settled(ticket, ("a",), 1))) == []
    assert sent(desk.say("b", MarksFar(question.reading, (("p/1@z", 7, (), ()),), (), ()))) == []
    effects = desk.say("b", MarksFar(question.reading, (("q/1@z", 0, (), ()),), (), ()))
    beginning, receipt = sent(effects, to="c")
    assert beginning == Beginning(1, (("p", 7), ("q", 0)))
    assert isinstance(receipt, Receipt)
    assert received(desk.arrive("p", [7, 8], C1), "c") == [8]
    desk.forget("q/1")
    assert asked(desk.know("q/1"))[0][1] == (("q/1", 0),)


def test_subscriptions_that_come_while_a_question_is_under_way_share_the_next_one() -> None:
    desk = served()
    first = [sent(desk.subscribe("c", number), LookFar) for number in range(1, 101)]
    assert [len(each) for each in first] == [1] + [0] * 99
    (second,) = sent(desk.say("b", MarksFar(first[0][0].reading, (("p/1@z", 7, (), ()),), (), ())), LookFar)
    desk.say("b", MarksFar(second.reading, (("p/1@z", 9, (), ()),), (), ()))
    assert {subscription.after["p"] for subscription in desk.edge.subscriptions.all.values()} == {7, 9}
    assert desk.edge.beginnings.asked == {}


def test_a_publisher_of_two_brokers_has_come_as_far_as_it_has_at_either() -> None:
    desk = served()
    desk.know("p/1@y", hop="b")
    (question,) = sent(desk.subscribe("c"), LookFar)
    desk.say("b", MarksFar(question.reading, (("p/1@z", 7, (), ()),), (), ()))
    desk.say("b", MarksFar(question.reading, (("p/1@y", 12, (), ()),), (), ()))
    assert desk.edge.subscriptions.all["c", 1].after == {"p": 12}


def test_a_publisher_that_is_lost_while_it_is_asked_for_is_one_that_was_not_known() -> None:
    desk = served()
    desk.subscribe("c")
    ticket = next(iter(desk.edge.requests.waiting))
    desk.handle(Settled(ticket, ("a",), 1))
    assert len(sent(desk.forget("p/1"), Receipt)) == 1
    assert asked(desk.know("p/1")) == [("b", (("p/1", None),), None)]


def test_a_broker_that_does_not_say_how_far_a_publisher_has_come_is_asked_again_once() -> None:
    desk = served(EdgeParams(ask_again_after=10.0))
    desk.subscribe("c")
    desk.handle(Settled(next(iter(desk.edge.requests.waiting)), ("a",), 1))
    assert len(sent(desk.fire("begin", 10.0), LookFar)) == 1
    assert len(sent(desk.fire("begin", 20.0), Receipt)) == 1


def test_a_reference_from_its_arrival_on_tells_behind_which_numbers_it_began() -> None:
    desk = served()
    desk.know("q/1")
    desk.now = 5.0
    desk.subscribe("c", guarantee="reference", after=(("q", 3),))
    desk.handle(Settled(next(iter(desk.edge.requests.waiting)), ("a",), 1))
    effects = answer(desk, "p", 8, begin=7)
    assert sent(effects, Beginning) == [Beginning(1, (("p", 7),))]
    assert len(sent(effects, Receipt)) == 1


def test_a_subscription_that_continues_gets_everything_of_publishers_that_it_does_not_name() -> None:
    desk = served()
    desk.know("q/1")
    effects = desk.subscribe("c", guarantee="reference", after=(("q", 3),), is_continued=True)
    assert asked(effects) == [("b", (("p/1", None), ("q/1", 3)), None)]
    assert len(sent(desk.settle(), Receipt)) == 1


def test_positions_may_come_ahead_of_their_subscription() -> None:
    desk = served(EdgeParams(positions_max=5))
    for number in range(0, 4, 2):
        desk.say("c", Behind(1, tuple((f"p{each}", each) for each in range(number, number + 2))))
    desk.subscribe("c", guarantee="reference", after=(("p", 3),), is_continued=True)
    assert desk.edge.subscriptions.all["c", 1].after == {"p0": 0, "p1": 1, "p2": 2, "p3": 3, "p": 3}
    assert desk.edge.clients["c"].behind == {}


def test_more_positions_than_a_client_may_name_are_refused() -> None:
    desk = served(EdgeParams(positions_max=2))
    assert drops(desk.say("c", Behind(1, (("p", 1), ("q", 1), ("r", 1))))) == [TOO_MANY_POSITIONS]
    (refusal,) = sent(desk.subscribe("c", guarantee="reference", is_continued=True), Refusal)
    assert "at most 2 positions" in refusal.reason


def test_the_position_of_a_publisher_that_is_gone_is_kept_when_it_is_not_known_in_full_any_more() -> None:
    desk = served(EdgeParams(streams_max=1))
    desk.know("q/1")
    desk.installed("c")
    desk.arrive("p", [7], C1)
    desk.forget("p/1")
    desk.arrive("q", [1], C1)
    assert list(desk.edge.subscriptions.all["c", 1].streams) == ["q"]
    assert asked(desk.know("p/1"))[0][1] == (("p/1", 7),)


def test_a_publisher_that_is_known_while_the_subscription_spreads_is_asked_when_it_is_in_place() -> None:
    desk = served()
    desk.subscribe("c")
    assert asked(desk.know("q/1")) == []
    desk.now = 4.0
    assert asked(desk.settle()) == [("b", (("q/1", None),), None)]
    assert received(desk.arrive("p", [1], C1), "c") == [1]


def test_a_publisher_that_is_known_again_is_asked_for_what_follows_the_last_that_was_passed_on() -> None:
    desk = served()
    desk.installed("c")
    desk.arrive("p", [1, 4], C1)
    desk.forget("p/1")
    assert [question[:2] for question in asked(desk.know("p/1"))] == [("b", (("p/1", 4),))]
    assert received(answer(desk, "p", 6, 9), "c") == [6, 9]
    assert received(desk.arrive("p", [9, 10], C1), "c") == [10]


def test_what_no_advertisement_overlaps_is_not_asked_for() -> None:
    desk = served()
    desk.installed("c", filter="x < 5")
    assert asked(desk.know("q/1", "x > 10")) == []


def test_all_advertisements_of_a_publisher_are_asked_for_together_so_that_its_order_is_kept() -> None:
    desk = served()
    desk.installed("c")
    desk.arrive("p", [1], C1)
    assert asked(desk.know("p/2"))[0][1] == (("p/1", 1), ("p/2", 1))
    assert received(desk.arrive("p", [3], C1), "c") == []
    assert received(answer(desk, "p", 2, 3), "c") == [2, 3]


def test_a_repetition_is_recognised_by_its_number() -> None:
    desk = served()
    desk.installed("c")
    desk.arrive("p", [1, 2], C1)
    effects = desk.arrive("p", [2, 3], C1)
    assert received(effects, "c") == [3]
    assert drops(effects) == [REPEATED]
    assert received(desk.arrive("p", [1], C1), "c") == []


def test_on_a_best_effort_network_what_comes_late_is_passed_on_as_it_comes() -> None:
    desk = EdgeDesk(is_best_effort=True)
    desk.up("c")
    desk.installed("c", guarantee="none", policy="drop oldest")
    assert [received(desk.arrive("p", numbers, C1), "c") for numbers in ([1, 3], [2], [5, 4])] == [[1, 3], [2], [5, 4]]


# Reference.


@pytest.mark.spec("S-104")
def test_without_a_time_history_is_asked_for_since_the_subscription_arrived() -> None:
    desk = served(EdgeParams(clock_offset=100.0))
    desk.now = 5.0
    effects = desk.subscribe("c", guarantee="reference")
    assert [type(effect) for effect in effects] == [Want, SetTimer, Send], "the subscription goes ahead of the question"
    assert asked(effects) == [("b", (("p/1", None),), 105.0)]
    assert received(desk.arrive("p", [1], C1, at=106.0), "c") == []
    assert received(answer(desk, "p", 1, 2, at=106.0), "c") == [1, 2]
    assert received(desk.arrive("p", [3], C1, at=107.0), "c") == [3]


@pytest.mark.spec("S-105")
def test_a_time_to_come_withholds_what_is_accepted_earlier() -> None:
    desk = served()
    assert asked(desk.subscribe("c", guarantee="reference", since=10.0)) == [("b", (("p/1", None),), 10.0)]
    answer(desk, "p")
    assert received(desk.arrive("p", [1], C1, at=9.9), "c") == []
    assert received(desk.arrive("p", [2], C1, at=10.0), "c") == [2]


@pytest.mark.spec("S-105")
def test_a_time_in_the_past_is_passed_on_to_the_publishers_broker() -> None:
    desk = served()
    desk.now = 50.0
    assert asked(desk.subscribe("c", guarantee="reference", since=10.0)) == [("b", (("p/1", None),), 10.0)]


@pytest.mark.spec("S-108")
def test_behind_given_publications_and_for_others_since_it_arrived() -> None:
    desk = served()
    desk.know("q/1")
    desk.now = 5.0
    effects = desk.subscribe("c", guarantee="reference", after=(("p", 7),))
    assert asked(effects) == [("b", (("p/1", 7), ("q/1", None)), 5.0)]
    assert received(answer(desk, "p", 8, 9), "c") == [8, 9]


@pytest.mark.spec("S-108")
def test_behind_given_publications_and_for_others_what_comes_from_now_on() -> None:
    desk = served(EdgeParams(unlisted="installation"))
    effects = desk.subscribe("c", guarantee="reference", after=(("q", 7),))
    assert asked(effects) == [("b", (("p/1", None),), None)]


@pytest.mark.spec("S-112")
def test_one_publisher_delivers_while_the_answer_for_another_is_still_to_come() -> None:
    desk = served()
    desk.know("q/1")
    desk.subscribe("c", guarantee="reference")
    answer(desk, "p")
    assert received(desk.arrive("p", [1], C1), "c") == [1]
    assert received(desk.arrive("q", [1], C1), "c") == []


@pytest.mark.spec("S-107")
def test_the_time_of_the_group_takes_the_place_of_the_members_own() -> None:
    desk = served()
    desk.now = 20.0
    (question,) = sent(desk.subscribe("c", guarantee="reference", group="twins"), Reference)
    assert (question.group, question.since) == ("twins", 20.0)
    assert received(answer(desk, "p", 1, at=12.0, group_at=11.0), "c") == [1]
    assert received(desk.arrive("p", [2], C1, at=10.0), "c") == []
    assert received(desk.arrive("p", [3], C1, at=12.5), "c") == [3]


@pytest.mark.parametrize("guarantee", ["installed", "reference"])
def test_who_asks_for_what_is_too_far_away_is_told_and_gets_what_comes(guarantee: str) -> None:
    desk = served()
    desk.subscribe("c", guarantee=guarantee)
    if guarantee == "installed":
        desk.settle()
        desk.know("p/1")
    desk.arrive("p", [7], C1)
    effects = answer(desk, "p", problem=TOO_FAR)
    assert sent(effects, Missed) == [Missed(1, "p", 0, TOO_FAR)]
    assert received(effects, "c") == [7]
    assert received(desk.arrive("p", [8], C1), "c") == [8]


def test_a_member_that_names_no_time_gives_the_group_none() -> None:
    desk = served()
    desk.now = 20.0
    (question,) = sent(desk.subscribe("c", guarantee="reference", group="twins"), Reference)
    assert (question.since, question.is_from_now) == (20.0, True)
    (question,) = sent(desk.know("q/1"), Reference)
    assert (question.since, question.is_from_now) == (20.0, True)


def test_a_member_is_told_what_its_group_began_behind_if_it_was_there_before_the_publisher() -> None:
    desk = served()
    (question,) = sent(desk.subscribe("c", guarantee="reference", group="twins"), Reference)
    assert not question.is_late, "there is no receipt yet"
    answer(desk, "p")
    desk.settle()
    (question,) = sent(desk.know("q/1"), Reference)
    assert question.is_late
    effects = answer(desk, "q", 8, 9, begin=7, begun_late=3, through=9)
    assert sent(effects, Missed) == [Missed(1, "q", 3, GROUP_LATE + AT_MOST)]
    assert received(effects, "c") == [8, 9]
    (question,) = sent(desk.know("q/1"), Reference)
    assert question.wanted == (("q/1@z", 9),)
    assert sent(answer(desk, "q", begun_late=3, through=9), Missed) == [], "it has a number now"


@pytest.mark.parametrize("guarantee", ["installed", "reference"])
def test_a_group_begins_where_the_first_broker_of_a_moved_publisher_says(guarantee: str) -> None:
    desk = served()
    desk.know("p/1@y", hop="b")
    desk.subscribe("c", guarantee=guarantee, group="twins")
    answer(desk, "p", begin=4, through=10)
    again = answer(desk, "p", advertisement="p/1@y", begin=12, through=12)
    if guarantee == "installed":
        again = desk.settle()
    assert asked(again)[0][1] == (("p/1", 4), ("p/1@y", 4))
    answer(desk, "p", 5, 10, through=10)
    assert received(answer(desk, "p", 11, 12, advertisement="p/1@y", through=12), "c") == [5, 10, 11, 12]


@pytest.mark.parametrize(("roles", "owner"), [(("client",), "ann"), ((), "")])
def test_a_group_is_its_principals_or_everybodys_where_nobody_is_asked_who_he_is(
    roles: tuple[str, ...], owner: str
) -> None:
    desk = served()
    desk.handle(ClientUp("ann+desk", "ann", roles=roles))
    (question,) = sent(desk.subscribe("ann+desk", guarantee="reference", group="twins"), Reference)
    assert (question.group, question.principal) == ("twins", owner)


def test_a_publisher_that_moved_is_asked_for_at_both_brokers_and_its_order_is_kept() -> None:
    desk = served()
    desk.installed("c")
    desk.arrive("p", [1], C1)
    assert asked(desk.know("p/1@y", hop="b"))[0][1] == (("p/1", 1), ("p/1@y", 1))
    effects = answer(desk, "p", 4, 5, 6, advertisement="p/1@y", is_truncated=True)
    assert received(effects, "c") == []
    effects = answer(desk, "p", 2, 3, 4)
    assert received(effects, "c") == [2, 3, 4, 5, 6]
    assert sent(effects, Missed) == []
    assert received(desk.arrive("p", [7], C1), "c") == [7]


def test_a_subscription_that_is_made_again_takes_no_answer_to_its_former_self_for_its_own() -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference")
    former = desk.edge.subscriptions.all["c", 1].streams["p"].round
    desk.subscribe("c", guarantee="reference", is_continued=True)
    effects = answer(desk, "p", round=former, through=2)
    assert drops(effects) == [OLD_ANSWER]
    assert received(answer(desk, "p", 2), "c") == [2]


def test_of_a_publisher_that_becomes_known_after_a_reference_all_is_asked_for_whatever_the_clocks_say() -> None:
    desk = served()
    desk.now = 5.0
    assert asked(desk.subscribe("c", guarantee="reference")) == [("b", (("p/1", None),), 5.0)]
    assert asked(desk.know("q/1")) == [("b", (("q/1", None),), None)]
    answer(desk, "p")
    desk.settle()
    assert asked(desk.know("r/1")) == [("b", (("r/1", None),), None)]


def test_of_a_publisher_that_moved_it_is_told_what_one_broker_lacks_and_the_other_does_not_hold() -> None:
    desk = served()
    desk.installed("c")
    desk.arrive("p", [1], C1)
    desk.know("p/1@y", hop="b")
    answer(desk, "p", 9, advertisement="p/1@y", is_truncated=True, missing=7, lacking=((0, 8),), held=((8, 9),))
    effects = answer(desk, "p", 2, 3, 4, held=((0, 4),))
    assert received(effects, "c") == [2, 3, 4, 9]
    assert sent(effects, Missed) == [Missed(1, "p", 4, FORGOTTEN + AT_MOST)]


def test_what_the_only_broker_that_is_known_says_to_be_elsewhere_is_told() -> None:
    desk = served()
    desk.installed("c")
    desk.arrive("p", [1], C1)
    desk.know("p/1")
    effects = answer(desk, "p", 5, lacking=((1, 4),), held=((0, 1), (4, 5)))
    assert received(effects, "c") == [5]
    assert sent(effects, Missed) == [Missed(1, "p", 3, FORGOTTEN + AT_MOST)]


def test_what_is_elsewhere_is_told_also_to_who_asks_for_all_of_a_publisher() -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference", is_continued=True)
    effects = answer(desk, "p", 1, 5, lacking=((1, 4),), held=((0, 1), (4, 5)))
    assert received(effects, "c") == [1, 5]
    assert sent(effects, Missed) == [Missed(1, "p", 3, LATE_FORGOTTEN + AT_MOST)]


def test_what_one_broker_lacks_and_another_holds_is_not_told_to_who_asks_for_all_of_a_publisher() -> None:
    desk = served()
    desk.know("p/1@y", hop="b")
    desk.subscribe("c", guarantee="reference", is_continued=True)
    answer(desk, "p", 2, 3, advertisement="p/1@y", lacking=((0, 1),), held=((1, 4),))
    effects = answer(desk, "p", 1, 5, lacking=((1, 4),), held=((0, 1), (4, 5)))
    assert received(effects, "c") == [1, 2, 3, 5]
    assert sent(effects, Missed) == []


def test_what_comes_behind_the_answer_of_one_broker_waits_for_that_of_another() -> None:
    desk = served()
    desk.installed("c")
    desk.know("p/1@y", hop="b")
    answer(desk, "p", 1, 2)
    effects = desk.arrive("p", [5, 6], C1)
    assert received(effects, "c") == [] == drops(effects)
    assert received(answer(desk, "p", 3, 4, advertisement="p/1@y"), "c") == [1, 2, 3, 4, 5, 6]


def test_more_than_there_is_room_for_behind_an_answer_is_asked_for_again() -> None:
    desk = served()
    desk.installed("c", window=2, queue_max=0)
    desk.know("p/1@y", hop="b")
    answer(desk, "p", 1)
    for number in (3, 4, 5):
        desk.arrive("p", [number], C1)
    assert received(answer(desk, "p", 2, advertisement="p/1@y"), "c") == [1, 2]
    assert asked(desk.take("c", 2))[0][1] == (("p/1", 2), ("p/1@y", 2))


def test_a_broker_that_is_gone_is_not_waited_for() -> None:
    desk = served()
    desk.installed("c")
    desk.know("p/1@y", hop="b")
    answer(desk, "p", 1, 2)
    assert asked(desk.forget("p/1@y"))[0][1] == (("p/1", 0),)
    assert received(answer(desk, "p", 1, 2), "c") == [1, 2]


def test_where_one_of_two_answers_had_to_stop_nothing_behind_it_is_passed_on() -> None:
    desk = served()
    desk.installed("c")
    desk.know("p/1@y", hop="b")
    answer(desk, "p", 8, 9, advertisement="p/1@y")
    effects = answer(desk, "p", 2, 3, has_more=True, through=3)
    assert received(effects, "c") == [2, 3]
    assert asked(effects)[0][1] == (("p/1", 3), ("p/1@y", 3))


def test_what_comes_before_an_answer_is_kept_and_put_in_order_with_it() -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference")
    assert desk.arrive("p", [3, 4], C1) == []
    assert received(answer(desk, "p", 1, 2, 3), "c") == [1, 2, 3, 4]
    assert received(desk.arrive("p", [5], C1), "c") == [5]
    assert desk.edge.subscriptions.admission.early_bytes == 0


def test_what_comes_before_an_answer_and_has_no_room_is_asked_for() -> None:
    desk = served(EdgeParams(early_bytes_max=300))
    desk.subscribe("c", guarantee="reference")
    desk.arrive("p", [3], C1)
    assert drops(desk.arrive("p", [4], C1, size=500)) == [NOT_ACTIVE]
    assert drops(desk.arrive("p", [5], C1)) == [NOT_ACTIVE], "behind a hole nothing is of use"
    effects = answer(desk, "p", 1, 2)
    assert received(effects, "c") == [1, 2]
    assert asked(effects)[0][1] == (("p/1", 2),)
    assert received(answer(desk, "p", 3, 4, 5), "c") == [3, 4, 5]
    assert received(desk.arrive("p", [6], C1), "c") == [6]


def test_an_answer_that_reaches_as_far_as_what_was_given_up_is_enough() -> None:
    desk = served(EdgeParams(early_bytes_max=0))
    desk.subscribe("c", guarantee="reference")
    assert received(desk.arrive("p", [3], C1), "c") == []
    effects = answer(desk, "p", 1, 3)
    assert (received(effects, "c"), asked(effects)) == ([1, 3], [])


def test_what_was_left_out_on_the_way_is_asked_for_unless_an_answer_has_it() -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference")
    assert asked(desk.handle(Skipped("p/1@z", "p", 9))) == [], "an answer is awaited"
    effects = answer(desk, "p", 1)
    assert received(effects, "c") == [1]
    assert asked(effects)[0][1] == (("p/1", 1),)
    desk.handle(Skipped("p/1@z", "p", 9))
    assert asked(answer(desk, "p", 9)) == []
    assert asked(desk.handle(Skipped("p/1@z", "p", 9))) == [], "it is there already"
    assert asked(desk.handle(Skipped("p/1@z", "p", 10)))[0][1] == (("p/1", 9),)


@pytest.mark.spec("S-114")
def test_the_client_hears_that_history_was_shorter_than_asked_for() -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference", since=-100.0)
    effects = answer(desk, "p", 5, is_truncated=True)
    assert sent(effects, Missed) == [Missed(1, "p", 0, FORGOTTEN)]
    assert received(effects, "c") == [5]


@pytest.mark.parametrize("is_counted", [True, False])
def test_the_client_hears_how_much_was_forgotten(is_counted: bool) -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference", since=-100.0)
    effects = answer(desk, "p", 5, is_truncated=True, missing=4, is_counted=is_counted)
    assert sent(effects, Missed) == [Missed(1, "p", 4, FORGOTTEN if is_counted else FORGOTTEN + AT_MOST)]


def test_the_same_loss_is_told_once_though_a_stream_without_room_asks_again() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    desk.installed("c", 1)
    desk.know("p/1")
    subscription = desk.edge.subscriptions.all["c", 1]
    stream = subscription.streams["p"]
    told = [stream.told_before(missing, 7) for missing in (3, 3, 5)]
    assert told == [(None, False), (3, False), (3, False)], "two more in the end"
    stream.position = 7
    assert stream.told_before(2, 9) == (None, False), "another place"
    stream.position = 8
    assert stream.told_before(3, 11) == (None, True), "one of them was told before"


def test_what_came_by_itself_is_not_counted_exactly_among_what_is_forgotten() -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference", after=(("p", 3),))
    desk.arrive("p", [4], C1)
    effects = answer(desk, "p", 9, is_truncated=True, missing=5, is_counted=True, begin=3, lacking=((0, 8),))
    assert sent(effects, Missed) == [Missed(1, "p", 5, FORGOTTEN + AT_MOST)]
    assert received(effects, "c") == [4, 9]


def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference")
    assert drops(answer(desk, "p", 1, round=77)) == [OLD_ANSWER]
    answer(desk, "p")
    assert drops(answer(desk, "p", 1)) == [OLD_ANSWER]
    assert drops(answer(desk, "p", 1, client="nobody")) == [OLD_ANSWER]


def test_a_question_without_an_answer_is_asked_again() -> None:
    desk = served(EdgeParams(ask_again_after=10.0))
    effects = desk.subscribe("c", guarantee="reference", after=(("p", 3),))
    assert SetTimer("ask", 10.0) in effects
    effects = desk.fire("ask", 10.0)
    assert asked(effects) == [("b", (("p/1", 3),), 0.0)]
    assert SetTimer("ask", 20.0) in effects
    answer(desk, "p", 4)
    assert desk.fire("ask", 20.0) == []


def test_the_answer_to_a_question_that_was_posed_again_counts_and_what_came_meanwhile_follows_it() -> None:
    """Whoever waits behind thousands of others would wait for ever if only the answer to the last question counted."""
    desk = served(EdgeParams(ask_again_after=10.0))
    desk.subscribe("c", guarantee="reference", after=(("p", 3),))
    stream = desk.edge.subscriptions.all["c", 1].streams["p"]
    first = stream.round
    desk.arrive("p", [7], (("c", 1),))
    desk.fire("ask", 10.0)
    assert stream.round == first
    assert received(answer(desk, "p", 4, 6, round=first), "c") == [4, 6, 7]
    assert drops(answer(desk, "p", 4, 6, round=first)) == [OLD_ANSWER], "the second answer is one too many"
    assert received(desk.arrive("p", [8], (("c", 1),)), "c") == [8]


def test_only_who_has_not_answered_is_asked_again() -> None:
    desk = served(EdgeParams(ask_again_after=10.0))
    desk.know("p/1@y")
    desk.subscribe("c", guarantee="reference", after=(("p", 3),))
    answer(desk, "p", 4)
    (question,) = asked(desk.fire("ask", 10.0))
    assert question[1] == (("p/1@y", 3),)


@pytest.mark.parametrize("asked_at", [54.141, 0.1 + 0.2, 1e9 / 3])
def test_a_question_is_asked_again_when_its_timer_fires_whatever_rounding_does(asked_at: float) -> None:
    desk = served(EdgeParams(ask_again_after=10.0))
    desk.now = asked_at
    desk.subscribe("c", guarantee="reference", after=(("p", 3),))
    due = desk.timers["ask"]
    effects = desk.fire("ask", due)
    assert [question[:2] for question in asked(effects)] == [("b", (("p/1", 3),))]
    assert desk.timers["ask"] > due


def test_a_broker_that_knows_no_way_is_asked_again_when_there_is_one() -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference", after=(("p", 3),))
    effects = answer(desk, "p", problem="no way to the publisher is known at the broker b")
    assert drops(effects) == ["no way to the publisher is known at the broker b"]
    assert asked(desk.know("p/1")) != []


def test_what_comes_after_an_answer_that_stopped_is_asked_for_behind_it() -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference", after=(("p", 3),))
    effects = answer(desk, "p", 4, has_more=True, through=1000)
    assert received(effects, "c") == [4]
    assert asked(effects)[0][1] == (("p/1", 1000),)


# None.


def test_without_a_guarantee_whatever_comes_is_passed_on_at_once() -> None:
    desk = served()
    desk.subscribe("c", guarantee="none")
    assert received(desk.arrive("p", [1], C1), "c") == [1]
    assert asked(desk.know("q/1")) == []
    assert sent(desk.settle(), Receipt) != []


# Who wants what.


def test_several_subscriptions_of_a_client_get_each_publication_in_one_piece() -> None:
    desk = served()
    for number in (1, 2):
        desk.installed("c", number)
    effects = desk.handle(Matched(batch("p", [1, 2, 3, 4]), [C1, C1 + C2, C2, ()]))
    (delivery,) = sent(effects, Delivery)
    assert delivery.numbers == (1, 2, 3)
    assert delivery.matched == ((1,), (1, 2), (2,))


def test_subscriptions_that_want_the_same_get_the_same() -> None:
    desk = served()
    for number in (1, 2):
        desk.installed("c", number)
    (delivery,) = sent(desk.arrive("p", [1, 2], C1 + C2), Delivery)
    assert (delivery.numbers, delivery.matched) == ((1, 2), ((1, 2),))


def test_clients_get_what_each_wants() -> None:
    desk = served()
    desk.up("d")
    desk.installed("c")
    desk.installed("d")
    effects = desk.handle(Matched(batch("p", [1, 2, 3]), [C1, (("d", 1),), C1]))
    assert received(effects, "c") == [1, 3]
    assert received(effects, "d") == [2]


def test_a_delivery_names_no_more_matches_than_fit_a_frame() -> None:
    desk = served(EdgeParams(subscriptions_max=50))
    for number in range(1, 51):
        desk.installed("c", number)
    everybody = tuple(("c", number) for number in range(1, 51))
    wanted = [everybody[place % 2 :] for place in range(100)]
    deliveries = sent(desk.handle(Matched(batch("p", range(1, 101)), wanted)), Delivery)
    assert [len(delivery.numbers) for delivery in deliveries] == [80, 20]
    assert [number for delivery in deliveries for number in delivery.numbers] == list(range(1, 101))


def test_publications_for_nobody_are_dropped() -> None:
    desk = served()
    assert drops(desk.arrive("p", [1], C1)) == [NO_SUBSCRIPTION]
    assert drops(desk.arrive("p", [2, 3], C1, C2)) == [NO_SUBSCRIPTION, NO_SUBSCRIPTION]


# Requests.


@pytest.mark.spec("S-116")
def test_nothing_is_delivered_once_unsubscribing_has_arrived() -> None:
    desk = served()
    desk.installed("c")
    effects = desk.say("c", Unsubscribe(1))
    assert [unwant.key for unwant in of(Unwant, effects)] == [("c", 1)]
    assert drops(desk.arrive("p", [1], C1)) == [NO_SUBSCRIPTION]
    (receipt,) = sent(desk.settle(), Receipt)
    assert (receipt.kind, receipt.number) == ("unsubscribe", 1)


def test_ending_what_is_not_there_is_done_already() -> None:
    assert sent(served().say("c", Unsubscribe(9)), Receipt)[0].kind == "unsubscribe"


def test_a_subscription_is_narrowed_to_what_the_client_may_have_and_the_receipt_says_so() -> None:
    desk = EdgeDesk()
    desk.up("c", subscribe_bound=parse("x < 10"))
    (want,) = of(Want, desk.subscribe("c"))
    assert want.filter == parse("x >= 0 AND x < 10")
    assert parse(sent(desk.settle(), Receipt)[0].filter) == want.filter
    (want,) = of(Want, desk.subscribe("c", 2, "x = 5"))
    assert want.filter == parse("x = 5")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (subscription(1, "x > 20"), "you may subscribe to only x < 10"),
        (subscription(1, "x >"), "the filter is wrong"),
        (subscription(1, window=0), "at least 1"),
        (subscription(3, "x = 1"), "has another filter"),
        (subscription(5, "x = 2"), "at most 2 subscriptions"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_with_what_to_do(request_: Subscribe, reason: str) -> None:
    desk = EdgeDesk(EdgeParams(subscriptions_max=2))
    desk.up("c", subscribe_bound=parse("x < 10"))
    desk.subscribe("c", 3, "x = 2")
    if request_.number == 5:
        desk.subscribe("c", 4, "x = 2")
    (refusal,) = sent(desk.say("c", request_), Refusal)
    assert reason in refusal.reason
    assert not refusal.may_retry


def test_a_client_that_leaves_takes_its_subscriptions_with_it() -> None:
    desk = served()
    desk.installed("c")
    assert [unwant.key for unwant in of(Unwant, desk.down("c"))] == [("c", 1)]
    assert not desk.edge.subscriptions.all
    assert drops(desk.arrive("p", [1], C1)) == [NO_SUBSCRIPTION]


def test_a_client_that_comes_twice_begins_anew() -> None:
    desk = served()
    desk.subscribe("c")
    desk.up("c")
    assert not desk.edge.subscriptions.all
    assert drops(desk.settle()) == [CLIENT_LEFT]


def test_positions_of_publishers_that_are_gone_make_room() -> None:
    desk = EdgeDesk(EdgeParams(streams_max=2))
    desk.up("c")
    desk.installed("c", guarantee="none")
    for publisher in ("p", "q", "r"):
        desk.arrive(publisher, [1], C1)
    assert list(desk.edge.subscriptions.all["c", 1].streams) == ["q", "r"]
