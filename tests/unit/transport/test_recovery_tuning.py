"""Timers that learn from duplicates and delays (3.5.6)."""

from random import Random

import pytest

from tidings.protocols.transport.limits import Bucket
from tidings.protocols.transport.recovery.streams import REQUEST_FIRST_MAX, Tuner, repair_first_max


def tuner(duplicates: float, delay: float, first: float = 1.5, spread: float = 3.0) -> Tuner:
    made = Tuner(first, spread, is_fixed=False)
    made.duplicates, made.delay, made.has_news = duplicates, delay, True
    return made


@pytest.mark.spec("T-64")
@pytest.mark.parametrize(
    ("duplicates", "delay", "first", "spread"),
    [
        (1.0, 9.0, 1.6, 3.5),
        (4.0, 0.0, 1.6, 3.5),
        (0.95, 9.0, 1.55, 3.0),
        (0.5, 1.5, 1.5, 2.9),
        (0.5, 0.5, 1.5, 3.0),
        (0.1, 1.5, 1.45, 2.9),
        (0.1, 0.5, 1.45, 3.0),
    ],
)
def test_the_numbers_follow_duplicates_and_delays(duplicates: float, delay: float, first: float, spread: float) -> None:
    adapted = tuner(duplicates, delay)
    adapted.adapt(REQUEST_FIRST_MAX, 10)
    assert [adapted.first, adapted.spread] == pytest.approx([first, spread])
    adapted.adapt(REQUEST_FIRST_MAX, 10)  # nothing new was learned
    assert [adapted.first, adapted.spread] == pytest.approx([first, spread])


def test_who_outran_a_farther_one_narrows_its_spread() -> None:
    near = tuner(0.5, 0.5)
    near.outran()
    near.adapt(REQUEST_FIRST_MAX, 10)
    assert near.spread == pytest.approx(2.9)


def test_who_was_first_waits_less_the_next_time() -> None:
    quick = tuner(0.5, 0.5)
    quick.sent_first()
    assert quick.first == pytest.approx(1.4)


def test_averages_move_by_a_quarter() -> None:
    moved = Tuner(2.0, 2.0, is_fixed=False)
    moved.ended(4, 2.0)
    assert (moved.duplicates, moved.delay) == (1.0, 0.5)


@pytest.mark.spec("T-64")
def test_the_numbers_stay_in_their_bounds_whatever_is_heard() -> None:
    rng = Random(1)
    for group in (2, 5, 100):
        for first_max in (REQUEST_FIRST_MAX, repair_first_max(group)):
            wild = Tuner(first_max, 1.0, is_fixed=False)
            for _ in range(500):
                wild.ended(rng.choice((0, 0, 0, 50)), rng.choice((0.0, 100.0)))
                rng.choice((wild.outran, wild.sent_first))()
                wild.adapt(first_max, group)
                assert 0.5 <= wild.first <= first_max and 1.0 <= wild.spread <= group


def test_numbers_that_are_fixed_stay() -> None:
    fixed = Tuner(3.0, 7.0, is_fixed=True)
    fixed.ended(9, 9.0)
    fixed.sent_first()
    fixed.adapt(REQUEST_FIRST_MAX, 2)
    assert (fixed.first, fixed.spread, fixed.mean) == (3.0, 7.0, 6.5)


def test_a_bucket_lets_through_its_rate_and_what_it_holds() -> None:
    bucket, taken = Bucket(0.0, 10.0, 5.0), 0
    for step in range(1000):
        taken += bucket.take(step / 100)
    assert 5 + 10 * 10 - 2 <= taken <= 5 + 10 * 10


def test_tokens_can_be_booked_for_a_while_ahead() -> None:
    bucket = Bucket(0.0, 10.0, 0.0)
    waits = [bucket.book(0.0, wait_max=0.35) for _ in range(6)]
    assert waits == [0.0, pytest.approx(0.1), pytest.approx(0.2), pytest.approx(0.3), None, None]
