"""An index that was saved and loaded is the index that was saved."""

from io import BytesIO
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ordering import in_order
from tests.properties.test_index import TINY, events, filters
from tidings.matching import Index
from tidings.matching.index.archive import load_index, save_index
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse


def copied(index: Index) -> Index:
    file = BytesIO()
    save_index(index, file)
    file.seek(0)
    return load_index(file)


@given(
    size=st.sampled_from(sorted(TINY)),
    wanted=st.lists(filters, max_size=25),
    discarded=st.sets(st.integers(0, 24)),
    seen=st.lists(events, max_size=8),
    asked=st.lists(events, max_size=8),
    later=st.lists(filters, max_size=10),
)
def test_a_loaded_index_answers_and_changes_as_the_saved_one(
    size: str, wanted: list[Filter], discarded: set[int], seen: list[Event], asked: list[Event], later: list[Filter]
) -> None:
    index = Index("fast", TINY[size])
    index.add_many(enumerate(wanted))
    index.match_batch(seen)
    for key in sorted(discarded):
        index.discard(key)
    loaded = copied(index)
    loaded.check()
    assert loaded.describe()["records"] == index.describe()["records"]
    assert list(loaded.match_batch(asked)) == list(index.match_batch(asked))
    for one in (index, loaded):
        one.add_many(enumerate(later, 20))
        for key in range(0, 30, 3):
            one.discard(key)
    loaded.check()
    expected = [in_order(found) for found in index.match_batch(asked)]
    assert [in_order(found) for found in loaded.match_batch(asked)] == expected
    assert [in_order(found) for found in copied(loaded).match_batch(asked)] == expected


@given(wanted=st.lists(filters, max_size=25), asked=st.lists(events, max_size=8))
def test_slots_of_an_event_are_those_of_its_keys_in_ascending_order(wanted: list[Filter], asked: list[Event]) -> None:
    for engine in ("fast", "plain"):
        index = Index(engine)
        index.add_many(enumerate(wanted))
        answers = list(index.match_slots(asked, 3))
        found = [list(slots[begin:end]) for slots, offsets in answers for begin, end in pairwise(offsets)]
        assert found == [in_order(keys) for keys in index.match_batch(asked)]


def test_an_index_with_links_other_keys_or_the_plain_engine_is_not_saved() -> None:
    with pytest.raises(UsageError, match="engine 'plain' cannot be saved"):
        save_index(Index("plain"), BytesIO())
    for key, link in ((1, "north"), ("name", None)):
        index = Index("fast")
        index.add(key, parse("x > 1"), link)
        with pytest.raises(UsageError, match="integers and no filter was added for a link"):
            save_index(index, BytesIO())


def test_a_saved_index_that_is_cut_short_is_refused() -> None:
    index, file = Index("fast"), BytesIO()
    index.add(1, parse("x > 1"))
    save_index(index, file)
    for length in (4, 200, len(file.getvalue()) - 1):
        with pytest.raises(UsageError, match="cut short"):
            load_index(BytesIO(file.getvalue()[:length]))


def test_a_damaged_index_is_refused_before_anything_is_made_of_it() -> None:
    index = Index("fast")
    for key in range(50):
        index.add(key, parse(f"x > {key} AND name = 'n{key % 7}' AND text LIKE 'a%{key}'"))
    file = BytesIO()
    save_index(index, file)
    data = file.getvalue()
    for place in range(0, len(data), max(1, len(data) // 400)):
        damaged = bytearray(data)
        damaged[place] ^= 0x55
        with pytest.raises(UsageError):
            load_index(BytesIO(bytes(damaged)))
    assert load_index(BytesIO(data)).match(Event({"x": 60, "name": "n1", "text": "ab8"})) == [8]
