"""Merging against brute force: perfect merges change nothing, imperfect ones stay inside their bound."""

from random import Random

import pytest

from tests.properties.small_world import EVENTS, events_of, random_filter
from tidings.matching.merging import merge
from tidings.model.filter import Filter

ROUNDS_MIN = 300


@pytest.fixture(scope="module")
def rounds(examples: int) -> int:
    return max(examples, ROUNDS_MIN)


def events_of_all(filters: tuple[Filter, ...] | list[Filter]) -> int:
    total = 0
    for filter in filters:
        total |= events_of(filter)
    return total


def test_perfect_merges_match_exactly_what_the_parts_matched(rounds: int) -> None:
    rng = Random(11)
    merges = 0
    for _ in range(rounds):
        filters = [random_filter(rng, 2) for _ in range(rng.randint(2, 6))]
        merged = merge(filters)
        assert merged.perfect
        assert events_of_all(merged.filters) == events_of_all(filters), [filter.text() for filter in filters]
        merges += len(merged.filters) < sum(len(filter.conjunctions) for filter in filters)
    assert merges > rounds / 4


def test_imperfect_merges_never_lose_an_event_and_count_what_they_add(rounds: int) -> None:
    rng = Random(12)
    joined = 0
    for _ in range(max(20, rounds // 15)):
        filters = [random_filter(rng, 1) for _ in range(6)]
        numbers = rng.sample(range(len(EVENTS)), 200)
        sample = [EVENTS[i] for i in numbers]
        merged = merge(filters, sample, share_max=0.1)
        before, after = events_of_all(filters), events_of_all(merged.filters)
        assert not before & ~after
        added = sum(after >> i & 1 and not before >> i & 1 for i in numbers)
        assert added == merged.false_positives <= 20
        joined += not merged.perfect
    assert joined > 0
