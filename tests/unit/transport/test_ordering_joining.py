"""From when on the events of a publisher are missed: its first event (T-40), or when we began to listen."""

from tests.worlds.ordering import OTHERS, OURS, OrderingDesk, Publisher, params_of
from tidings.model.language.parser import parse
from tidings.protocols.transport.ordering.records import JOIN_MARGIN
from tidings.protocols.transport.signals import Listen

LISTENING = params_of(5, joins="listening")
PERIOD = 0.1


def desk(count: int = 12, **ordering: object) -> tuple[Publisher, OrderingDesk]:
    """Events for us, one each 100 ms, the first two seconds after we began to listen; the clock of the publisher is an
    hour ahead."""
    params = params_of(5, joins="listening", **ordering)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all(3600.0 + 2 * JOIN_MARGIN + number * PERIOD for number in range(count))
    return publisher, receiver


def hear(receiver: OrderingDesk, publisher: Publisher, *numbers: int) -> None:
    for number in numbers:
        receiver.at(2 * JOIN_MARGIN + number * PERIOD, publisher.heard(number))


def test_what_the_record_of_the_first_event_proves_to_be_ours_is_lost() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 4, 5)
    receiver.advance(10.0)
    assert sorted(receiver.lost()) == [1, 2, 3]
    assert receiver.order() == [4, 5]


def test_a_digest_tells_of_what_was_before_the_record_of_the_first_event() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 8)
    receiver.advance(receiver.now + 1.0)
    assert sorted(receiver.lost()) == [3, 4, 5, 6, 7]
    receiver.handle(publisher.digest(3600.0 + receiver.now))
    receiver.advance(20.0)
    assert sorted(receiver.lost()) == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]


def test_what_was_sent_before_we_listened_is_not_missed() -> None:
    publisher, receiver = Publisher(LISTENING), OrderingDesk(LISTENING)
    receiver.ordering.handle(0.0, Listen(1, parse("a = 2")))
    receiver.at(50.0, Listen(1, parse("a = 1")))
    publisher.send_all(3600.0 + 50.0 + number * 0.5 for number in range(-6, 6))
    # The ninth was sent a second after we began to listen, and the margin is a second too.
    receiver.at(52.5, publisher.heard(12))
    receiver.advance(60.0)
    assert sorted(receiver.lost()) == [10, 11]


def test_what_is_not_for_us_is_not_missed() -> None:
    publisher, receiver = Publisher(LISTENING), OrderingDesk(LISTENING)
    for number in range(6):
        publisher.send(100.0 + number * PERIOD, OURS if number % 2 else OTHERS)
    receiver.at(105.0, publisher.heard(6))
    receiver.advance(110.0)
    assert sorted(receiver.lost()) == [2, 4]


def test_events_that_the_first_one_overtook_come_in_order_where_order_is_strict() -> None:
    publisher, receiver = desk(patience=5.0)
    receiver.at(3.0, publisher.heard(3))
    receiver.at(3.1, publisher.heard(1))
    receiver.at(3.2, publisher.heard(2), publisher.heard(4))
    assert receiver.order() == [1, 2, 3, 4]
    receiver.advance(20.0)
    assert receiver.order() == [1, 2, 3, 4]


def test_without_losses_the_first_event_is_delivered_at_once() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 1, 2, 3)
    assert receiver.order() == [1, 2, 3]
    assert receiver.lost() == {}
    assert all(item.held == 0.0 for _, item in receiver.handed())
