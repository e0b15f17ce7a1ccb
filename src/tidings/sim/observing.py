"""Processes that are watched: their inputs and effects go into the trace, their messages through their bytes.

In checking mode a message is encoded when it is sent and decoded when it arrives. So the receiver gets a copy that
nobody else has, its size is the true one, and these mistakes of a machine do not stay hidden until it meets a socket:

- a message that has no bytes, or does not come back from them as it was;
- a message that was changed after it was sent: its bytes are compared once more when it arrives;
- a state that `check()` of the machine does not accept.

Each is an assertion, since a machine that does such a thing is wrong, whatever its peers do.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import Input, Received
from tidings.machine.machine import Machine
from tidings.sim.process import Process
from tidings.wire.errors import BadMessage
from tidings.wire.registry import decode, encode

if TYPE_CHECKING:
    from tidings.sim.node import SimulatedNode
    from tidings.sim.simulator import Simulator


class Sealed(NamedTuple):
    """A message on its way in checking mode: the object that was sent, and its bytes when it was."""

    message: Any
    data: bytes


class ObservedProcess(Process):
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
