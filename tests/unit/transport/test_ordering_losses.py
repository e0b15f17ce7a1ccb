"""Which missing events are called lost, and when: records, digests, repairs, filters."""

import pytest

from tests.worlds.ordering import OTHERS, OURS, STREAM, OrderingDesk, Publisher, content_of, params_of
from tidings.model.language.parser import parse
from tidings.protocols.transport.ordering.stream import REPEATED
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import EventLost, GapSeen, Listen, Recovered
from tidings.pubsub.notes import LossDetected

SCALE = 0.010
MILLISECOND = 0.001


def desk(record: int = 5, count: int = 20, params: TransportParams | None = None) -> tuple[Publisher, OrderingDesk]:
    """Events for us every millisecond; the first has arrived, and the scale is 10 ms."""
    params = params or params_of(record, quantile="exact")
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all(number * MILLISECOND for number in range(count))
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(SCALE)
    return publisher, receiver


def hear(receiver: OrderingDesk, publisher: Publisher, *numbers: int) -> None:
    for number in numbers:
        receiver.at(max(receiver.now, 0.100 + number * MILLISECOND), publisher.heard(number))


# Records.


@pytest.mark.spec("T-43", "T-44")
def test_loss_is_told_once_with_its_number_bits_and_time() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 2, 4, 5, 6, 7, 8)
    receiver.advance(1.0)
    (lost,) = receiver.told(EventLost)
    assert lost == EventLost(STREAM, 3, publisher.sent[2].bits, lost.departed, (1,))
    assert lost.departed == pytest.approx(2 * MILLISECOND)
    assert receiver.qualities() == [("lost", 3)]
    assert receiver.told(LossDetected) == [LossDetected("7 3", "7", 3)]


@pytest.mark.spec("T-43")
def test_event_that_comes_inside_the_latch_is_not_lost() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 2, 4, 3)
    receiver.advance(1.0)
    assert receiver.lost() == {}


@pytest.mark.spec("T-43")
def test_event_that_is_not_for_us_is_not_lost() -> None:
    params = params_of(5)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    for number in range(10):
        publisher.send(number * MILLISECOND, OURS if number % 3 == 0 else OTHERS)
    hear(receiver, publisher, 1, 4, 10)
    receiver.advance(1.0)
    assert list(receiver.lost()) == [7]


@pytest.mark.spec("T-45")
@pytest.mark.parametrize("record", [1, 2, 5])
def test_loss_that_no_later_record_tells_of_is_never_told(record: int) -> None:
    publisher, receiver = desk(record)
    hear(receiver, publisher, 2, 12, 13, 14, 20)
    receiver.advance(1.0)
    assert list(receiver.lost()) == [*range(12 - record, 12), *range(20 - min(record, 5), 20)]


@pytest.mark.spec("T-44")
def test_losses_are_not_told_again_by_later_records_or_digests() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 4)
    receiver.advance(0.5)
    hear(receiver, publisher, 5, 7, 6)
    receiver.at(0.6, publisher.digest(0.3))
    receiver.advance(1.0)
    assert [lost.sequence for lost in receiver.told(EventLost) if lost.sequence < 8] == [2, 3]


@pytest.mark.spec("T-48")
@pytest.mark.parametrize("mode", ["basic", "static"])
def test_without_records_nothing_is_lost_and_every_gap_is_unknown(mode: str) -> None:
    publisher, receiver = desk(params=params_of(5, mode=mode))
    hear(receiver, publisher, 4, 9)
    receiver.at(0.5, publisher.digest(0.3))
    receiver.advance(1.0)
    assert receiver.order() == [1, 4, 9]
    assert receiver.lost() == {}
    assert [(gap.missing, gap.uncovered, gap.relevant) for gap in receiver.told(GapSeen)] == [(2, 2, 0), (4, 4, 0)]


def test_late_event_with_a_record_of_its_own_tells_of_older_losses() -> None:
    publisher, receiver = desk(record=2)
    hear(receiver, publisher, 12)
    receiver.advance(0.5)
    assert list(receiver.lost()) == [10, 11]
    hear(receiver, publisher, 8)
    assert list(receiver.lost()) == [10, 11, 6, 7]
    assert receiver.lost()[6] == 0.5


@pytest.mark.parametrize("following", [6, 7])
def test_record_that_grows_tells_of_older_losses(following: int) -> None:
    publisher, receiver = desk(record=1)
    hear(receiver, publisher, 5)
    receiver.advance(0.5)
    assert list(receiver.lost()) == [4]
    publisher.params = params_of(4)
    hear(receiver, publisher, following)
    receiver.advance(1.0)
    assert sorted(receiver.lost()) == ([2, 3, 4] if following == 6 else [3, 4, 6])


def test_gap_counts_what_is_unknown_and_what_is_for_us() -> None:
    params = params_of(3)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    for number in range(10):
        publisher.send(number * MILLISECOND, OURS if number in (0, 8, 9) else OTHERS)
    hear(receiver, publisher, 1, 10)
    assert receiver.told(GapSeen) == [GapSeen(STREAM, 10, 8, 5, 1)]


def test_row_that_says_nothing_is_waited_for_and_never_lost() -> None:
    params = params_of(5, quantile="exact")
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send(0.0)
    publisher.send(0.001, bits=0)
    publisher.send(0.002, bits=2**128 - 1)
    publisher.send(0.004)
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(SCALE)
    receiver.at(0.104, publisher.heard(4))
    assert receiver.told(GapSeen) == [GapSeen(STREAM, 4, 2, 2, 0)]
    receiver.advance(1.0)
    assert receiver.handed()[-1][1].latch == pytest.approx(0.0327181 - 0.002, abs=1e-6)
    assert receiver.lost() == {}


def test_row_that_says_nothing_is_lost_for_those_who_want_everything() -> None:
    params = params_of(5)
    publisher, receiver = Publisher(params), OrderingDesk(params, all="TRUE")
    publisher.send(0.0)
    publisher.send(0.001, bits=0)
    publisher.send(0.002)
    hear(receiver, publisher, 1, 3)
    receiver.advance(1.0)
    assert list(receiver.lost()) == [2]


def test_loss_names_the_subscriptions_that_it_seems_to_be_for() -> None:
    params = params_of(5)
    publisher, receiver = Publisher(params), OrderingDesk(params, first="a = 1", second="a = 2", third="a >= 1")
    publisher.send_all((0.0, 0.001), OTHERS)
    publisher.send(0.002, OURS)
    receiver.at(0.100, publisher.heard(1, (1, 2, 3)))
    receiver.at(0.102, publisher.heard(3, (1, 3)))
    receiver.advance(1.0)
    assert [lost.subscriptions for lost in receiver.told(EventLost)] == [(2, 3)]


# Filters that are added later (G-6).


def test_nothing_is_lost_for_a_filter_before_its_first_event() -> None:
    params = params_of(5)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    for number in range(1, 31):
        publisher.send(number * MILLISECOND, OTHERS if number % 2 else OURS)
    for number in (2, 4):
        receiver.at(0.1 + number * MILLISECOND, publisher.heard(number, (1,)))
    receiver.at(0.105, Listen(2, parse("a = 2")))
    for number in (6, 8):
        receiver.at(0.1 + number * MILLISECOND, publisher.heard(number, (1,)))
    receiver.advance(0.2)
    assert receiver.lost() == {}
    receiver.at(0.2, publisher.heard(9, (2,)))
    receiver.at(0.21, publisher.heard(12, (1,)))
    receiver.advance(0.5)
    assert [(lost.sequence, lost.subscriptions) for lost in receiver.told(EventLost)] == [(10, (1,)), (11, (2,))]


def test_filter_that_is_changed_begins_anew() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 2)
    receiver.at(0.103, Listen(1, parse("a >= 1")))
    hear(receiver, publisher, 5)
    receiver.advance(0.5)
    assert receiver.lost() == {}
    hear(receiver, publisher, 7)
    receiver.advance(1.0)
    assert list(receiver.lost()) == [6]


# Digests.


@pytest.mark.spec("T-49")
def test_digest_shows_a_loss_that_nothing_follows() -> None:
    publisher, receiver = desk(count=3)
    hear(receiver, publisher, 2)
    receiver.at(0.250, publisher.digest(0.150))
    assert receiver.lost() == {3: 0.25}, "it left 148 ms before the digest, longer than any latch"


@pytest.mark.spec("T-49")
def test_event_that_left_just_before_the_digest_has_its_latch_to_come() -> None:
    publisher, receiver = desk(count=3)
    hear(receiver, publisher, 2)
    receiver.at(0.110, publisher.digest(0.010))
    receiver.advance(0.120)
    assert receiver.lost() == {}
    receiver.advance(1.0)
    assert receiver.lost() == {3: round(0.110 + 0.0327181 - 0.008, 6)}


@pytest.mark.spec("T-49")
def test_event_that_comes_after_the_digest_is_not_lost() -> None:
    publisher, receiver = desk(count=3)
    hear(receiver, publisher, 2)
    receiver.at(0.110, publisher.digest(0.010))
    receiver.at(0.120, publisher.heard(3))
    receiver.advance(1.0)
    assert receiver.order() == [1, 2, 3]
    assert receiver.lost() == {}
    assert receiver.ways()[3] == "direct"


@pytest.mark.spec("T-49")
def test_receiver_of_one_event_in_a_thousand_finds_a_loss_within_one_digest_period() -> None:
    """Events for us: 1, 1001, 2001; 1001 is lost. Without digests nothing tells before 2001 is here, or not even then.
    A digest goes out every 250 ms with the last 128 events; at 400 events a second none is left out."""
    lost_at = {}
    for has_digests in (False, True):
        params = params_of(5)
        publisher, receiver = Publisher(params), OrderingDesk(params)
        for number in range(1, 2002):
            publisher.send(number / 400, OURS if number % 1000 == 1 else OTHERS)
            now = number / 400 + 0.1
            if number in (1, 2001):
                receiver.at(now, publisher.heard(number))
            if has_digests and number % 100 == 0:
                receiver.at(now, publisher.digest(number / 400))
        receiver.advance(20.0)
        lost_at[has_digests] = receiver.lost()
    assert lost_at[False] == {}
    assert list(lost_at[True]) == [1001]
    assert lost_at[True][1001] - (1001 / 400 + 0.1) <= 0.25


def test_loss_that_a_digest_showed_is_not_waited_for_again() -> None:
    publisher, receiver = desk(count=4)
    hear(receiver, publisher, 2)
    receiver.at(0.250, publisher.digest(0.150))
    assert list(receiver.lost()) == [3, 4]
    publisher.send(0.200)
    receiver.at(0.300, publisher.heard(5))
    assert receiver.times()[5] == 0.3
    assert receiver.told(GapSeen)[-1] == GapSeen(STREAM, 5, 2, 0, 2)
    receiver.advance(1.0)
    assert list(receiver.lost()) == [3, 4]


def test_event_that_comes_after_a_digest_gave_it_up_ends_the_loss() -> None:
    publisher, receiver = desk(count=3)
    hear(receiver, publisher, 2)
    receiver.at(0.250, publisher.digest(0.150))
    receiver.at(0.300, publisher.heard(3))
    assert receiver.ways()[3] == "direct", "nothing later went out"
    assert Recovered(STREAM, 3, content_of(3), "late") in receiver.told(Recovered)


def test_digest_of_a_publisher_that_was_never_heard_says_nothing() -> None:
    publisher, receiver = Publisher(params_of()), OrderingDesk(params_of())
    publisher.send_all((0.0, 0.001))
    assert receiver.at(0.1, publisher.digest(0.002)) == []


def test_digest_closes_a_gap_that_the_record_left_open() -> None:
    params = params_of(1, quantile="exact")
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send(0.0)
    publisher.send_all((0.001, 0.002, 0.003), OTHERS)
    publisher.send(0.004)
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(SCALE)
    receiver.at(0.104, publisher.heard(5))
    assert receiver.order() == [1]
    receiver.at(0.106, publisher.digest(0.006))
    assert receiver.times()[5] == 0.106


def test_what_a_digest_shows_below_the_last_event_has_its_time_too() -> None:
    """Its record told nothing of it, and events go on in order meanwhile."""
    publisher, receiver = desk(record=1, count=10)
    hear(receiver, publisher, 2, 5)
    receiver.advance(0.132)
    receiver.fix_scale(0.200)
    receiver.at(0.140, publisher.digest(0.010))
    hear(receiver, publisher, 6, 7)
    receiver.advance(0.150)
    assert 3 not in receiver.lost()
    receiver.advance(10.0)
    assert receiver.lost()[3] == round(0.140 + 0.654362 - 0.008, 6)


# Repairs.


@pytest.mark.spec("T-60")
def test_repair_is_delivered_at_once_and_changes_no_measure() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 2, 4)
    receiver.advance(0.5)
    receiving = receiver.receiving()
    before = (receiving.base, receiving.departed, receiving.arrived, list(receiving.delays.values))
    receiver.at(0.6, Recovered(STREAM, 3, content_of(3), "repaired"))
    assert receiver.ways()[3] == "repaired"
    assert receiver.times()[3] == 0.6
    assert (receiving.base, receiving.departed, receiving.arrived, list(receiving.delays.values)) == before
    assert receiver.qualities() == [("lost", 3), ("recovered", 3)]


def test_repair_is_delivered_where_late_events_are_dropped() -> None:
    publisher, receiver = desk(params=params_of(5, late_policy="drop"))
    hear(receiver, publisher, 2, 4)
    receiver.advance(0.5)
    receiver.at(0.6, Recovered(STREAM, 3, content_of(3), "history"))
    assert receiver.ways()[3] == "history"


def test_repaired_event_is_not_delivered_again_when_it_comes_itself() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 2, 4)
    receiver.advance(0.5)
    receiver.at(0.6, Recovered(STREAM, 3, content_of(3), "repaired"), publisher.heard(3))
    receiver.at(0.7, Recovered(STREAM, 3, content_of(3), "repaired"))
    assert receiver.order() == [1, 2, 4, 3]
    assert receiver.dropped() == [REPEATED, REPEATED]


def test_repair_that_comes_inside_the_latch_takes_its_place_in_order() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 2, 5)
    receiver.at(0.110, Recovered(STREAM, 4, content_of(4), "repaired"))
    assert receiver.order() == [1, 2]
    receiver.at(0.111, publisher.heard(3))
    assert receiver.order() == [1, 2, 3, 4, 5]
    assert receiver.ways()[4] == "repaired"
    assert receiver.lost() == {}


def test_repair_ahead_of_everything_else_leaves_order_as_it_is() -> None:
    publisher, receiver = desk(count=6)
    hear(receiver, publisher, 2)
    receiver.at(0.250, publisher.digest(0.200))
    receiver.at(0.300, Recovered(STREAM, 5, content_of(5), "repaired"))
    publisher.send_all((0.3, 0.301))
    receiver.at(0.400, publisher.heard(7))
    receiver.at(0.401, publisher.heard(8))
    assert receiver.order() == [1, 2, 5, 7, 8]


def test_repair_with_an_absurd_number_makes_nothing_forgotten() -> None:
    publisher, receiver = desk()
    hear(receiver, publisher, 2, 4)
    receiver.at(0.110, Recovered(STREAM, 2**31, content_of(2**31), "repaired"))
    hear(receiver, publisher, 3, 5)
    assert receiver.order() == [1, 2, 2**31, 3, 4, 5]


def test_repair_of_a_stream_that_is_forgotten_is_delivered() -> None:
    receiver = OrderingDesk(params_of())
    receiver.at(1.0, Recovered(STREAM, 3, content_of(3), "repaired"))
    assert receiver.ways() == {3: "repaired"}
