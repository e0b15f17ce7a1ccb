"""Covering and overlap against brute force: never wrong on the unsafe side, and exact where we say so."""

from random import Random

import pytest

from tests.properties.small_world import EVENTS, events_of, random_filter
from tidings.model.filter import Filter
from tidings.model.sets.conjunction import find_witness, intersection

PAIRS_MIN = 2_000


@pytest.fixture(scope="module")
def pairs(examples: int) -> int:
    return max(examples, PAIRS_MIN)


@pytest.mark.spec("T-1", "T-2", "S-1")
def test_the_brute_force_world_agrees_with_matches() -> None:
    rng = Random(1)
    for _ in range(40):
        filter = random_filter(rng)
        by_bits = events_of(filter)
        assert all(filter.matches(event) == bool(by_bits >> i & 1) for i, event in enumerate(EVENTS)), filter.text()


@pytest.mark.spec("T-4", "S-3")
def test_covers_is_never_wrongly_true(pairs: int) -> None:
    rng = Random(2)
    said_yes = 0
    for _ in range(pairs):
        wide, narrow = random_filter(rng), random_filter(rng, parts_max=2)
        if wide.covers(narrow):
            said_yes += 1
            assert not events_of(narrow) & ~events_of(wide), f"{wide.text()} does not cover {narrow.text()}"
    assert said_yes > pairs / 50


def reads_two_ways(left: Filter, right: Filter) -> bool:
    """Is an attribute asked for by number here and by a text pattern there? That is where completeness ends."""
    by_number, by_pattern = set(), set()
    for constraint in left.conjunctions[0] + right.conjunctions[0]:
        if constraint.number is not None:
            by_number.add(constraint.name)
        if constraint.text is not None and constraint.text.include is None:
            by_pattern.add(constraint.name)
    return not by_number.isdisjoint(by_pattern)


def test_covers_is_complete_for_conjunctions_that_read_an_attribute_one_way(pairs: int) -> None:
    rng = Random(3)
    without_witness = 0
    for _ in range(pairs):
        wide, narrow = random_filter(rng, 1, readings=1), random_filter(rng, 1, readings=1)
        if not wide.covers(narrow):
            witness = wide.counterexample(narrow)
            if witness is None:
                without_witness += 1
                assert reads_two_ways(wide, narrow), f"no witness that {wide.text()} does not cover {narrow.text()}"
            else:
                assert narrow.matches(witness) and not wide.matches(witness)
    assert without_witness < pairs / 500


@pytest.mark.spec("T-5", "S-2")
def test_overlaps_is_never_wrongly_false(pairs: int) -> None:
    rng = Random(4)
    said_no = 0
    for _ in range(pairs):
        left, right = random_filter(rng, 2), random_filter(rng, 2)
        if not left.overlaps(right):
            said_no += 1
            assert not events_of(left) & events_of(right), f"{left.text()} overlaps {right.text()}"
    assert said_no > pairs / 50


@pytest.mark.spec("T-5", "S-2")
def test_overlaps_is_true_only_if_some_event_matches_both_conjunctions(pairs: int) -> None:
    rng = Random(5)
    for _ in range(pairs):
        left, right = random_filter(rng, 1, readings=1), random_filter(rng, 1, readings=1)
        if left.overlaps(right):
            both = intersection(left.conjunctions[0], right.conjunctions[0])
            assert both is not None
            matched = left & right
            witness = find_witness((both,), left.conjunctions + right.conjunctions, matched.matches)
            if witness is None:
                assert reads_two_ways(left, right), f"no event matches both {left.text()} and {right.text()}"


def test_covering_is_reflexive_and_transitive(pairs: int) -> None:
    rng = Random(6)
    for _ in range(pairs // 4):
        first, second, third = (random_filter(rng) for _ in range(3))
        assert first.covers(first)
        if first.covers(second) and second.covers(third):
            assert not events_of(third) & ~events_of(first)


def test_simplify_keeps_the_meaning_and_never_adds_parts(pairs: int) -> None:
    rng = Random(7)
    for _ in range(pairs):
        filter = random_filter(rng, 4)
        simple = filter.simplify()
        assert events_of(simple) == events_of(filter), filter.text()
        assert len(simple.conjunctions) <= len(filter.conjunctions)
        assert simple.simplify() == simple


def test_and_or_mean_intersection_and_union(pairs: int) -> None:
    rng = Random(8)
    for _ in range(pairs // 4):
        left, right = random_filter(rng, 2), random_filter(rng, 2)
        assert events_of(left & right) == events_of(left) & events_of(right), (left.text(), right.text())
        assert events_of(left | right) == events_of(left) | events_of(right), (left.text(), right.text())


def test_negation_matches_no_event_that_the_filter_matches(pairs: int) -> None:
    rng = Random(9)
    for _ in range(pairs // 4):
        filter = random_filter(rng, 2)
        negated = ~filter
        if negated.residual is None:
            assert not events_of(negated) & events_of(filter), filter.text()
