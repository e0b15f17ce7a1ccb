"""Positions in the history of a network: where streams begin, how far batches go, how work is cut."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.errors import UsageError
from tidings.net.client.history import Mark, Marks
from tidings.spark.live.offsets import (
    DataLoss,
    Offset,
    Range,
    advance,
    check_plan,
    cut,
    doubtful,
    last_numbers,
    loss,
    loss_of_unknown,
    lost,
    plan_of,
    ranges_between,
    read_offset,
    share,
    unknown,
)
from tidings.spark.live.progress import QueryLag, query_lag
from tidings.spark.live.starts import Start, check_come, check_span, first_offset, last_offset, read_start

MARKS = (Mark("desk", 5, 17), Mark("floor", 0, 4))

widths = st.lists(st.integers(1, 50), max_size=8)


def found(*marks: Mark, unreachable: tuple[str, ...] = (), absent: tuple[str, ...] = ()) -> Marks:
    """By brokers that remember an hour."""
    return Marks(marks, (), unreachable, ("a",), absent, 3600.0)


def test_latest_is_where_every_publisher_is_now_and_the_time_for_those_who_come_later() -> None:
    wanted = Offset(100.0, {"desk": 17, "floor": 4}, is_first=True, seen=100.0)
    assert first_offset(Start("latest"), MARKS, 100.0) == wanted


def test_earliest_is_where_brokers_begin_to_store_for_each_publisher() -> None:
    wanted = Offset(0.0, {"desk": 5, "floor": 0}, is_first=True, seen=100.0, behind=["desk", "floor"])
    assert first_offset(Start("earliest"), MARKS, 100.0) == wanted


def test_each_publisher_can_begin_elsewhere_and_is_named_with_or_without_its_life() -> None:
    marks = (Mark("desk~k3", 5, 17), Mark("desk~v9", 0, 3), Mark("floor", 2, 4), Mark("hall", 1, 9))
    start = read_start("startingOffsets", '{"desk~k3": 7, "desk": -1, "floor": "earliest", "gone": 12}')
    begin = first_offset(start, marks, 100.0)
    assert begin.after == {"desk~k3": 7, "desk~v9": 3, "floor": 2, "hall": 1, "gone": 12}
    assert lost(begin, found(*marks), begin.behind, begin.seen, 100.0) == ["gone"]


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
        ('{"desk": 3, "floor": -2}', Start("publishers", numbers={"desk": 3, "floor": "earliest"})),
    ],
)
def test_a_beginning_is_a_word_a_time_an_offset_or_a_number_for_each(text: str, start: Start) -> None:
    assert read_start("startingOffsets", text) == start


@pytest.mark.parametrize("text", ["soon", "{", '{"after": 3}', '{"desk": -3}', '{"desk": "soon"}', '{"desk": 2.5}'])
def test_any_other_beginning_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(UsageError, match=r"option startingOffsets: .*write"):
        read_start("startingOffsets", text)


@pytest.mark.parametrize("text", ["1794797198500", "nan", "inf", "-5"])
def test_a_time_that_cannot_be_meant_is_refused(text: str) -> None:
    """Nothing would ever be read, or all of it, and nothing would say so."""
    with pytest.raises(UsageError, match=r"option startingOffsets: .* is no time in seconds since 1970; of milli"):
        read_start("startingOffsets", text)


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        ("latest", "latest", 'startingOffsets: a batch read that begins at "latest" has nothing to read; leave'),
        ("earliest", "earliest", 'endingOffsets: nothing lies before "earliest"'),
        ("60", "1970-01-01T00:00:50Z", "endingOffsets: it is 10 s before startingOffsets"),
        ('{"desk": 9}', '{"desk": 8}', "endingOffsets: desk ends at 8 and begins at 9"),
        ('{"after": {"desk": 9}}', '{"after": {"desk": 8}}', "endingOffsets: desk ends at 8 and begins at 9"),
    ],
)
def test_a_batch_read_of_nothing_is_refused(start: str, end: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_span(read_start("startingOffsets", start), read_start("endingOffsets", end))
    check_span(read_start("startingOffsets", '{"desk": 8, "floor": -2}'), read_start("endingOffsets", '{"desk": 9}'))
    check_span(None, None)


def test_whoever_begins_behind_what_a_publisher_has_come_to_is_told() -> None:
    marks = (Mark("desk~k3", 5, 17), Mark("floor", 2, 4))
    for text in ('{"desk": 18}', '{"desk~k3": 18}', '{"desk": -1, "floor": 5}'):
        start = read_start("startingOffsets", text)
        with pytest.raises(DataLoss, match=r"has come to .* would be passed over; give a number"):
            check_come(start, marks, True)
        check_come(start, marks, False)
    # Of those nobody knows, it is told elsewhere.
    check_come(read_start("startingOffsets", '{"desk": 17, "gone": 3}'), marks, True)


def test_a_batch_ends_where_it_is_told_and_not_behind_what_is_there() -> None:
    reached = {"desk": 17, "floor": 4}
    assert last_offset(None, reached, MARKS, True) == reached
    assert last_offset(read_start("endingOffsets", '{"desk": 9, "floor": -1}'), reached, MARKS, True) == {
        "desk": 9,
        "floor": 4,
    }
    for text in ('{"desk": 18}', '{"gone": 1}', '{"after": {"desk": 18}}'):
        end = read_start("endingOffsets", text)
        with pytest.raises(DataLoss, match=r"has come to .* not to .*; name a publisher"):
            last_offset(end, reached, MARKS, True)
    assert last_offset(read_start("endingOffsets", '{"desk": 18}'), reached, MARKS, False) == {"desk": 17}


def test_nobody_goes_back_and_whoever_cannot_be_asked_stays() -> None:
    start = Offset(9.0, {"desk": 20, "gone": 3})
    assert last_numbers(start, MARKS) == {"desk": 20, "gone": 3, "floor": 4}


def test_a_publisher_that_has_nothing_stored_is_no_news() -> None:
    assert last_numbers(Offset(0.0), [Mark("idle", 12, 12)]) == {}


def test_the_end_of_a_batch_says_where_it_began_for_whoever_is_new_in_it() -> None:
    start = Offset(9.0, {"desk": 17}, is_first=True)
    first = advance(start, {"desk": 18, "floor": 4}, {"floor": 2}, seen=10.0, behind=["floor"])
    assert first == Offset(9.0, {"desk": 18, "floor": 4}, begun={"desk": 17, "floor": 2}, seen=10.0, behind=["floor"])
    later = advance(first, {"desk": 19, "floor": 4, "hall": 8}, {"hall": 7}, seen=11.0)
    assert later == Offset(9.0, {"desk": 19, "floor": 4, "hall": 8}, begun={"hall": 7}, seen=11.0)
    assert advance(later, {"desk": 20, "floor": 4, "hall": 8}, seen=12.0).begun is None


def test_a_first_batch_that_is_repeated_does_not_believe_a_beginning_that_moved() -> None:
    first = advance(Offset(9.0, {"desk": 17}, is_first=True), {"desk": 18, "floor": 4}, {"floor": 0})
    moved = Offset(12.0, {"desk": 25, "floor": 9}, is_first=True)
    assert ranges_between(moved, first) == [Range("desk", 17, 9.0, 18), Range("floor", 0, 9.0, 4)]


def test_a_later_batch_that_is_repeated_begins_where_it_did_for_a_publisher_that_was_new() -> None:
    start = Offset(0.0, {"desk": 17})
    end = advance(start, {"desk": 18, "hall": 8}, {"hall": 3})
    assert ranges_between(start, end) == [Range("desk", 17, 0.0, 18), Range("hall", 3, 0.0, 8)]


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


def test_a_publisher_that_no_broker_knows_has_lost_nothing_if_it_was_read_and_brokers_remember_so_long() -> None:
    start = Offset(0.0, {"desk": 17, "gone": 3}, seen=1000.0)
    there = found(Mark("desk", 5, 17))
    assert unknown(start, there) == ["gone"]
    assert lost(start, there, [], 1000.0, 4600.0) == []
    assert lost(start, there, [], 1000.0, 4601.0) == ["gone"]
    assert lost(start, there, ["gone"], 1000.0, 1001.0) == ["gone"]


def test_nothing_is_concluded_from_who_is_unknown_while_somebody_cannot_be_asked() -> None:
    start = Offset(0.0, {"desk": 17, "gone": 3}, seen=1000.0)
    assert lost(start, found(Mark("desk", 5, 17), absent=("b",)), ["gone"], 1000.0, 9000.0) == []
    assert lost(start, found(Mark("desk", 5, 17), unreachable=("gone",)), ["gone"], 1000.0, 9000.0) == []


def test_who_is_named_in_an_offset_that_is_given_and_known_to_nobody_is_lost() -> None:
    start = first_offset(read_start("startingOffsets", '{"after": {"gone": 3}}'), MARKS, 5000.0)
    assert lost(start, found(*MARKS), start.behind, start.seen, 5000.0) == ["gone"]
    assert re.search(r"no broker knows anything of 1 publishers .*gone.*failOnDataLoss", str(loss_of_unknown(["gone"])))


def test_a_position_shrinks_by_who_is_dropped() -> None:
    start = Offset(0.0, {"desk": 17, **{f"old{place}": 3 for place in range(1000)}})
    numbers = {name: number for name, number in last_numbers(start, MARKS).items() if not name.startswith("old")}
    assert advance(start, numbers).json()["after"] == {"desk": 17, "floor": 4}


def test_another_filter_or_schema_is_refused_with_what_to_do() -> None:
    end = advance(Offset(0.0), {"desk": 3}, plan=plan_of("x > 1", "a long"))
    kept = read_offset(json.loads(json.dumps(end.json())))
    check_plan(kept, plan_of("x > 1", "a long"))
    check_plan(Offset(0.0), plan_of("x > 2", "a long"))
    with pytest.raises(UsageError, match=r"the filter of this query changed .* former filter, or .* startingOffsets"):
        check_plan(kept, plan_of("x > 2", "a long"))
    with pytest.raises(UsageError, match="the filter and schema of this query changed"):
        check_plan(kept, plan_of("x > 2", "a double"))


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


def test_a_report_of_spark_says_how_far_a_query_is_behind_and_who_is_absent() -> None:
    def source(end: Offset, latest: dict[str, Any], rate: float | None) -> dict[str, Any]:
        rates = {"inputRowsPerSecond": rate, "processedRowsPerSecond": 50.0}
        return {
            "endOffset": msgspec.json.encode(end.json()).decode(),
            "latestOffset": latest,
            "numInputRows": 5,
            **rates,
        }

    latest = {"after": {"ann": 9, "bob": 4, "eve": 2}, "absent": ["b"]}
    ours = source(Offset(after={"ann": 5, "bob": 4}), latest, None)
    files = {"endOffset": '{"logOffset": 3}', "latestOffset": '{"logOffset": 7}', "numInputRows": 9}
    told = query_lag({"name": None, "id": "q", "batchId": 3, "sources": [ours, files]})
    behind = {"ann": 4, "bob": 0, "eve": 2}
    assert told == QueryLag("q", 3, behind, ["b"], rows=5, rows_per_second_in=0.0, rows_per_second_done=50.0)
    assert query_lag({"name": "files", "id": "q", "batchId": 3, "sources": [files]}) is None
