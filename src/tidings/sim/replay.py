"""Replaying: run what a trace records once more, and compare the two to the last byte.

The same order gives the same trace, on every machine and under every version of the program that behaves the same. So a
trace that differs tells that something changed: the protocol, the simulator, or a library; and the first row that
differs tells where.
"""

import tempfile
from itertools import zip_longest
from pathlib import Path

import msgspec

from tidings.sim.library import find
from tidings.sim.order import RunOrder, fulfil, read_order
from tidings.sim.scenario import Result
from tidings.sim.scenario_file import define_file
from tidings.trace.reader import read_trace
from tidings.trace.record import Record


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
