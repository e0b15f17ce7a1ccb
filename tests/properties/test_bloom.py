"""The two laws of tags and bits, on random events and conjunctions over values that collide a lot."""

from random import Random

import pytest

from tidings.matching.bloom import (
    BloomProfile,
    bits_of_conjunction,
    bits_of_event,
    filter_bits_cover,
    message_bits_match_filter_bits,
    tags_of_conjunction,
    tags_of_event,
)
from tidings.model.event import Event
from tidings.model.sets.conjunction import Conjunction, covers_conjunction, intersection
from tidings.model.sets.constraint import Constraint, NumberSet, above, at_most, between, equal_to
from tidings.model.sets.texts import TextSet

NAMES = ("a", "b", "c")
NUMBERS = (0, 1, 5, 2.5, -3, 2**63 - 1, 1e300)
TEXTS = ("0", "1", "5", "05", "5.0", "+5", "2.5", "true", "TRUE", "True", "false", "False", "IBM", "", "1e300", "é")
VALUES = (*NUMBERS, 5.0, -0.0, 1.0, True, False, *TEXTS)
PROFILE = BloomProfile(bits=256, hashes=4, seed=1)
DRAWS_PER_EXAMPLE = 20


def some_event(random: Random) -> Event:
    return Event({name: random.choice(VALUES) for name in NAMES if random.random() < 0.8})


def some_numbers(random: Random) -> NumberSet:
    low, high = sorted(random.choices(NUMBERS, k=2))
    makers = (equal_to(low), equal_to(low) | equal_to(high), between(low, high), above(low), at_most(high))
    return random.choice(makers)


def some_constraint(random: Random, name: str) -> Constraint:
    if random.random() < 0.1:
        return Constraint(name, present=False)
    return Constraint(
        name,
        number=some_numbers(random) if random.random() < 0.4 else None,
        text=TextSet(include=tuple(sorted(random.sample(TEXTS, random.randint(1, 3)))))
        if random.random() < 0.3
        else None,
        truth=random.choice((True, False)) if random.random() < 0.2 else None,
    )


def some_conjunction(random: Random) -> Conjunction:
    return tuple(some_constraint(random, name) for name in NAMES if random.random() < 0.5)


def accepts(conjunction: Conjunction, event: Event) -> bool:
    return all(constraint.accepts(event.attributes.get(constraint.name)) for constraint in conjunction)


def is_satisfiable(conjunction: Conjunction) -> bool:
    """Attributes are free of each other, so it is enough that each constraint accepts something."""
    return all(any(constraint.accepts(value) for value in (None, *VALUES)) for constraint in conjunction)


@pytest.mark.spec("T-6")
def test_no_match_is_ever_missed_by_tags_or_bits(examples: int) -> None:
    random, matches = Random(examples), 0
    for _ in range(examples * DRAWS_PER_EXAMPLE):
        event, conjunction = some_event(random), some_conjunction(random)
        if accepts(conjunction, event):
            matches += 1
            assert set(tags_of_conjunction(conjunction)) <= set(tags_of_event(event)), (conjunction, event)
            bits = bits_of_conjunction(conjunction, PROFILE)
            assert message_bits_match_filter_bits(bits_of_event(event, PROFILE), bits), (conjunction, event)
    assert matches > examples  # the draws are of use


@pytest.mark.spec("T-7")
def test_no_covering_is_ever_missed_by_tags_or_bits(examples: int) -> None:
    random, coverings = Random(examples), 0
    for _ in range(examples * DRAWS_PER_EXAMPLE):
        wide, other = some_conjunction(random), some_conjunction(random)
        narrow = intersection(wide, other) if random.random() < 0.5 else other
        if narrow is None or not is_satisfiable(narrow) or not covers_conjunction(wide, narrow):
            continue
        coverings += 1
        assert set(tags_of_conjunction(wide)) <= set(tags_of_conjunction(narrow)), (wide, narrow)
        assert filter_bits_cover(bits_of_conjunction(wide, PROFILE), bits_of_conjunction(narrow, PROFILE)), (
            wide,
            narrow,
        )
    assert coverings > examples


def test_tags_do_sort_out_events_that_do_not_match(examples: int) -> None:
    random, refused, rejected = Random(examples), 0, 0
    for _ in range(examples * DRAWS_PER_EXAMPLE):
        event, conjunction = some_event(random), some_conjunction(random)
        if not accepts(conjunction, event):
            refused += 1
            rejected += not set(tags_of_conjunction(conjunction)) <= set(tags_of_event(event))
    assert rejected > refused / 4
