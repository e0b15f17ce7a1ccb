"""Requests and repairs ask congestion control for leave, are written when they get it, and are taken back when they are
needless by then."""

from random import Random

import pytest

from tests.worlds.desk import of
from tests.worlds.recovery import PUBLISHER, STREAM, event, heard, lost, params_with, timer
from tidings.machine.effects import CancelTimer, Effect, Note, SetTimer
from tidings.machine.inputs import Fired
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.marks import Kind
from tidings.protocols.transport.messages import LossRepair, LossRequest, decode_control
from tidings.protocols.transport.recovery.recovery import Recovery
from tidings.protocols.transport.signals import (
    Admitted,
    CarriedEvent,
    Emit,
    Leaving,
    Listen,
    NotAdmitted,
    Recovered,
    RoundTrip,
    Told,
    Unneeded,
)
from tidings.pubsub.notes import RepairRequested, RepairSent, Suppressed

D = 0.1
A: dict[str, Value] = {"a": 1}
LOST, KEPT = (STREAM, 5), (STREAM, 0)


def receiver() -> Recovery:
    """It has event 0 of a publisher that is 0.1 s away."""
    machine = Recovery(7, params_with(tuning=False, uses_history=False), Random(1))
    machine.start(0.0)
    machine.handle(0.0, Listen(1, parse("a = 1"), is_reliable=True))
    machine.handle(0.0, heard(0, A))
    machine.handle(0.0, RoundTrip(STREAM, 2 * D))
    return machine


def request_told(sequence: int, requester: int = 8) -> Told:
    message = LossRequest(requester, PUBLISHER, sequence, 0.9, 0.3, D, event(sequence, A)[2], 16, 0, 0, 0.0, 0.0)
    return Told(message, CarriedEvent(b"", b""), STREAM, sequence)


def repair_told(sequence: int) -> Told:
    header, head, _ = event(sequence, A)
    content = CarriedEvent(head, b"p", "somebody", 3, 0.0, (1,))
    return Told(LossRepair(9, 0.5, 8, 0.4, 0.05, header), content, STREAM, sequence, is_new=True)


def wants_to_ask(machine: Recovery) -> Leaving:
    at = timer(machine.handle(1.0, lost(5, A)), "request")
    (leaving,) = machine.handle(at, Fired(("request", *LOST)))
    assert isinstance(leaving, Leaving)
    return leaving


def wants_to_repair(machine: Recovery) -> Leaving:
    at = timer(machine.handle(1.0, request_told(0)), "repair")
    (leaving,) = machine.handle(at, Fired(("repair", *KEPT)))
    assert isinstance(leaving, Leaving)
    return leaving


def written(effects: list[Effect]) -> LossRequest | LossRepair:
    (emit,) = of(Emit, effects)
    message, _ = decode_control(emit.payload)
    assert isinstance(message, LossRequest | LossRepair)
    return message


@pytest.mark.spec("T-99")
def test_a_request_is_written_when_it_leaves_and_only_then_waited_for() -> None:
    machine = receiver()
    leaving = wants_to_ask(machine)
    assert leaving == Leaving(Kind.REQUEST, bits=event(5, A)[2], ticket=LOST)
    effects = machine.handle(4.0, Admitted(leaving))
    assert written(effects).sent == pytest.approx(4.0)
    assert of(Note, effects) == [RepairRequested("99 5", 0)]
    assert timer(effects, "request") >= 4.0 + 2 * 2 * D


@pytest.mark.spec("T-99")
def test_a_repair_is_written_when_it_leaves_and_held_down_from_then_on() -> None:
    machine = receiver()
    leaving = wants_to_repair(machine)
    assert leaving == Leaving(Kind.REPAIR, bits=event(0, A)[2], ticket=KEPT)
    effects = machine.handle(4.0, Admitted(leaving))
    message = written(effects)
    assert isinstance(message, LossRepair) and message.held == pytest.approx(3.0)
    assert of(Note, effects) == [RepairSent("99 0", "republish")]
    assert of(SetTimer, machine.handle(4.0 + 2.9 * D, request_told(0))) == []


def test_a_request_for_what_came_meanwhile_is_taken_back() -> None:
    machine = receiver()
    wants_to_ask(machine)
    effects = machine.handle(1.5, repair_told(5))
    assert effects[:2] == [CancelTimer(("request", *LOST)), Unneeded(Kind.REQUEST, LOST)]
    assert of(Recovered, effects) != []


def test_a_request_that_another_makes_meanwhile_is_taken_back_and_made_later() -> None:
    machine = receiver()
    wants_to_ask(machine)
    effects = machine.handle(1.5, request_told(5))
    assert Unneeded(Kind.REQUEST, LOST) in effects and Suppressed("99 5") in effects
    (leaving,) = machine.handle(timer(effects, "request"), Fired(("request", *LOST)))
    assert isinstance(leaving, Leaving)


def test_a_repair_that_another_sends_meanwhile_is_taken_back() -> None:
    machine = receiver()
    wants_to_repair(machine)
    assert machine.handle(1.5, repair_told(0))[:2] == [Unneeded(Kind.REPAIR, KEPT), Suppressed("99 0")]


def test_a_request_that_may_not_leave_costs_its_loss_a_round() -> None:
    machine = receiver()
    effects = machine.handle(1.5, NotAdmitted(wants_to_ask(machine)))
    (leaving,) = of(Leaving, machine.handle(timer(effects, "request"), Fired(("request", *LOST))))
    message = written(machine.handle(9.0, Admitted(leaving)))
    assert isinstance(message, LossRequest) and message.round == 1


def test_a_repair_that_may_not_leave_is_not_held_down() -> None:
    machine = receiver()
    assert machine.handle(1.5, NotAdmitted(wants_to_repair(machine))) == []
    assert of(SetTimer, machine.handle(1.6, request_told(0))) != []
