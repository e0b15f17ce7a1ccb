"""Work is counted, so that it can be bounded without a clock.

What strangers ask for may be dear: a pattern of 4 KiB searched in a string of 64 KiB, two patterns compared. Each kind
of work has a natural step. A step is worth so many *units*, chosen so that a unit is about 40 ns in CPython on the
machine that the bounds were chosen on; 25,000 of them are a millisecond there. What is counted depends only on what was
asked, never on what a cache happened to hold, so that two runs count the same.

There is one count for the process. Whoever wants to know what a step cost looks at it before and behind.

Searches that compare two sets of strings (`sets/automata.py`) also have an *allowance*. It is without end, unless
somebody who serves others grants one for the step that he takes (`allow`); then a search that would exceed it ends
without an answer, and the question is answered on the safe side. How often that happened is counted.
"""

from collections.abc import Iterator
from contextlib import contextmanager

UNITS_PER_MS = 25_000

ENDLESS = 1 << 62


class WorkCount:
    """`units` of everything since the process began; `allowance` for searches, and how many were `cut_short`."""

    __slots__ = ("allowance", "cut_short", "units")

    def __init__(self) -> None:
        self.units = self.cut_short = 0
        self.allowance = ENDLESS


WORK = WorkCount()


@contextmanager
def allow(units: int) -> Iterator[WorkCount]:
    """Searches have so much, together."""
    before, WORK.allowance = WORK.allowance, units
    try:
        yield WORK
    finally:
        WORK.allowance = before
