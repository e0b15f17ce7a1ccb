"""Which numbers were seen."""

from tidings.pubsub.seen import Seen


def test_each_number_is_new_once() -> None:
    seen = Seen(10, 100)
    order = [11, 13, 12, 13, 11, 10, 20, 15]
    assert [seen.add(number) for number in order] == [True, True, True, False, False, False, True, True]
    assert [number for number in range(10, 22) if number in seen] == [10, 11, 12, 13, 15, 20]


def test_what_was_sent_before_the_first_is_not_missed_but_is_new_when_it_comes() -> None:
    seen = Seen(10, 100)
    assert 9 in seen
    assert [seen.add(number) for number in (9, 9, 8, 11, 8)] == [True, False, True, True, False]


def test_what_is_too_far_below_counts_as_seen() -> None:
    seen = Seen(10, 8)
    seen.add(30)
    assert 22 in seen
    assert 23 not in seen
    assert not seen.add(22)
    assert not seen.add(5)
    assert seen.add(23)


def test_a_jump_further_than_the_window_forgets_what_was_before() -> None:
    seen = Seen(0, 8)
    seen.add(10**12)
    assert [number in seen for number in (10**12, 10**12 - 1, 10**12 - 7, 10**12 - 8)] == [True, False, False, True]
    assert seen.missing < 2**8
