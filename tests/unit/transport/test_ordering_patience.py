"""Strict order: events wait for what was lost before them, until it is repaired or given up."""

import pytest

from tests.worlds.ordering import STREAM, OrderingDesk, Publisher, content_of, params_of
from tidings.model.errors import UsageError
from tidings.protocols.transport.params import OrderingParams
from tidings.protocols.transport.signals import GivenUp, Recovered

PATIENCE = 3.0


def desk(count: int = 8) -> tuple[Publisher, OrderingDesk]:
    """Events every 10 ms, each 100 ms on its way; the latch is 72 ms less what lies between two events."""
    params = params_of(5, patience=PATIENCE)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all(number / 100 for number in range(count))
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(0.010)
    return publisher, receiver


def hear(receiver: OrderingDesk, publisher: Publisher, *numbers: int) -> None:
    for number in numbers:
        receiver.at(0.090 + number / 100, publisher.heard(number))


def test_events_wait_for_a_repair_and_leave_in_order() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 2, 4, 5)
    receiver.advance(0.9)
    assert list(receiver.lost()) == [3]
    assert receiver.order() == [1, 2]
    receiver.at(1.0, Recovered(STREAM, 3, content_of(3), "repaired"))
    assert receiver.order() == [1, 2, 3, 4, 5]
    assert receiver.ways()[3] == "repaired"


def test_an_original_that_comes_after_it_was_called_lost_takes_its_place() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 2, 4)
    receiver.at(1.0, publisher.heard(3))
    assert receiver.order() == [1, 2, 3, 4]
    assert receiver.ways()[3] == "direct"


def test_what_is_given_up_stops_nobody() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 2, 4, 6, 7)
    receiver.advance(0.9)
    receiver.at(1.0, GivenUp(STREAM, 3))
    assert receiver.order() == [1, 2, 4]
    receiver.at(1.1, GivenUp(STREAM, 5))
    assert receiver.order() == [1, 2, 4, 6, 7]


def test_patience_has_an_end() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 2, 4)
    receiver.advance(10.0)
    assert receiver.order() == [1, 2, 4]
    latch = receiver.handed()[-1][1].latch
    assert receiver.times()[4] == pytest.approx(0.130 + latch + PATIENCE)
    receiver.at(11.0, Recovered(STREAM, 3, content_of(3), "repaired"))
    assert receiver.order() == [1, 2, 4, 3]


def test_repairs_of_the_last_events_of_a_burst_leave_in_order() -> None:
    publisher, receiver = desk(count=5)
    hear(receiver, publisher, 2)
    receiver.at(0.3, publisher.digest(0.2))
    receiver.advance(0.9)
    assert list(receiver.lost()) == [3, 4, 5]
    receiver.at(1.0, Recovered(STREAM, 5, content_of(5), "repaired"))
    receiver.at(1.1, Recovered(STREAM, 3, content_of(3), "repaired"))
    assert receiver.order() == [1, 2, 3]
    receiver.at(1.2, Recovered(STREAM, 4, content_of(4), "repaired"))
    assert receiver.order() == [1, 2, 3, 4, 5]
    publisher.send_all((2.0, 2.01))
    receiver.at(2.1, publisher.heard(6))
    receiver.at(2.11, publisher.heard(7))
    assert receiver.order() == [1, 2, 3, 4, 5, 6, 7]


def test_patience_is_a_span_of_time() -> None:
    with pytest.raises(UsageError, match="patience"):
        OrderingParams(patience=-1.0)


def test_a_digest_that_overtakes_events_does_not_make_them_lost() -> None:
    params = params_of(5, digest_latch=0.2)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all((0.0, 0.01))
    receiver.at(0.1, publisher.heard(1))
    receiver.fix_scale(0.001)
    receiver.at(0.12, publisher.digest(0.02))
    receiver.at(0.30, publisher.heard(2))
    receiver.advance(1.0)
    assert receiver.lost() == {} and receiver.order() == [1, 2]
