"""Work is counted, so that it can be bounded without a clock.

What strangers ask for may be dear: a pattern of 4 KiB searched in a string of 64 KiB, two patterns compared. Each kind
of work has a natural step. A step is worth so many *units*, chosen so that a unit is about 40 ns in CPython on the
machine that the bounds were chosen on; 25,000 of them are a millisecond there. What is counted depends only on what was
asked, never on what a cache happened to hold, so that two runs count the same. What is done to make a filter out of its
text is not counted, because filters are kept: it has bounds of its own.

There is one count for the process. Whoever wants to know what a step cost looks at it before and behind.

Questions about two filters (does one cover the other, do they overlap) are dear in rare cases only, and may always be
answered on the safe side. So whoever serves others sets a *limit* before each step that he takes. Once the count is
there, questions about patterns are answered on the safe side without being looked into, and `cut_short` says how many.
Nobody else has a limit.
"""

from collections.abc import Iterator
from contextlib import contextmanager

UNITS_PER_MS = 25_000

ENDLESS = 1 << 62


class WorkCount:
    __slots__ = ("cut_short", "limit", "units")

    def __init__(self) -> None:
        self.units = self.cut_short = 0
        self.limit = ENDLESS

    @property
    def is_spent(self) -> bool:
        """Whether what can wait has to wait for another step."""
        return self.units >= self.limit

    def is_over(self) -> bool:
        """Whether a question has to be answered without being looked into; it is counted then."""
        if self.units < self.limit:
            return False
        self.cut_short += 1
        return True


WORK = WorkCount()


@contextmanager
def limited(units: int) -> Iterator[WorkCount]:
    """So much from now on, and not more."""
    before, WORK.limit = WORK.limit, WORK.units + units
    try:
        yield WORK
    finally:
        WORK.limit = before


@contextmanager
def uncounted() -> Iterator[None]:
    """What is made now is kept for others, who count for themselves."""
    units, limit = WORK.units, WORK.limit
    WORK.limit = ENDLESS
    try:
        yield
    finally:
        WORK.units, WORK.limit = units, limit
