"""What one would write without an index, each as well as we know how.

    NaiveLoop        every filter in turn, each a list of (name, test, operand) over the event's dict
    PythonCounting   which predicates hold, found by hash and by bisection; a filter whose predicates all hold matches
    NumpyCounting    the same with sorted arrays: `searchsorted` for the predicates, `bincount` for the filters;
                     NumpyNarrowCounting touches fewer predicates
    RoaringAnd       for each attribute and bucket of values a compressed bitmap of the filters that are not ruled out;
                     AND over the attributes, then the exact test of those that are left

Counting is due to Carzaniga and Wolf (SIGCOMM 2003). All but the naive loop take events as rows of 20 numbers that were
encoded beforehand, and answer with arrays of filter numbers: both are in their favour, since the index starts from
`Event` values or Arrow batches and answers with keys.
"""

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import numpy

from bench.workload import ALL_WORDS, NAMES, Array, Predicates, Workload, prefix_of
from tidings.model.values import Value

ROARING_BUCKETS = 64


class NaiveLoop:
    def __init__(self, workload: Workload) -> None:
        self.filters = [(number, naive_tests(workload, number)) for number in range(workload.size)]

    def match(self, event: dict[str, Value]) -> list[int]:
        found = []
        for number, tests in self.filters:
            for name, test, operand in tests:
                value = event.get(name)
                if value is None or not test(value, operand):
                    break
            else:
                found.append(number)
        return found


Test = tuple[str, Callable[[Any, Any], bool], Any]


def naive_tests(workload: Workload, number: int) -> list[Test]:
    rows = workload.predicates
    begin, end = int(rows.first[number]), int(rows.first[number + 1])
    tests: list[Test] = []
    lists: dict[str, set[str]] = {}
    for row in range(begin, end):
        attribute, low, high = int(rows.attribute[row]), float(rows.low[row]), float(rows.high[row])
        name = NAMES[attribute]
        if attribute >= workload.texts:
            tests += [(name, operator.ge, low)] if low > -numpy.inf else []
            tests += [(name, operator.le, high)] if high < numpy.inf else []
        elif low != high:
            tests.append((name, str.startswith, prefix_of(low, high)))
        else:
            lists.setdefault(name, set()).add(ALL_WORDS[int(low)])
    for name, words in lists.items():
        tests.append((name, operator.eq, min(words)) if len(words) == 1 else (name, is_one_of, frozenset(words)))
    return tests


def is_one_of(value: str, words: frozenset[str]) -> bool:
    return value in words


class PythonCounting:
    """A two-sided interval counts twice, once for each end that holds; a point once."""

    def __init__(self, workload: Workload) -> None:
        self.equal: list[dict[float, list[int]]] = [{} for _ in NAMES]
        lows: list[list[tuple[float, int]]] = [[] for _ in NAMES]
        highs: list[list[tuple[float, int]]] = [[] for _ in NAMES]
        self.needed = workload.predicates.needed.tolist()
        for owner, attribute, low, high in predicate_rows(workload.predicates):
            if low == high:
                self.equal[attribute].setdefault(low, []).append(owner)
                continue
            if low > -numpy.inf:
                lows[attribute].append((low, owner))
            if high < numpy.inf:
                highs[attribute].append((high, owner))
            self.needed[owner] += (low > -numpy.inf) + (high < numpy.inf) - 1
        self.lows = [split(sorted(entries)) for entries in lows]
        self.highs = [split(sorted(entries)) for entries in highs]

    def match(self, row: list[float]) -> list[int]:
        held = [0] * len(self.needed)
        for attribute, value in enumerate(row):
            for owner in self.equal[attribute].get(value, ()):
                held[owner] += 1
            ends, owners = self.lows[attribute]
            for owner in owners[: bisect_right(ends, value)]:
                held[owner] += 1
            ends, owners = self.highs[attribute]
            for owner in owners[bisect_left(ends, value) :]:
                held[owner] += 1
        return [number for number, (has, needs) in enumerate(zip(held, self.needed, strict=True)) if has == needs]


def predicate_rows(rows: Predicates) -> Iterable[tuple[int, int, float, float]]:
    owners = numpy.repeat(numpy.arange(len(rows.needed)), numpy.diff(rows.first))
    return zip(owners.tolist(), rows.attribute.tolist(), rows.low.tolist(), rows.high.tolist(), strict=True)


def split(entries: list[tuple[float, int]]) -> tuple[list[float], list[int]]:
    return [end for end, _ in entries], [owner for _, owner in entries]


class NumpyCounting:
    """As published: each end of an interval is a predicate of its own."""

    def __init__(self, workload: Workload) -> None:
        rows = workload.predicates
        self.needed = rows.needed.copy()
        self.points: list[tuple[Array, Array]] = []
        self.lows: list[tuple[Array, Array]] = []
        self.highs: list[tuple[Array, Array]] = []
        for owner, low, high in by_attribute(rows):
            is_point = low == high
            self.points.append(sorted_by(low[is_point], owner[is_point]))
            has_low, has_high = ~is_point & (low > -numpy.inf), ~is_point & (high < numpy.inf)
            self.lows.append(sorted_by(low[has_low], owner[has_low]))
            self.highs.append(sorted_by(high[has_high], owner[has_high]))
            numpy.add.at(self.needed, owner[has_low & has_high], 1)

    def match(self, row: Array) -> Array:
        held = []
        for attribute, value in enumerate(row.tolist()):
            ends, owners = self.points[attribute]
            held.append(owners[ends.searchsorted(value) : ends.searchsorted(value, "right")])
            ends, owners = self.lows[attribute]
            held.append(owners[: ends.searchsorted(value, "right")])
            ends, owners = self.highs[attribute]
            held.append(owners[ends.searchsorted(value) :])
        counts = numpy.bincount(numpy.concatenate(held), minlength=len(self.needed))
        return numpy.flatnonzero(counts == self.needed)


class NumpyNarrowCounting:
    """The best we found: an interval counts once; it is looked for from the end that leaves fewer candidates."""

    def __init__(self, workload: Workload) -> None:
        rows = workload.predicates
        self.needed = rows.needed
        self.points: list[tuple[Array, Array]] = []
        self.by_low: list[tuple[Array, Array, Array]] = []
        self.by_high: list[tuple[Array, Array, Array]] = []
        for owner, low, high in by_attribute(rows):
            is_point = low == high
            self.points.append(sorted_by(low[is_point], owner[is_point]))
            owner, low, high = owner[~is_point], low[~is_point], high[~is_point]
            order = numpy.argsort(low, kind="stable")
            self.by_low.append((low[order], high[order], owner[order]))
            order = numpy.argsort(high, kind="stable")
            self.by_high.append((high[order], low[order], owner[order]))

    def match(self, row: Array) -> Array:
        held = []
        for attribute, value in enumerate(row.tolist()):
            ends, owners = self.points[attribute]
            if len(ends):
                held.append(owners[ends.searchsorted(value) : ends.searchsorted(value, "right")])
            lows, their_highs, low_owners = self.by_low[attribute]
            highs, their_lows, high_owners = self.by_high[attribute]
            begun, ended = int(lows.searchsorted(value, "right")), int(highs.searchsorted(value))
            if begun <= len(highs) - ended:
                held.append(low_owners[:begun][their_highs[:begun] >= value])
            else:
                held.append(high_owners[ended:][their_lows[ended:] <= value])
        counts = numpy.bincount(numpy.concatenate(held), minlength=len(self.needed))
        return numpy.flatnonzero(counts == self.needed)


def by_attribute(rows: Predicates) -> Iterable[tuple[Array, Array, Array]]:
    """Filter, low and high end of the predicates on each attribute."""
    owners = numpy.repeat(numpy.arange(len(rows.needed)), numpy.diff(rows.first))
    for attribute in range(len(NAMES)):
        here = rows.attribute == attribute
        yield owners[here], rows.low[here], rows.high[here]


def sorted_by(ends: Array, owners: Array) -> tuple[Array, Array]:
    order = numpy.argsort(ends, kind="stable")
    return ends[order], owners[order]


class RoaringAnd:
    def __init__(self, workload: Workload) -> None:
        self.rows = workload.predicates
        self.tables = [roaring_table(workload, attribute) for attribute in range(len(NAMES))]

    def match(self, row: Array) -> Array:
        bitmaps = [
            table[bisect_right(edges, value)] for (edges, table), value in zip(self.tables, row.tolist(), strict=True)
        ]
        bitmaps.sort(key=operator.itemgetter(0))
        left = bitmaps[0][1]
        for _, bitmap in bitmaps[1:]:
            left = left & bitmap
        candidates = numpy.frombuffer(left.to_array(), dtype=numpy.uint32).astype(numpy.int64)
        if not len(candidates):
            return candidates
        rows = self.rows
        begin, count = rows.first[candidates], rows.first[candidates + 1] - rows.first[candidates]
        starts = numpy.cumsum(count) - count
        places = numpy.repeat(begin - starts, count) + numpy.arange(int(count.sum()))
        values = row[rows.attribute[places]]
        holds = (rows.low[places] <= values) & (values <= rows.high[places])
        matching: Array = candidates[numpy.add.reduceat(holds, starts, dtype=numpy.int64) == rows.needed[candidates]]
        return matching


RoaringTable = tuple[list[float], list[tuple[int, Any]]]
"""Where the next bucket begins; for each bucket the number of filters and their bitmap."""


def roaring_table(workload: Workload, attribute: int) -> RoaringTable:
    """Words have a bucket each; numbers lie in buckets between quantiles of the bounds."""
    from pyroaring import BitMap

    rows = workload.predicates
    owners = numpy.repeat(numpy.arange(workload.size, dtype=numpy.uint32), numpy.diff(rows.first))
    here = rows.attribute == attribute
    owner, low, high = owners[here], rows.low[here], rows.high[here]
    asks_nothing = numpy.ones(workload.size, bool)
    asks_nothing[owner] = False
    free = BitMap(numpy.flatnonzero(asks_nothing).astype(numpy.uint32))
    if attribute < workload.texts:
        edges = numpy.arange(1.0, len(ALL_WORDS))
    else:
        ends = numpy.concatenate([low, high])
        ends = ends[numpy.isfinite(ends)]
        edges = (
            numpy.unique(numpy.quantile(ends, numpy.linspace(0, 1, ROARING_BUCKETS + 1)[1:-1])) if len(ends) else ends
        )
    begins, ends = edges.searchsorted(low, "right"), edges.searchsorted(high, "right")
    order = numpy.argsort(begins, kind="stable")
    owner, begins, ends = owner[order], begins[order], ends[order]
    table = []
    for bucket in range(len(edges) + 1):
        begun = int(begins.searchsorted(bucket, "right"))
        bitmap = free | BitMap(owner[:begun][ends[:begun] >= bucket])
        table.append((len(bitmap), bitmap))
    return edges.tolist(), table
