"""What a look says of brokers that cannot be asked any more: message by message, at the broker that is asked."""

import pytest

from tests.worlds.desk import sent
from tests.worlds.edge import EdgeDesk
from tidings.protocols.delivery.edge import absences
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.messages import Look, MarksFar
from tidings.pubsub.client import MarksReply
from tidings.pubsub.signals import NeighbourUp

PARAMS = EdgeParams(history_age=100.0, marks_age=50.0, reading_timeout=10.0)


def reading(params: EdgeParams = PARAMS) -> EdgeDesk:
    """c reads; q publishes at the broker z, behind the neighbour b."""
    desk = EdgeDesk(params)
    desk.neighbours("b")
    desk.up("c")
    desk.know("q/1@z")
    return desk


def look(desk: EdgeDesk, filter: str = "x >= 0") -> MarksReply:
    (marks,) = sent(desk.say("c", Look(1, filter)), MarksReply, "c")
    assert isinstance(marks, MarksReply)
    return marks


def missing(desk: EdgeDesk, filter: str = "x >= 0") -> tuple[tuple[str, ...], tuple[str, ...]]:
    marks = look(desk, filter)
    return marks.absent, marks.unreachable


def test_a_broker_to_which_the_way_is_lost_is_absent_and_its_publishers_cannot_be_reached() -> None:
    desk = reading()
    desk.forget("q/1@z", is_lost=True)
    assert missing(desk) == (("z",), ("q",))
    assert missing(desk, "x < 0") == ((), ())


def test_nobody_misses_what_was_withdrawn() -> None:
    desk = reading()
    desk.forget("q/1@z")
    assert missing(desk) == ((), ())


def test_what_was_lost_and_is_withdrawn_then_is_not_missed_any_more() -> None:
    desk = reading()
    desk.forget("q/1@z", is_lost=True)
    desk.forget("q/1@z")
    assert missing(desk) == ((), ())


def test_what_is_known_again_is_asked_for_and_not_missed() -> None:
    desk = reading()
    desk.forget("q/1@z", is_lost=True)
    desk.know("q/1@z")
    desk.say("c", Look(1, "x >= 0"))
    (marks,) = sent(desk.say("b", MarksFar(1, (("q/1@z", 9, (), ((0, 9),)),), (), ())), MarksReply)
    assert (marks.marks, marks.absent) == ((("q", 0, 9),), ())


def test_a_publisher_that_is_known_elsewhere_has_its_mark_and_its_former_broker_is_absent() -> None:
    desk = reading()
    desk.know("q/1@y")
    desk.forget("q/1@z", is_lost=True)
    desk.say("c", Look(1, "x >= 0"))
    (marks,) = sent(desk.say("b", MarksFar(1, (("q/1@y", 9, (), ((0, 9),)),), (), ())), MarksReply)
    assert (marks.marks, marks.absent, marks.unreachable) == ((("q", 0, 9),), ("z",), ())


def test_what_a_lost_broker_stored_is_missed_until_it_would_have_been_forgotten() -> None:
    desk = reading()
    desk.forget("q/1@z", is_lost=True)
    desk.now = 149.0
    assert missing(desk) == (("z",), ("q",))
    desk.now = 150.0
    assert missing(desk) == ((), ())
    assert not desk.edge.readings.absences.lost


def test_of_a_broker_that_is_back_only_what_it_advertises_soon_is_there() -> None:
    desk = reading()
    desk.know("r/1@z")
    for lost in ("q/1@z", "r/1@z"):
        desk.forget(lost, is_lost=True)
    desk.know("r/1@z")
    desk.ways.hops.clear()
    assert missing(desk) == (("z",), ("q", "r"))
    desk.now = 10.0
    assert missing(desk) == (("z",), ("r",))


def test_a_neighbour_that_is_back_and_advertises_nothing_has_forgotten_it() -> None:
    desk = reading()
    desk.know("s/1@b")
    desk.forget("s/1@b", is_lost=True)
    desk.handle(NeighbourUp("b", 2))
    desk.forget("q/1@z")
    assert missing(desk) == (("b",), ("s",))
    desk.now = 10.0
    assert missing(desk) == ((), ())


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absences, "LOST_MAX", 3)
    desk = reading()
    for place in range(5):
        desk.know(f"p{place}/1@z")
        desk.forget(f"p{place}/1@z", is_lost=True)
    assert list(desk.edge.readings.absences.lost) == ["p2/1@z", "p3/1@z", "p4/1@z"]


def test_publishers_that_left_are_remembered_for_both_ages_and_no_longer_than_the_broker_is_there() -> None:
    desk = EdgeDesk(PARAMS)
    desk.up("c")
    desk.now = 20.0
    assert look(desk).remembered_for == 20.0
    desk.now = 200.0
    assert look(desk).remembered_for == 150.0


def test_where_too_many_have_left_those_are_remembered_that_left_after_the_last_that_is_not() -> None:
    desk = EdgeDesk(EdgeParams(history_age=10.0, marks_age=100.0, marks_max=1))
    desk.up("c", "p", "q")
    for place, publisher in enumerate(("p", "q"), 1):
        desk.advertise(publisher)
        desk.publish(publisher, 1, 1)
        desk.now = float(place)
        desk.down(publisher)
    desk.fire("sweep", 105.0)
    assert look(desk).remembered_for == 104.0
