"""What a filter asks of one attribute, as a set of values.

A constraint holds the values whose readings (`values.py`) all lie in the sets given: `number` is a condition on the
value read as a number, `text` on its text, `truth` on its truth; None is no condition. A constraint with none of them
asks only that the attribute exists. `present=False` asks that it does not, and then nothing else is set.

    price > 100 AND price != 105     number = (100, 105) u (105, inf)
    symbol IN ('IBM', 'AAPL')        text = {'AAPL', 'IBM'}
    name LIKE 'ab%'                  text = the strings that begin with ab
    urgent = TRUE                    truth = TRUE
    EXISTS price                     no condition
    NOT EXISTS price                 present = False

Set questions (`covers`, `&`, `union`) are decided by the kind of value. Truths and short text lists leave finitely
many values, which are tried one by one. Otherwise a value is a bool (two to try), a number, or a string; for the last
two the conditions are compared reading by reading. That is exact as long as an attribute is read one way. Where a
number condition meets a text pattern that numbers may match (`x > 5` and `x LIKE '1%'`), in one constraint or between
two, the answers stay on the safe side: `covers` may miss a yes, `&` may keep a set that is in fact empty.

Sets of numbers are sorted, disjoint, closed intervals. The numbers that exist are the 64-bit integers and the finite
doubles (`values.py`), so every open end is also a closed one: `x > 5` begins at the next number after 5. Two sets are
equal as values exactly when they hold the same numbers, since ends are numbers in canonical spelling and intervals that
touch are joined. -inf and inf stand for "no end".
"""

import math
import sys
from bisect import bisect_right
from collections.abc import Iterable
from itertools import product
from typing import TypeVar

import msgspec

from tidings.model.sets.patterns import literal_runs
from tidings.model.sets.texts import EVERY_TEXT, LISTED_UNITS, TextSet
from tidings.model.values import (
    Number,
    Value,
    canonical_number,
    next_number,
    number_of,
    previous_number,
    text_of,
    truth_of,
)
from tidings.model.work import WORK

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


NUMBER_CHARACTERS = frozenset("0123456789+-.eE")
NUMBERS_BEGIN, NUMBERS_END = "+", ":"
"""Whatever reads as a number begins with a sign, a dot or a digit, so it lies between these in code-point order."""

SET_PARTS_MAX = 256
"""Intervals or listed texts up to which sets are united; a longer list is better told as several filters."""

TRUTH_SPELLINGS = {
    truth: tuple("".join(letters) for letters in product(*((c, c.upper()) for c in text_of(truth))))
    for truth in (True, False)
}


class Constraint(msgspec.Struct, frozen=True):
    """The values an attribute may have. `accepts(None)` asks about an absent attribute."""

    name: str
    present: bool = True
    number: NumberSet | None = None
    text: TextSet | None = None
    truth: bool | None = None

    def accepts(self, value: Value | None) -> bool:
        if value is None or not self.present:
            return value is None and not self.present
        if self.number is not None:
            number = value if type(value) is float or type(value) is int else number_of(value)
            if number is None or number not in self.number:
                return False
        if self.text is not None and text_of(value) not in self.text:
            return False
        return self.truth is None or truth_of(value) is self.truth

    def members(self) -> tuple[Value, ...] | None:
        """The accepted values where they are finitely many for a reason that shows, else None."""
        if self.truth is not None:
            candidates: tuple[Value, ...] = (self.truth, *TRUTH_SPELLINGS[self.truth])
        elif self.text is not None and self.text.include is not None:
            WORK.units += LISTED_UNITS * len(self.text.include)
            candidates = tuple(value for text in self.text.include for value in values_spelled(text))
        elif self.is_plainly_empty():
            candidates = ()
        elif self.number is not None and self.text is not None and not may_spell_number(self.text):
            candidates = (True, False)  # truths read as numbers although their text is none
        else:
            return None
        return tuple(value for value in candidates if self.accepts(value))

    def is_plainly_empty(self) -> bool:
        return (self.number is not None and self.number.is_empty()) or (self.text is not None and self.text.is_empty())

    def is_empty(self) -> bool:
        """True only if no value is accepted."""
        return self.present and self.members() == ()

    def __and__(self, other: "Constraint") -> "Constraint | None":
        """The values both accept; None if there are provably none. Both constrain the same attribute."""
        if self.present != other.present:
            return None
        if self.truth is not None and other.truth is not None and self.truth is not other.truth:
            return None
        both = Constraint(
            self.name,
            self.present,
            number=meet(self.number, other.number),
            text=meet(self.text, other.text),
            truth=other.truth if self.truth is None else self.truth,
        )
        return None if both.is_empty() else both

    def overlaps(self, other: "Constraint") -> bool:
        """False only if no value is accepted by both."""
        mine, theirs = self.text, other.text
        if mine is not None and theirs is not None:
            if mine.is_other_text(theirs):
                return False
            if mine.is_dear() and theirs.is_dear() and WORK.is_over():
                return True
        return (self & other) is not None

    def covers(self, other: "Constraint") -> bool:
        """True only if every value `other` accepts is accepted here."""
        if not other.present or not self.present:
            return self.present == other.present or other.is_empty()
        if (members := other.members()) is not None:
            return all(self.accepts(value) for value in members)
        if self.truth is not None:
            return False  # a truth has finitely many spellings
        if any(other.accepts(truth) and not self.accepts(truth) for truth in (True, False)):
            return False
        return self.covers_numbers_of(other) and self.covers_strings_of(other)

    def covers_numbers_of(self, other: "Constraint") -> bool:
        if other.text is not None and not may_spell_number(other.text):
            return True
        if self.number is not None and not self.number.covers(other.number or EVERY_NUMBER):
            return False
        return self.covers_texts_of(other)

    def covers_strings_of(self, other: "Constraint") -> bool:
        if self.number is not None and (other.number is None or not self.number.covers(other.number)):
            return False
        return self.covers_texts_of(other)

    def covers_texts_of(self, other: "Constraint") -> bool:
        if self.text is None or self.text.covers(other.text or EVERY_TEXT):
            return True
        return other.number is not None and holds_number_texts(self.text, other.number)

    def union(self, other: "Constraint") -> "Constraint | None":
        """The constraint that accepts exactly what either does, where there is one."""
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        if not self.present or not other.present or self.truth is not None or other.truth is not None:
            return None
        if self.text == other.text and self.number is not None and other.number is not None:
            number = self.number | other.number
            return msgspec.structs.replace(self, number=number) if len(number.intervals) <= SET_PARTS_MAX else None
        if self.number == other.number and self.text is not None and other.text is not None:
            text = self.text.union(other.text)
            if text is not None and len(text.include or ()) <= SET_PARTS_MAX:
                return msgspec.structs.replace(self, text=narrowing(text))
        return None

    def hull(self, other: "Constraint") -> "Constraint | None":
        """A constraint that covers both, as narrow as is cheap; None stands for no constraint at all."""
        if self.present != other.present:
            return None
        return Constraint(
            self.name,
            self.present,
            number=None if self.number is None or other.number is None else number_hull(self.number, other.number),
            text=None if self.text is None or other.text is None else narrowing(self.text.hull(other.text)),
            truth=self.truth if self.truth is other.truth else None,
        )


AnySet = TypeVar("AnySet", NumberSet, TextSet)


def meet(left: AnySet | None, right: AnySet | None) -> AnySet | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def narrowing(text: TextSet) -> TextSet | None:
    """None for the set of all texts: every value has a text, and there is one way to say so."""
    return None if text.is_everything() else text


def number_hull(left: NumberSet, right: NumberSet) -> NumberSet:
    union = left | right
    return union if len(union.intervals) <= SET_PARTS_MAX else union.hull()


def values_spelled(text: str) -> tuple[Value, ...]:
    """Every value whose text is `text`: the string, and the number or bool that is written so."""
    values: list[Value] = [text]
    number = number_of(text)
    if number is not None and text_of(number) == text:
        values.append(number)
    truth = truth_of(text)
    if truth is not None and text_of(truth) == text:
        values.append(truth)
    return tuple(values)


def may_spell_number(text: TextSet) -> bool:
    """False only if no string of the set reads as a number."""
    if text.include is not None:
        return any(number_of(member) is not None for member in text.include)
    if text.low >= NUMBERS_END or (text.high is not None and text.high <= NUMBERS_BEGIN):
        return False
    return all(NUMBER_CHARACTERS.issuperset(run) for pattern in text.likes for run in literal_runs(pattern))


def holds_number_texts(text: TextSet, numbers: NumberSet) -> bool:
    """True only if every string that reads as one of `numbers` is in the set, which then merely shuts others out."""
    if text.include is not None or text.likes:
        return False
    if text.low > NUMBERS_BEGIN or (text.high is not None and text.high < NUMBERS_END):
        return False
    excluded = (number_of(member) for member in text.exclude)
    if any(number is not None and number in numbers for number in excluded):
        return False
    return not any(NUMBER_CHARACTERS.issuperset("".join(literal_runs(pattern))) for pattern in text.unlikes)
