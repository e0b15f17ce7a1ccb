"""One machine on a desk: the test is its whole world, says what happens to it, and looks at what it answers.

The desk only does what no test should do by hand: it keeps the timers and the time, calls `check()` after every step,
and remembers all effects. A desk of a kind (an edge, a client, a sender) adds the usual inputs in short words, and
`perform` for effects that the rest of its node would carry out.
"""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from tidings.machine.effects import CancelTimer, Deliver, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, TimerKey
from tidings.machine.node import Machine

FIRED_MAX = 100_000
"""Timers after which a machine is taken to set them for ever."""

Kind = TypeVar("Kind", bound=Machine)


class Desk(Generic[Kind]):
    is_checked = True
    """Long runs do without."""

    def __init__(self, machine: Kind, starts: bool = True) -> None:
        self.machine, self.now = machine, 0.0
        self.timers: dict[TimerKey, float] = {}
        self.all: list[tuple[float, Effect]] = []
        """Every effect with its time, oldest first."""
        self.effects: list[Effect] = []
        """Those of the last step."""
        if starts:
            self.note(machine.start(self.now))

    def handle(self, input: Input) -> list[Effect]:
        return self.note(self.machine.handle(self.now, input))

    def note(self, effects: list[Effect]) -> list[Effect]:
        if self.is_checked:
            self.machine.check()
        self.effects = effects
        for effect in effects:
            self.all.append((self.now, effect))
            match effect:
                case SetTimer(key, at):
                    assert at >= self.now, "a timer for what is past"
                    self.timers[key] = at
                case CancelTimer(key):
                    self.timers.pop(key, None)
                case _:
                    self.perform(effect)
        return effects

    def perform(self, effect: Effect) -> None:
        """What the rest of the node does with it: nothing here."""

    def fire_next(self) -> list[Effect]:
        """The timer that is due first; time goes on to it."""
        key = min(self.timers, key=lambda key: self.timers[key])
        self.now = max(self.now, self.timers.pop(key))
        return self.handle(Fired(key))

    def advance(self, until: float) -> list[Effect]:
        """All timers up to then, in their order."""
        effects: list[Effect] = []
        for _ in range(FIRED_MAX):
            if not self.timers or min(self.timers.values()) > until:
                self.now = max(self.now, until)
                return effects
            effects += self.fire_next()
        raise AssertionError(f"still setting timers after {FIRED_MAX} of them")

    def told(self, kind: type) -> list[Any]:
        return [effect for _, effect in self.all if isinstance(effect, kind)]


def of(kind: type, effects: Iterable[Effect]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def sent(effects: Iterable[Effect], kind: type = object, to: str | None = None) -> list[Any]:
    """The messages of this kind that leave, for one receiver or for all."""
    return [it.message for it in of(Send, effects) if isinstance(it.message, kind) and to in (None, it.to)]


def items(effects: Iterable[Effect], kind: type = object) -> list[Any]:
    """What the application gets of this kind."""
    return [it.item for it in of(Deliver, effects) if isinstance(it.item, kind)]


def drops(effects: Iterable[Effect]) -> list[str]:
    return [it.reason for it in of(Drop, effects)]
