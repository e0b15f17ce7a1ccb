"""The setting of E1 to E8 of the dependable family, very small: what is published, owed, delivered and counted."""

from collections import Counter

import pytest

from tidings.lab.dependable.failover.failing_runs import FailingRun, OverheadRows, TreeSetting, run
from tidings.machine.streams import random_stream
from tidings.trace.record import Record
from tidings.workloads.failing_trees import FailingTree, clusters

SMALL = {"brokers": 16, "degree": 4, "begin": 8.0, "duration": 6.0, "event_rate": 1.0}


class Rows:
    def __init__(self) -> None:
        self.rows: list[Record] = []

    def write(self, record: Record) -> None:
        self.rows.append(record)

    def of(self, kind: str, message: str = "") -> list[Record]:
        return [row for row in self.rows if row.kind == kind and (not message or row.message == message)]


@pytest.mark.parametrize("failover", ["tree", "gossip", "random", "neighbourhood"])
def test_without_failures_every_system_delivers_what_is_owed(failover: str) -> None:
    rows = Rows()
    run("", {**SMALL, "failover": failover, "rate": 0.0}, 1, rows)  # type: ignore[arg-type]
    owed = {(row.key, row.node) for row in rows.of("note", "due")}
    came = Counter((row.key, row.node) for row in rows.of("deliver"))
    assert came.keys() == owed and owed
    assert {row.key for row in rows.of("publish")} >= {key for key, _ in owed}
    assert {row.message for row in rows.of("send")} == {"Publications"}


def test_a_broker_that_is_down_owes_what_its_client_would_get() -> None:
    """The denominator is the workload's, whoever is down (4.1)."""
    rows = Rows()
    measured = run("", {**SMALL, "failover": "tree", "rate": 0.3}, 1, rows)  # type: ignore[arg-type]
    whole = Rows()
    run("", {**SMALL, "failover": "tree", "rate": 0.0}, 1, whole)  # type: ignore[arg-type]
    due = sorted((row.key or "", row.node) for row in rows.of("note", "due"))
    assert due == sorted((row.key or "", row.node) for row in whole.of("note", "due"))
    assert measured["failed"] == 5.0 and len(rows.of("deliver")) < len(whole.of("deliver"))


def test_views_are_compared_with_the_best_there_are() -> None:
    rows = Rows()
    settings = {**SMALL, "brokers": 24, "siblings": 4, "rate": 0.0, "event_rate": 0.1, "compares_views": True}
    run("", settings, 1, rows)  # type: ignore[arg-type]
    assert rows.of("note", "view_compared") and rows.of("note", "cycle_ended")


def test_trees_keep_to_their_degree_and_clusters_are_branches() -> None:
    for is_balanced in (True, False):
        law = FailingTree(brokers=60, degree=5, is_balanced=is_balanced, failures="clustered", rate=0.2, seed=3)
        parents = law.parents()
        below = Counter(parents)
        assert all(below[place] + (place > 0) <= 5 for place in range(60))
        chosen = clusters(parents, 12, random_stream(1, "clusters"))
        adjacent = [place for place in chosen if parents[place] in chosen or any(parents[o] == place for o in chosen)]
        assert len(chosen) == 12 and 0 not in chosen and len(adjacent) >= 8
        names = [f"b{place}" for place in range(60)]
        assert law.absences(parents, names) == law.absences(parents, names) and len(law.absences(parents, names)) == 12


def test_who_fails_does_not_depend_on_the_system() -> None:
    made = [FailingRun(TreeSetting(brokers=30, failover=failover), 5) for failover in ("tree", "gossip")]
    assert made[0].absences == made[1].absences and made[0].parents == made[1].parents
    assert OverheadRows(Rows(), made[0].setting).period == 0.0  # type: ignore[arg-type]


def test_what_is_possible_lies_between_the_tree_and_what_both_ends_live_for() -> None:
    rows = Rows()
    measured = run("", {**SMALL, "brokers": 40, "failover": "tree", "rate": 0.3}, 3, rows)  # type: ignore[arg-type]
    assert measured["connected"] < measured["within delta"] <= measured["alive"] < 1.0
    owed, came = len(rows.of("note", "due")), len({(row.key, row.node) for row in rows.of("deliver")})
    # Links take a moment to come back when brokers do.
    assert 0.9 * measured["connected"] < came / owed <= measured["connected"]


def test_seeds_take_the_trees_of_the_source_by_turns() -> None:
    laws = [TreeSetting().law(seed) for seed in range(1, 33)]
    kinds = Counter((law.degree, law.is_balanced) for law in laws)
    assert len(kinds) == 8 and set(kinds.values()) == {4}
