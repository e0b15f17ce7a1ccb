"""How a receiver asks for what it lost."""

from random import Random

import pytest

from tests.worlds.desk import of
from tests.worlds.recovery import (
    DELAY,
    PUBLISHER,
    STREAM,
    UnpacedRecovery,
    event,
    heard,
    lost,
    messages,
    params_with,
    timer,
)
from tidings.machine.effects import CancelTimer, Deliver, Drop, Note, SetTimer
from tidings.machine.inputs import Fired
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.marks import Kind
from tidings.protocols.transport.messages import LossRepair, LossRequest, decode_control
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.recovery import losses, recovery
from tidings.protocols.transport.recovery.recovery import Recovery
from tidings.protocols.transport.recovery.requester import WAIT_MAX
from tidings.protocols.transport.signals import (
    CarriedEvent,
    Emit,
    EventLost,
    GivenUp,
    Listen,
    Quality,
    Recovered,
    RoundTrip,
    StopListening,
    StreamGone,
    Told,
)
from tidings.pubsub.notes import RepairRequested, Suppressed
from tidings.pubsub.publications import event_of

D = 0.1
A: dict[str, Value] = {"a": 1}
REQUEST = ("request", STREAM, 5)
FIXED = params_with(tuning=False, uses_history=False)


def receiver(params: TransportParams = FIXED, seed: int = 1, filter: str = "a = 1") -> Recovery:
    """It has event 0 of a publisher that is 0.1 s away."""
    machine = UnpacedRecovery(7, params, Random(seed))
    machine.start(0.0)
    machine.handle(0.0, Listen(1, parse(filter), is_reliable=True))
    machine.handle(0.0, heard(0, A))
    machine.handle(0.0, RoundTrip(STREAM, 2 * D))
    return machine


def request(sequence: int = 5, requester: int = 8, round_: int = 0, distance: float = D, now: float = 0.0) -> Told:
    bits = event(sequence, A)[2]
    message = LossRequest(requester, PUBLISHER, sequence, now, 3 * distance, distance, bits, 16, round_)
    return Told(message, CarriedEvent(b"", b""), STREAM, sequence)


def repair(
    sequence: int = 5,
    is_new: bool = True,
    subscriptions: tuple[int, ...] = (1,),
    attributes: dict[str, Value] = A,
) -> Told:
    header, head, _ = event(sequence, attributes)
    content = CarriedEvent(head, b"p", "somebody", 3, 0.0, subscriptions)
    return Told(LossRepair(9, 0.5, 8, 0.4, 0.1, header), content, STREAM, sequence, is_new)


@pytest.mark.spec("T-54")
def test_the_first_request_waits_between_c1_and_c1_plus_c2_distances() -> None:
    waits = [timer(receiver(seed=seed).handle(1.0, lost(5, A)), "request") - 1.0 for seed in range(300)]
    assert min(waits) >= 2 * D and max(waits) <= 4 * D
    assert min(waits) < 2.1 * D and max(waits) > 3.9 * D


def test_before_anything_was_measured_a_publisher_is_taken_to_be_at_the_first_distance() -> None:
    machine = UnpacedRecovery(7, params_with(tuning=False, distance_first=0.2), Random(1))
    machine.handle(0.0, Listen(1, parse("a = 1"), is_reliable=True))
    assert 0.4 <= timer(machine.handle(0.0, lost(5, A)), "request") <= 0.8


@pytest.mark.spec("T-62")
def test_a_request_tells_the_number_the_row_and_how_long_its_sender_waits() -> None:
    machine = receiver()
    machine.handle(1.0, lost(5, A))
    effects = machine.handle(1.3, Fired(REQUEST))
    (outgoing,) = of(Emit, effects)
    message, _ = decode_control(outgoing.payload)
    assert isinstance(message, LossRequest) and outgoing.kind is Kind.REQUEST
    assert (message.requester, message.publisher, message.sequence, message.round) == (7, PUBLISHER, 5, 0)
    assert message.request_wait == pytest.approx((2 + 2 / 2) * D) and message.distance == pytest.approx(D)
    assert message.bits == event(5, A)[2] and message.sent == pytest.approx(1.3)
    assert of(Note, effects) == [RepairRequested("99 5", 0)]


@pytest.mark.spec("T-57")
def test_a_requester_asks_again_after_twice_the_time_each_round_and_then_gives_up() -> None:
    machine, now, rounds = receiver(), 1.0, 0
    effects = machine.handle(now, lost(5, A))
    while of(SetTimer, effects):
        wait, factor = timer(effects, "request") - now, 2**rounds
        assert min(WAIT_MAX, factor * 2 * D) - 1e-9 <= wait <= min(WAIT_MAX, factor * 4 * D) + 1e-9
        now = timer(effects, "request")
        effects = machine.handle(now, Fired(REQUEST))
        machine.check()
        rounds += bool(messages(effects))
    assert rounds == FIXED.recovery.rounds_max
    quality = Quality("given_up", STREAM, 5, subscriptions=(1,))
    assert effects == [Drop(quality, losses.NOBODY_HAS_IT), Deliver(quality), GivenUp(STREAM, 5)]
    assert machine.losses.given_up == 1 and len(machine.losses.requester.losses) == 0
    assert machine.handle(now + 1, Fired(REQUEST)) == []


def test_a_request_is_not_repeated_before_its_answer_could_have_come_unless_as_published() -> None:
    longest = 2 + 0.5 + 1.0  # there and back, and the longest wait of who answers
    shortest = {}
    for awaits in (True, False):
        waits = []
        for seed in range(100):
            machine = receiver(params_with(tuning=False, c1=0.5, c2=1.0, awaits_answers=awaits), seed=seed)
            at = timer(machine.handle(1.0, lost(5, A)), "request")
            waits.append(timer(machine.handle(at, Fired(REQUEST)), "request") - at)
        shortest[awaits] = min(waits)
    assert shortest[True] == pytest.approx(longest * D)
    assert shortest[False] == pytest.approx(2 * 0.5 * D, rel=0.1)


@pytest.mark.spec("T-55")
def test_hearing_the_same_request_doubles_the_own_timer() -> None:
    for seed in range(100):
        machine = receiver(seed=seed)
        machine.handle(1.0, lost(5, A))
        effects = machine.handle(1.1, request())
        assert 1.1 + 2 * 2 * D <= timer(effects, "request") <= 1.1 + 2 * 4 * D
        assert of(Note, effects) == [Suppressed("99 5")]
        assert messages(effects) == []


def test_a_second_request_just_behind_the_first_does_not_double_again() -> None:
    machine = receiver()
    machine.handle(1.0, lost(5, A))
    again = timer(machine.handle(1.1, request()), "request")
    assert machine.handle(1.11, request(requester=9)) == []
    effects = machine.handle(again - 0.01, request(requester=9, round_=1))
    assert again - 0.01 + 4 * 2 * D <= timer(effects, "request") <= again - 0.01 + 4 * 4 * D


def test_a_peer_that_repeats_its_request_for_ever_does_not_keep_others_from_asking() -> None:
    machine, restarts = receiver(), 0
    at = timer(machine.handle(1.0, lost(5, A)), "request")
    while effects := machine.handle(at - 0.001, request()):
        at, restarts = timer(effects, "request"), restarts + 1
        assert restarts <= FIXED.recovery.rounds_max
    assert messages(machine.handle(at, Fired(REQUEST)))


def test_a_request_overheard_before_the_loss_was_noticed_counts_as_well() -> None:
    machine = receiver()
    assert machine.handle(1.0, request()) == []
    assert 1.1 + 4 * D <= timer(machine.handle(1.1, lost(5, A)), "request") <= 1.1 + 8 * D
    machine.handle(1.0, request(sequence=6))
    assert timer(machine.handle(9.0, lost(6, A)), "request") <= 9.0 + 4 * D


def test_who_has_asked_counts_the_requests_of_others_and_waits_on() -> None:
    machine = receiver()
    machine.handle(1.0, lost(5, A))
    machine.handle(1.3, Fired(REQUEST))
    assert machine.handle(1.35, request()) == []


@pytest.mark.spec("T-55", "T-58")
def test_hearing_the_repair_ends_the_asking_and_brings_the_event_once() -> None:
    machine = receiver()
    machine.handle(1.0, lost(5, A))
    restored = CarriedEvent(event(5, A)[1], b"p", "z", 0, 0.0, (1,))
    assert machine.handle(1.2, repair()) == [CancelTimer(REQUEST), Recovered(STREAM, 5, restored, "repaired")]
    assert of(Recovered, machine.handle(1.3, repair(is_new=False))) == []
    assert machine.recovered_count == 1 and len(machine.losses.requester.losses) == 0


def test_an_event_that_comes_late_by_itself_ends_the_asking() -> None:
    machine = receiver()
    machine.handle(1.0, lost(5, A))
    machine.handle(1.1, heard(5, A))
    assert machine.handle(1.1, Recovered(STREAM, 5, heard(5, A).content, "late")) == [CancelTimer(REQUEST)]


@pytest.mark.spec("T-61")
def test_an_event_that_was_never_given_up_as_lost_is_not_asked_for() -> None:
    machine = receiver()
    effects = [effect for number in (2, 1, 4, 3) for effect in machine.handle(1.0, heard(number, A))]
    assert effects == []


def test_a_repair_that_nobody_asked_for_is_delivered_if_it_is_new() -> None:
    machine = receiver()
    machine.handle(1.0, heard(9, A))
    assert [each.sequence for each in of(Recovered, machine.handle(1.2, repair()))] == [5]


def test_repairs_from_before_we_followed_a_publisher_are_not_for_us() -> None:
    machine = UnpacedRecovery(7, FIXED, Random(1))
    machine.handle(0.0, Listen(1, parse("a = 1"), is_reliable=True))
    assert machine.handle(0.0, repair()) == []  # nothing is known of this publisher
    machine.handle(0.0, heard(9, A))
    assert [drop.reason for drop in of(Drop, machine.handle(1.2, repair()))] == [recovery.NOT_FOLLOWED]


def test_a_repair_addressed_to_us_is_for_the_subscriptions_that_match_it_exactly() -> None:
    machine = receiver()
    machine.handle(0.0, Listen(2, parse("a = 2"), is_reliable=True))
    machine.handle(0.0, Listen(3, parse("a > 0"), is_reliable=True))
    machine.handle(1.0, lost(5, A, (1, 2, 3)))
    (recovered,) = of(Recovered, machine.handle(1.2, repair(subscriptions=())))
    assert recovered.content.subscriptions == (1, 3)


def test_what_only_seemed_to_be_for_us_is_dropped_and_not_asked_for_any_more() -> None:
    """A range leaves no more in a Bloom row than that the attribute exists (G-35)."""
    machine = receiver(filter="a < 5")
    machine.handle(1.0, lost(5, {"a": 6}))
    effects = machine.handle(1.2, repair(subscriptions=(), attributes={"a": 6}))
    assert CancelTimer(REQUEST) in effects and of(Recovered, effects) == []
    assert [drop.reason for drop in of(Drop, effects)] == [recovery.NOT_FOR_US]
    assert machine.mistaken == 1


def test_losses_of_subscriptions_that_are_not_reliable_are_not_asked_for() -> None:
    machine = receiver()
    machine.handle(0.0, Listen(2, parse("b = 1")))
    assert machine.handle(1.0, lost(5, A, (2,))) == []


def test_when_the_subscription_ends_so_does_the_asking() -> None:
    for ending in (StopListening(1), Listen(1, parse("a = 1"))):
        machine = receiver()
        machine.handle(1.0, lost(5, A))
        effects = machine.handle(1.1, ending)
        machine.check()
        assert CancelTimer(REQUEST) in effects
        assert [drop.reason for drop in of(Drop, effects)] == [losses.NOT_WANTED_ANY_MORE]


def test_losses_beyond_the_bound_are_given_up_at_once() -> None:
    machine = receiver(params_with(requests_max=3, uses_history=False))
    effects = [effect for number in range(1, 6) for effect in machine.handle(1.0, lost(number, A))]
    machine.check()
    assert [drop.reason for drop in of(Drop, effects)] == [losses.TOO_MANY_LOSSES] * 2
    assert len(machine.losses.requester.losses) == 3


def test_a_loss_that_is_told_twice_is_asked_for_once() -> None:
    machine = receiver()
    machine.handle(1.0, lost(5, A))
    assert machine.handle(1.1, lost(5, A)) == []


def test_when_a_stream_is_forgotten_its_losses_are_given_up() -> None:
    machine = receiver()
    machine.handle(1.0, lost(5, A))
    effects = machine.handle(2.0, StreamGone(STREAM))
    machine.check()
    assert effects[0] == CancelTimer(REQUEST) and of(Deliver, effects) == [
        Deliver(Quality("given_up", STREAM, 5, subscriptions=(1,)))
    ]
    assert machine.handle(2.0, Fired(REQUEST)) == []
    assert list(machine.streams) == [("", 7)]


def test_after_a_crash_what_is_lost_is_asked_for_again() -> None:
    machine = receiver()
    machine.handle(1.0, lost(5, A))
    effects = machine.start(2.0)
    machine.check()
    assert timer(effects, "request") == 2.0 + D


def test_an_unknown_row_is_asked_of_the_publisher() -> None:
    machine = receiver()
    machine.handle(1.0, EventLost(STREAM, 5, 0, 0.0, (1,)))
    (outgoing,) = of(Emit, machine.handle(1.3, Fired(REQUEST)))
    assert set(event_of(outgoing.head, b"").attributes) == {"tidings_of", "tidings_transport"}


def test_distances_that_nobody_can_have_are_not_believed() -> None:
    machine = receiver()
    for seconds in (-1.0, 0.0, 1e9):
        machine.handle(0.0, RoundTrip(STREAM, seconds))
        machine.check()
        assert 0 < machine.distances.of(STREAM) <= DELAY * 100


def test_a_node_keeps_to_the_rate_of_requests_that_others_listen_to() -> None:
    machine = receiver(params_with(tuning=False, requests_per_second=10.0))
    sent_at: list[float] = []
    timers = {}
    for sequence in range(1, 101):
        timers[sequence] = timer(machine.handle(1.0, lost(sequence, A)), "request")
    while timers:
        sequence = min(timers, key=lambda each: timers[each])
        now = timers.pop(sequence)
        effects = machine.handle(now, Fired(("request", STREAM, sequence)))
        machine.check()
        sent_at += [now] * len(messages(effects))
        if any(each.key[0] == "request" for each in of(SetTimer, effects)):
            timers[sequence] = timer(effects, "request")
    assert len(sent_at) > 200
    for place, at in enumerate(sent_at):
        inside = [each for each in sent_at[place:] if each < at + 1.0]
        assert len(inside) <= 10 + 5 + 1


def test_where_most_of_what_seems_lost_is_not_for_us_the_publisher_alone_is_asked() -> None:
    machine = receiver(filter="a < 5")
    for sequence in range(1, 20):
        machine.handle(1.0, lost(sequence, {"a": 6}))
        machine.handle(1.1, repair(sequence, subscriptions=(), attributes={"a": 6}))
    machine.handle(2.0, lost(50, A))
    heads = []
    for _ in range(3):
        (outgoing,) = of(Emit, machine.handle(2.3, Fired(("request", STREAM, 50))))
        heads.append((len(event_of(outgoing.head, b"").attributes), messages([outgoing])[0].round))
    assert heads[:2] == [(2, 1), (2, 1)] and heads[2][0] > 2 and heads[2][1] == 2
    for sequence in range(60, 80):
        machine.handle(3.0, lost(sequence, A))
        machine.handle(3.1, repair(sequence))
    machine.handle(4.0, lost(90, A))
    (outgoing,) = of(Emit, machine.handle(4.3, Fired(("request", STREAM, 90))))
    assert len(event_of(outgoing.head, b"").attributes) > 2
