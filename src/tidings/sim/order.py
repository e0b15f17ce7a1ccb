"""An order: all that decides a run, in a form that can be written down.

From an order come the run, the command that a person types to have it again, and the first rows of a trace, from which
`tidings sim replay` knows what to do. A run whose faults are drawn names none; a run whose faults were given (because a
failure was made smaller, say) names them all.

Replaying: run what a trace records once more, and compare the two to the last byte. The same order gives the same
trace, on every machine and under every version of the program that behaves the same. So a trace that differs tells that
something changed: the protocol, the simulator, or a library; and the first row that differs tells where.
"""

import shlex
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import msgspec

from tidings.sim.faults import number_text, parse_plan
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
