"""Processes that are watched: their inputs and effects go into the trace, their messages through their bytes.

In checking mode a message is encoded when it is sent and decoded when it arrives. So the receiver gets a copy that
nobody else has, its size is the true one, and these mistakes of a machine do not stay hidden until it meets a socket:

- a message that has no bytes, or does not come back from them as it was;
- a message that was changed after it was sent: its bytes are compared once more when it arrives;
- a state that `check()` of the machine does not accept.

Each is an assertion, since a machine that does such a thing is wrong, whatever its peers do.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.machine.effects import Effect, Send, SetTimer
from tidings.machine.inputs import Input, Received
from tidings.machine.machine import Machine
from tidings.sim.process import Process
from tidings.trace.recording import RECEIVE, SEND
from tidings.wire.errors import BadMessage
from tidings.wire.registry import decode, encode

if TYPE_CHECKING:
    from tidings.sim.node import SimulatedNode
    from tidings.sim.simulator import Simulator


class Sealed(NamedTuple):
    """A message on its way in checking mode: the object that was sent, and its bytes when it was."""

    message: Any
    data: bytes


class TracedProcess(Process):
    """With a trace and without checks. What the writer's `record` does for messages is done in place, for speed."""

    __slots__ = ("things", "trace")

    def __init__(self, world: "Simulator", node: "SimulatedNode", machine: Machine) -> None:
        super().__init__(world, node, machine)
        assert world.trace is not None
        self.trace, self.things = world.trace, world.trace.things

    def step(self, now: float, input: Input) -> None:
        if type(input) is Received:
            self.things.extend((now, self.id, RECEIVE, input.sender, input.message, input.size_bytes or None))
        else:
            self.trace.record(now, self.id, input)
        Process.step(self, now, input)

    def carry_out(self, now: float, effects: list[Effect]) -> None:
        add = self.things.extend
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                add((now, self.id, SEND, effect.to, effect.message, None))
                self.send(now, effect)
            elif kind is SetTimer:
                self.arm(now, effect.key, effect.at)
            else:
                self.trace.record(now, self.id, effect)
                self.perform(now, effect)
        if len(self.things) >= self.trace.things_full:
            self.trace.convert()


class ObservedProcess(Process):
    """With checks of every message, and with a trace if there is one."""

    __slots__ = ("checking", "steps", "trace")

    def __init__(self, world: "Simulator", node: "SimulatedNode", machine: Machine) -> None:
        super().__init__(world, node, machine)
        self.trace, self.checking = world.trace, world.checking
        self.steps = 0

    def step(self, now: float, input: Input) -> None:
        if self.checking and type(input) is Received:
            input = unsealed(input)
        if self.trace is not None:
            self.trace.record(now, self.id, input)
        super().step(now, input)
        self.steps += 1
        if self.checking and self.steps % self.world.params.check_every == 0:
            self.machine.check()

    def carry_out(self, now: float, effects: list[Effect]) -> None:
        if self.trace is not None:
            for effect in effects:
                self.trace.record(now, self.id, effect)
        if self.checking:
            effects = [sealed(effect) if type(effect) is Send else effect for effect in effects]
        super().carry_out(now, effects)


def sealed(send: Send) -> Send:
    data = encode(send.message)
    try:
        copy = decode(data)
    except BadMessage as problem:
        copy = problem
    assert copy == send.message, f"{send.message!r:.200} does not come back from its bytes as it was: {copy!r:.200}"
    return Send(send.to, Sealed(send.message, data), send.transport)


def unsealed(received: Received) -> Received:
    message, data = received.message
    assert encode(message) == data, f"{message!r:.200} was changed after it was sent"
    return Received(received.sender, decode(data), received.size_bytes)
