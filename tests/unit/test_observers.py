"""Who watches a run: what each hook is told, in which order, and that watching changes nothing."""

import math
from typing import Any

import pytest

from tests.unit.test_simulator import echo
from tests.worlds.puppets import Puppet
from tidings.machine.effects import Deliver, Drop, Effect, SetTimer
from tidings.machine.inputs import Fired, Input, Received
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.protocols.teaching.ping import Echo, Ping, PingParams
from tidings.pubsub.requests import Publish
from tidings.sim.network.latency import Constant
from tidings.sim.network.loss import Loss
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import EndsTrace, InvariantBroken, Invariants, Observer
from tidings.sim.simulator import Simulator, SimulatorParams
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer


class Diary(Observer):
    """Writes down all that it is told."""

    def __init__(self, period: float = 0.0) -> None:
        self.period = period
        self.lines: list[tuple[Any, ...]] = []

    def on_input(self, now: float, node: SimulatedNode, input: Input) -> None:
        self.lines.append(("input", now, node.id, input))

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        self.lines.append(("effects", now, node.id, effects))

    def on_step(self, now: float, node: SimulatedNode) -> None:
        self.lines.append(("step", now, node.id))

    def on_loss(self, now: float, sender: NodeId, to: NodeId, message: Any, reason: str) -> None:
        self.lines.append(("loss", now, sender, to, message, reason))

    def on_record(self, record: Record) -> None:
        self.lines.append((record.kind, record.time, record.node))

    def on_period(self, now: float, world: Simulator) -> None:
        self.lines.append(("period", now, world.now))

    def of(self, *kinds: str) -> list[tuple[Any, ...]]:
        return [line for line in self.lines if line[0] in kinds]


def world(*observers: Observer, checking: bool = False, **params: Any) -> Simulator:
    """Puppet a says something at its start and has a timer at 2; b listens; nobody is called c."""
    first: list[Effect] = [echo(1), echo(2, to="c"), SetTimer("x", 2.0)]
    made = Simulator(1, Constant(0.5), checking, params=SimulatorParams(**params), observers=observers)
    made.add("a", lambda draws: Puppet(*first))
    made.add("b", lambda draws: Puppet())
    return made


@pytest.mark.parametrize("checking", [False, True])
def test_an_observer_hears_of_effects_before_they_are_carried_out_and_of_inputs_before_they_are_taken(
    checking: bool,
) -> None:
    diary = Diary()
    made = world(diary, checking=checking)
    made.call_at(3.0, lambda: made.crash("b"))
    made.run(4.0)
    size_bytes = 4 if checking else 0
    assert diary.lines == [
        ("start", 0.0, "a"),
        ("effects", 0.0, "a", [echo(1), echo(2, to="c"), SetTimer("x", 2.0)]),
        ("loss", 0.0, "a", "c", Echo(2), "no such node"),
        ("start", 0.0, "b"),
        ("effects", 0.0, "b", []),
        ("input", 0.5, "b", Received("a", Echo(1), size_bytes)),
        ("step", 0.5, "b"),
        ("input", 2.0, "a", Fired("x")),
        ("step", 2.0, "a"),
        ("stop", 3.0, "b"),
    ]


def test_only_hooks_that_an_observer_has_are_called_and_a_run_that_nobody_watches_calls_none() -> None:
    class Losses(Observer):
        def __init__(self) -> None:
            self.reasons: list[str] = []

        def on_loss(self, now: float, sender: NodeId, to: NodeId, message: Any, reason: str) -> None:
            self.reasons.append(reason)

    losses = Losses()
    made = world(losses)
    assert made.watch is None, "processes need not look who watches"
    made.run(4.0)
    assert losses.reasons == ["no such node"]
    assert world(Diary()).watch is not None


def test_observers_are_told_in_the_order_in_which_they_were_given() -> None:
    heard = []

    class Named(Observer):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_input(self, now: float, node: SimulatedNode, input: Input) -> None:
            heard.append(self.name)

    world(Named("first"), Named("second")).run(1.0)
    assert heard == ["first", "second"]


def test_periods_come_at_their_times_and_end_when_nothing_is_left_to_happen() -> None:
    slow, quick = Diary(1.0), Diary(0.375)
    made = world(slow, quick)
    made.run(1.1)
    assert slow.of("period") == [("period", 1.0, 1.0)]
    assert quick.of("period") == [("period", 0.375, 0.375), ("period", 0.75, 0.75)]
    made.run(1.125)
    assert quick.of("period")[2:] == [("period", 1.125, 1.125)]
    made.run(math.inf)
    assert slow.of("period")[-1] == ("period", 2.0, 2.0)
    assert 2.0 <= made.now < 2.5


def test_watching_changes_nothing_even_where_every_event_is_late_by_chance() -> None:
    def arrivals(*observers: Observer) -> list[tuple[float, Any]]:
        simulator = Simulator(
            5,
            Loss(Constant(0.1), 0.2),
            params=SimulatorParams(jitter=0.01),
            observers=observers,
            checking=bool(observers),
        )
        for name, peer in (("a", "b"), ("b", "a")):
            simulator.add(name, lambda draws, peer=peer: Ping([peer], PingParams(), draws("ping")))  # type: ignore[misc]
        simulator.run(30.0)
        return [*simulator.delivered("a"), *simulator.delivered("b")]

    assert arrivals() == arrivals(Diary(0.3))


def test_a_broken_invariant_says_which_node_and_when() -> None:
    class Unsound(Puppet):
        def check(self) -> None:
            super().check()
            assert not self.seen, "too much was seen"

    simulator = Simulator(1, Constant(0.5), observers=[Invariants()])
    simulator.add("a", lambda draws: Unsound(SetTimer("x", 3.0)))
    with pytest.raises(InvariantBroken, match="too much was seen") as caught:
        simulator.run(5.0)
    assert (caught.value.node, caught.value.time) == ("a", 3.0)


def test_states_are_checked_after_every_input_or_now_and_then_and_more_and_more_rarely() -> None:
    def checks(is_rare: bool, inputs: int) -> int:
        simulator = Simulator(1, Constant(0.5), observers=[Invariants(is_rare)])
        simulator.add("a", lambda draws: Puppet(*[SetTimer(number, 1.0) for number in range(inputs)]))
        simulator.run(2.0)
        machine = simulator.nodes["a"].machine
        assert isinstance(machine, Puppet)
        return machine.checks

    assert checks(is_rare=False, inputs=100) == 100
    assert [checks(is_rare=True, inputs=inputs) for inputs in (15, 16, 32, 64, 80, 1000, 10_000)] == [
        0,
        1,
        2,
        4,
        5,
        16,
        26,
    ]


def test_a_trace_of_the_ends_has_what_applications_see_and_what_is_lost() -> None:
    ring = RingBuffer(100)
    made = world(EndsTrace(ring))
    event = Event({"source": "b", "id": "1"})
    effects: list[Effect] = [Deliver(event), Drop(event, "too late"), echo(3)]
    made.nodes["b"].make = lambda draws: Puppet(*effects)
    made.inject(1.0, "a", Publish(event))
    made.run(4.0)
    assert [(row.node, row.kind) for row in ring.records()] == [
        ("a", "start"),
        ("a", "drop"),
        ("b", "start"),
        ("b", "deliver"),
        ("b", "drop"),
        ("a", "publish"),
    ]
