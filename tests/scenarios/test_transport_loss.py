"""The whole transport on a network that loses, repeats and reorders on every link: how much arrives, and how.

A failure says the seed; `TIDINGS_SEED=7 pytest tests/scenarios/test_transport_loss.py` plays it again.
"""

import json
import os
from collections import Counter

import pytest

from tidings.lab.transport.recovery.loss import PATIENCE, Trouble, interests, play
from tidings.trace.writers import RingBuffer

SEED = int(os.environ.get("TIDINGS_SEED", "1"))
SECONDS = 8.0
LONG = pytest.mark.long

Pair = tuple[str, str]
"""Key of an event, and who wants or got it."""


def played(trouble: Trouble, seed: int = SEED) -> tuple[list[Pair], list[Pair]]:
    """What was due, and what was delivered in this order."""
    print(f"replay: TIDINGS_SEED={seed} pytest tests/scenarios/test_transport_loss.py")
    trace = RingBuffer(1_000_000, "run", seed)
    play(seed, trace, trouble, SECONDS).simulator.check()
    records = trace.records()
    wanted = interests(seed)
    due = [
        (str(record.key), subscriber)
        for record in records
        if record.kind == "publish"
        for subscriber, topic in wanted.items()
        if topic == json.loads(record.detail or "")["topic"]
    ]
    rows = [record for record in records if (record.kind, record.message) == ("deliver", "Event")]
    return due, [(str(record.key), record.node) for record in rows]


def inversions(delivered: list[Pair]) -> int:
    highest: dict[Pair, int] = {}
    found = 0
    for key, subscriber in delivered:
        publisher, number = key.split()
        before = highest.get((publisher, subscriber), -1)
        found += int(number) < before
        highest[publisher, subscriber] = max(before, int(number))
    return found


@pytest.mark.parametrize(
    ("loss", "share"),
    [(0.01, 1.0), pytest.param(0.05, 1.0, marks=LONG), pytest.param(0.1, 0.999, marks=LONG), (0.2, 0.99)],
)
def test_nearly_everything_is_delivered_whatever_links_lose(loss: float, share: float) -> None:
    missed, all_due = 0, 0
    for seed in range(SEED, SEED + 3):
        due, delivered = played(Trouble(loss=loss), seed)
        assert max(Counter(delivered).values()) == 1
        assert not set(delivered) - set(due)
        missed, all_due = missed + len(set(due) - set(delivered)), all_due + len(due)
    assert 1 - missed / all_due >= share


def test_without_recovery_much_of_it_is_missed() -> None:
    due, delivered = played(Trouble(loss=0.05, is_recovered=False))
    assert len(set(delivered)) < 0.95 * len(due)


def test_links_that_repeat_and_reorder_a_tenth_are_not_noticed() -> None:
    due, delivered = played(Trouble(duplication=0.1, reordering=0.1, patience=PATIENCE))
    assert sorted(delivered) == sorted(due)
    assert inversions(delivered) == 0


def test_the_trouble_is_there() -> None:
    trouble = Trouble(duplication=0.1, reordering=0.1, is_recovered=False)
    due, delivered = played(trouble)
    assert inversions(delivered) > 0
    assert sorted(delivered) == sorted(due), "the session tells what comes twice, whatever the order"
    counters = play(SEED, RingBuffer(1, "run", SEED), trouble, SECONDS).simulator.counters()
    assert counters.duplicated > len(due) / 10
