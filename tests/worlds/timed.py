"""Machines that meet in time: a queue of what is to happen, their timers, and whatever network a test builds on it.

`push` says what happens when, `run` lets it happen in the order of its times; things of one time happen in the order in
which they were pushed. Each machine may have a clock that is ahead of the world's. A world of a kind says in
`carry_out` what becomes of the effects, and in `arrive` what an arriving thing is for its machine.
"""

from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from tidings.machine.effects import CancelTimer, Effect, SetTimer
from tidings.machine.inputs import Fired, Input, TimerKey
from tidings.machine.node import Machine
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.protocols.transport.signals import Unwatch, Watch

Kind = TypeVar("Kind", bound=Machine)


class TimedWorld(Generic[Kind]):
    is_checked = True
    """Worlds in which very much happens do without."""

    def __init__(self) -> None:
        self.now, self.ticket = 0.0, 0
        self.queue: list[tuple[float, int, int, Any]] = []
        self.timers: dict[tuple[int, TimerKey], int] = {}
        self.nodes: dict[int, Kind] = {}
        self.ahead: dict[int, float] = {}
        """By how much a clock is ahead of `now`."""

    def start(self, number: int, node: Kind, ahead: float = 0.0) -> None:
        self.nodes[number], self.ahead[number] = node, ahead
        self.perform(number, node.start(self.now + ahead))

    def tell(self, number: int, input: Input) -> list[Effect]:
        node = self.nodes[number]
        effects = node.handle(self.now + self.ahead[number], input)
        if self.is_checked:
            node.check()
        self.perform(number, effects)
        return effects

    def push(self, at: float, number: int, thing: Any) -> int:
        self.ticket += 1
        heappush(self.queue, (at, self.ticket, number, thing))
        return self.ticket

    def run(self, until: float) -> None:
        while self.queue and self.queue[0][0] <= until:
            self.now, ticket, number, thing = heappop(self.queue)
            if type(thing) is not Fired:
                self.arrive(number, thing)
            elif self.timers.get((number, thing.key)) == ticket:
                del self.timers[number, thing.key]
                self.tell(number, thing)
        self.now = until

    def perform(self, number: int, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SetTimer(key, at):
                    self.timers[number, key] = self.push(at - self.ahead[number], number, Fired(key))
                case CancelTimer(key):
                    self.timers.pop((number, key), None)
                case _:
                    self.carry_out(number, effect)

    def carry_out(self, number: int, effect: Effect) -> None:
        raise NotImplementedError

    def arrive(self, number: int, thing: Any) -> None:
        self.tell(number, thing)


class CarrierWorld(TimedWorld[Kind]):
    """With a carrier between the machines that routes by content: `filters` is what each application wants, `asked`
    what its machine watches besides."""

    def __init__(self) -> None:
        super().__init__()
        self.filters: dict[int, Filter] = {}
        self.asked: dict[int, dict[Any, Filter]] = {}

    def start(self, number: int, node: Kind, ahead: float = 0.0) -> None:
        self.asked[number] = {}
        super().start(number, node, ahead)

    def carry_out(self, number: int, effect: Effect) -> None:
        match effect:
            case Watch(key, text):
                self.asked[number][key] = parse(text)
            case Unwatch(key):
                del self.asked[number][key]

    def catches(self, number: int, event: Event) -> bool:
        return number in self.filters and self.filters[number].matches(event)

    def watches(self, number: int, event: Event) -> bool:
        return any(filter.matches(event) for filter in self.asked[number].values())
