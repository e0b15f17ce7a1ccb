"""How requests of others are answered."""

from random import Random

import pytest

from tests.worlds.desk import of
from tests.worlds.recovery import PUBLISHER, STREAM, RecoveryWorld, UnpacedRecovery, event, heard, params_with, timer
from tidings.machine.effects import CancelTimer, Drop, Note, SetTimer
from tidings.machine.inputs import Fired
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.marks import MARK, OF, TO, Kind, unmark, without_publisher
from tidings.protocols.transport.messages import LossRepair, LossRequest, decode_control
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.recovery import repairer
from tidings.protocols.transport.recovery.recovery import Recovery
from tidings.protocols.transport.signals import (
    CarriedEvent,
    Configure,
    Departed,
    Emit,
    Listen,
    Recovered,
    RoundTrip,
    StreamGone,
    Told,
    Unwatch,
    Watch,
)
from tidings.pubsub.notes import CacheSearched, Suppressed
from tidings.pubsub.publications import event_of

D = 0.1
A: dict[str, Value] = {"a": 1}
REPAIR = ("repair", STREAM, 5)
FIXED = params_with(tuning=False)


def volunteer(params: TransportParams = FIXED, seed: int = 1) -> Recovery:
    """It has event 5."""
    machine = UnpacedRecovery(7, params, Random(seed))
    machine.start(0.0)
    machine.handle(0.0, Listen(1, parse("a = 1"), is_reliable=True))
    machine.handle(0.0, heard(5, A))
    machine.handle(0.0, RoundTrip(STREAM, 2 * D))
    return machine


def request(
    sequence: int = 5, requester: int = 8, round_: int = 0, echo: tuple[int, float, float] = (0, 0.0, 0.0)
) -> Told:
    bits = event(sequence, A)[2]
    message = LossRequest(requester, PUBLISHER, sequence, 0.9, 0.3, D, bits, 16, round_, *echo)
    return Told(message, CarriedEvent(b"", b""), STREAM, sequence)


def repair(sequence: int = 5, repairer: int = 9, held: float = 0.05) -> Told:
    header, head, _ = event(sequence, A)
    return Told(LossRepair(repairer, 0.5, 8, 0.4, held, header), CarriedEvent(head, b"p"), STREAM, sequence)


def sent(machine: Recovery, told: Told, now: float = 1.0) -> Emit:
    """What it sends in the end."""
    at = timer(machine.handle(now, told), "repair")
    (outgoing,) = of(Emit, machine.handle(at, Fired(("repair", STREAM, told.sequence))))
    assert isinstance(outgoing, Emit)
    return outgoing


@pytest.mark.spec("T-54")
def test_a_repair_waits_between_d1_and_d1_plus_d2_distances() -> None:
    waits = [timer(volunteer(seed=seed).handle(1.0, request()), "repair") - 1.0 for seed in range(300)]
    first, spread = 0.5, 1.0  # log10 of a group of two, raised to the least that is allowed
    assert min(waits) >= first * D and max(waits) <= (first + spread) * D
    assert min(waits) < (first + 0.05) * D and max(waits) > (first + spread - 0.05) * D


@pytest.mark.spec("T-54")
def test_a_repair_waits_by_the_distance_to_the_requester_where_that_is_known() -> None:
    machine = volunteer()
    sent(machine, request())
    at = timer(machine.handle(5.0, request(round_=1, echo=(7, 3.0, 1.0))), "repair")
    assert 5.0 + 0.5 * 0.5 <= at <= 5.0 + 1.5 * 0.5  # there and back took 5 - 3 - 1 seconds


@pytest.mark.spec("T-58")
def test_a_repair_is_the_event_with_its_own_header_marked_as_one() -> None:
    outgoing = sent(volunteer(), request())
    message, payload = decode_control(outgoing.payload)
    assert isinstance(message, LossRepair) and outgoing.kind is Kind.REPAIR
    assert message.data == event(5, A)[0] and payload == b"p" and message.head == b""
    assert (message.repairer, message.requester, message.request_sent) == (7, 8, 0.9)
    assert 0 < message.held <= 1.5 * D
    head, kind = unmark(outgoing.head)
    assert (without_publisher(head, PUBLISHER), kind) == (event(5, A)[1], Kind.REPAIR)
    assert event_of(outgoing.head, b"").attributes == {"a": 1, OF: PUBLISHER, MARK: "repair"}


@pytest.mark.spec("T-55")
def test_hearing_the_repair_cancels_the_own_one() -> None:
    machine = volunteer()
    machine.handle(1.0, request())
    effects = machine.handle(1.05, repair())
    assert effects == [CancelTimer(REPAIR), Suppressed("99 5")]
    assert machine.handle(1.2, Fired(REPAIR)) == []


def test_an_event_that_was_just_repaired_is_not_sent_again_for_three_distances() -> None:
    machine = volunteer()
    at = timer(machine.handle(1.0, request()), "repair")
    machine.handle(at, Fired(REPAIR))
    assert of(SetTimer, machine.handle(at + 2.9 * D, request(requester=9))) == []
    assert of(SetTimer, machine.handle(at + 3.1 * D, request(requester=9))) != []


def test_hearing_a_repair_starts_the_hold_down_as_well() -> None:
    machine = volunteer()
    machine.handle(1.0, repair())
    assert of(SetTimer, machine.handle(1.0 + 2.9 * D, request())) == []
    assert of(SetTimer, machine.handle(1.0 + 3.1 * D, request())) != []


@pytest.mark.spec("T-55")
def test_a_repair_that_brings_us_the_event_starts_the_hold_down_too_where_others_got_it() -> None:
    header, head, _ = event(9, A)
    content = CarriedEvent(head, b"p", subscriptions=(1,))
    for inside, answered in ((b"", [False, True]), (head, [True])):
        machine = volunteer()
        machine.handle(1.0, Told(LossRepair(9, 0.0, 8, 0.4, 0.1, header, inside), content, STREAM, 9, True))
        tries = (1.0 + 2.9 * D, 1.0 + 3.1 * D)[: len(answered)]
        assert [of(SetTimer, machine.handle(at, request(sequence=9))) != [] for at in tries] == answered


def test_of_several_requests_for_one_event_one_is_answered() -> None:
    machine = volunteer()
    machine.handle(1.0, request())
    assert of(SetTimer, machine.handle(1.01, request(requester=9))) == []


def test_what_we_never_had_is_not_answered_and_not_counted() -> None:
    machine = volunteer()
    assert machine.handle(1.0, request(sequence=77)) == []
    assert machine.handle(1.0, Told(request().message, CarriedEvent(b"", b""), ("?", 1), 5)) == []
    assert machine.handle(1.0, Told(request().message, CarriedEvent(b"", b""), None, 5)) == []
    assert machine.streams[STREAM].requests_heard == 0


def test_each_look_up_is_noted() -> None:
    machine = volunteer()
    assert of(Note, machine.handle(1.0, request())) == [CacheSearched("99 5", hit=True, size=1)]
    for number in range(6, 11):
        machine.handle(1.0, heard(number, A))
    assert of(Note, machine.handle(1.0, request())) == [CacheSearched("99 5", hit=False, size=5)]
    shown = machine.streams[STREAM]
    assert (shown.requests_heard, shown.hits, len(shown.ring.order), shown.ring.capacity) == (2, 1, 5, 5)


# By unicast.


@pytest.mark.spec("T-59")
def test_a_unicast_repair_is_addressed_to_the_requester_and_carries_the_attributes_inside() -> None:
    outgoing = sent(volunteer(params_with(repair_mode="unicast")), request())
    message, payload = decode_control(outgoing.payload)
    assert isinstance(message, LossRepair) and message.head == event(5, A)[1] and payload == b"p"
    assert event_of(outgoing.head, b"").attributes == {TO: 8, MARK: "repair"}


@pytest.mark.spec("T-59")
def test_a_unicast_repair_reaches_only_the_requester() -> None:
    world = RecoveryWorld(1, params_with(repair_mode="unicast"))
    for node_id in (1, 2, 3):
        world.add(node_id, "a = 1")
    world.publish(0, A)
    world.publish(1, A, misses=(2, 3))
    world.miss(2, 1, A)
    world.run(1.0)
    assert world.recoveries() == [(2, 1)]
    assert world.nodes[1].repairs_heard == world.nodes[3].repairs_heard == 0


def test_auto_repairs_for_one_alone_and_for_all_when_two_ask() -> None:
    params = params_with(repair_mode="auto")
    assert TO in event_of(sent(volunteer(params), request()).head, b"").attributes
    assert TO not in event_of(sent(volunteer(params), request(round_=1)).head, b"").attributes
    machine = volunteer(params)
    machine.handle(1.0, request())
    machine.handle(1.001, request(requester=9))
    (outgoing,) = of(Emit, machine.handle(1.2, Fired(REPAIR)))
    assert TO not in event_of(outgoing.head, b"").attributes


def test_a_requester_that_unicast_does_not_reach_gets_a_republished_repair_in_a_later_round() -> None:
    params = params_with(repair_mode="unicast")
    ways = [TO in event_of(sent(volunteer(params), request(round_=each)).head, b"").attributes for each in range(4)]
    assert ways == [True, True, False, False]


def test_of_a_large_group_few_answer_by_unicast() -> None:
    answers = 0
    for seed in range(400):
        machine = volunteer(params_with(repair_mode="unicast"), seed)
        for node_id in range(100, 119):
            machine.handle(0.5, request(sequence=77, requester=node_id))
        at = timer(machine.handle(1.0, request()), "repair")
        answers += len(of(Emit, machine.handle(at, Fired(REPAIR))))
    assert 0.5 * 2 / 20 < answers / 400 < 2 * 2 / 20


# Publishers.


def publisher(params: TransportParams = FIXED) -> Recovery:
    machine = UnpacedRecovery(PUBLISHER, params, Random(1))
    machine.start(0.0)
    for number in range(10):
        header, head, bits = event(number, A)
        machine.handle(0.0, Departed(number, header, head, b"p", bits))
    return machine


def asked_of_publisher(round_: int = 0) -> Told:
    return Told(request(round_=round_).message, CarriedEvent(b"", b""), None, 5)


def test_a_publisher_answers_for_its_own_events() -> None:
    machine, own = publisher(), ("repair", ("", PUBLISHER), 5)
    at = timer(machine.handle(1.0, asked_of_publisher()), "repair")
    assert 1.0 + 0.5 * D <= at <= 1.0 + 1.5 * D
    (outgoing,) = of(Emit, machine.handle(at, Fired(own)))
    message, payload = decode_control(outgoing.payload)
    assert isinstance(message, LossRepair) and message.data == event(5, A)[0] and payload == b"p"


def test_a_publisher_answers_every_second_round_to_the_requester_alone() -> None:
    """Who asks for what only seems to be for it would never get it as an event."""
    for round_, is_alone in ((0, False), (1, True), (2, False)):
        machine = publisher()
        at = timer(machine.handle(1.0, asked_of_publisher(round_)), "repair")
        (outgoing,) = of(Emit, machine.handle(at, Fired(("repair", ("", PUBLISHER), 5))))
        assert (TO in event_of(outgoing.head, b"").attributes) is is_alone


def test_a_publisher_that_hears_the_repair_of_another_is_quiet() -> None:
    own = ("repair", ("", PUBLISHER), 5)
    heard_by_publisher = Told(repair().message, CarriedEvent(b"", b""), None, 5)
    machine = publisher()
    machine.handle(1.0, asked_of_publisher())
    assert CancelTimer(own) in machine.handle(1.01, heard_by_publisher)
    assert of(SetTimer, machine.handle(1.02, asked_of_publisher())) == []


def test_a_publisher_answers_who_asks_again_though_another_republished_the_event() -> None:
    heard_by_publisher = Told(repair().message, CarriedEvent(b"", b""), None, 5)
    machine = publisher()
    machine.handle(1.0, heard_by_publisher)
    at = timer(machine.handle(1.02, asked_of_publisher(round_=1)), "repair")
    machine.handle(1.03, heard_by_publisher)
    (outgoing,) = of(Emit, machine.handle(at, Fired(("repair", ("", PUBLISHER), 5))))
    assert TO in event_of(outgoing.head, b"").attributes


def test_publishers_that_do_not_repair_keep_nothing_and_ask_for_nothing() -> None:
    for params in (params_with(publisher_repairs=False), TransportParams()):
        machine = publisher(params)
        assert of(Watch, machine.start(0.0)) == []
        assert machine.handle(1.0, asked_of_publisher()) == []
        assert not machine.own.ring.order


def test_what_is_asked_for_follows_subscriptions_and_parameters() -> None:
    machine = UnpacedRecovery(7, FIXED, Random(1))
    assert [own.key for own in of(Watch, machine.start(0.0))] == ["own requests", "own repairs"]
    (first,) = machine.handle(0.0, Listen(1, parse("a = 1"), is_reliable=True))
    assert machine.handle(0.0, Listen(2, parse("a = 1 AND b = 2"), is_reliable=True)) == []  # the first row includes it
    gone, *new = machine.handle(0.0, Listen(1, parse("c = 1"), is_reliable=True))
    assert gone == Unwatch(first.key) and len(of(Watch, new)) == 2
    assert [type(effect) for effect in machine.handle(0.0, Listen(2, parse("b = 2")))] == [Unwatch]
    assert machine.handle(0.0, Configure(TransportParams())) == [Unwatch("own requests"), Unwatch("own repairs")]
    renamed = machine.handle(0.0, Configure(params_with(domain="x")))
    inside = ["tidings_domain = 'x'" in ask.filter for ask in of(Watch, renamed)]
    assert len(inside) == 3 and sum(inside) == 2  # repairs go wherever the event went


# Repairs and the rest of the node.


@pytest.mark.spec("T-60")
def test_a_repair_changes_neither_rates_nor_distances_to_the_publisher() -> None:
    machine = volunteer()
    before = machine.streams[STREAM].ring.heard, machine.distances.of(STREAM)
    header, head, _ = event(9, A)
    told = Told(LossRepair(9, 0.0, 8, 0.4, 0.1, header), CarriedEvent(head, b"p", subscriptions=(1,)), STREAM, 9, True)
    effects = machine.handle(1.0, told)
    assert [type(effect) for effect in effects] == [
        Recovered
    ]  # never `Heard`, from which rates and delays are measured
    assert (machine.streams[STREAM].ring.heard, machine.distances.of(STREAM)) == before


def test_what_was_recovered_can_be_repaired_for_others() -> None:
    machine = volunteer()
    header, head, _ = event(9, A)
    told = Told(LossRepair(9, 0.0, 8, 0.4, 0.1, header), CarriedEvent(head, b"p", subscriptions=(1,)), STREAM, 9, True)
    machine.handle(1.0, told)
    assert decode_control(sent(machine, request(sequence=9), now=2.0).payload)[1] == b"p"


def test_the_distance_to_a_repairer_is_found_from_what_it_brings_back() -> None:
    machine = volunteer()
    header, head, _ = event(9, A)
    content = CarriedEvent(head, b"p", subscriptions=(1,))
    machine.handle(1.0, Told(LossRepair(9, 50.0, 7, 0.2, 0.5, header), content, STREAM, 9, True))
    assert machine.distances.peers == {9: pytest.approx(0.15)}
    machine.check()


# Strangers.


def test_one_requester_is_heard_as_often_as_is_allowed() -> None:
    machine = volunteer(params_with(requests_per_second=10.0))
    effects = [effect for place in range(100) for effect in machine.handle(1.0 + place / 100, request())]
    refused = [drop.reason for drop in of(Drop, effects)]
    assert set(refused) == {repairer.ASKS_TOO_OFTEN} and 100 - 20 <= len(refused) <= 100 - 19
    assert of(Drop, machine.handle(2.0, request(requester=9))) == []


def test_not_more_than_a_bounded_number_of_requesters_is_remembered() -> None:
    machine = volunteer()
    for requester in range(100, 100 + 2 * repairer.REQUESTERS_MAX):
        machine.handle(1.0, request(requester=requester))
    machine.check()
    assert len(machine.repairer.requesters.by_name) == repairer.REQUESTERS_MAX


def test_not_more_repairs_than_are_allowed_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairer, "PENDING_MAX", 3)
    machine = publisher()
    effects = []
    for number in range(6):
        effects += machine.handle(1.0, Told(request(number).message, CarriedEvent(b"", b""), None, number))
    assert [drop.reason for drop in of(Drop, effects)] == [repairer.TOO_MANY_PENDING] * 3


def test_waiting_repairs_of_a_stream_that_is_forgotten_are_not_sent() -> None:
    machine = volunteer()
    machine.handle(1.0, request())
    assert CancelTimer(REPAIR) in machine.handle(1.01, StreamGone(STREAM))
    machine.check()
    assert machine.handle(1.2, Fired(REPAIR)) == []


@pytest.mark.parametrize("sent_at", [0.0, -5.0, 9e9, 0.999])
def test_what_is_brought_back_wrongly_is_not_believed(sent_at: float) -> None:
    machine = volunteer()
    machine.handle(1.0, request(echo=(7, sent_at, 0.5)))
    machine.check()
    assert machine.distances.peers == {}
