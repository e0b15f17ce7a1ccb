"""Traces drawn at random in which anything may happen: the rows that metrics read, whole and broken, in any order.

There are few nodes, keys, times and numbers, so that equal times, repeats, deliveries without publication and
unanswered requests come up by themselves. A trace is drawn from its seed; each takes its rows mostly from what one
family reads.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tidings.pubsub.notes import NOTES
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.registry import FAMILIES
from tidings.spark.metrics.tables import DELIVERED, REROUTING, note_fields
from tidings.trace.record import Record

NODES = ["a", "b", "c", "d"]
KEYS = ["s 1", "s 2", "s 3", "t 1"]
TIMES = [0.0, 0.5, 1.0, 1.25, 2.0, 3.0, 7.0000005, 1e-07]

ROWS_MAX, DUE_MAX = 60, 10

Draw = Callable[[Random], Any]


def time(rng: Random) -> float:
    return rng.choice([rng.choice(TIMES), rng.uniform(0, 5000), rng.randrange(20_000_000) / 1_000_000])


def or_broken(draw: Draw, *others: Any) -> Draw:
    """Now and then nothing, or something of the wrong type."""
    return lambda rng: draw(rng) if rng.random() < 0.9 else rng.choice([None, *others])


def one_of(*values: Any) -> Draw:
    return lambda rng: rng.choice(values)


span = or_broken(lambda rng: rng.choice([time(rng), rng.randrange(9)]), "wrong", True)
count = or_broken(lambda rng: rng.choice([0, rng.randrange(6), rng.randrange(1, 10**9)]), "wrong", 2.5)
flag = or_broken(one_of(True, False), "wrong", 1)
name = or_broken(one_of("a", "b", "c"))
number = or_broken(lambda rng: rng.randrange(1, 7), "wrong")

BY_TYPE: dict[str, Draw] = {"DOUBLE": span, "BIGINT": count, "BOOLEAN": flag, "STRING": name}

FIELDS: dict[str, Draw] = {
    field: BY_TYPE[sql_type]
    for fields in (DELIVERED, REROUTING, *map(note_fields, NOTES.values()))
    for field, sql_type in fields.items()
} | {
    **dict.fromkeys(("number", "first", "last"), number),
    "subscription": one_of(1, 2, "x", None),
    "guarantee": one_of("installed", "reference", None),
    "via": one_of("tree", "direct", "batch", "gossip", None),
}
"""How the fields of rows are drawn: by their type, or so that some agree."""

REROUTING_MESSAGES = ("SubscriptionAdded", "SubscriptionRemoved", "Activate", "PathEdit", "Flush", "PathEdited")

SAID: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("publish", "Event"): (),
    ("deliver", "Event"): tuple(DELIVERED),
    ("deliver", "Confirmed"): (),
    ("send", "Publications"): (),
    ("send", None): (),
    ("receive", "Update"): (),
    ("receive", "Ping"): (),
    ("drop", "Publications"): (),
    **{(kind, message): tuple(REROUTING) for kind in ("send", "receive") for message in REROUTING_MESSAGES},
    **{("note", each): tuple(note_fields(kind)) for each, kind in NOTES.items()},
    ("note", "unknown"): (),
}
"""Which rows there are, and what they say."""

BROKEN = [None, "", "no json", "[1]", "7", '{"number":', '{"publisher":"a","number":1', '{"repaired":', "null"]


def rows_read(family: Family) -> list[tuple[str, str | None]]:
    return [each for each in SAID if any(each == (kind, message or each[1]) for kind, message in family.reads)]


def drawn_trace(seed: int) -> tuple[list[Record], list[tuple[str, str, str]]]:
    """The records of one run, and what is due in it."""
    rng, run, families = Random(seed), f"r{seed:05}", list(FAMILIES.values())
    kinds = [*rows_read(families[seed % len(families)]), *rng.sample(list(SAID), 2)]
    rows = [record(rng, run, kinds) for _ in range(rng.choice([0, 1, 10, rng.randrange(ROWS_MAX), ROWS_MAX]))]
    due = [(run, rng.choice(KEYS), rng.choice(NODES)) for _ in range(rng.randrange(DUE_MAX))]
    return rows, due if rng.random() < 0.7 else []


def record(rng: Random, run: str, kinds: list[tuple[str, str | None]]) -> Record:
    kind, message = rng.choice(kinds)
    fields = {each: FIELDS[each](rng) for each in SAID[kind, message] if rng.random() < 0.9}
    detail = json.dumps(fields) if fields else None
    return Record(
        run=run,
        seed=7,
        time=time(rng),
        node=rng.choice(NODES),
        kind=kind,  # type: ignore[arg-type]
        message=message,
        key=rng.choice([*KEYS, None]),
        size_bytes=rng.choice([None, rng.randrange(10**6)]),
        reason=rng.choice(["full", "late", None]) if kind == "drop" else None,
        detail=rng.choice(BROKEN) if rng.random() < 0.05 else detail,
    )
