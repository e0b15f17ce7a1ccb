"""A network that does its worst: it delivers in any order, twice, late or never, and nodes crash under it.

A hypothesis state machine draws what happens next. Every message passes through its bytes, as it would between real
nodes. `heal` ends the trouble and lets the nodes run for a while in a network that works.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.properties.message_strategies import messages
from tidings.machine.effects import CancelTimer, Deliver, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal, TimerKey
from tidings.machine.message import Message
from tidings.machine.node import Machine
from tidings.wire import decode, encode

NAMES = ("a", "b", "c")
LATENCY = 0.01

names = st.sampled_from(NAMES)
positions = st.integers(0, 10**6)


class HostileNetwork(RuleBasedStateMachine):
    def make(self, name: str, life: int) -> Machine:
        """The protocol under test, at this node, in its n-th life."""
        raise NotImplementedError

    def observe(self, name: str, input: Input | None, effects: list[Effect]) -> None:
        """For models: what a node did."""

    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        self.lives = dict.fromkeys(NAMES, 0)
        self.machines: dict[str, Machine] = {name: self.make(name, 0) for name in NAMES}
        self.down: set[str] = set()
        self.timers: dict[tuple[str, TimerKey], float] = {}
        self.under_way: list[tuple[str, str, bytes]] = []
        self.delivered: dict[str, list[Any]] = {name: [] for name in NAMES}
        for name in NAMES:
            self.perform(name, None, self.machines[name].start(self.now))

    def step(self, name: str, input: Input) -> None:
        if name in self.machines and name not in self.down:
            self.perform(name, input, self.machines[name].handle(self.now, input))

    def perform(self, name: str, input: Input | None, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    self.under_way.append((name, to, encode(message)))
                case SetTimer(key, at):
                    assert at >= self.now
                    self.timers[name, key] = at
                case CancelTimer(key):
                    self.timers.pop((name, key), None)
                case Deliver(item):
                    self.delivered[name].append(item)
                case Drop(_, reason):
                    assert reason
                case _:
                    assert isinstance(effect, Signal)
        self.observe(name, input, effects)

    def hand_over(self, sender: str, to: str, data: bytes) -> None:
        self.step(to, Received(sender, decode(data), len(data)))

    @rule(position=positions)
    @precondition(lambda self: self.under_way)
    def deliver_any(self, position: int) -> None:
        self.hand_over(*self.under_way.pop(position % len(self.under_way)))

    @rule(position=positions)
    @precondition(lambda self: self.under_way)
    def deliver_and_keep(self, position: int) -> None:
        self.hand_over(*self.under_way[position % len(self.under_way)])

    @rule(position=positions)
    @precondition(lambda self: self.under_way)
    def lose(self, position: int) -> None:
        del self.under_way[position % len(self.under_way)]

    @rule(sender=st.sampled_from((*NAMES, "stranger")), to=names, message=messages)
    def forge(self, sender: str, to: str, message: Message) -> None:
        self.hand_over(sender, to, encode(message))

    @rule()
    def fire_next(self) -> None:
        name, key = min(self.timers, key=lambda timer: (self.timers[timer], timer[0]))
        self.now = self.timers.pop((name, key))
        self.step(name, Fired(key))

    @rule(name=names)
    def crash(self, name: str) -> None:
        # One node stays up, so that there is always a timer left to fire.
        if len(self.down - {name}) < len(NAMES) - 1:
            self.down.add(name)
            self.timers = {timer: at for timer, at in self.timers.items() if timer[0] != name}

    @rule(name=names, keeps_state=st.booleans())
    def restart(self, name: str, keeps_state: bool) -> None:
        if name in self.down:
            self.down.discard(name)
            if not keeps_state:
                self.lives[name] += 1
                self.machines[name] = self.make(name, self.lives[name])
                self.delivered[name] = []
            self.perform(name, None, self.machines[name].start(self.now))

    def heal(self, rounds: int) -> None:
        """Every node is up, and every message arrives at once and in order, for so many timers of each node."""
        for name in NAMES:
            self.restart(name=name, keeps_state=True)
        for _ in range(rounds * len(NAMES)):
            while self.under_way:
                self.now += LATENCY / 1000
                self.hand_over(*self.under_way.pop(0))
            self.now = max(self.now, min(self.timers.values()))
            self.fire_next()
            self.check_all()

    @invariant()
    def check_all(self) -> None:
        for machine in getattr(self, "machines", {}).values():
            machine.check()
