"""Answers made of arrays: the fast engine finds numbers of members (slots or links), event by event, as one array and
where those of each event begin; whoever asked wants tuples, or for each member the events."""

from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import numpy as np

from tidings.matching.index.answers import NOBODY, Alone, Several

FEW_EVENTS = 8
"""Fewer are answered one by one: a loop is then cheaper than operations on arrays."""


def tuples_of(found: Any, offsets: Any, alone: Alone, several: Several) -> list[tuple[Hashable, ...] | None]:
    """The answer of each event as a tuple; most have one member or none, and those are at hand."""
    if len(offsets) <= FEW_EVENTS:
        members, ends = found.tolist(), offsets.tolist()
        return [several(members[begin:end]) for begin, end in pairwise(ends)]
    counts = np.diff(offsets)
    firsts = np.append(found, NOBODY)[offsets[:-1]]
    firsts[counts == 0] = NOBODY
    answers: list[tuple[Hashable, ...] | None] = list(map(alone.__getitem__, firsts.tolist()))
    crowded = np.flatnonzero(counts > 1)
    if len(crowded):
        members = found.tolist()
        begins, ends = offsets[crowded].tolist(), offsets[crowded + 1].tolist()
        for row, begin, end in zip(crowded.tolist(), begins, ends, strict=True):
            answers[row] = several(members[begin:end])
    return answers


def places_of(found: Any, offsets: Any) -> dict[int, list[int]]:
    """For each number that was found the events for which it was."""
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.argsort(found, kind="stable")
    numbers, rows = found[order], rows[order].tolist()
    begins = np.flatnonzero(np.diff(numbers, prepend=NOBODY))
    bounds = [*begins.tolist(), len(rows)]
    spans = zip(numbers[begins].tolist(), bounds, bounds[1:], strict=False)
    return {number: rows[begin:end] for number, begin, end in spans}
