"""Experiments on repairs, very small, against plain Python; and the cost model that they count by."""

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from tidings.lab.dynamic_topologies.repairs.rewired import REPAIRS, Setting, counted, run
from tidings.protocols.routing.messages import SubscriptionAdded, SubscriptionRemoved, TableChanges, TablesTold
from tidings.protocols.routing.repairs.messages import Activate, Flush, PathEdit, PathEdited
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer
from tidings.workloads.patterns import Patterns
from tidings.workloads.substitutions import substitutions

SMALL = {"dispatchers": 20, "symbols": 24}


def rows_of(repair: str, seed: int = 1, **parameters: Any) -> list[Record]:
    buffer = RingBuffer(100_000)
    run(repair, {"repair": repair, **SMALL, **parameters}, seed, buffer)
    return list(buffer.records())


def cost_of(rows: list[Record]) -> float:
    """Weighed messages of one reconfiguration (2.7)."""
    weight = 0.0
    for row in rows:
        if row.kind == "send":
            patterns = json.loads(row.detail or "{}").get("patterns")
            weight += 0.1 if row.message in ("Flush", "PathEdited") else 1.0 if patterns is None else max(0.1, patterns)
    return weight / len({row.detail for row in rows if row.kind == "note"})


@pytest.mark.spec("D-66")
def test_messages_count_as_many_filters_as_they_carry() -> None:
    changes = TableChanges(
        subscriptions_added=(SubscriptionAdded(0, "x = 1"), SubscriptionAdded(0, "x = 2")),
        subscriptions_removed=(SubscriptionRemoved(0, "x = 3"),),
    )
    assert Counter(name for name, _ in counted(changes)) == {"SubscriptionAdded": 2, "SubscriptionRemoved": 1}
    assert counted(Flush("r", "a")) == [("Flush", -1)] and counted(PathEdited("r", False)) == [("PathEdited", -1)]
    assert counted(Activate("r", "a", bytes(16), bytes(8))) == [("Activate", 3)]
    assert counted(PathEdit("r", ("a", "b"), 0, ("x = 1",), ("x = 1",))) == [("PathEdit", 2)]
    assert counted(TablesTold()) == []


@pytest.mark.spec("D-67")
@pytest.mark.parametrize(
    ("law", "density"),
    [
        ({"subscriber_density": 0.2}, 0.0988),
        ({"subscriber_density": 0.03}, 0.0148),
        ({"subscriber_density": 1.0}, 0.4941),
        ({"symbols": 400, "event_symbols": 40, "subscriber_density": 0.2}, 0.1013),
    ],
)
def test_an_event_has_as_many_receivers_as_the_formula_says(law: dict[str, Any], density: float) -> None:
    patterns = Patterns(dispatchers=1000, duration=3.0, **law)
    assert patterns.receiver_density == pytest.approx(density, abs=0.00006)
    wanted: dict[int, set[str]] = {}
    for row in patterns.subscriptions().rows():
        wanted.setdefault(int(row["place"]), set()).add(str(row["pattern"]))
    events = [set(str(row["symbols"])) for row in patterns.events().rows()][:1000]
    received = sum(1 for event in events for own in wanted.values() if own & event)
    assert received / len(events) / 1000 == pytest.approx(density, rel=0.03)


@pytest.mark.spec("D-68")
@pytest.mark.parametrize("repair", REPAIRS)
def test_what_clients_ask_for_is_not_counted(repair: str) -> None:
    rows = rows_of(repair)
    assert rows and all(row.time >= 3.0 for row in rows), "clients subscribe before links are replaced"
    assert not rows_of(repair, changes_rate=0.1)


def test_who_only_passes_signals_on_is_not_involved() -> None:
    """Of D-69 shape only: no events are published, so that none goes astray."""
    rows = rows_of("notified")
    receivers = {row.message for row in rows if row.kind == "receive"}
    assert receivers == {"SubscriptionAdded", "SubscriptionRemoved"} or receivers == {"SubscriptionAdded"}
    assert any(row.message == "Flush" for row in rows)


@pytest.mark.spec("D-9")
def test_the_same_seed_leaves_the_same_rows() -> None:
    assert rows_of("informed") == rows_of("informed") != rows_of("informed", seed=2)


@pytest.mark.spec("D-28")
def test_not_waiting_at_all_is_strawman_message_by_message() -> None:
    strawman, timed = rows_of("strawman", changes_rate=30.0), rows_of("timed", changes_rate=30.0, unsubscribe_after=0.0)
    assert strawman == timed


def test_repairs_save_what_they_are_for() -> None:
    costs = {repair: sum(cost_of(rows_of(repair, seed)) for seed in range(1, 6)) for repair in REPAIRS}
    # In so small a network waiting alone saves nothing.
    assert costs["informed"] < min(costs["timed"], costs["strawman"]) > costs["path"]


def test_substitutions_keep_the_tree_a_tree_and_degrees_bounded() -> None:
    edges = Setting(dispatchers=30).tree(seed=3)
    present = {frozenset(pair) for pair in edges}
    for each in substitutions(edges, [place / 10 for place in range(1, 200)], 0.05, seed=3):
        present = present - {frozenset(each.old)} | {frozenset(each.new)}
        way = (*each.head, *each.tail)
        inner = [frozenset(pair) for pair in pairwise(way)]
        assert len(present) == 29 and all(pair in present for pair in inner)
        degrees = Counter(end for pair in present for end in pair)
        assert max(degrees.values()) <= 4
