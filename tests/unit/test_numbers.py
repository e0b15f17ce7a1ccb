"""Sets of numbers."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tidings.model.sets.constraint import (
    EVERY_NUMBER,
    NumberSet,
    above,
    at_least,
    at_most,
    below,
    between,
    equal_to,
    number_set,
)

NO_NUMBER = number_set([])

small = st.integers(-4, 4).map(lambda half: half / 2)
sets = st.lists(st.tuples(small, small), max_size=4).map(number_set)
PROBES = [half / 4 for half in range(-10, 11)]


def test_open_ends_are_closed_at_the_neighbouring_number() -> None:
    assert 5 not in above(5) and 5.000000000000001 in above(5)
    assert 5 not in below(5) and 4.999999999999999 in below(5)
    assert above(5).complement() == at_most(5)
    assert (above(5) | at_most(5)) == EVERY_NUMBER


def test_an_integer_and_a_float_of_the_same_value_give_the_same_set() -> None:
    assert equal_to(5.0) == equal_to(5)
    assert 2**53 + 1 not in equal_to(2.0**53)


def test_touching_intervals_are_joined() -> None:
    assert (between(1, 2) | above(2)) == at_least(1)
    assert (between(1, 2) | between(3, 4)).intervals == ((1, 2), (3, 4))


def test_points_hull_and_example_speak_of_members() -> None:
    assert (equal_to(1) | equal_to(3)).points() == (1, 3)
    assert between(1, 3).points() is None
    assert (equal_to(1) | equal_to(3)).hull() == between(1, 3)
    assert between(1, 4).example() == 2
    assert above(0.5).example() == 1
    assert below(-3).example() in below(-3)
    assert EVERY_NUMBER.example() == 0


def test_the_empty_set_covers_only_itself() -> None:
    assert NO_NUMBER.is_empty() and NO_NUMBER.covers(NO_NUMBER)
    assert not NO_NUMBER.covers(equal_to(1))
    assert number_set([(2, 1)]) == NO_NUMBER
    assert EVERY_NUMBER.complement() == NO_NUMBER and NO_NUMBER.complement() == EVERY_NUMBER


@given(sets, sets)
def test_set_operations_agree_with_membership(left: NumberSet, right: NumberSet) -> None:
    for probe in PROBES:
        assert (probe in (left | right)) == (probe in left or probe in right)
        assert (probe in (left & right)) == (probe in left and probe in right)
        assert (probe in left.complement()) == (probe not in left)
    assert left.complement().complement() == left
    assert left.covers(right) == ((left | right) == left)
    if not left.is_empty():
        assert left.example() in left and math.isfinite(left.example())
