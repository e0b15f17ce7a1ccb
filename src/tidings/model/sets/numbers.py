"""Sets of numbers as sorted, disjoint, closed intervals.

The numbers that exist are the 64-bit integers and the finite doubles (`values.py`), so every open end is also a closed
one: `x > 5` begins at the next number after 5. Two sets are equal as values exactly when they hold the same numbers,
since ends are numbers in canonical spelling and intervals that touch are joined. -inf and inf stand for "no end".
"""

import math
import sys
from bisect import bisect_right
from collections.abc import Iterable

import msgspec

from tidings.model.values import Number, canonical_number, next_number, previous_number

Interval = tuple[Number, Number]

LARGEST = sys.float_info.max
"""The largest number; an interval that reaches it has no end there."""

WHOLE_FROM = 2.0**53
"""From here on every double is whole, and rounding it could give an integer beyond 64 bit."""


class NumberSet(msgspec.Struct, frozen=True):
    """Numbers in any of `intervals`. Build with the functions below; they keep the form canonical."""

    intervals: tuple[Interval, ...]

    def __contains__(self, number: Number) -> bool:
        if len(self.intervals) == 1:
            low, high = self.intervals[0]
            return low <= number <= high
        at = bisect_right(self.intervals, number, key=lambda interval: interval[0]) - 1
        return at >= 0 and number <= self.intervals[at][1]

    def __or__(self, other: "NumberSet") -> "NumberSet":
        return number_set(self.intervals + other.intervals)

    def __and__(self, other: "NumberSet") -> "NumberSet":
        both, mine, theirs = [], list(self.intervals), list(other.intervals)
        i = j = 0
        while i < len(mine) and j < len(theirs):
            low, high = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
            if low <= high:
                both.append((low, high))
            if mine[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return NumberSet(tuple(both))

    def complement(self) -> "NumberSet":
        gaps: list[Interval] = []
        begin: Number = -math.inf
        for low, high in self.intervals:
            if low > begin:
                gaps.append((begin, previous_number(low)))
            if high == math.inf:
                return NumberSet(tuple(gaps))
            begin = next_number(high)
        return NumberSet((*gaps, (begin, math.inf)))

    def covers(self, other: "NumberSet") -> bool:
        return self & other == other

    def is_empty(self) -> bool:
        return not self.intervals

    def is_everything(self) -> bool:
        return self.intervals == EVERY_NUMBER.intervals

    def points(self) -> tuple[Number, ...] | None:
        """The members if every interval is a single number, else None."""
        if all(low == high for low, high in self.intervals):
            return tuple(low for low, _ in self.intervals)
        return None

    def hull(self) -> "NumberSet":
        """The one interval from the least to the greatest member."""
        return NumberSet(((self.intervals[0][0], self.intervals[-1][1]),)) if self.intervals else self

    def example(self) -> Number:
        """Some finite member, a round one where there is one."""
        low, high = self.intervals[0]
        if low == -math.inf:
            return 0 if high >= 0 else high
        if high == math.inf:
            rounded = canonical_number(low if abs(low) >= WHOLE_FROM else math.ceil(low))
            return rounded if rounded in self else low
        halfway = low / 2 + high / 2
        middle = canonical_number(halfway if abs(halfway) >= WHOLE_FROM else math.floor(halfway))
        return middle if middle in self else low


def number_set(intervals: Iterable[Interval]) -> NumberSet:
    """The union of closed intervals in canonical form; an interval whose ends are crossed is empty."""
    ordered = sorted(
        (
            -math.inf if low <= -LARGEST else canonical_number(low),
            math.inf if high >= LARGEST else canonical_number(high),
        )
        for low, high in intervals
        if low <= high and low <= LARGEST and high >= -LARGEST
    )
    joined: list[Interval] = []
    for low, high in ordered:
        if joined and low <= next_number(joined[-1][1]):
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return NumberSet(tuple(joined))


def equal_to(number: Number) -> NumberSet:
    return number_set([(number, number)])


def below(number: Number) -> NumberSet:
    return number_set([(-math.inf, previous_number(number))])


def at_most(number: Number) -> NumberSet:
    return number_set([(-math.inf, number)])


def above(number: Number) -> NumberSet:
    return number_set([(next_number(number), math.inf)])


def at_least(number: Number) -> NumberSet:
    return number_set([(number, math.inf)])


def between(low: Number, high: Number) -> NumberSet:
    return number_set([(low, high)])


EVERY_NUMBER = number_set([(-math.inf, math.inf)])
