"""Tables after links were replaced up to 400 times a second, in time: each link of 100 dispatchers breaks four times.

Clients subscribe, unsubscribe and publish all the while. When everything has come to rest each table must be as if
computed by one who sees everything (INV-R2), whatever the repair.
"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worlds.brokers import random_tree
from tests.worlds.rewired import LINK_SET_UP, REPAIR_AFTER, SET_UP, WAIT, RewiredTree, golden_params
from tidings.model.event import Event
from tidings.protocols.overlay.scripted import rewiring
from tidings.protocols.routing.params import RepairName
from tidings.pubsub.requests import Publish
from tidings.workloads.substitutions import substitutions

PATTERNS = tuple(f"x = {number}" for number in range(8))
RATE = 400
SECONDS = 0.25
"""A hundred changes: in this time every link breaks once on the average."""


def played(seed: int, repair: RepairName, size: int, rate: int, **params: bool) -> RewiredTree:
    """The tree at rest, after everything."""
    rng = Random(seed)
    names = [f"d{place:03}" for place in range(size)]
    rng.shuffle(names)
    tree = RewiredTree(random_tree(names, rng), golden_params(repair=repair, **params), checking=False)
    for name in rng.sample(names, size // 5):
        for text in rng.sample(PATTERNS, 3):
            tree.want(SET_UP / 2, name, text)
    times = [SET_UP + place / rate for place in range(round(rate * SECONDS))]
    changes = substitutions(tree.edges, times, REPAIR_AFTER, seed, degree=size)
    assert len(changes) >= len(times) / 2, "not so many a second"
    present = {frozenset(edge) for edge in tree.edges}
    for number, change in enumerate(changes):
        present = present - {frozenset(change.old)} | {frozenset(change.new)}
        steps_at = change.broken_at, change.linked_at, change.linked_at + LINK_SET_UP
        for when, steps in zip(steps_at, rewiring(f"r{number}", change.head, change.tail), strict=True):
            for broker, request in steps:
                tree.simulator.inject(when, broker, request)
    tree.edges = [(min(edge), max(edge)) for edge in sorted(map(sorted, present))]
    last = times[-1] + REPAIR_AFTER + WAIT
    for at in sorted(rng.uniform(SET_UP, last) for _ in range(size)):
        name = rng.choice(names)
        held = [key for key in tree.wants if key[0] == name]
        match rng.randrange(3):
            case 0 if held:
                tree.unwant(at, *rng.choice(held))
            case 1:
                tree.simulator.inject(at, name, Publish(Event({"x": rng.randrange(8)})))
            case _:
                tree.want(at, name, rng.choice(PATTERNS))
    tree.simulator.run(last + 1.0)
    return tree


@pytest.mark.spec("D-25", "D-32", "D-45")
@pytest.mark.parametrize("repair", ["strawman", "timed", "notified", "informed"])
@settings(max_examples=2)
@given(st.integers(0, 2**32))
def test_tables_are_right_after_400_changes_a_second(repair: RepairName, seed: int) -> None:
    tree = played(seed, repair, size=100, rate=RATE)
    assert tree.tables() == tree.right_tables()
    assert not any(tree.router(name).tables.ghosts for name in tree.names)


@settings(max_examples=6)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["timed", "notified", "informed", "path"]),
    st.sampled_from([10, 40, 100]),
    st.booleans(),
)
def test_tables_are_right_after_changes_at_any_rate(seed: int, repair: RepairName, rate: int, is_tuned: bool) -> None:
    """RP, too, which its source does not allow to overlap: it waits then as TDU does."""
    tree = played(seed, repair, size=30, rate=rate, is_tuned=is_tuned)
    assert tree.tables() == tree.right_tables()
    for name in tree.names:
        tree.router(name).check()
