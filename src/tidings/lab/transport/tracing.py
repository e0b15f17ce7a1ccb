"""What of a run goes into its trace: what the ends see and what is lost, and not each hop in between.

An event that 12 clients want passes eight brokers, which makes some 50 rows if every send and receive is one; what the
experiments measure is in 13 of them (one publication, 12 deliveries). The other rows would take more time than the
simulation.

Beside publications, a client and its broker say to each other what the client wants (`Local`). Such a message is never
on a link and takes no worker: it is obeyed at once.
"""

from typing import TYPE_CHECKING

import msgspec

from tidings.machine.effects import Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.machine import Machine
from tidings.sim.process import Process

if TYPE_CHECKING:
    from tidings.sim.node import SimulatedNode
    from tidings.sim.simulator import Simulator


class Local(msgspec.Struct, frozen=True):
    """Base of what is said on one machine only, and has no form on the wire."""


class Ends(Process):
    __slots__ = ()

    def receive(self, now: float, received: Received) -> None:
        if isinstance(received.message, Local) and self.is_running:
            self.received += 1
            self.step(now, received)
        else:
            Process.receive(self, now, received)


class EndsTraced(Ends):
    __slots__ = ("trace",)

    def __init__(self, world: "Simulator", node: "SimulatedNode", machine: Machine) -> None:
        super().__init__(world, node, machine)
        assert world.trace is not None
        self.trace = world.trace

    def step(self, now: float, input: Input) -> None:
        if type(input) is not Received and type(input) is not Fired:
            self.trace.record(now, self.id, input)
        Process.step(self, now, input)

    def carry_out(self, now: float, effects: list[Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self.send(now, effect)
            elif kind is SetTimer:
                self.arm(now, effect.key, effect.at)
            else:
                self.trace.record(now, self.id, effect)
                self.perform(now, effect)
