"""The golden scenarios of dynamic-topologies.md 3.15: exactly so many messages, and these tables."""

from typing import NamedTuple

import pytest

from tests.worlds.brokers import Edge
from tests.worlds.rewired import SET_UP, RewiredTree, golden_params
from tidings.protocols.routing.messages import SubscriptionAdded
from tidings.protocols.routing.params import RepairName
from tidings.protocols.routing.repairs.informed import read_digests
from tidings.protocols.routing.repairs.messages import Activate, PathEdit
from tidings.trace.writer import Writer

LINE = [("1", "2"), ("2", "3"), ("3", "4"), ("4", "5")]
FIGURE_5_4 = [("s", "a"), ("a", "c"), ("a", "b"), ("b", "d"), ("d", "e")]
FIGURE_5_5 = [("a", "e"), ("e", "f"), ("f", "c"), ("a", "b"), ("b", "g"), ("g", "d")]
STAR = [("c", "1"), ("c", "2"), ("c", "3"), ("c", "4")]
PATTERNS = {"p": "x = 1", "q": "x = 2"}


class Scenario(NamedTuple):
    edges: list[Edge]
    subscribers: list[tuple[str, str]]
    old: Edge
    new: Edge
    setup: int
    changed: str
    counts: dict[RepairName, dict[str, int]]


def messages(added: int, removed: int, **others: int) -> dict[str, int]:
    return {"SubscriptionAdded": added, "SubscriptionRemoved": removed, **others}


SCENARIOS = {
    "S1": Scenario(
        *(LINE, [("1", "p")], ("1", "2"), ("1", "5"), 4, "2345"),
        {
            "strawman": messages(4, 3),
            "timed": messages(5, 4),
            "notified": messages(5, 4, Flush=5),
            "informed": messages(4, 3, Flush=5, Activate=1),
            "path": messages(4, 3, PathEdit=4, Flush=3),
        },
    ),
    "S2": Scenario(
        *(FIGURE_5_4, [("s", "p")], ("a", "b"), ("c", "d"), 5, "bd"),
        {
            "strawman": messages(3, 2),
            "timed": messages(5, 4),
            "notified": messages(5, 4, Flush=5),
            "informed": messages(2, 1, Flush=5, Activate=2),
            "path": messages(2, 1, PathEdit=3, PathEdited=1, Flush=1),
        },
    ),
    "S3": Scenario(
        *(FIGURE_5_5, [("e", "p"), ("d", "p")], ("a", "b"), ("c", "d"), 10, "abcdefg"),
        {
            "strawman": messages(4, 3),
            "timed": messages(4, 3),
            "notified": messages(4, 3, Flush=7),
            "informed": messages(4, 3, Flush=7, Activate=2),
            "path": messages(1, 2, PathEdit=6, PathEdited=3, Flush=2),
        },
    ),
    "S4": Scenario(
        *(STAR, [("1", "p"), ("1", "q"), ("2", "p")], ("1", "c"), ("1", "2"), 10, "12c"),
        {
            "strawman": messages(6, 4),
            "timed": messages(5, 3),
            "notified": messages(5, 3, Flush=3),
            "informed": messages(4, 2, Flush=3, Activate=1),
            "path": messages(3, 2, PathEdit=2, Flush=3),
        },
    ),
}
COUNTED = ("SubscriptionAdded", "SubscriptionRemoved", "Flush", "Activate", "PathEdit", "PathEdited")
CASES = [(name, repair) for name, scenario in SCENARIOS.items() for repair in scenario.counts]


def played(
    scenario: Scenario, repair: RepairName, trace: Writer | None = None
) -> tuple[RewiredTree, dict[str, dict[str, set[str]]]]:
    """At the end, and the tables before the link was replaced."""
    tree = RewiredTree(scenario.edges, golden_params(repair=repair), trace=trace)
    for place, (name, pattern) in enumerate(scenario.subscribers):
        tree.want(SET_UP / 2 + place / 100, name, PATTERNS[pattern])
    tree.simulator.run(SET_UP)
    assert tree.sent.count()["SubscriptionAdded"] == scenario.setup
    before = tree.tables()
    tree.replace(SET_UP, scenario.old, scenario.new)
    tree.simulator.run(SET_UP + 1.0)
    return tree, before


@pytest.mark.spec("D-143")
@pytest.mark.parametrize(("name", "repair"), CASES)
def test_the_golden_scenarios_take_exactly_the_listed_messages(name: str, repair: RepairName) -> None:
    scenario = SCENARIOS[name]
    tree, before = played(scenario, repair)
    counts = tree.sent.count(since=SET_UP)
    assert {kind: counts[kind] for kind in COUNTED if counts[kind]} == scenario.counts[repair]
    assert tree.tables() == tree.right_tables()
    # A new neighbour that wants nothing is no entry: only who has other entries counts as changed.
    entries = {
        broker: {(to, text) for to, texts in table.items() for text in texts} for broker, table in before.items()
    }
    after = {
        broker: {(to, text) for to, texts in table.items() for text in texts} for broker, table in tree.tables().items()
    }
    assert "".join(sorted(broker for broker in after if after[broker] != entries[broker])) == scenario.changed


@pytest.mark.spec("D-143")
@pytest.mark.parametrize(("name", "patterns"), [("S1", 1), ("S2", 1), ("S3", 0), ("S4", 1)])
def test_the_patterns_that_need_not_be_told_are_as_many_as_listed(name: str, patterns: int) -> None:
    tree, _ = played(SCENARIOS[name], "informed")
    assert sum(len(read_digests(message.held_back)) for _, _, message in tree.sent.of(Activate)) == patterns


@pytest.mark.spec("D-143")
def test_in_the_third_scenario_edits_of_the_path_weigh_as_listed() -> None:
    tree, _ = played(SCENARIOS["S3"], "path")
    weights = [max(0.1, len(each.added) + len(each.removed)) for _, _, each in tree.sent.of(PathEdit)]
    assert sum(weights) == pytest.approx(5.2)


@pytest.mark.spec("D-65")
@pytest.mark.parametrize("repair", SCENARIOS["S3"].counts)
def test_of_figure_5_5_the_path_is_as_drawn_and_only_four_entries_are_added(repair: RepairName) -> None:
    """ab2, ab3, ab4 on the head, which lead to b's side, and ba3 at d. That e subscribes makes ab1 (from a to e)
    needless, and that d does, ba1 and ba2."""
    scenario = SCENARIOS["S3"]
    tree, before = played(scenario, repair)
    entries = [
        {(name, to, text) for name, table in tables.items() for to, texts in table.items() for text in texts}
        for tables in (before, tree.tables())
    ]
    pattern = PATTERNS["p"]
    assert entries[1] - entries[0] == {
        *(("e", "f", pattern), ("f", "c", pattern), ("c", "d", pattern)),
        ("d", "c", pattern),
    }
    path = tuple("aefcdgb")
    assert (*tree.way("a", "c"), *tree.way("d", "b")) == path
    assert {edit.path for _, _, edit in tree.sent.of(PathEdit)} == ({path} if repair == "path" else set())


@pytest.mark.spec("D-43")
def test_the_subscription_that_leads_nowhere_is_not_made_by_an_informed_repair() -> None:
    """Figure 6.4(a): d, which has the pattern from the side of a alone, does not tell c."""
    tree, _ = played(SCENARIOS["S2"], "informed")
    told = [(sender, to) for sender, to, _ in tree.sent.of(SubscriptionAdded, since=SET_UP)]
    assert sorted(told) == [("c", "d"), ("d", "b")]
