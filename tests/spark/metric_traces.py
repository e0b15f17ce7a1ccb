"""Traces drawn at random in which anything may happen: the rows that metrics read, whole and broken, in any order.

There are few nodes, keys, times and numbers, so that equal times, repeats, deliveries without publication and
unanswered requests come up by themselves. A trace is drawn from its seed; each takes its rows mostly from what one
family reads.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tidings.spark.metrics.family import Family
from tidings.spark.metrics.registry import FAMILIES
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

FIELDS: dict[str, Draw] = {
    **dict.fromkeys(("accepted_at", "latch", "hold", "rtt", "path", "direct", "gain", "seconds"), span),
    **dict.fromkeys(("model_seconds", "solve_seconds"), span),
    **dict.fromkeys(("hops", "size", "messages", "common", "optimal", "links", "local", "matches", "length"), count),
    **dict.fromkeys(("actions", "steps", "queue_before", "queue_after", "feeds", "covered", "roles"), count),
    **dict.fromkeys(("distinct", "patterns", "requests", "cycle"), count),
    **dict.fromkeys(("repaired", "late", "hit"), flag),
    **dict.fromkeys(("publisher", "group", "reconfiguration", "strategy"), name),
    "number": number,
    "subscription": one_of(1, 2, "x", None),
    "via": one_of("tree", "direct", "batch", "gossip", None),
}

REROUTING = ("SubscriptionAdded", "SubscriptionRemoved", "Activate", "Reconfigure", "Flush", "Reconfigured")

SAID: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("publish", "Event"): (),
    ("deliver", "Event"): (
        *("publisher", "number", "subscription", "accepted_at", "hops", "repaired", "via", "latch", "hold", "late"),
    ),
    ("deliver", "Confirmed"): (),
    ("send", "Publications"): (),
    ("send", None): (),
    ("receive", "Update"): (),
    ("receive", "Ping"): (),
    ("drop", "Publications"): (),
    **{(kind, message): ("reconfiguration", "patterns") for kind in ("send", "receive") for message in REROUTING},
    ("note", "receive"): ("publisher", "number", "subscription"),
    **{("note", each): () for each in ("loss_detected", "request", "repair", "suppress", "transmit", "withhold")},
    ("note", "cache"): ("hit", "size"),
    ("note", "loss_event"): ("publisher",),
    ("note", "feedback"): ("publisher",),
    ("note", "flow_row"): ("size",),
    ("note", "cycle"): ("cycle", "messages"),
    ("note", "view"): ("cycle", "common", "optimal"),
    ("note", "forwarded"): ("via", "links", "local", "gain", "publisher"),
    ("note", "gossip_in"): ("matches",),
    ("note", "queued"): ("length",),
    ("note", "planned"): ("model_seconds", "solve_seconds", "actions", "steps"),
    ("note", "executed"): ("seconds",),
    ("note", "shifted"): ("queue_before", "queue_after"),
    ("note", "acknowledged"): (),
    ("note", "released"): (),
    ("note", "promised"): ("subscription", "publisher", "number"),
    ("note", "twin"): ("group",),
    ("note", "rtt"): ("publisher", "rtt"),
    ("note", "path"): ("path", "direct"),
    ("note", "coverage"): ("feeds", "covered"),
    ("note", "neighbours"): ("roles", "distinct"),
    ("note", "link_end"): ("reconfiguration",),
    ("note", "misrouted"): ("reconfiguration",),
    ("note", "reattached"): ("seconds", "strategy", "requests"),
    ("note", "job_started"): (),
    ("note", "block_stored"): (),
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
