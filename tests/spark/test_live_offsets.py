"""Positions in the history of a network: where streams begin, how far batches go, how work is cut."""

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.errors import UsageError
from tidings.net.client.history import Mark
from tidings.spark.live.offsets import (
    Offset,
    Range,
    Start,
    advance,
    cut,
    doubtful,
    first_offset,
    last_numbers,
    loss,
    ranges_between,
    read_offset,
    read_start,
    share,
)

MARKS = (Mark("desk", 5, 17), Mark("floor", 0, 4))

widths = st.lists(st.integers(1, 50), max_size=8)


def test_latest_is_where_every_publisher_is_now_and_the_time_for_those_who_come_later() -> None:
    assert first_offset(Start("latest"), MARKS, 100.0) == Offset(100.0, {"desk": 17, "floor": 4}, is_first=True)


def test_earliest_is_whatever_is_stored() -> None:
    assert first_offset(Start("earliest"), MARKS, 100.0) == Offset(0.0, {}, is_first=True)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("Latest", Start("latest")),
        ("earliest", Start("earliest")),
        ("1794797198.5", Start("time", 1794797198.5)),
        ("1970-01-01T00:01:00Z", Start("time", 60.0)),
        ("1970-01-01 00:01", Start("time", 60.0)),
        ('{"after": {"desk": 3}}', Start("offset", offset=Offset(0.0, {"desk": 3}))),
        ('{"since": 5, "after": {"desk": 3}, "begun": {}}', Start("offset", offset=Offset(5.0, {"desk": 3}))),
    ],
)
def test_a_beginning_is_a_word_a_time_or_an_offset(text: str, start: Start) -> None:
    assert read_start("startingOffsets", text) == start


@pytest.mark.parametrize("text", ["soon", "{", '{"after": 3}', '{"desk": 3}'])
def test_any_other_beginning_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(UsageError, match=r"option startingOffsets: .*write"):
        read_start("startingOffsets", text)


def test_nobody_goes_back_and_whoever_cannot_be_asked_stays() -> None:
    start = Offset(9.0, {"desk": 20, "gone": 3})
    assert last_numbers(start, MARKS) == {"desk": 20, "gone": 3, "floor": 4}


def test_a_publisher_that_has_nothing_stored_is_no_news() -> None:
    assert last_numbers(Offset(0.0), [Mark("idle", 12, 12)]) == {}


def test_without_news_the_position_is_the_same_value() -> None:
    start = Offset(9.0, {"desk": 17}, is_first=True)
    assert advance(start, {"desk": 17}) is start


def test_the_first_batch_tells_where_it_began_and_no_later_one() -> None:
    start = Offset(9.0, {"desk": 17}, is_first=True)
    first = advance(start, {"desk": 18, "floor": 4})
    assert first == Offset(9.0, {"desk": 18, "floor": 4}, begun={"desk": 17})
    assert advance(first, {"desk": 19, "floor": 4}) == Offset(9.0, {"desk": 19, "floor": 4})


def test_a_first_batch_that_is_repeated_does_not_believe_a_beginning_that_moved() -> None:
    first = advance(Offset(9.0, {"desk": 17}, is_first=True), {"desk": 18, "floor": 4})
    moved = Offset(12.0, {"desk": 25, "floor": 9}, is_first=True)
    assert ranges_between(moved, first) == [Range("desk", 17, 9.0, 18), Range("floor", None, 9.0, 4)]


def test_nothing_lies_before_the_beginning() -> None:
    assert ranges_between(Offset(12.0, is_first=True), Offset(9.0, {"desk": 17}, is_first=True)) == []


def test_offsets_are_the_same_text_however_they_came_about() -> None:
    one = Offset(9.0, {"a": 1, "b": 2}).json()
    other = Offset(9.0, {"b": 2, "a": 1}).json()
    assert json.dumps(one) == json.dumps(other)
    assert read_offset(json.loads(json.dumps(one))) == Offset(9.0, {"a": 1, "b": 2})


def test_an_offset_of_another_format_is_refused() -> None:
    with pytest.raises(UsageError, match="no offset of the format tidings"):
        read_offset({"logOffset": 3})


def test_what_a_mark_says_was_forgotten_behind_the_position_is_doubtful() -> None:
    (found,) = doubtful(Offset(9.0, {"desk": 2, "floor": 4}), MARKS)
    assert (found.publisher, found.after) == ("desk", 2)
    assert doubtful(Offset(9.0, {"desk": 5}), MARKS) == []


def test_a_loss_says_what_to_do() -> None:
    assert re.search(r"publications of desk .*history_age.*failOnDataLoss", str(loss("desk")))


@given(st.integers(1, 200), st.dictionaries(st.text("abc", min_size=1), st.integers(1, 100), max_size=8))
def test_shares_use_all_there_is_and_nobody_gets_more_than_another_who_wants_more(
    total: int, wanted: dict[str, int]
) -> None:
    shares = share(total, wanted)
    assert sum(shares.values()) == min(total, sum(wanted.values()))
    assert all(0 < shares[name] <= wanted[name] for name in shares)
    for got in shares.values():
        for other in wanted:
            # One more at most, where it does not divide evenly.
            assert wanted[other] <= shares.get(other, 0) or got <= shares.get(other, 0) + 1


def test_where_there_is_not_one_for_each_those_who_wait_for_most_come_first() -> None:
    assert share(2, {"a": 5, "b": 9, "c": 9, "d": 1}) == {"b": 1, "c": 1}


@given(widths, st.integers(1, 9), st.integers(1, 40))
def test_cut_work_is_all_of_the_work_each_number_once_in_even_pieces(
    lengths: list[int], pieces: int, least: int
) -> None:
    ranges = [Range(f"p{place}", 100 * place, 0.0, 100 * place + width) for place, width in enumerate(lengths)]
    made = cut(ranges, pieces, least)
    numbers = [(it.publisher, n) for piece in made for it in piece for n in range((it.after or 0) + 1, it.through + 1)]
    wanted = [(it.publisher, n) for it in ranges for n in range((it.after or 0) + 1, it.through + 1)]
    assert numbers == wanted
    assert len(made) <= pieces
    sizes = [sum(it.width for it in piece) for piece in made]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert len(made) <= 1 or min(sizes) >= least


def test_ranges_without_a_known_beginning_are_left_whole() -> None:
    ranges = [Range("a", None, 5.0, 10**15), Range("b", 10, 5.0, 20)]
    made = cut(ranges, 4, 1)
    assert sorted((it for piece in made for it in piece), key=lambda it: it.publisher) == ranges


def test_offsets_survive_their_text() -> None:
    offset = Offset(9.5, {"desk": 2**62}, {"desk": 1})
    assert msgspec.json.decode(json.dumps(offset.json()), type=Offset) == offset
