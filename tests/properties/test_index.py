"""Both engines of the index answer exactly what a linear scan answers, whatever is added and removed in between.

The values sit on and around each other (5, '5', '05', 5.0; neighbours of 2**53; strings that share beginnings), and
all sizes of the index are tiny, so that chunks split and join, links get and lose clusters of their own, and edges
are learned anew within a few steps.
"""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.conftest import EXAMPLES
from tests.ordering import in_order
from tidings.matching import Index, IndexParams, LinearScan
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.expression import Attribute, Compare, Literal
from tidings.model.sets.conjunction import Conjunction
from tidings.model.sets.constraint import Constraint, NumberSet, number_set
from tidings.model.sets.texts import TextSet
from tidings.model.values import Value

NAMES = ("a", "b", "c")
NUMBERS = (-7, -1.5, 0, 0.5, 1, 1.5, 2, 3, 5, 8.25, 100, 2**53, 2**53 + 1, 2**53 + 2, 2**62 + 1, -(2**53) - 1)
STRINGS = ("", "a", "ab", "abc", "abcd", "bcd", "xabc", "a_c", "5", "05", "1.5", "true", "FALSE", "9007199254740993")
PATTERNS = ("a%", "ab%", "%bc", "%bcd", "%abc%", "_b_", "%", "a\\_c", "%b%", "abc")
VALUES: tuple[Value, ...] = (*NUMBERS, *STRINGS, True, False)
TINY = {
    "usual": IndexParams(),
    "tiny": IndexParams(
        chunk_records=8,
        direct_records=2,
        block_records=8,
        waiting_filters=2,
        link_filters=4,
        own_links_max=2,
        learning_records=4,
        learning_events=2,
        memo_strings=3,
    ),
    "no rows": IndexParams(chunk_records=2, direct_records=2, block_records=2, link_filters=2, own_links_max=1),
}

intervals = st.tuples(st.sampled_from((-float("inf"), *NUMBERS)), st.sampled_from((*NUMBERS, float("inf"))))
number_sets = st.one_of(
    st.lists(intervals, min_size=1, max_size=3).map(number_set),
    st.lists(intervals, min_size=1, max_size=2).map(number_set).map(NumberSet.complement),
    st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3).map(lambda ns: number_set([(n, n) for n in ns])),
)


def sorted_texts(texts: tuple[str, ...], most: int) -> st.SearchStrategy[tuple[str, ...]]:
    return st.sets(st.sampled_from(texts), max_size=most).map(sorted).map(tuple)


text_sets = st.one_of(
    st.sets(st.sampled_from(STRINGS), max_size=3).map(sorted).map(tuple).map(lambda texts: TextSet(include=texts)),
    st.builds(
        TextSet,
        low=st.sampled_from(("", "", "a", "ab", "b")),
        high=st.sampled_from((None, None, "b", "x")),
        likes=sorted_texts(PATTERNS, 2),
        unlikes=sorted_texts(PATTERNS, 1),
        exclude=sorted_texts(STRINGS, 2),
    ),
)


def constraints(name: str) -> st.SearchStrategy[Constraint]:
    return st.one_of(
        st.builds(Constraint, st.just(name), number=number_sets),
        st.builds(Constraint, st.just(name), text=text_sets),
        st.builds(Constraint, st.just(name), truth=st.booleans()),
        st.builds(Constraint, st.just(name), present=st.booleans()),
        st.builds(Constraint, st.just(name), number=number_sets, text=text_sets),
    )


def conjunction_on(names: list[str]) -> st.SearchStrategy[Conjunction]:
    return st.tuples(*[constraints(name) for name in sorted(names)])


conjunctions = st.lists(st.sampled_from(NAMES), max_size=3, unique=True).flatmap(conjunction_on)
residuals = st.one_of(
    st.none(),
    st.none(),
    st.none(),
    st.builds(Compare, st.sampled_from(("<", "=")), st.just(Attribute("a")), st.just(Attribute("b"))),
    st.just(Compare("=", Attribute("a"), Literal(5))),
)
filters = st.builds(Filter, st.lists(conjunctions, max_size=3).map(tuple), residuals)
events = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=3).map(Event)
keys = st.one_of(st.integers(0, 40), st.sampled_from(("alice", "bob", 2**70)))
links = st.sampled_from((None, "north", "east", "south", "west"))


def column(values: list[Value | None], as_dictionary: bool) -> pa.Array:
    """An Arrow column of values of one kind."""
    array = pa.array(values)
    return array.dictionary_encode() if as_dictionary and pa.types.is_string(array.type) else array


columns = st.one_of(
    st.lists(st.sampled_from((None, *STRINGS)), min_size=5, max_size=5),
    st.lists(st.sampled_from((None, *[n for n in NUMBERS if isinstance(n, int)])), min_size=5, max_size=5),
    st.lists(st.sampled_from((None, 0.5, 1.5, 5.0, -1.5, 100.0)), min_size=5, max_size=5),
    st.lists(st.sampled_from((None, True, False)), min_size=5, max_size=5),
)


class IndexAgainstScan(RuleBasedStateMachine):
    @initialize(size=st.sampled_from(sorted(TINY)))
    def build(self, size: str) -> None:
        self.scan = LinearScan()
        self.indexes = [Index("plain", TINY[size]), Index("fast", TINY[size])]

    def each(self, call: Callable[[Index], object]) -> list[object]:
        return [call(index) for index in self.indexes]

    @rule(key=keys, filter=filters, link=links)
    def add(self, key: int | str, filter: Filter, link: str | None) -> None:
        self.scan.add(key, filter, link)
        self.each(lambda index: index.add(key, filter, link))

    @rule(entries=st.lists(st.tuples(keys, filters, links), max_size=25))
    def add_many(self, entries: list[tuple[int | str, Filter, str | None]]) -> None:
        for key, filter, link in entries:
            self.scan.add(key, filter, link)
        self.each(lambda index: index.add_many(entries))

    @rule(key=keys)
    def discard(self, key: int | str) -> None:
        expected = self.scan.discard(key)
        assert self.each(lambda index: index.discard(key)) == [expected] * 2

    @precondition(lambda self: len(self.scan) > 8)
    @rule(keys=st.sets(keys, min_size=10))
    def discard_many(self, keys: set[int | str]) -> None:
        for key in in_order(keys):
            self.discard(key)

    @rule(event=events)
    def match(self, event: Event) -> None:
        expected = in_order(self.scan.match(event))
        assert self.each(lambda index: in_order(index.match(event))) == [expected] * 2

    @rule(batch=st.lists(events, max_size=8))
    def match_batch(self, batch: list[Event]) -> None:
        expected = [in_order(found) for found in self.scan.match_batch(batch)]
        assert self.each(lambda index: [in_order(found) for found in index.match_batch(batch)]) == [expected] * 2

    @rule(batch=st.lists(events, max_size=8))
    def match_links(self, batch: list[Event]) -> None:
        expected = [set(found) for found in self.scan.match_links(batch)]
        first, second = (index.match_links(batch) for index in self.indexes)
        assert first == second
        for found, wanted in zip(first, expected, strict=True):
            assert len(found) == len(wanted) and set(found) == wanted

    @rule(table=st.dictionaries(st.sampled_from((*NAMES, "other")), columns, min_size=1), as_dictionary=st.booleans())
    def match_arrow(self, table: dict[str, list[Value | None]], as_dictionary: bool) -> None:
        batch = pa.record_batch({name: column(values, as_dictionary) for name, values in table.items()})
        rows = [Event({name: value for name, value in row.items() if value is not None}) for row in batch.to_pylist()]
        expected = [in_order(found) for found in self.scan.match_batch(rows)]
        assert self.each(lambda index: [in_order(found) for found in index.match_batch(batch)]) == [expected] * 2
        whole = pa.Table.from_batches([batch, batch])
        assert [in_order(found) for found in self.indexes[1].match_batch(whole)] == expected * 2
        assert self.each(lambda index: index.match_links(batch)) == [self.indexes[0].match_links(rows)] * 2

    @rule()
    def check(self) -> None:
        for index in self.indexes:
            index.check()
            assert len(index) == len(self.scan)
            assert all(key in index for key in self.scan.filters)


class TestIndexAgainstScan(IndexAgainstScan.TestCase):  # type: ignore[misc, valid-type]
    """A run is 25 steps, so fewer of them make as many cases as other properties have."""

    settings = settings(stateful_step_count=25, max_examples=max(25, EXAMPLES // 25))
    pytestmark = pytest.mark.timeout(0)
