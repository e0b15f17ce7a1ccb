"""What brokers of the simulator take: processor time and memory, each broker by itself.

All brokers of a run are in one process, so what the process takes says nothing of one of them. Time is that of the
process while a broker handles an input (`MeteredBroker`); what the simulator and the trace take is not in it. Memory is
what can be reached from the broker's machine (`reachable_bytes`), every few seconds, and the most of these; code and
what brokers share as the modules of one process are not in it, what they share as the same message is counted at each.

Both depend on the machine and its load, so only ratios of runs that differ in nothing else say anything.
"""

import gc
import sys
from time import thread_time
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from tidings.machine.effects import Effect
from tidings.machine.inputs import Input, Received
from tidings.machine.node import Machine

SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType)
"""Code, and what is reached by it."""


class MeteredBroker:
    def __init__(self, machine: Machine, uncounted: tuple[str, ...] = ()) -> None:
        self.machine, self.uncounted = machine, uncounted
        """Time over messages of these types does not count."""
        self.seconds = 0.0
        self.bytes_max = 0

    def start(self, now: float) -> list[Effect]:
        return self.machine.start(now)

    def handle(self, now: float, input: Input) -> list[Effect]:
        begin = thread_time()
        effects = self.machine.handle(now, input)
        if type(input) is not Received or type(input.message).__name__ not in self.uncounted:
            self.seconds += thread_time() - begin
        return effects

    def check(self) -> None:
        self.machine.check()

    def weigh(self) -> None:
        self.bytes_max = max(self.bytes_max, reachable_bytes(self.machine))


def reachable_bytes(root: Any) -> int:
    """Of all objects that can be reached from this one, each counted once."""
    seen, left, total = {id(root)}, [root], 0
    while left:
        item = left.pop()
        total += sys.getsizeof(item)
        for other in gc.get_referents(item):
            if id(other) not in seen and not isinstance(other, SHARED):
                seen.add(id(other))
                left.append(other)
    return total
