"""The decision tree: shape and sharing; and that it answers as a linear scan and the counting index do."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.properties.test_index import events, filters
from tidings.matching import Index, LinearScan
from tidings.matching.linear import DecisionTree, TreePlace
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse

TEXTS = [
    *("a = 1", "a = 1 AND b = 2", "a = 1 AND b = 2 AND c = 3", "b = 2", "b = 2 AND c = 3", "a > 1", "a > 1 OR b = 2"),
    *("TRUE", "FALSE", "EXISTS c", "NOT EXISTS a", "a IN (1, 3) AND c LIKE 'x%'", "LENGTH(b) > 1", "a = b", "c = TRUE"),
    *("a = '1'", "a = 1 OR (a = 1 AND b = 2)", "b >= 2 AND b < 3 AND LENGTH(c) < 2"),
]
some_filters = st.one_of(st.sampled_from([parse(text) for text in TEXTS]), filters)
keys = st.integers(0, 7)


@pytest.fixture
def tree() -> DecisionTree:
    tree = DecisionTree()
    for text in ("a = 1", "a = 1 AND b = 2", "b = 2", "TRUE"):
        tree.add(text, parse(text))
    tree.check()
    return tree


def test_an_event_follows_all_branches_that_it_satisfies(tree: DecisionTree) -> None:
    assert tree.match(Event({"a": 1, "b": 2})) == ["a = 1", "a = 1 AND b = 2", "b = 2", "TRUE"]
    assert tree.match(Event({"a": 1, "b": 3})) == ["a = 1", "TRUE"]
    assert tree.match(Event({"b": 2})) == ["b = 2", "TRUE"]
    assert tree.match(Event({})) == ["TRUE"]


def test_paths_with_a_common_beginning_share_it(tree: DecisionTree) -> None:
    first = tree.top
    assert isinstance(first, TreePlace)
    assert list(first.keys) == ["a = 1"]
    assert first.yes is not None
    assert list(first.yes.keys) == ["a = 1 AND b = 2"]
    assert first.either is not None
    assert list(first.either.keys) == ["b = 2"]
    assert len(tree.predicates) == 2


def test_what_nobody_asks_any_more_is_gone(tree: DecisionTree) -> None:
    for text in list(tree.filters):
        assert tree.discard(text)
        assert not tree.discard(text)
        tree.check()
    assert (tree.top, tree.predicates, tree.levels, len(tree)) == (None, {}, {}, 0)


def test_adding_a_key_again_replaces_its_filter_and_moves_it_to_the_end(tree: DecisionTree) -> None:
    tree.add("a = 1", parse("b = 2"))
    tree.check()
    assert tree.match(Event({"b": 2})) == ["b = 2", "TRUE", "a = 1"]


def test_links_come_in_the_order_in_which_they_were_first_added() -> None:
    tree = DecisionTree()
    for number, link in enumerate(("x", "y", "x", "z")):
        tree.add(number, parse("a = 1" if link == "x" else "b = 2"), link)
    tree.add(9, parse("TRUE"))
    assert tree.match_links([Event({"a": 1}), Event({"a": 1, "b": 2}), Event({})]) == [["x"], ["x", "y", "z"], []]
    tree.discard(1)
    assert tree.match_links([Event({"b": 2})]) == [["z"]]


class DecidingLikeAScan(RuleBasedStateMachine):
    """The tree, a linear scan and the counting index are given the same and asked the same."""

    def __init__(self) -> None:
        super().__init__()
        self.tree, self.scan, self.index = DecisionTree(), LinearScan(), Index(engine="plain")

    @rule(key=keys, filter=some_filters, link=st.sampled_from([None, "x", "y"]))
    def add(self, key: int, filter: Filter, link: str | None) -> None:
        matchers: tuple[Any, ...] = (self.tree, self.scan, self.index)
        for matcher in matchers:
            matcher.add(key, filter, link)

    @rule(key=keys)
    def discard(self, key: int) -> None:
        assert self.tree.discard(key) == self.scan.discard(key) == self.index.discard(key)

    @rule(some=st.lists(events, max_size=5))
    def ask(self, some: list[Event]) -> None:
        expected = self.scan.match_batch(some)
        assert self.tree.match_batch(some) == expected
        assert [sorted(found) for found in self.index.match_batch(some)] == [sorted(found) for found in expected]  # type: ignore[type-var]
        assert self.tree.match_links(some) == self.scan.match_links(some)

    def teardown(self) -> None:
        self.tree.check()
        assert len(self.tree) == len(self.scan)


TestDecidingLikeAScan = pytest.mark.spec("D-20")(DecidingLikeAScan.TestCase)
TestDecidingLikeAScan.settings = settings(stateful_step_count=8)
