"""Hunting: run a scenario with one seed after the other until one fails, then make that failure small.

A failure with twelve faults among twenty nodes says little; one with two faults among three nodes often says it all. So
the order of the failed run is made smaller, step by step, as long as the same checker still finds something: faults are
left out (first half of them, then quarters, then one by one), nodes are taken away, the duration is halved, and the
faults that remain are shortened. Every step is a run, and how many there may be has a bound.

Nothing here is random; a hunt over the same seeds finds the same failures, and shrinks them to the same orders.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from tidings.model.errors import UsageError
from tidings.sim.faults import FaultPlan, parse_plan
from tidings.sim.order import RunOrder, fulfil
from tidings.sim.scenario import Definition, Result

SHRINK_RUNS_MAX = 300
"""Runs that are spent on making one failure smaller."""

NODES_MIN = 2


class HuntFinding(msgspec.Struct, frozen=True):
    """A failure as it was found, and as small as it could be made."""

    order: RunOrder
    result: Result
    smallest: RunOrder
    smallest_result: Result
    runs: int
    """How many it took to make it smaller."""


def hunt(
    definition: Definition,
    orders: Iterable[RunOrder],
    find_all: bool = False,
    progress: Callable[[RunOrder, int], None] = lambda order, found: None,
) -> Iterator[HuntFinding]:
    """Failures among these orders: the first, or all. `progress` is told of every order that was tried."""
    found = 0
    for order in orders:
        result = fulfil(order, definition)
        found += not result.passed
        progress(order, found)
        if not result.passed:
            yield shrink(definition, order, result)
            if not find_all:
                return


def shrink(definition: Definition, order: RunOrder, result: Result) -> HuntFinding:
    smallest = Shrinking(definition, order, result)
    smallest.perform()
    return HuntFinding(order, result, smallest.order, smallest.result, smallest.runs)


class Shrinking:
    """The smallest failing order known so far."""

    def __init__(self, definition: Definition, order: RunOrder, result: Result) -> None:
        self.definition, self.order, self.result = definition, order, result
        self.checker = result.problems[0].checker
        self.runs = 0

    def perform(self) -> None:
        """Until nothing helps any more: what one step made possible, an earlier kind of step may use."""
        self.accepts(msgspec.structs.replace(self.order, faults="; ".join(self.result.faults)))
        if self.order.faults is None:
            return
        before = None
        while before != self.order and self.runs < SHRINK_RUNS_MAX:
            before = self.order
            self.drop_faults()
            self.drop_nodes()
            self.cut_duration()
            self.shorten_faults()

    def accepts(self, order: RunOrder) -> bool:
        """Try an order; if it fails in the same way, it is the smallest now."""
        if self.runs >= SHRINK_RUNS_MAX:
            return False
        self.runs += 1
        try:
            result = fulfil(order, self.definition)
        except UsageError:
            # A smaller number of nodes, for instance, may be one that the topology cannot have.
            return False
        if result.passed or result.problems[0].checker != self.checker:
            return False
        self.order, self.result = order, result
        return True

    def plan(self) -> FaultPlan:
        return parse_plan(self.order.faults or "")

    def accepts_plan(self, plan: FaultPlan) -> bool:
        return self.accepts(msgspec.structs.replace(self.order, faults=plan.text()))

    def drop_faults(self) -> None:
        size = max(1, len(self.plan().faults))
        while size >= 1:
            place = 0
            while place < len(self.plan().faults):
                if not self.accepts_plan(self.plan().without(range(place, place + size))):
                    place += size
            size //= 2

    def shorten_faults(self) -> None:
        for place in range(len(self.plan().faults)):
            while (shorter := self.plan().shortened(place)) is not None and self.accepts_plan(shorter):
                pass

    def drop_nodes(self) -> None:
        name = self.definition.nodes_setting
        if name is None:
            return
        step = self.result.nodes // 2
        while step >= 1:
            count = self.result.nodes - step
            if count < NODES_MIN or not self.accepts_nodes(name, count):
                step //= 2

    def accepts_nodes(self, name: str, count: int) -> bool:
        settings = {**self.order.settings, name: count}
        try:
            nodes = self.definition.scenario(settings).topology(self.order.seed).nodes
        except UsageError:
            return False
        plan = self.plan().among(nodes)
        return self.accepts(msgspec.structs.replace(self.order, settings=settings, faults=plan.text()))

    def cut_duration(self) -> None:
        duration = self.order.duration or self.definition.scenario(self.order.settings).duration
        share = 0.5
        while share < 0.95:
            shorter = round(duration * share, 3)
            if shorter > 0 and self.accepts(msgspec.structs.replace(self.order, duration=shorter)):
                duration = shorter
            else:
                share = (1 + share) / 2
