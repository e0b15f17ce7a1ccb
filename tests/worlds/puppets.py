"""Machines that do as they are told, alone and in a simulator: for tests of the worlds themselves.

A puppet has no will: an injected `Do` names the effects that it answers with, and everything else that happens to it is
written down with its time. So a test of the simulator or of a host says on one line what a node does, and reads on the
next what came of it. On sockets a puppet also delivers whatever it hears, for there the test waits at the host's inbox.
"""

from typing import Any

from tidings.machine.effects import Connect, Deliver, Effect
from tidings.machine.inputs import Input, LinkDown, Received, Request, Signal
from tidings.sim.network.latency import Constant
from tidings.sim.network.rule import Rule
from tidings.sim.simulator import Simulator, SimulatorParams


class Do(Request, frozen=True):
    """An order for a puppet: answer with these effects."""

    effects: tuple[Effect, ...]


class Puppet:
    """With `clings` it connects again when a link ends."""

    def __init__(self, *first: Effect, delivers: bool = False, clings: bool = False) -> None:
        self.first, self.delivers, self.clings = list(first), delivers, clings
        self.seen: list[tuple[float, Input]] = []
        self.starts: list[float] = []
        self.checks = 0

    def start(self, now: float) -> list[Effect]:
        self.starts.append(now)
        return self.first

    def handle(self, now: float, input: Input) -> list[Effect]:
        if isinstance(input, Do):
            return list(input.effects)
        self.seen.append((now, input))
        effects: list[Effect] = [Deliver(input)] if self.delivers else []
        if self.clings and isinstance(input, LinkDown):
            effects.append(Connect(input.neighbour))
        return effects

    @property
    def heard(self) -> list[Input]:
        return [input for _, input in self.seen]

    def check(self) -> None:
        self.checks += 1

    def times(self, kind: type) -> list[float]:
        return [now for now, input in self.seen if isinstance(input, kind)]

    def numbers(self) -> list[int]:
        """Of the echoes that came."""
        return [input.message.round for _, input in self.seen if isinstance(input, Received)]

    def news(self) -> list[tuple[float, Input]]:
        """All but messages."""
        return [(now, input) for now, input in self.seen if not isinstance(input, Received)]


class Witness:
    """A part of a node that never answers; what it makes of what it hears is said in `see`."""

    messages: tuple[type, ...] = ()
    hears: tuple[type, ...] = ()
    tells: tuple[type[Signal], ...] = ()

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        self.see(now, input)
        return []

    def see(self, now: float, input: Input) -> None:
        raise NotImplementedError

    def check(self) -> None:
        pass


class PuppetWorld(Simulator):
    """A simulator of puppets, half a second apart unless a network is given. They have started."""

    def __init__(
        self, *names: str, network: Rule | None = None, seed: int = 1, checking: bool = False, **params: Any
    ) -> None:
        super().__init__(seed, network or Constant(0.5), checking, params=SimulatorParams(**params))
        for name in names:
            self.add(name, lambda draws: Puppet())
        self.run(0.0)

    def puppet(self, name: str) -> Puppet:
        machine = self.nodes[name].machine
        assert isinstance(machine, Puppet)
        return machine

    def say(self, at: float, name: str, *effects: Effect) -> None:
        self.inject(at, name, Do(effects))
