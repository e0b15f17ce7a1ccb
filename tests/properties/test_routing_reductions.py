"""Reductions against asking everybody about everybody."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.small_world import events_of as world_events_of
from tests.properties.small_world import random_filter
from tests.worlds.routers import TEXTS, events_of, filter_of
from tidings.model.filter import Filter
from tidings.protocols.routing.covering import Covers
from tidings.protocols.routing.params import ReductionName, RoutingParams
from tidings.protocols.routing.reductions import make_reduction

seeds = st.integers(0, 2**32)

CONTEXT_TEXTS = (
    *("time > 'a'", "time > '2026'", "time LIKE '2%'", "EXISTS time", "id = ''", "id != 'a'", "id = 'b'", "type = 5"),
    *("EXISTS type", "type = 'quake'", "type = 'quake' AND time > '2026'", "source > 3", "source > 3 AND source < 4"),
)
"""Filters on attributes that may not have every value, so that an example is not easily found, or none exists."""


@pytest.mark.spec("D-19")
@given(seeds)
def test_asking_witnesses_first_finds_every_cover_and_everything_covered(seed: int) -> None:
    rng = Random(seed)
    made = [random_filter(rng, parts_max=rng.choice([1, 1, 2])) for _ in range(25)]
    made += [filter_of(text) for text in (*TEXTS, *CONTEXT_TEXTS)]
    filters = {filter.text(): filter for filter in rng.sample(made, 20)}
    covers = Covers()
    for text, filter in filters.items():
        covers.enter(text, filter)
    for filter in made:
        text = filter.text()
        others = {other: each for other, each in filters.items() if other != text}
        wider = {other for other, each in others.items() if each.covers(filter)}
        found = covers.find_cover(text, filter, filters)
        assert (found in wider) if wider else (found is None)
        assert set(covers.find_covered(text, filter, filters)) == {
            other for other, each in others.items() if filter.covers(each)
        }
    for text in filters:
        covers.leave(text)
    covers.check()
    assert not covers.filters and not covers.witnesses.by_value and not covers.witnesses.by_number


@pytest.mark.spec("D-19")
@pytest.mark.parametrize("name", ["plain", "covering", "merging"])
@given(seed=seeds)
def test_what_is_announced_covers_what_is_wanted_at_every_moment_and_nothing_else(
    name: ReductionName, seed: int
) -> None:
    rng = Random(seed)
    params = RoutingParams(reduction=name, merge_group_max=rng.choice([2, 4, 32]))
    covers = Covers()
    reduction = make_reduction(params, covers, lambda: ())
    wanted: dict[str, Filter] = {}
    announced: dict[str, Filter] = {}
    for _ in range(12):
        drawn = [random_filter(rng) for _ in range(rng.randrange(4))]
        new = [(filter.text(), filter) for filter in drawn]
        added = {text: filter for text, filter in new if text not in wanted}
        removed = [text for text in wanted if rng.random() < 0.25]
        more, less = reduction.change(added, removed)
        assert not more.keys() & announced.keys() and set(less) <= announced.keys() and not more.keys() & set(less)
        before = everything(wanted)
        announced.update(more)
        wanted = {text: filter for text, filter in {**wanted, **added}.items() if text not in removed}
        assert before | everything(wanted) == everything(announced) | before, "additions alone already suffice"
        for text in less:
            del announced[text]
        reduction.check(announced)
        assert everything(announced) == everything(wanted)
        if name != "plain":
            assert not any(a is not b and a.covers(b) for a in announced.values() for b in announced.values())
        for text, filter in wanted.items():
            stand_ins = reduction.stand_ins(text)
            assert set(stand_ins) <= announced.keys()
            assert not world_events_of(filter) & ~everything({each: announced[each] for each in stand_ins})
    if rng.random() < 0.5:
        more, less = reduction.change({}, list(wanted))
        assert not more and set(less) == announced.keys()
    reduction.clear()
    reduction.check(())
    assert not reduction.candidates and not covers.filters


def everything(filters: dict[str, Filter]) -> int:
    events = 0
    for filter in filters.values():
        events |= world_events_of(filter)
    return events


def test_the_texts_of_the_model_cover_meet_and_miss_each_other() -> None:
    pairs = [(events_of(a), events_of(b)) for a in TEXTS for b in TEXTS if a != b]
    assert any(a < b for a, b in pairs) and any(a == b for a, b in pairs) and any(not a & b for a, b in pairs)
