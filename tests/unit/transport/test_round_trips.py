"""Round trips by two clocks that nobody set."""

from random import Random

import pytest

from tidings.machine.effects import CancelTimer, Drop, Effect, SetTimer
from tidings.machine.inputs import Fired
from tidings.model.language.parser import parse
from tidings.protocols.transport.headers import Data, FlowMark
from tidings.protocols.transport.marks import TO, Kind, unmark
from tidings.protocols.transport.messages import EchoReply, EchoRequest, decode_control
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.round_trips import (
    ECHOES_PER_SECOND,
    IMPOSSIBLE,
    NOT_ASKED,
    TOO_MANY,
    RoundTrips,
)
from tidings.protocols.transport.signals import (
    CarriedEvent,
    Configure,
    Heard,
    Leaving,
    Listen,
    RoundTrip,
    StopListening,
    StreamGone,
    Told,
)
from tidings.pubsub.publications import decode_head

OURS, THEIRS = 1, 2
STREAM = ("s", THEIRS)
NOTHING = CarriedEvent(b"\x80", b"", "s")


def measuring(node_id: int = OURS, **params: object) -> RoundTrips:
    trips = RoundTrips(node_id, TransportParams(**params), Random(1))  # type: ignore[arg-type]
    trips.handle(0.0, Listen(11, parse("TRUE"), is_paced=True))
    return trips


def heard(departed: float, *flows: FlowMark) -> Heard:
    return Heard(STREAM, 0, Data(THEIRS, 0, departed, flows=flows), NOTHING)


def told(trips: list[Effect]) -> list[float]:
    return [effect.seconds for effect in trips if isinstance(effect, RoundTrip)]


def echo_in(effects: list[Effect]) -> EchoRequest:
    (outgoing,) = [effect for effect in effects if isinstance(effect, Leaving)]
    message, _ = decode_control(outgoing.payload)
    assert isinstance(message, EchoRequest)
    return message


def answer(trips: RoundTrips, now: float, echo: EchoRequest, sent: float, held: float = 0.0) -> list[Effect]:
    return trips.handle(now, Told(EchoReply(OURS, THEIRS, echo.nonce, echo.sent, held, sent), NOTHING))


@pytest.mark.spec("T-75")
@pytest.mark.parametrize("offset", [-1000.0, -0.5, 0.0, 0.5, 1000.0])
def test_the_round_trip_of_a_limiting_receiver_does_not_depend_on_the_clocks(offset: float) -> None:
    """The publisher's clock is `offset` ahead; the way up takes 30 ms, the way down 20 ms."""
    trips = measuring()
    trips.handle(2000.0, heard(2000.0 - 0.02 + offset))
    travel = (2001.03 + offset) - 2001.0
    for number in range(100):
        now = 2002.0 + number
        trips.handle(now, heard(now - 0.02 + offset, FlowMark(5, OURS, travel)))
    assert trips.trips[STREAM].seconds == pytest.approx(0.05, abs=1e-6)


@pytest.mark.spec("T-75")
@pytest.mark.parametrize("offset", [-1000.0, 0.0, 1000.0])
def test_an_echo_and_the_change_since_do_not_depend_on_the_clocks_either(offset: float) -> None:
    trips = measuring()
    echo = echo_in(trips.handle(2000.0, heard(1999.98 + offset)))
    assert told(answer(trips, 2000.05, echo, sent=2000.03 + offset)) == pytest.approx([0.05])
    for number in range(200):
        now = 2001.0 + number
        trips.handle(now, heard(now - 0.07 + offset))
    assert trips.trips[STREAM].seconds == pytest.approx(0.1, rel=1e-3)


@pytest.mark.spec("T-76")
def test_the_answer_to_an_echo_goes_through_the_content_network() -> None:
    publisher = RoundTrips(THEIRS, TransportParams(), Random(2))
    (outgoing,) = publisher.handle(5.0, Told(EchoRequest(OURS, THEIRS, 9, 4.5), NOTHING))
    assert outgoing.kind is Kind.ECHO_REPLY
    head, kind = unmark(outgoing.head)
    assert (decode_head(head), kind) == ({TO: OURS}, Kind.ECHO_REPLY)
    assert decode_control(outgoing.payload)[0] == EchoReply(OURS, THEIRS, 9, 4.5, 0.0, 5.0)


def test_an_echo_is_sent_when_a_publisher_is_first_heard_and_only_then() -> None:
    trips = measuring()
    effects = trips.handle(1.0, heard(1.0))
    echo = echo_in(effects)
    assert (echo.subscriber, echo.publisher, echo.sent) == (OURS, THEIRS, 1.0)
    assert trips.handle(1.1, heard(1.1)) == []


def test_nothing_is_measured_while_nobody_needs_it() -> None:
    trips = measuring()
    trips.handle(1.0, heard(1.0))
    assert trips.handle(2.0, StopListening(11)) == [CancelTimer(("echo", STREAM))]
    assert trips.handle(3.0, heard(3.0)) == []
    trips.handle(4.0, Listen(12, parse("TRUE"), is_reliable=True))
    assert echo_in(trips.handle(5.0, heard(5.0))).sent == 5.0


def test_our_own_events_are_not_measured() -> None:
    assert measuring(node_id=THEIRS).handle(1.0, heard(1.0)) == []


def test_an_echo_without_answer_is_repeated_with_waits_that_double() -> None:
    trips = measuring(echo_first=1.0, echo_tries=3, echo_every=30.0)
    effects, now, waits = trips.handle(0.0, heard(0.0)), 0.0, []
    for _ in range(4):
        (timer,) = [effect for effect in effects if isinstance(effect, SetTimer)]
        waits.append(timer.at - now)
        now = timer.at
        effects = trips.handle(now, Fired(timer.key))
        trips.check()
    assert waits == [1.0, 2.0, 4.0, 30.0]


def test_answers_that_were_not_asked_for_are_dropped() -> None:
    trips = measuring()
    echo = echo_in(trips.handle(1.0, heard(1.0)))
    wrong = EchoReply(OURS, THEIRS, echo.nonce ^ 1, 1.0, 0.0, 1.0)
    assert trips.handle(1.1, Told(wrong, NOTHING)) == [Drop(wrong, NOT_ASKED)]
    assert told(answer(trips, 1.2, echo, 1.1)) == pytest.approx([0.2])
    again = EchoReply(OURS, THEIRS, echo.nonce, echo.sent, 0.0, 1.1)
    assert trips.handle(1.3, Told(again, NOTHING)) == [Drop(again, NOT_ASKED)]


def test_the_time_that_an_echo_was_held_does_not_count() -> None:
    trips = measuring()
    echo = echo_in(trips.handle(1.0, heard(1.0)))
    assert told(answer(trips, 1.5, echo, 1.4, held=0.3)) == pytest.approx([0.2])


@pytest.mark.parametrize(("departed", "travel"), [(0.0, 1e6), (1e6, 0.0), (99.0, -5.0)])
def test_a_sample_that_cannot_be_is_dropped_and_changes_nothing(departed: float, travel: float) -> None:
    trips = measuring()
    echo = echo_in(trips.handle(99.0, heard(99.0)))
    answer(trips, 99.1, echo, 99.05)
    (drop,) = trips.handle(100.0, heard(departed, FlowMark(1, OURS, travel)))
    assert isinstance(drop, Drop)
    assert drop.reason == IMPOSSIBLE
    assert trips.trips[STREAM].seconds == pytest.approx(0.1)


def test_no_more_echoes_are_answered_than_allowed() -> None:
    trips = RoundTrips(THEIRS, TransportParams(), Random(2))
    echo = EchoRequest(OURS, THEIRS, 1, 1.0)
    answers = [trips.handle(10.0, Told(echo, NOTHING))[0] for _ in range(int(ECHOES_PER_SECOND) + 5)]
    assert answers[-5:] == [Drop(echo, TOO_MANY)] * 5
    assert isinstance(trips.handle(11.0, Told(echo, NOTHING))[0], Leaving)


def test_a_small_change_is_not_told() -> None:
    trips = measuring()
    echo = echo_in(trips.handle(1.0, heard(1.0)))
    answer(trips, 1.1, echo, 1.05)
    assert told(trips.handle(2.0, heard(1.95 - 0.001))) == []
    assert told(trips.handle(3.0, heard(2.95 - 0.1))) == pytest.approx([0.11], rel=0.01)


def test_a_stream_that_is_gone_is_forgotten_and_fewer_tries_hold_at_once() -> None:
    trips = measuring(echo_tries=5)
    for effects in (trips.handle(0.0, heard(0.0)), trips.handle(1.0, Fired(("echo", STREAM)))):
        assert effects
    trips.handle(2.0, Configure(TransportParams(echo_tries=1)))
    trips.check()
    assert trips.handle(3.0, StreamGone(STREAM)) == [CancelTimer(("echo", STREAM))]
    assert trips.handle(4.0, Fired(("echo", STREAM))) == []
