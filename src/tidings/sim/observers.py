"""Observers: who is told what happens in a run, and has no part in it.

    on_input     a machine is about to take this
    on_effects   what it answered, before anything of it is carried out
    on_step      all of that is carried out
    on_loss      the world lost a message
    on_record    what else the world did to a node, as a row of the trace: start, stop, faults
    on_period    `period` simulated seconds have passed

A simulator is given its observers when it is made, and tells them in that order. A hook that a class leaves as it is
here is not called, so that it costs nothing; a run without observers pays for none. An observer that raises ends the
run. What it does to the world (it may inject inputs, say) is as if an application did it.

The trace is an observer, and so are `Invariants`, those who tell the checkers of a scenario (`checkers.py`), and
whatever an experiment counts.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec

from tidings.machine.effects import Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received
from tidings.model.identity import NodeId
from tidings.trace import things
from tidings.trace.record import Record
from tidings.trace.things import RECEIVE, SEND
from tidings.trace.writer import Writer

if TYPE_CHECKING:
    from tidings.sim.frames import Frames
    from tidings.sim.node import SimulatedNode
    from tidings.sim.simulator import Simulator

Arguments = ParamSpec("Arguments")

INPUTS_PER_CHECK, RARER = 16, 4
"""Where states are checked now and then: inputs of a machine from one check to the next, at least; and the share of the
inputs it has taken (a quarter) that must be new by then."""


class Observer:
    """Base of all: does nothing. One object serves one run."""

    period = 0.0
    """Seconds from one `on_period` to the next; 0 is never."""

    def on_input(self, now: float, node: "SimulatedNode", input: Input) -> None: ...

    def on_effects(self, now: float, node: "SimulatedNode", effects: list[Effect]) -> None: ...

    def on_step(self, now: float, node: "SimulatedNode") -> None: ...

    def on_loss(self, now: float, sender: NodeId, to: NodeId, message: Any, reason: str) -> None: ...

    def on_record(self, record: Record) -> None: ...

    def on_period(self, now: float, world: "Simulator") -> None: ...


class Hooks:
    """What a simulator and its processes call: each hook of all observers that have it, as one; and how messages become
    bytes. None is what nobody has."""

    __slots__ = ("frames", "on_effects", "on_input", "on_loss", "on_record", "on_step")

    def __init__(self, observers: Sequence[Observer], frames: "Frames | None") -> None:
        self.frames = frames
        self.on_input = in_turn([each.on_input for each in observers if has(each, "on_input")])
        self.on_effects = in_turn([each.on_effects for each in observers if has(each, "on_effects")])
        self.on_step = in_turn([each.on_step for each in observers if has(each, "on_step")])
        self.on_loss = in_turn([each.on_loss for each in observers if has(each, "on_loss")])
        self.on_record = in_turn([each.on_record for each in observers if has(each, "on_record")])

    def concern_processes(self) -> bool:
        return any(each is not None for each in (self.frames, self.on_input, self.on_effects, self.on_step))


def has(observer: Observer, hook: str) -> bool:
    return getattr(type(observer), hook) is not getattr(Observer, hook)


def in_turn(hooks: list[Callable[Arguments, None]]) -> Callable[Arguments, None] | None:
    def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        for hook in hooks:
            hook(*arguments, **named)

    return call if len(hooks) > 1 else hooks[0] if hooks else None


class WholeTrace(Observer):
    """Everything goes into the trace. What the writer's `record` does for messages is done in place, for speed."""

    def __init__(self, trace: Writer) -> None:
        self.trace, self.things = trace, trace.things
        self.add = trace.things.extend

    def on_input(self, now: float, node: "SimulatedNode", input: Input) -> None:
        if type(input) is Received:
            self.add((now, node.id, RECEIVE, input.sender, input.message, input.size_bytes or None))
        else:
            self.trace.record(now, node.id, input)

    def on_effects(self, now: float, node: "SimulatedNode", effects: list[Effect]) -> None:
        id, add = node.id, self.add
        for effect in effects:
            if type(effect) is Send:
                add((now, id, SEND, effect.to, effect.message, None))
            elif type(effect) is not SetTimer:
                self.trace.record(now, id, effect)
        if len(self.things) >= self.trace.things_full:
            self.trace.convert()

    def on_loss(self, now: float, sender: NodeId, to: NodeId, message: Any, reason: str) -> None:
        self.trace.record(now, sender, things.LostMessage(to, message, reason))

    def on_record(self, record: Record) -> None:
        self.trace.write(record)


class EndsTrace(WholeTrace):
    """What the ends see and what is lost, and not each hop in between.

    An event that 12 clients want passes eight brokers, which makes some 50 rows if every send and receive is one; what
    experiments measure is often in 13 of them (one publication, 12 deliveries). The other rows would take more time
    than the simulation.
    """

    def on_input(self, now: float, node: "SimulatedNode", input: Input) -> None:
        if type(input) is not Received and type(input) is not Fired:
            self.trace.record(now, node.id, input)

    def on_effects(self, now: float, node: "SimulatedNode", effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is not Send and type(effect) is not SetTimer:
                self.trace.record(now, node.id, effect)


class InvariantBroken(AssertionError):
    """The state of a machine is one that its `check` does not accept."""

    def __init__(self, text: str, node: NodeId, time: float) -> None:
        super().__init__(text)
        self.node, self.time = node, time


class Invariants(Observer):
    """The state of a machine is sound after every input that it takes, or now and then: after each 16th at first, and
    more and more rarely, since a state that grows takes longer to check. So all checks of a machine together take
    about as long as five of its last state do."""

    def __init__(self, is_rare: bool = False) -> None:
        self.is_rare = is_rare
        self.steps: dict[NodeId, int] = {}
        """Inputs up to the next check, and how many of them are left."""
        self.left: dict[NodeId, int] = {}

    def on_step(self, now: float, node: "SimulatedNode") -> None:
        if self.is_rare:
            left = self.left[node.id] = self.left.get(node.id, INPUTS_PER_CHECK) - 1
            if left:
                return
            steps = self.steps.get(node.id, INPUTS_PER_CHECK)
            self.left[node.id] = more = max(INPUTS_PER_CHECK, steps // RARER)
            self.steps[node.id] = steps + more
        check_state(now, node)


def check_state(now: float, node: "SimulatedNode") -> None:
    if node.machine is not None:
        try:
            node.machine.check()
        except AssertionError as problem:
            raise InvariantBroken(str(problem) or "check() of the machine failed", node.id, now) from problem
