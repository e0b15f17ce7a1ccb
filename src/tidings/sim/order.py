"""An order: all that decides a run, in a form that can be written down.

From an order come the run, the command that a person types to have it again, and the first rows of a trace, from which
`tidings sim replay` knows what to do. A run whose faults are drawn names none; a run whose faults were given (because a
failure was made smaller, say) names them all.

Replaying: run what a trace records once more, and compare the two to the last byte. The same order gives the same
trace, on every machine and under every version of the program that behaves the same. So a trace that differs tells that
something changed: the protocol, the simulator, or a library; and the first row that differs tells where.

Hunting: run a scenario with one seed after the other until one fails, then make that failure small. A failure with
twelve faults among twenty nodes says little; one with two faults among three nodes often says it all. So the order of
the failed run is made smaller, step by step, as long as the same checker still finds something: faults are left out
(first half of them, then quarters, then one by one), nodes are taken away, the duration is halved, and the faults that
remain are shortened. Every step is a run, and how many there may be has a bound.

Nothing here is random; a hunt over the same seeds finds the same failures, and shrinks them to the same orders.
"""

import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import msgspec

from tidings.model.errors import UsageError
from tidings.sim.faults import FaultPlan, number_text, parse_plan
from tidings.sim.library import find
from tidings.sim.scenario import Check, Definition, Result, Scenario, Setting, run_scenario
from tidings.sim.scenario_file import define_file
from tidings.trace.reader import read_trace
from tidings.trace.record import Record, TraceError
from tidings.trace.writer import Writer
from tidings.trace.writers import open_writer

ORDER, DEFINITION = "order", "definition"
"""Notes that stand at the beginning of a trace; the second holds a line of a scenario file."""


class RunOrder(msgspec.Struct, frozen=True, kw_only=True):
    scenario: str
    seed: int
    settings: dict[str, Setting] = {}
    """Those that differ from the defaults."""

    duration: float | None = None
    """None is that of the scenario."""

    faults: str | None = None
    """A plan as text; None is drawn from the seed."""

    check: Check = "sometimes"
    """How often the state of machines is checked."""

    frames: bool = True
    """Whether messages travel as bytes."""

    def command(self) -> str:
        words = ["tidings", "sim", "run", self.scenario, "--seed", str(self.seed)]
        for name, value in self.settings.items():
            words += ["--set", f"{name}={setting_text(value)}"]
        if self.duration is not None:
            words += ["--duration", number_text(self.duration)]
        if self.faults is not None:
            words += ["--faults", self.faults]
        if self.check != "sometimes":
            words += ["--check", self.check]
        if not self.frames:
            words.append("--no-frames")
        return shlex.join(words)


def setting_text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def fulfil(order: RunOrder, definition: Definition, trace: Path | None = None, run: str | None = None) -> Result:
    """Run it, and write a trace if one is asked for, of a run that is called like its scenario or otherwise."""
    scenario = definition.scenario(order.settings)
    if trace is None:
        return run_ordered(order, scenario, None)
    with open_writer(trace, run or order.scenario, order.seed) as writer:
        write_order(order, definition, writer)
        return run_ordered(order, scenario, writer)


def run_ordered(order: RunOrder, scenario: Scenario, trace: Writer | None) -> Result:
    plan = None if order.faults is None else parse_plan(order.faults)
    return run_scenario(scenario, order.seed, plan, order.duration, order.check, order.frames, trace)


def write_order(order: RunOrder, definition: Definition, trace: Writer) -> None:
    trace.write(opening_row(ORDER, order))
    if definition.text is not None:
        for line in definition.text.splitlines():
            trace.write(opening_row(DEFINITION, line))


def opening_row(message: str, value: object) -> Record:
    return Record(time=0.0, node="", kind="note", message=message, detail=msgspec.json.encode(value).decode())


def read_order(path: Path) -> tuple[RunOrder, str | None]:
    """The order of a trace, and the text of its scenario if that was a file."""
    rows = opening_rows(read_trace(path))
    first = next(rows, None)
    if first is None or first.message != ORDER or first.detail is None:
        raise TraceError(f"{path} is no trace of a scenario, so it cannot be run again; `tidings sim run` writes such")
    try:
        order = msgspec.json.decode(first.detail, type=RunOrder)
        lines = [msgspec.json.decode(row.detail or "", type=str) for row in rows]
    except msgspec.DecodeError as problem:
        raise TraceError(f"cannot read the order of the trace {path}: {problem}") from None
    return order, "\n".join(lines) if lines else None


def opening_rows(rows: Iterator[Record]) -> Iterator[Record]:
    for row in rows:
        if row.node or row.message not in (ORDER, DEFINITION):
            return
        yield row


class Difference(msgspec.Struct, frozen=True):
    """The first row that is not the same; None where one of the traces has ended."""

    row: int
    recorded: Record | None
    replayed: Record | None


class Replay(msgspec.Struct, frozen=True):
    order: RunOrder
    result: Result
    is_same: bool
    """Whether the two files have the same bytes."""

    rows: int
    difference: Difference | None
    """None with files that differ: the same rows, written by another version of a library."""


def replay(path: Path) -> Replay:
    order, text = read_order(path)
    definition = find(order.scenario) if text is None else define_file(text, order.scenario)
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / f"replay{path.suffix}"
        result = fulfil(order, definition, again, next(read_trace(path)).run)
        is_same = path.read_bytes() == again.read_bytes()
        rows, difference = compare(path, again)
    return Replay(order, result, is_same, rows, difference)


def compare(recorded: Path, replayed: Path) -> tuple[int, Difference | None]:
    """How many rows are the same from the beginning on, and what comes after them."""
    rows = 0
    for one, other in zip_longest(read_trace(recorded), read_trace(replayed)):
        if one != other:
            return rows, Difference(rows + 1, one, other)
        rows += 1
    return rows, None


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


def run_all(definition: Definition, orders: Iterable[RunOrder]) -> Iterator[tuple[RunOrder, Result]]:
    """One after the other."""
    for order in orders:
        yield order, fulfil(order, definition)


def hunt(
    definition: Definition,
    outcomes: Iterable[tuple[RunOrder, Result]],
    find_all: bool = False,
    is_shrinking: bool = True,
    progress: Callable[[RunOrder, Result, int], None] = lambda order, result, found: None,
) -> Iterator[HuntFinding]:
    """Failures among these outcomes (`run_all`): the first, or all. `progress` is told of every one."""
    found = 0
    for order, result in outcomes:
        found += not result.passed
        progress(order, result, found)
        if not result.passed:
            yield shrink(definition, order, result) if is_shrinking else HuntFinding(order, result, order, result, 0)
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
