"""Slow clients: windows, queues, and what happens when they are full."""

import pytest

from tests.worlds.desk import drops, of, sent
from tests.worlds.edge import C1, C2, EdgeDesk, answer, asked, received, served
from tidings.machine.effects import Disconnect
from tidings.model.bounds import BATCH_BYTES_MAX
from tidings.model.work import limited
from tidings.protocols.delivery.edge.admission import BEFORE_RECEIPT, NOT_ACTIVE
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.subscriptions import NO_SUBSCRIPTION, NOT_UNDER_WAY
from tidings.protocols.delivery.messages import QUEUE_FULL, DeliveriesTaken, Delivery, Fetch, Reference, Taken
from tidings.protocols.delivery.sizes import TAKEN_STEP_BYTES, size_of
from tidings.pubsub.client import Fetched, Missed


def slow(policy: str, window: int = 2, queue_max: int = 2, params: EdgeParams | None = None) -> EdgeDesk:
    desk = served(params)
    desk.installed("c", policy=policy, window=window, queue_max=queue_max)
    return desk


def outlet_state(desk: EdgeDesk) -> tuple[int, int]:
    outlet = desk.edge.subscriptions.all["c", 1].outlet
    return outlet.under_way, outlet.waiting


def test_no_more_is_on_the_way_than_the_window_and_the_rest_waits() -> None:
    desk = slow("wait", window=2, queue_max=10)
    assert received(desk.arrive("p", [1, 2, 3], C1), "c") == [1, 2]
    assert received(desk.arrive("p", [4], C1), "c") == []
    assert outlet_state(desk) == (2, 2)
    assert received(desk.take("c", 1), "c") == [3]
    assert received(desk.take("c", 2), "c") == [4]
    assert outlet_state(desk) == (1, 0)


def test_taking_what_was_not_on_the_way_counts_for_nothing() -> None:
    desk = slow("wait")
    desk.arrive("p", [1], C1)
    assert drops(desk.take("c", 5)) == [NOT_UNDER_WAY]
    assert outlet_state(desk) == (0, 0)
    assert drops(desk.take("c", 1, number=9)) == [NO_SUBSCRIPTION]


def test_a_window_and_a_queue_are_cut_to_what_the_broker_allows() -> None:
    desk = slow("wait", window=50, queue_max=50, params=EdgeParams(window_max=3, queue_max=4))
    outlet = desk.edge.subscriptions.all["c", 1].outlet
    assert (outlet.window, outlet.waiting_max) == (3, 4)


# wait


def test_a_subscription_that_waits_stops_when_it_is_full_and_fetches_the_rest_when_there_is_room() -> None:
    desk = slow("wait")
    assert received(desk.arrive("p", [1, 2, 3, 4, 5, 6], C1), "c") == [1, 2]
    assert drops(desk.arrive("p", [7], C1)) == [NOT_ACTIVE]
    effects = desk.take("c", 1)
    assert received(effects, "c") == [3]
    assert asked(effects) == []
    effects = desk.take("c", 1)
    assert received(effects, "c") == [4]
    (question,) = sent(effects, Reference)
    assert question.wanted == (("p/1@z", 4),)
    assert question.limit == 2
    assert received(answer(desk, "p", 5, 6, has_more=True, through=6), "c") == []
    effects = desk.take("c", 2)
    assert received(effects, "c") == [5, 6]
    assert asked(effects)[0][1] == (("p/1", 6),)
    answer(desk, "p", 7)
    assert received(desk.take("c", 2), "c") == [7]
    assert received(desk.arrive("p", [8], C1), "c") == [8]


def test_a_publisher_of_whom_nothing_was_passed_on_is_fetched_from_the_beginning() -> None:
    desk = slow("wait", window=1, queue_max=0)
    desk.now = 5.0
    desk.know("q/1")
    answer(desk, "q")
    desk.arrive("p", [1], C1)
    desk.arrive("q", [1], C1)
    assert asked(desk.take("c", 1)) == [("b", (("q/1", None),), None)]


@pytest.mark.spec("S-114")
def test_who_waited_longer_than_history_lasts_hears_that_something_is_missing() -> None:
    desk = slow("wait", window=1, queue_max=0)
    desk.arrive("p", [1, 2], C1)
    desk.take("c", 1)
    effects = answer(desk, "p", 9, is_truncated=True)
    assert [missed.publisher for missed in sent(effects, Missed)] == ["p"]
    assert received(effects, "c") == [9]


def test_an_answer_that_is_longer_than_the_room_is_asked_for_again() -> None:
    desk = slow("wait", window=2, queue_max=0)
    desk.arrive("p", [1, 2, 3], C1)
    desk.take("c", 2)
    effects = answer(desk, "p", 3, 4, 5)
    assert received(effects, "c") == [3, 4]
    assert asked(desk.take("c", 2))[0][1] == (("p/1", 4),)


def test_room_is_shared_among_the_publishers_that_are_asked() -> None:
    desk = served()
    desk.know("q/1")
    (question,) = sent(
        desk.subscribe("c", guarantee="reference", policy="drop oldest", window=4, queue_max=6), Reference
    )
    assert question.limit == 5


# drop oldest, drop newest, disconnect


def test_the_oldest_that_waits_makes_room_and_the_client_is_told_how_much_it_missed() -> None:
    desk = slow("drop oldest")
    effects = desk.arrive("p", [1, 2, 3, 4, 5, 6], C1)
    assert received(effects, "c") == [1, 2]
    assert drops(effects) == [QUEUE_FULL]
    desk.arrive("p", [7], C1)
    effects = desk.take("c", 2)
    assert sent(effects, Missed) == [Missed(1, "p", 3, QUEUE_FULL)]
    assert received(effects, "c") == [6, 7]
    assert sent(desk.take("c", 1), Missed) == []
    assert desk.edge.subscriptions.all["c", 1].dropped == {QUEUE_FULL: 3}


def test_what_is_given_up_before_the_receipt_may_come_after_all_and_is_not_counted_exactly() -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference", policy="drop newest", window=1, queue_max=1)
    answer(desk, "p")
    desk.arrive("p", [1, 2, 3], C1)
    assert sent(desk.take("c", 1), Missed) == [Missed(1, "p", 1, QUEUE_FULL + BEFORE_RECEIPT)]
    desk.settle()
    desk.arrive("p", [4, 5, 6], C1)
    assert sent(desk.take("c", 1), Missed) == [Missed(1, "p", 2, QUEUE_FULL)]


def test_what_came_last_is_given_up() -> None:
    desk = slow("drop newest")
    desk.arrive("p", [1, 2, 3, 4, 5, 6], C1)
    desk.arrive("p", [7], C1)
    effects = desk.take("c", 2)
    assert sent(effects, Missed) == [Missed(1, "p", 3, QUEUE_FULL)]
    assert received(effects, "c") == [3, 4]
    assert received(desk.arrive("p", [8], C1), "c") == []
    assert received(desk.take("c", 1), "c") == [8]


def test_subscriptions_that_were_held_go_on_whichever_of_them_wakes_the_others() -> None:
    desk = EdgeDesk(EdgeParams(scanned_max=2))
    desk.up("p", "c")
    desk.advertise("p")
    desk.publish("p", 1, 1, 2, 3, 4, 5)
    with limited(0):
        for number in (1, 2, 3):
            desk.subscribe("c", number, "x >= 3", guarantee="reference", since=0.0)
    deliveries = sent(desk.fire("held", 1.0), Delivery)
    for number in (1, 2, 3):
        assert [each.numbers for each in deliveries if each.matched == ((number,),)] == [(3, 4), (5,)]


def test_a_client_that_is_too_slow_is_turned_out_once() -> None:
    desk = slow("disconnect")
    effects = desk.arrive("p", [1, 2, 3, 4, 5], C1)
    assert received(effects, "c") == [1, 2]
    assert [effect.neighbour for effect in of(Disconnect, effects)] == ["c"]
    assert isinstance(effects[-1], Disconnect), "what still fits leaves before the goodbye"
    assert sent(effects, Missed) == [Missed(1, "p", 1, QUEUE_FULL)]
    assert of(Disconnect, desk.arrive("p", [6], C1)) == []


def test_history_waits_for_room_whatever_the_policy() -> None:
    desk = served()
    desk.subscribe("c", guarantee="reference", policy="disconnect", window=1, queue_max=1)
    effects = answer(desk, "p", 1, 2, 3)
    assert received(effects, "c") == [1]
    assert of(Disconnect, effects) == []
    assert asked(desk.take("c", 1))[0][1] == (("p/1", 2),)


# Bytes.


def test_publications_on_the_way_count_against_the_bytes_of_the_client() -> None:
    size = BATCH_BYTES_MAX // 4
    desk = slow("drop newest", window=100, queue_max=100, params=EdgeParams(pending_bytes_max=BATCH_BYTES_MAX))
    effects = desk.arrive("p", [1, 2, 3, 4, 5], C1, size=size)
    assert received(effects, "c") == [1, 2, 3]
    assert drops(effects) == [QUEUE_FULL]
    desk.take("c", 2)
    assert received(desk.arrive("p", [6, 7], C1, size=size), "c") == [6, 7]


def test_a_subscription_that_lacks_bytes_goes_on_when_another_of_the_client_frees_them() -> None:
    size = BATCH_BYTES_MAX // 4
    desk = served(EdgeParams(pending_bytes_max=BATCH_BYTES_MAX))
    for number in (1, 2):
        desk.installed("c", number)
    desk.arrive("p", [1, 2, 3], C2, size=size)
    assert received(desk.arrive("p", [4], C1, size=size), "c") == []
    (question,) = sent(desk.say("c", Taken(2, 3)), Reference)
    assert question.subscription == 1


# The connection.

NARROW = EdgeParams(client_window_bytes=2 * TAKEN_STEP_BYTES)
PIECE = TAKEN_STEP_BYTES


def test_no_more_bytes_are_on_the_way_to_a_client_than_have_arrived_and_its_window() -> None:
    desk = slow("wait", window=100, queue_max=100, params=NARROW)
    effects = [desk.arrive("p", [number], C1, size=PIECE) for number in range(1, 6)]
    assert [received(each, "c") for each in effects] == [[1], [2], [], [], []]
    size = size_of(sent(effects[0], Delivery)[0])
    assert received(desk.say("c", DeliveriesTaken(size)), "c") == [3]
    assert desk.say("c", DeliveriesTaken(size)) == []
    assert desk.say("c", DeliveriesTaken(100 * size)) == [], "so much was never sent"
    assert received(desk.say("c", DeliveriesTaken(3 * size)), "c") == [4, 5]


def test_what_the_application_has_taken_has_arrived() -> None:
    desk = slow("wait", window=100, queue_max=100, params=NARROW)
    for number in range(1, 6):
        desk.arrive("p", [number], C1, size=PIECE)
    assert received(desk.take("c", 2), "c") == [3]
    assert received(desk.take("c", 1), "c") == [4]


def test_the_subscriptions_of_a_client_leave_in_turn_and_one_that_is_not_read_holds_nobody_up() -> None:
    desk = served(NARROW)
    for number in (1, 2):
        desk.installed("c", number)
    for number in range(1, 5):
        desk.arrive("p", [number], C1, size=PIECE)
    for number in range(5, 8):
        desk.arrive("p", [number], C2, size=PIECE)
    size = size_of(desk.edge.clients["c"].send(sent([effect for _, effect in desk.all], Delivery)[0]).message)
    effects = desk.say("c", DeliveriesTaken(3 * size))
    assert (received(effects, "c", 1), received(effects, "c", 2)) == ([3], [5])
    effects = desk.say("c", DeliveriesTaken(5 * size))
    assert (received(effects, "c", 1), received(effects, "c", 2)) == ([4], [6])


def test_what_is_read_of_history_shares_the_window_of_the_connection() -> None:
    desk = slow("wait", window=100, queue_max=100, params=NARROW)
    desk.up("q")
    desk.advertise("q")
    desk.publish("q", 1, 1)
    for number in range(1, 3):
        desk.arrive("p", [number], C1, size=PIECE)
    assert sent(desk.say("c", Fetch(1, "TRUE", "q", 0, None, 1, 10)), Fetched) == []
    assert len(sent(desk.take("c", 2), Fetched)) == 1
