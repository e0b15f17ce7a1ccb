"""Order of one publisher's events, input by input."""

from typing import Any

import pytest

from tests.worlds.ordering import OTHERS, OURS, STREAM, OrderingDesk, Publisher, content_of, params_of
from tidings.machine.effects import Deliver
from tidings.model.language.parser import parse
from tidings.protocols.transport.headers import Data
from tidings.protocols.transport.ordering.stream import REPEATED, TOO_LATE, TOO_OLD
from tidings.protocols.transport.signals import (
    Configure,
    GapSeen,
    Handed,
    Heard,
    Listen,
    Recovered,
    StopListening,
    StreamGone,
)
from tidings.pubsub.notes import Latched

SCALE = 0.010
MILLISECOND = 0.001


def example(mode: str = "enhanced", second: dict[str, Any] = OURS, **ordering: Any) -> tuple[Publisher, OrderingDesk]:
    """3.12: m1, m2, m3, m4 leave at 0, 5, 10, 12 ms; m1 arrives at 100 ms; the scale is 10 ms."""
    params = params_of(1, mode=mode, quantile="exact", **ordering)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send(0.0)
    publisher.send(0.005, second)
    publisher.send(0.010)
    publisher.send(0.012)
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(SCALE)
    return publisher, receiver


# The worked examples of 3.12.


@pytest.mark.spec("T-98c", "T-27", "T-32")
def test_example_a_missing_event_comes_inside_the_latch_and_order_is_restored() -> None:
    publisher, receiver = example("basic")
    receiver.at(0.108, publisher.heard(3))
    receiver.at(0.115, publisher.heard(2))
    assert receiver.order() == [1, 2, 3]
    assert receiver.times() == {1: 0.1, 2: 0.115, 3: 0.115}
    (_, held) = receiver.handed()[-1]
    assert held.latch == pytest.approx(0.027718, abs=1e-6)
    assert held.held == pytest.approx(0.007, abs=1e-9)


@pytest.mark.spec("T-98c", "T-48", "T-27")
def test_example_b_basic_ordering_delivers_at_the_deadline_and_calls_nothing_lost() -> None:
    publisher, receiver = example("basic")
    receiver.at(0.108, publisher.heard(3))
    receiver.advance(10.0)
    assert receiver.times()[3] == 0.135718
    assert receiver.lost() == {}


@pytest.mark.spec("T-98c", "T-43")
def test_example_c_enhanced_ordering_calls_it_lost_at_the_deadline() -> None:
    publisher, receiver = example()
    receiver.at(0.108, publisher.heard(3))
    receiver.advance(10.0)
    assert receiver.times()[3] == 0.135718
    assert receiver.lost() == {2: 0.135718}


@pytest.mark.spec("T-98c", "T-30")
def test_example_d_nothing_is_waited_for_when_the_missing_event_is_not_for_us() -> None:
    publisher, receiver = example(second=OTHERS)
    receiver.at(0.108, publisher.heard(3))
    assert receiver.times()[3] == 0.108
    receiver.advance(10.0)
    assert receiver.lost() == {}


@pytest.mark.spec("T-98c", "T-32", "T-33")
def test_example_e_events_behind_a_held_one_wait_for_it() -> None:
    publisher, receiver = example()
    receiver.at(0.108, publisher.heard(3))
    receiver.at(0.110, publisher.heard(4))
    assert receiver.order() == [1]
    receiver.at(0.120, publisher.heard(2))
    assert receiver.order() == [1, 2, 3, 4]
    assert set(receiver.times().values()) == {0.1, 0.12}


@pytest.mark.spec("T-98c", "T-34")
def test_example_f_late_event_is_delivered_as_late_and_ends_the_loss() -> None:
    publisher, receiver = example()
    receiver.at(0.108, publisher.heard(3))
    effects = receiver.at(0.140, publisher.heard(2))
    assert receiver.times() == {1: 0.1, 3: 0.135718, 2: 0.14}
    assert receiver.ways() == {1: "direct", 3: "direct", 2: "late"}
    assert receiver.lost() == {2: 0.135718}
    assert Recovered(STREAM, 2, content_of(2), "late") in effects
    assert receiver.qualities() == [("lost", 2), ("recovered", 2), ("late", 2)]
    assert publisher.params.ordering.late_policy == "deliver"


@pytest.mark.spec("T-98c", "T-34")
def test_example_f_late_event_is_dropped_where_the_policy_says_so() -> None:
    publisher, receiver = example(late_policy="drop")
    receiver.at(0.108, publisher.heard(3))
    effects = receiver.at(0.140, publisher.heard(2))
    assert receiver.order() == [1, 3]
    assert receiver.dropped() == [TOO_LATE]
    assert receiver.qualities() == [("lost", 2), ("late", 2)]
    assert Recovered(STREAM, 2, content_of(2), "late") in effects, "recovery need not ask for it"


@pytest.mark.spec("T-98c", "T-43")
def test_example_g_event_that_left_long_before_is_lost_at_once() -> None:
    params = params_of(1, quantile="exact")
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all((0.0, 0.050, 0.100))
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(SCALE)
    receiver.at(0.200, publisher.heard(3))
    assert receiver.times()[3] == 0.2
    assert receiver.lost() == {2: 0.2}


# Latches.


@pytest.mark.spec("T-28")
def test_events_in_order_are_not_held() -> None:
    publisher, receiver = Publisher(params_of()), OrderingDesk(params_of())
    publisher.send_all(number * MILLISECOND for number in range(100))
    for number in range(1, 101):
        jitter = 0.7 * MILLISECOND if number % 3 else 0.0
        receiver.at(0.1 + number * MILLISECOND + jitter, publisher.heard(number))
    assert receiver.order() == list(range(1, 101))
    assert all(handed.held == handed.latch == 0.0 for _, handed in receiver.handed())
    assert receiver.timers == {}


@pytest.mark.spec("T-23")
@pytest.mark.parametrize("offset", [1000.0, 86_400.0])
def test_clock_of_the_receiver_makes_no_difference(offset: float) -> None:
    scales, times = [], []
    for clock in (0.0, offset):
        publisher, receiver = Publisher(params_of()), OrderingDesk(params_of())
        publisher.send_all(number * MILLISECOND for number in range(10))
        for number, arrival in ((1, 0.1), (2, 0.103), (3, 0.104), (6, 0.109), (5, 0.111), (4, 0.1115), (8, 0.12)):
            receiver.at(clock + arrival, publisher.heard(number))
        receiver.advance(clock + 10.0)
        scales.append(receiver.receiving().delays.scale)
        times.append([(item.sequence, round(time - clock, 6)) for time, item in receiver.handed()])
    assert scales[0] == pytest.approx(scales[1], rel=1e-6)
    assert times[0] == times[1]


@pytest.mark.spec("T-29")
def test_basic_latch_is_measured_from_the_latest_missing_event() -> None:
    params = params_of(5, mode="basic", quantile="exact")
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all((0.0, 0.002, 0.004, 0.011, 0.012))
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(SCALE)
    receiver.at(0.112, publisher.heard(5))
    receiver.advance(1.0)
    assert receiver.handed()[-1][1].latch == pytest.approx(0.0327181 - 0.001, abs=1e-6)


@pytest.mark.spec("T-29")
def test_enhanced_latch_is_measured_from_the_latest_missing_event_that_is_for_us() -> None:
    params = params_of(5, quantile="exact")
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send(0.0)
    publisher.send(0.002)
    publisher.send(0.004)
    publisher.send(0.011, OTHERS)
    publisher.send(0.012)
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(SCALE)
    receiver.at(0.112, publisher.heard(5))
    receiver.advance(1.0)
    assert receiver.handed()[-1][1].latch == pytest.approx(0.0327181 - 0.008, abs=1e-6)
    assert list(receiver.lost()) == [2, 3]


@pytest.mark.spec("T-30")
@pytest.mark.parametrize("record", [4, 5])
def test_record_that_ends_at_the_gap_or_before_it_covers_the_gap(record: int) -> None:
    params = params_of(record)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send(0.0)
    publisher.send_all((0.001, 0.002, 0.003, 0.004), OTHERS)
    publisher.send(0.005)
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(SCALE)
    receiver.at(0.105, publisher.heard(6))
    assert receiver.times()[6] == 0.105


@pytest.mark.spec("T-31")
def test_event_before_the_record_is_assumed_to_have_left_with_its_earliest_entry() -> None:
    """The example of the source: R = 3, m_10 arrives, m_5 to m_9 are missing, m_7 to m_9 are not for us."""
    params = params_of(3, quantile="exact")
    publisher, receiver = Publisher(params), OrderingDesk(params)
    for number in range(1, 11):
        publisher.send(number * MILLISECOND, OURS if number < 5 or number == 10 else OTHERS)
    for number in range(1, 5):
        receiver.at(0.100 + number * MILLISECOND, publisher.heard(number))
    receiver.fix_scale(SCALE)
    receiver.at(0.110, publisher.heard(10))
    assert [(gap.missing, gap.uncovered, gap.relevant) for gap in receiver.told(GapSeen)] == [(5, 2, 0)]
    receiver.advance(1.0)
    assert receiver.handed()[-1][1].latch == pytest.approx(0.0327181 - 0.003, abs=1e-6)
    assert receiver.lost() == {}


@pytest.mark.spec("T-41")
def test_static_ordering_holds_every_event_behind_a_gap_for_the_same_time() -> None:
    params = params_of(5, mode="static", static_latch=0.030)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all((0.0, 0.001), OURS)
    publisher.send(0.002, OTHERS)
    publisher.send_all((0.003, 0.500, 0.900), OURS)
    receiver.at(0.100, publisher.heard(1))
    receiver.at(0.102, publisher.heard(2))
    receiver.at(0.103, publisher.heard(4))
    receiver.at(1.000, publisher.heard(6))
    receiver.advance(2.0)
    assert receiver.times() == {1: 0.1, 2: 0.102, 4: 0.133, 6: 1.03}
    assert receiver.lost() == {}


def test_nothing_is_held_longer_than_the_bound() -> None:
    params = params_of(5, latch_max=0.5)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all((0.0, 0.001, 0.002))
    receiver.at(0.1, publisher.heard(1))
    receiver.fix_scale(100.0)
    receiver.at(0.2, publisher.heard(3))
    receiver.advance(100.0)
    assert receiver.times()[3] == 0.7


def test_event_behind_gets_a_latch_of_its_own_while_nothing_later_went_out() -> None:
    """G-5: m_4 is held for m_3; m_3 comes, and m_2 may still come too."""
    params = params_of(5, quantile="exact")
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all((0.0, 0.001, 0.002, 0.003))
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(SCALE)
    receiver.at(0.103, publisher.heard(4))
    receiver.at(0.110, publisher.heard(3))
    assert receiver.order() == [1]
    receiver.at(0.115, publisher.heard(2))
    assert receiver.order() == [1, 2, 3, 4]


def test_expiry_of_a_later_event_does_not_flush_earlier_ones() -> None:
    params = params_of(5, quantile="exact")
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all((0.0, 0.001, 0.002, 0.003))
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(SCALE)
    receiver.at(0.103, publisher.heard(4))
    receiver.at(0.130, publisher.heard(3))
    receiver.advance(0.140)
    assert receiver.order() == [1], "m_4 was due at 134.7 ms"
    receiver.at(0.150, publisher.heard(2))
    assert receiver.order() == [1, 2, 3, 4]
    assert receiver.lost() == {}


@pytest.mark.spec("T-35")
def test_oldest_event_goes_out_when_too_many_are_held() -> None:
    params = params_of(5, pending_max=3, static_latch=1.0, mode="static")
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all(number * MILLISECOND for number in range(20))
    receiver.at(0.100, publisher.heard(1))
    for number in (3, 5, 7, 9, 11):
        receiver.at(0.100 + number * MILLISECOND, publisher.heard(number))
    assert receiver.order() == [1, 3, 5]
    receiver.advance(10.0)
    assert receiver.order() == [1, 3, 5, 7, 9, 11]


def test_every_hold_is_noted_with_what_decided_it() -> None:
    publisher, receiver = example()
    receiver.at(0.108, publisher.heard(3))
    (note,) = receiver.told(Latched)
    assert (note.key, note.publisher, note.number) == ("7 3", "7", 3)
    assert note.latch == pytest.approx(0.027718, abs=1e-6)
    assert note.delta == pytest.approx(0.005)
    assert note.beta == pytest.approx(0.010)
    assert note.violation == pytest.approx(0.379082, abs=1e-6)


# Streams.


@pytest.mark.spec("T-38")
def test_publishers_do_not_disturb_each_other() -> None:
    params = params_of(5, quantile="exact")
    receiver = OrderingDesk(params)
    first, second = Publisher(params, stream=("x", 1)), Publisher(params, stream=("y", 1))
    for publisher in (first, second):
        publisher.send_all((0.0, 0.001, 0.002, 0.003))
    receiver.at(0.100, first.heard(1), second.heard(1))
    receiver.at(0.1035, first.heard(3))
    receiver.at(0.1040, second.heard(2))
    receiver.at(0.1045, second.heard(3))
    assert [(item.stream[0], item.sequence) for _, item in receiver.handed()] == [
        ("x", 1),
        ("y", 1),
        ("y", 2),
        ("y", 3),
    ]
    assert receiver.receiving(("x", 1)).delays.scale != receiver.receiving(("y", 1)).delays.scale


@pytest.mark.spec("T-39")
@pytest.mark.parametrize("repeated", [1, 2, 3, 5])
def test_repeated_number_is_not_delivered_twice(repeated: int) -> None:
    params = params_of(5, quantile="exact")
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all((0.0, 0.001, 0.002, 0.003, 0.004))
    for number in (1, 2, 3):
        receiver.at(0.100 + number * MILLISECOND, publisher.heard(number))
    receiver.fix_scale(SCALE)
    receiver.at(0.105, publisher.heard(5))
    receiver.at(0.106, publisher.heard(repeated))
    receiver.at(0.107, publisher.heard(4), publisher.heard(4))
    receiver.advance(1.0)
    assert receiver.order() == [1, 2, 3, 4, 5]
    assert receiver.dropped() == [REPEATED, REPEATED]


@pytest.mark.spec("T-40")
def test_first_event_is_delivered_at_once_and_nothing_before_it_is_lost() -> None:
    params = params_of(5)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all(number * MILLISECOND for number in range(20))
    receiver.at(0.115, publisher.heard(15))
    assert receiver.times() == {15: 0.115}
    for number in range(16, 21):
        receiver.at(0.100 + number * MILLISECOND, publisher.heard(number))
    receiver.advance(10.0)
    assert receiver.lost() == {}
    assert receiver.told(GapSeen) == []


def test_event_from_before_the_first_one_is_late() -> None:
    publisher, receiver = Publisher(params_of(5)), OrderingDesk(params_of(5))
    publisher.send_all(number * MILLISECOND for number in range(5))
    receiver.at(0.105, publisher.heard(5))
    receiver.at(0.106, publisher.heard(4))
    assert receiver.ways() == {5: "direct", 4: "late"}
    assert receiver.lost() == {}


def test_numbers_too_far_below_the_highest_count_as_repeated() -> None:
    params = params_of(5, window=300)
    publisher, receiver = Publisher(params), OrderingDesk(params)
    publisher.send_all(number * MILLISECOND for number in range(2000))
    receiver.at(0.1, publisher.heard(1))
    receiver.at(2.1, publisher.heard(2000))
    receiver.advance(5.0)
    receiver.at(5.0, publisher.heard(2))
    assert receiver.order() == [1, 2000]
    assert receiver.dropped() == [TOO_OLD]


def test_gap_of_billions_costs_nothing() -> None:
    receiver = OrderingDesk(params_of(5))
    receiver.at(0.1, Heard(STREAM, 1, Data(7, 1, 0.0), content_of(1)))
    receiver.at(0.2, Heard(STREAM, 2**40, Data(7, 0, 0.1), content_of(2**40)))
    receiver.advance(10.0)
    assert receiver.order() == [1, 2**40]
    assert [gap.missing for gap in receiver.told(GapSeen)] == [2**40 - 2]


def test_stream_that_is_forgotten_lets_go_what_it_held() -> None:
    publisher, receiver = example()
    receiver.at(0.108, publisher.heard(3))
    receiver.at(0.109, StreamGone(STREAM))
    assert receiver.order() == [1, 3]
    assert receiver.timers == {} and receiver.lost() == {}
    receiver.at(0.200, publisher.heard(2))
    assert receiver.ways()[2] == "direct"


def test_state_can_be_seen() -> None:
    publisher, receiver = example()
    receiver.at(0.108, publisher.heard(3))
    (stream,) = receiver.ordering.streams.values()
    assert stream.longest_latch == pytest.approx(0.0327181, abs=1e-6)
    assert stream.delays.scale == pytest.approx(SCALE)
    assert (len(stream.shelf.pending), len(stream.shelf.awaited), stream.delivered) == (1, 1, 1)
    receiver.at(0.140, publisher.heard(2))
    (stream,) = receiver.ordering.streams.values()
    assert (len(stream.shelf.pending), len(stream.shelf.awaited)) == (0, 0)
    assert (stream.delivered, stream.late, stream.shelf.losses) == (3, 1, 1)


def test_clock_that_is_set_disturbs_neither_order_nor_scale() -> None:
    publisher, receiver = Publisher(params_of(5)), OrderingDesk(params_of(5))
    publisher.send_all(10_000.0 + number * MILLISECOND for number in range(10))
    publisher.send_all(number * MILLISECOND for number in range(10, 20))
    for number in range(1, 21):
        receiver.at(0.1 + number * MILLISECOND, publisher.heard(number))
    receiver.advance(10.0)
    assert receiver.order() == list(range(1, 21))
    assert receiver.receiving().delays.scale < MILLISECOND


# Changes while it runs.


def test_other_parameters_hold_for_what_comes_then() -> None:
    publisher, receiver = example()
    receiver.at(0.101, Configure(params_of(1, mode="static", static_latch=0.2)))
    receiver.at(0.108, publisher.heard(3))
    receiver.advance(10.0)
    assert receiver.times()[3] == 0.308
    assert receiver.lost() == {}


def test_events_that_nobody_listens_to_any_more_are_not_lost() -> None:
    publisher, receiver = example()
    receiver.at(0.108, publisher.heard(3))
    receiver.at(0.109, StopListening(1))
    receiver.advance(10.0)
    assert receiver.times()[3] == 0.135718
    assert receiver.lost() == {}


def test_filter_without_order_waits_for_nothing() -> None:
    publisher, receiver = example()
    receiver.at(0.101, Listen(1, parse("a = 1"), is_ordered=False))
    receiver.at(0.108, publisher.heard(3))
    assert receiver.times()[3] == 0.108


def test_delivery_in_order_is_one_effect() -> None:
    publisher, receiver = Publisher(params_of(5)), OrderingDesk(params_of(5))
    publisher.send_all(number * MILLISECOND for number in range(20))
    for number in range(1, 20):
        receiver.at(0.1 + number * MILLISECOND, publisher.heard(number))
    effects = receiver.at(0.12, publisher.heard(20))
    assert effects == [Deliver(Handed(content_of(20), STREAM, 20))]
