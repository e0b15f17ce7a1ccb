"""A world small enough to try everything: two attributes, some forty values each, and random filters over them.

A set of events is an integer with one bit an event, so "covers" and "overlaps" by brute force are one operation. The
values sit on and around the constants that the random constraints use, in all spellings, so that a wrong answer about
an open end, a cast or a pattern shows.
"""

from functools import lru_cache
from random import Random

from tidings.model.event import Event
from tidings.model.filter import Filter, canonical_filter
from tidings.model.sets.constraint import Constraint, NumberSet, above, at_least, at_most, below, between, equal_to
from tidings.model.sets.texts import TextSet, after, before, like, none_of, one_of, starting_at, unlike, up_to
from tidings.model.values import Value

NAMES = ("a", "b")
NUMBERS: tuple[Value, ...] = (-1, 0, 0.5, 1, 1.5, 2, 2.0000000000000004, 3, 4, 5, 10, 12, 2**53 + 1)
STRINGS: tuple[Value, ...] = (
    *("", "a", "b", "ab", "ba", "abc", "aab", "abab", "c", "z", "a%", "a_b"),
    *("0", "1", "01", "+1", "1.0", "1.5", "12", "1e1", "10", "2x", "true", "TRUE", "false", "False"),
)
VALUES: tuple[Value | None, ...] = (None, True, False, *NUMBERS, *STRINGS)
EVENTS = [
    Event({name: value for name, value in zip(NAMES, (first, second), strict=True) if value is not None})
    for first in VALUES
    for second in VALUES
]

PATTERNS = ("a%", "%b", "%a%", "a%b", "_", "a_", "%_b", "ab%", "1%", "%1", "a\\%", "%ab%", "_%a", "tr%")
TEXTS = ("a", "ab", "abc", "b", "1", "01", "1.5", "true", "TRUE", "z", "", "12")
ENDS = ("a", "ab", "b", "true", "z", "1x")
"""Ends of text ranges: strings that read as a number compare as numbers in the language, so none of those."""


def random_number_set(rng: Random) -> NumberSet:
    make = rng.choice([equal_to, below, at_most, above, at_least])
    numbers = make(rng.choice([-1, 0, 0.5, 1, 1.5, 2, 3, 5, 2**53]))
    if rng.random() < 0.3:
        numbers = numbers.complement()
    if rng.random() < 0.3:
        low = rng.choice([-1, 0, 1, 2])
        numbers = between(low, low + rng.choice([0, 0.5, 1, 3]))
    return numbers


def random_text_set(rng: Random) -> TextSet:
    kind = rng.randrange(8)
    if kind == 0:
        return one_of(rng.sample(TEXTS, rng.randint(1, 3)))
    if kind == 1:
        return none_of(rng.sample(TEXTS, rng.randint(1, 3)))
    if kind == 2:
        return rng.choice([before, up_to, after, starting_at])(rng.choice(ENDS))
    if kind == 3:
        return unlike(rng.choice(PATTERNS))
    if kind == 4:
        return like(rng.choice(PATTERNS)) & random_text_set(rng)
    return like(rng.choice(PATTERNS))


def random_constraint(rng: Random, name: str, readings: int = 1) -> Constraint | None:
    """A constraint on `name` through at most `readings` readings; None if it turned out empty."""
    kind = rng.randrange(12)
    if kind == 0:
        return Constraint(name)
    if kind == 1:
        return Constraint(name, present=False)
    constraint = Constraint(name)
    for _ in range(rng.randint(1, readings)):
        reading = rng.randrange(9)
        if reading < 4:
            part = Constraint(name, number=random_number_set(rng))
        elif reading < 8:
            part = Constraint(name, text=random_text_set(rng))
        else:
            part = Constraint(name, truth=rng.random() < 0.5)
        joined = constraint & part
        if joined is None:
            return None
        constraint = joined
    return constraint


def random_filter(rng: Random, parts_max: int = 3, readings: int = 2) -> Filter:
    conjunctions = []
    for _ in range(rng.randint(1, parts_max)):
        names = [name for name in NAMES if rng.random() < 0.7]
        constraints = [random_constraint(rng, name, readings) for name in names]
        if None not in constraints:
            conjunctions.append(tuple(constraint for constraint in constraints if constraint is not None))
    return canonical_filter(conjunctions, None)


@lru_cache(maxsize=100_000)
def accepted(constraint: Constraint) -> int:
    """The values of the world that the constraint accepts, as bits."""
    return sum(1 << i for i, value in enumerate(VALUES) if constraint.accepts(value))


def events_of(filter: Filter) -> int:
    """The events of the world that the filter matches, as bits in the order of EVENTS."""
    everything = (1 << len(VALUES)) - 1
    total = 0
    for conjunction in filter.conjunctions:
        masks = {constraint.name: accepted(constraint) for constraint in conjunction}
        first, second = (masks.get(name, everything) for name in NAMES)
        for i in range(len(VALUES)):
            if first >> i & 1:
                total |= second << (i * len(VALUES))
    return total
