"""Losses that nobody repaired, read from the carrier's history."""

from random import Random

import pytest

from tests.worlds.desk import of
from tests.worlds.recovery import PUBLISHER, STREAM, UnpacedRecovery, heard, lost, params_with
from tidings.machine.effects import CancelTimer, Deliver, Drop, Effect, SetTimer
from tidings.machine.inputs import Fired
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.headers import Data, encode_data
from tidings.protocols.transport.marks import Kind, mark
from tidings.protocols.transport.recovery import losses
from tidings.protocols.transport.recovery.losses import ANSWER_SECONDS
from tidings.protocols.transport.recovery.recovery import Recovery
from tidings.protocols.transport.signals import (
    CarriedEvent,
    Listen,
    Quality,
    Recall,
    Recalled,
    Recovered,
    StreamGone,
)
from tidings.pubsub.publications import encode_head

A: dict[str, Value] = {"a": 1}


def stored(sequence: int, number: int, attributes: dict[str, Value] = A, publisher: int = PUBLISHER) -> CarriedEvent:
    """As the history has it: mark and header included."""
    head = mark(encode_head(attributes), Kind.DATA)
    return CarriedEvent(head, encode_data(Data(publisher, sequence, 0.0)) + b"p", "z", number, 3.0)


def receiver() -> Recovery:
    """It asks once for each loss, and has events 0, 3, 6, 9 under the carrier's numbers 100, 103, ..."""
    machine = UnpacedRecovery(7, params_with(rounds_max=1), Random(1))
    machine.start(0.0)
    machine.handle(0.0, Listen(1, parse("a = 1"), is_reliable=True))
    for sequence in (0, 6, 3, 9):
        machine.handle(0.0, heard(sequence, A, number=100 + sequence))
    return machine


def fail(machine: Recovery, sequence: int, now: float = 1.0) -> list[Effect]:
    """Lose it, and ask in vain."""
    machine.handle(now, lost(sequence, A))
    machine.handle(now, Fired(("request", STREAM, sequence)))
    effects = machine.handle(now, Fired(("request", STREAM, sequence)))
    machine.check()
    return effects


def given_up(effects: list[Effect]) -> list[int]:
    return [each.item.sequence for each in of(Deliver, effects) if each.item.what == "given_up"]


def test_what_nobody_repaired_is_read_from_between_its_neighbours() -> None:
    machine = receiver()
    assert fail(machine, 4) == [
        Recall(STREAM, 4, 1, after=103, before=106),
        SetTimer(("recall", STREAM), 1.0 + ANSWER_SECONDS),
    ]
    assert of(Recall, fail(receiver(), 12)) == [Recall(STREAM, 12, 1, after=109, before=0)]


def test_the_history_brings_the_event_without_mark_and_header() -> None:
    machine = receiver()
    fail(machine, 4)
    effects = machine.handle(2.0, Recalled(STREAM, 4, (stored(5, 105), stored(4, 104))))
    machine.check()
    content = CarriedEvent(encode_head(A), b"p", "z", 104, 3.0, (1,))
    assert effects == [CancelTimer(("recall", STREAM)), Recovered(STREAM, 4, content, "history")]
    assert machine.recovered_count == 1


def test_what_the_history_does_not_have_is_given_up() -> None:
    machine = receiver()
    fail(machine, 4)
    effects = machine.handle(2.0, Recalled(STREAM, 4, problem="no history"))
    assert given_up(effects) == [4]
    assert Drop(Quality("given_up", STREAM, 4, subscriptions=(1,)), losses.NOT_IN_HISTORY) in effects


def test_a_history_that_does_not_answer_is_not_waited_for() -> None:
    machine = receiver()
    fail(machine, 4)
    assert given_up(machine.handle(11.0, Fired(("recall", STREAM)))) == [4]
    assert machine.handle(11.1, Recalled(STREAM, 4, (stored(4, 104),))) == []
    machine.check()


def test_one_recall_at_a_time_and_the_next_one_for_all_that_waited() -> None:
    machine = receiver()
    fail(machine, 1)
    assert fail(machine, 4) == fail(machine, 5) == fail(machine, 8) == []
    effects = machine.handle(2.0, Recalled(STREAM, 1, (stored(1, 101),)))
    machine.check()
    assert of(Recall, effects) == [Recall(STREAM, 4, 1, after=103, before=109)]
    effects = machine.handle(3.0, Recalled(STREAM, 4, (stored(4, 104), stored(8, 108))))
    assert [each.sequence for each in of(Recovered, effects)] == [4, 8] and given_up(effects) == [5]
    machine.check()


def test_losses_far_apart_are_not_read_together() -> None:
    machine = receiver()
    machine.handle(0.0, heard(5000, A, number=5100))
    machine.handle(0.0, heard(5002, A, number=5102))
    fail(machine, 1)
    assert fail(machine, 4) == fail(machine, 5001) == []
    (recall,) = of(Recall, machine.handle(2.0, Recalled(STREAM, 1)))
    assert (recall.after, recall.before) == (103, 106)
    (recall,) = of(Recall, machine.handle(2.0, Recalled(STREAM, 4)))
    assert (recall.sequence, recall.after, recall.before) == (5001, 5100, 5102)


def test_an_event_that_comes_while_the_history_is_read_is_not_brought_twice() -> None:
    machine = receiver()
    fail(machine, 4)
    machine.handle(1.5, Recovered(STREAM, 4, stored(4, 104), "late"))
    effects = machine.handle(2.0, Recalled(STREAM, 4, (stored(4, 104),)))
    machine.check()
    assert of(Recovered, effects) == [] and given_up(effects) == []


@pytest.mark.parametrize(
    "content",
    [
        CarriedEvent(encode_head(A), b"p", "z", 104),
        CarriedEvent(mark(encode_head(A), Kind.DATA), b"no header", "z", 104),
        CarriedEvent(b"", b"", "z", 104),
        stored(4, 104, publisher=1),
        stored(4, 104, {"a": 2}),
    ],
)
def test_what_is_not_the_event_is_not_taken_for_it(content: CarriedEvent) -> None:
    machine = receiver()
    fail(machine, 4)
    effects = machine.handle(2.0, Recalled(STREAM, 4, (content,)))
    machine.check()
    assert of(Recovered, effects) == []


def test_losses_beyond_what_may_be_asked_for_go_to_the_history_at_once() -> None:
    machine = UnpacedRecovery(7, params_with(requests_max=1), Random(1))
    machine.handle(0.0, Listen(1, parse("a = 1"), is_reliable=True))
    machine.handle(0.0, lost(4, A))
    assert of(Recall, machine.handle(0.0, lost(5, A))) == [Recall(STREAM, 5, 1, 0, 0)]
    machine.check()


def test_when_a_stream_is_forgotten_the_history_is_not_waited_for() -> None:
    machine = receiver()
    fail(machine, 1)
    fail(machine, 4)
    effects = machine.handle(2.0, StreamGone(STREAM))
    machine.check()
    assert given_up(effects) == [1, 4] and CancelTimer(("recall", STREAM)) in effects


@pytest.mark.spec("T-69")
def test_without_a_history_asking_in_vain_ends() -> None:
    machine = UnpacedRecovery(7, params_with(rounds_max=1, uses_history=False), Random(1))
    machine.handle(0.0, Listen(1, parse("a = 1"), is_reliable=True))
    assert given_up(fail(machine, 4)) == [4]
