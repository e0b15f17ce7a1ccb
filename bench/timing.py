"""Time and memory of one piece of work.

All times are CPU time of the process, so that a neighbour on the same machine does not count. Rates are taken over many
small chunks, and the median is reported; contenders take turns in several rounds, so that a slow spell of the machine
hits all of them and ratios within a run hold where absolute figures do not. The garbage collector stays on, but what
exists before a measurement is frozen, as a server does after start.
"""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

NANOSECONDS = 1e-9


@dataclass
class Contender:
    """A way to match events: `ask` answers one chunk of events, one answer for each event."""

    name: str
    chunks: Sequence[Any]
    ask: Callable[[Any], Sequence[Any]]
    seconds_per_event: list[float] = field(default_factory=list)

    def events_per_second(self) -> float:
        return 1 / median(self.seconds_per_event)

    def run(self, budget_seconds: float, begin: int) -> int:
        """Ask chunk after chunk until the budget is spent, at least once; where to go on next time."""
        spent, place = 0.0, begin
        while spent < budget_seconds:
            chunk = self.chunks[place % len(self.chunks)]
            place += 1
            started = time.process_time_ns()
            answers = self.ask(chunk)
            seconds = (time.process_time_ns() - started) * NANOSECONDS
            self.seconds_per_event.append(max(seconds, NANOSECONDS) / len(answers))
            spent += seconds
        return place


@contextmanager
def frozen_heap() -> Iterator[None]:
    """What exists now is passed over by the garbage collector, which goes on to look after what is new."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def take_turns(contenders: Sequence[Contender], rounds: int, budget_seconds: float) -> None:
    places = [0] * len(contenders)
    for contender in contenders:
        contender.run(0.0, 0)  # first touch: what is compiled, learned or paged in is no part of the figure
        contender.seconds_per_event.clear()
    with frozen_heap():
        for _ in range(rounds):
            for number, contender in enumerate(contenders):
                places[number] = contender.run(budget_seconds, places[number])


def microseconds_each(call: Callable[[Any], object], arguments: Sequence[Any]) -> list[float]:
    """CPU time of each single call."""
    clock, spent = time.process_time_ns, []
    for argument in arguments:
        started = clock()
        call(argument)
        spent.append((clock() - started) / 1000)
    return spent


def seconds_for(call: Callable[[], object]) -> float:
    started = time.process_time_ns()
    call()
    return (time.process_time_ns() - started) * NANOSECONDS


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def bytes_per_filter(matcher: str, filters: int, rate: float) -> float:
    """Growth of resident memory while the matcher is filled, in a process of its own (`memory.py`)."""
    command = [sys.executable, "-m", "bench.memory", matcher, str(filters), str(rate)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(json.loads(answer)["bytes_per_filter"])
