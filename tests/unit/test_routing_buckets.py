"""Tables cut into buckets: digests that are kept up change by change, summaries, and what a comparison finds."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.bounds import TABLE_BUCKETS, TABLE_SUMMARY_BYTES_MAX
from tidings.protocols.routing.buckets import (
    ENTRIES_EACH,
    TableBuckets,
    TableComparison,
    bucket_of,
    buckets_of,
    is_part,
)

names = st.integers(0, 40).map(lambda number: f"x = {number}")
said = st.sampled_from(["", "a", "b"])
changes = st.lists(st.tuples(st.booleans(), names, said), max_size=60)


def table_of(entries: dict[str, str]) -> TableBuckets:
    table = TableBuckets()
    for name, content in entries.items():
        table.put(name, content)
    return table


@given(changes)
def test_whatever_came_and_went_a_table_is_summed_up_by_what_is_in_it(changes: list[tuple[bool, str, str]]) -> None:
    table, entries = TableBuckets(), dict[str, str]()
    for is_there, name, content in changes:
        if is_there:
            table.put(name, content)
            entries[name] = content
        else:
            table.discard(name)
            entries.pop(name, None)
        table.check(entries)
    assert table.summary() == table_of(dict(sorted(entries.items()))).summary()
    assert (table.summary() == b"") == (not entries)


@given(st.dictionaries(names, said), st.dictionaries(names, said))
def test_the_parts_that_differ_are_those_with_a_difference(mine: dict[str, str], theirs: dict[str, str]) -> None:
    table, copy = table_of(mine), table_of(theirs)
    comparison = TableComparison(copy.summary())
    found = dict(comparison.pass_until(TABLE_BUCKETS, table))
    assert comparison.is_over
    differing = {name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)}
    expected = {bucket_of(name) * comparison.parts // TABLE_BUCKETS for name in differing}
    assert found.keys() == expected
    for part, is_there in found.items():
        assert is_there == bool(copy.names_of_part(part, comparison.parts))


def test_a_summary_is_as_long_as_its_table_is_large() -> None:
    sizes = {
        count: len(table_of({f"n{n}": "" for n in range(count)}).summary()) for count in (0, 1, 16, 17, 1000, 9000)
    }
    assert sizes == {0: 0, 1: 8, 16: 8, 17: 16, 1000: 512, 9000: 8192}
    assert ENTRIES_EACH * TABLE_BUCKETS > 50_000
    assert len(table_of({f"n{n}": "" for n in range(70_000)}).summary()) == TABLE_SUMMARY_BYTES_MAX


def test_what_was_told_ahead_makes_its_part_differ_though_the_digests_agree() -> None:
    table = table_of({"x = 1": ""})
    comparison = TableComparison(table.summary())
    assert comparison.is_ahead("x = 2") and comparison.is_removal_ahead("x = 2")
    comparison.tell_ahead("x = 2")
    assert not comparison.is_removal_ahead("x = 2")
    assert list(comparison.pass_until(TABLE_BUCKETS, table)) == [(0, True)]
    assert not comparison.is_ahead("x = 2")


@pytest.mark.parametrize("summary", [b"1", b"123456789", bytes(24), bytes(8 * 5000)])
def test_bytes_that_are_no_summary_are_taken_for_nothing(summary: bytes) -> None:
    table = table_of({f"n{n}": "" for n in range(10)})
    comparison = TableComparison(summary)
    parts = list(comparison.pass_until(TABLE_BUCKETS, table))
    assert not any(is_there for _, is_there in parts)
    told = [name for part, _ in parts for name in table.names_of_part(part, comparison.parts)]
    assert sorted(told) == sorted(f"n{n}" for n in range(10))


def test_parts_cut_a_table_evenly_and_in_order() -> None:
    rng = Random(1)
    for parts in (1, 2, 64, TABLE_BUCKETS):
        assert is_part(parts - 1, parts) and not is_part(parts, parts)
        assert [bucket for part in range(parts) for bucket in buckets_of(part, parts)] == list(range(TABLE_BUCKETS))
        bucket = rng.randrange(TABLE_BUCKETS)
        assert bucket in buckets_of(bucket * parts // TABLE_BUCKETS, parts)
    assert not is_part(0, 3) and not is_part(0, 2 * TABLE_BUCKETS)
