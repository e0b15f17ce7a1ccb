"""What a peer says of itself, and how good a set of friends is."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.machine.streams import random_stream
from tidings.protocols.feeds.profile import BITS, HASHES, bits_of, from_bytes, interests_of, may_read, to_bytes
from tidings.protocols.feeds.utility import Reader, overlap, pair_utility, set_utility

A, B, C = (sum(1 << bit for bit in bits) for bits in ((1, 2, 3, 4, 5), (1, 3, 5, 7), (2, 4, 6)))
"""The sets of the source's example, as bits."""

feeds = st.lists(st.text(min_size=1, max_size=20), max_size=60)
rows = st.integers(0, 2**64 - 1)
readers = st.lists(st.tuples(rows, st.floats(0, 3)).map(lambda it: Reader(*it)), max_size=6)


@pytest.mark.spec("P-21")
@given(feeds)
def test_a_profile_has_1024_bits_three_for_each_feed_and_misses_none(names: list[str]) -> None:
    interests = interests_of(names)
    assert (BITS, HASHES) == (1024, 3) and interests < 1 << 1024
    assert all(may_read(interests, name) for name in names)
    assert all(1 <= bits_of(name).bit_count() <= 3 for name in names)
    assert from_bytes(to_bytes(interests)) == interests and len(to_bytes(interests)) == 128


@pytest.mark.spec("P-22")
@pytest.mark.parametrize(("keys", "published"), [(50, 0.0025), (100, 0.016), (200, 0.087)])
def test_feeds_that_are_not_read_seem_to_be_as_often_as_published(keys: int, published: float) -> None:
    """100,000 probes over 20 profiles, within 15 % of the formula, and of what is printed as far as it is rounded."""
    hits, probes = 0, 5000
    for profile in range(20):
        interests = interests_of(f"http://{profile}.example.org/{number}" for number in range(keys))
        hits += sum(may_read(interests, f"http://other.example.net/{profile}/{number}") for number in range(probes))
    measured = hits / (20 * probes)
    formula = (1 - math.exp(-HASHES * keys / BITS)) ** HASHES
    assert abs(measured - formula) <= 0.15 * formula
    assert abs(formula - published) <= 0.025 * published


@pytest.mark.spec("P-31")
def test_two_readers_are_worth_what_they_share_by_their_distance() -> None:
    assert overlap(A, B) == 0.5 and overlap(A, C) == pytest.approx(1 / 3)
    assert pair_utility(A, Reader(B, 0.001)) == pytest.approx(500)
    assert pair_utility(A, Reader(B, 0.1)) == pytest.approx(5)


@pytest.mark.spec("P-32")
def test_a_set_is_worth_more_for_what_only_one_of_it_reads() -> None:
    both = [Reader(B, 0.1), Reader(C, 0.1)]
    assert set_utility(A, both) == pytest.approx(18.33, abs=0.005)
    assert set_utility(A, both[:1]) == pytest.approx(11.0)
    assert set_utility(A, [*both, Reader(B, 0.1)]) < set_utility(A, both) + set_utility(A, both[:1])


@given(rows, readers)
def test_the_fast_evaluation_is_the_formula(own: int, friends: list[Reader]) -> None:
    def plain() -> float:
        if not own:
            return 0.0
        total = 0.0
        for place, friend in enumerate(friends):
            others = 0
            for other, it in enumerate(friends):
                others |= it.interests if other != place else 0
            unique = own & friend.interests & ~others
            worth = overlap(own, friend.interests) + unique.bit_count() / own.bit_count()
            total += worth / max(friend.distance, 0.001)
        return total

    assert set_utility(own, friends) == pytest.approx(plain())
    assert set_utility(own, friends) >= sum(pair_utility(own, it) for it in friends) - 1e-6, "F-I7"


def test_the_baselines_look_at_one_thing_only() -> None:
    near, alike = Reader(C, 0.01), Reader(B, 0.5)
    assert set_utility(A, [near], "nearness") > set_utility(A, [alike], "nearness")
    assert set_utility(A, [near], "interest") < set_utility(A, [alike], "interest")


def test_the_unit_of_distances_does_not_matter_for_decisions() -> None:
    rng = random_stream(1)
    for _ in range(50):
        one, other = ([Reader(rng.below(2**64), rng.uniform(0.1, 1.0)) for _ in range(4)] for _ in range(2))
        doubled = [[Reader(it.interests, it.distance * 2) for it in each] for each in (one, other)]
        first = set_utility(A, one) > set_utility(A, other)
        assert first == (set_utility(A, doubled[0]) > set_utility(A, doubled[1]))
