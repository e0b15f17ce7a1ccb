"""Metrics while a run goes on: tables that Spark keeps up to date, micro-batch by micro-batch.

    trace = spark.readStream.format("tidings-trace").load("traces")
    live_table(trace, "pairs").where("holes > 0").writeStream...

Each is the streaming twin of a metric of a whole trace, and the same in the end:

    pairs      run, publisher, node, subscription    arrived, fifo_violations, holes         fifo_violations, holes
    nodes      run, node                             sent, received, dropped, load, ...      load, sent_messages
    drops      run, node, reason                     drops                                   drops
    latency    run                                   timed, latency_mean, p50, p95, p99, max latency

`transformWithState` keeps a state for each key and calls us with the rows of a micro-batch; what we answer are the rows
that have changed, appended to what was said before. A call for a state goes through a socket, so it is one value,
read and written once in a micro-batch, whatever it is made of: bytes, which `fold` turns into the next. A fold knows
nothing of Spark.

**What must be kept, and its bounds.** A *hole* is a number between the lowest and the highest that came, which did not;
of a subscription that takes all of a publisher it is a loss, of any other it may be an event that did not match. Holes
are kept by number, `HOLES_MAX` of a pair; more are counted as holes for good (`holes_settled`). To know a latency, a
publication and the first delivery at each node must be brought together; they come from different nodes, in any order.
The latest `OPEN_EVENTS_MAX` events of a run are kept open, with `OPEN_DELIVERIES_MAX` deliveries in all; older ones are
settled, and deliveries of these that come later are counted (`too_late`) and no more.

Rows of one node must come in the order of their times, as one writer writes them; it is the order of events at a node
that is judged. Rows of different nodes may come in any order. Where micro-batches part makes no difference, also in the
middle of an instant: rows of one instant have no order among themselves, and are compared with earlier instants only.

What a network without traces tells is in `stored.py` and `loads.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil, floor
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tidings.model.errors import UsageError
from tidings.spark.metrics.tables import (
    DELIVERED,
    DIGITS,
    HUNDRED,
    IS_DELIVER,
    MILLION,
    fields_of,
    with_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOLES_MAX = 10_000
OPEN_EVENTS_MAX = 20_000
OPEN_DELIVERIES_MAX = 200_000
"""Some 10 MB of state, which is written in each micro-batch."""

Row = Mapping[str, Any]


class PairState(msgspec.Struct):
    arrived: int = 0
    violations: int = 0
    lowest: int | None = None
    highest: int | None = None
    instant_us: int = 0
    """Of the last rows."""
    highest_before: int | None = None
    """At earlier instants."""
    missing: set[int] = set()
    settled: int = 0
    """Holes that are not kept by number any more."""


def fold_pair(state: PairState, rows: Iterable[Row]) -> dict[str, Any]:
    """Deliveries of one publisher for one subscription, in the order in which they were handed over."""
    for row in rows:
        number = row["number"]
        state.arrived += 1
        if row["time_us"] != state.instant_us:
            state.instant_us, state.highest_before = row["time_us"], state.highest
        if state.highest is None or state.lowest is None:
            state.lowest = state.highest = number
            continue
        if state.highest_before is not None and number < state.highest_before:
            state.violations += 1
        # What a jump leaves out is a hole until it comes.
        if number > state.highest:
            add_holes(state, state.highest + 1, number)
            state.highest = number
        elif number < state.lowest:
            add_holes(state, number + 1, state.lowest)
            state.lowest = number
        else:
            state.missing.discard(number)
    holes = len(state.missing) + state.settled
    return {
        "arrived": state.arrived,
        "fifo_violations": state.violations,
        "holes": holes,
        "holes_settled": state.settled,
    }


def add_holes(state: PairState, begin: int, end: int) -> None:
    room = HOLES_MAX - len(state.missing)
    state.missing.update(range(begin, min(end, begin + room)))
    state.settled += max(0, end - begin - room)


class NodeState(msgspec.Struct):
    counts: dict[str, int] = {}


COUNTED = {"send": "sent", "receive": "received", "publish": "published", "deliver": "delivered", "drop": "dropped"}


def fold_node(state: NodeState, rows: Iterable[Row]) -> dict[str, Any]:
    for row in rows:
        name = COUNTED[row["kind"]]
        state.counts[name] = state.counts.get(name, 0) + 1
    found = {name: state.counts.get(name, 0) for name in COUNTED.values()}
    return {**found, "load": found["sent"] + found["received"]}


class DropState(msgspec.Struct):
    drops: int = 0


def fold_drops(state: DropState, rows: Iterable[Row]) -> dict[str, Any]:
    state.drops += sum(1 for _ in rows)
    return {"drops": state.drops}


class OpenEvent(msgspec.Struct, array_like=True):
    published_us: int | None = None
    delivered_us: dict[str, int] = {}
    """The first time at each node."""

    def latencies(self) -> Iterator[int]:
        if self.published_us is not None:
            yield from (at - self.published_us for at in self.delivered_us.values())


class LatencyState(msgspec.Struct):
    open: dict[str, OpenEvent] = {}
    """By key, oldest first."""
    open_deliveries: int = 0
    settled: dict[int, int] = {}
    """How often each latency came, cut to four digits, of events that are not open any more."""
    settled_sum_us: int = 0
    settled_max_us: int | None = None
    settled_keys: dict[str, None] = {}
    """The latest that were settled: what comes of these comes too late."""
    too_late: int = 0


def fold_latency(state: LatencyState, rows: Iterable[Row]) -> dict[str, Any]:
    for row in rows:
        key = row["key"]
        if key in state.settled_keys:
            state.too_late += row["kind"] == "deliver"
            continue
        event = state.open.setdefault(key, OpenEvent())
        if row["kind"] == "publish":
            event.published_us = min(
                row["time_us"], event.published_us if event.published_us is not None else row["time_us"]
            )
        else:
            state.open_deliveries += row["node"] not in event.delivered_us
            event.delivered_us[row["node"]] = min(row["time_us"], event.delivered_us.get(row["node"], row["time_us"]))
    while len(state.open) > OPEN_EVENTS_MAX or (state.open_deliveries > OPEN_DELIVERIES_MAX and len(state.open) > 1):
        settle(state)
    return latency_row(state)


def settle(state: LatencyState) -> None:
    """The oldest event."""
    key = next(iter(state.open))
    event = state.open.pop(key)
    state.open_deliveries -= len(event.delivered_us)
    for latency in event.latencies():
        state.settled[cut_value(latency)] = state.settled.get(cut_value(latency), 0) + 1
        state.settled_sum_us += latency
        state.settled_max_us = latency if state.settled_max_us is None else max(latency, state.settled_max_us)
    state.settled_keys[key] = None
    if len(state.settled_keys) > OPEN_EVENTS_MAX:
        del state.settled_keys[next(iter(state.settled_keys))]


def latency_row(state: LatencyState) -> dict[str, Any]:
    counts, total, largest = dict(state.settled), state.settled_sum_us, state.settled_max_us
    for event in state.open.values():
        for latency in event.latencies():
            counts[cut_value(latency)] = counts.get(cut_value(latency), 0) + 1
            total, largest = total + latency, latency if largest is None else max(latency, largest)
    return {**spread_row(counts, total, largest), "open_events": len(state.open), "too_late": state.too_late}


def spread_row(counts: Mapping[int, int], total_us: int, largest_us: int | None) -> dict[str, Any]:
    """Of latencies, each with how often it came."""
    timed = sum(counts.values())
    in_order = sorted(counts.items())
    return {
        "timed": timed,
        "latency_mean": total_us / timed / MILLION if timed else None,
        **{
            f"latency_p{per_cent}": in_seconds(percentile_of(in_order, per_cent / HUNDRED)) for per_cent in (50, 95, 99)
        },
        "latency_max": in_seconds(largest_us),
    }


def cut_value(value: int) -> int:
    """As `tables.cut` does it."""
    power: int = 10 ** max(0, len(str(abs(value))) - DIGITS)
    return abs(value) // power * power * (1 if value >= 0 else -1)


def percentile_of(counts: list[tuple[int, int]], share: float) -> float | None:
    """Of values with how often each is there, in order; interpolated, as `tables.percentiles` does it."""
    total = sum(count for _, count in counts)
    if not total:
        return None
    place = (total - 1) * share
    low, high = value_at(counts, floor(place)), value_at(counts, ceil(place))
    return floor((low + (place - floor(place)) * (high - low)) * HUNDRED + 0.5) / HUNDRED


def value_at(counts: list[tuple[int, int]], place: int) -> int:
    for value, count in counts:
        if place < count:
            return value
        place -= count
    raise AssertionError("no such place")


def in_seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / MILLION


class LiveTable(NamedTuple):
    about: str
    where: str
    """Which rows of a trace it reads."""
    keys: dict[str, str]
    rows: dict[str, str]
    """What a fold sees of a row, as SQL; in the order by which rows of a micro-batch are sorted."""
    values: dict[str, str]
    state: type[msgspec.Struct]
    fold: Callable[[Any, Iterable[Row]], dict[str, Any]]


LONG, DOUBLE, TEXT = "BIGINT", "DOUBLE", "STRING"
SPREAD = {
    "timed": LONG,
    **dict.fromkeys(("latency_mean", "latency_p50", "latency_p95", "latency_p99", "latency_max"), DOUBLE),
}
OF_PAIR = {"publisher": TEXT, "node": TEXT, "subscription": TEXT}

LIVE_TABLES = {
    "pairs": LiveTable(
        "Order and holes of each publisher at each subscription.",
        f"{IS_DELIVER} AND message = 'Event' AND said.publisher IS NOT NULL AND said.number IS NOT NULL",
        {"run": TEXT, **OF_PAIR},
        {"time_us": "time_us", "number": "number"},
        dict.fromkeys(("arrived", "fifo_violations", "holes", "holes_settled"), LONG),
        PairState,
        fold_pair,
    ),
    "nodes": LiveTable(
        "What each node sent, received, published, delivered and dropped.",
        f"kind IN ({', '.join(repr(kind) for kind in ('send', 'receive', 'drop'))}) "
        f"OR (kind IN ('publish', 'deliver') AND message = 'Event')",
        {"run": TEXT, "node": TEXT},
        {"time_us": "time_us", "kind": "kind"},
        dict.fromkeys((*COUNTED.values(), "load"), LONG),
        NodeState,
        fold_node,
    ),
    "drops": LiveTable(
        "What each node gave up, by reason.",
        "kind = 'drop'",
        {"run": TEXT, "node": TEXT, "reason": TEXT},
        {"time_us": "time_us"},
        {"drops": LONG},
        DropState,
        fold_drops,
    ),
    "latency": LiveTable(
        "Seconds from publication to the first delivery at each node.",
        "kind IN ('publish', 'deliver') AND message = 'Event' AND key IS NOT NULL",
        {"run": TEXT},
        {"time_us": "time_us", "kind": "kind", "key": "key", "node": "node"},
        {**SPREAD, "open_events": LONG, "too_late": LONG},
        LatencyState,
        fold_latency,
    ),
}

FIELDS = fields_of(DELIVERED, only="publisher number subscription")


def live_table(trace: "DataFrame", name: str) -> "DataFrame":
    """A table of this stream of a trace: its keys, its values, a row for each key that has changed."""
    if name not in LIVE_TABLES:
        raise UsageError(f"there is no live table {name!r}; there are {', '.join(LIVE_TABLES)}")
    table = LIVE_TABLES[name]
    told = with_fields(trace, FIELDS, IS_DELIVER, also=("reason",)).where(table.where)
    columns = [name if name not in DELIVERED else f"said.{name} AS {name}" for name in {**table.keys, **table.rows}]
    return kept_up(told.selectExpr(*columns), table)


def kept_up(rows: "DataFrame", table: LiveTable) -> "DataFrame":
    """The table of a stream that has the columns of its keys and rows."""
    from tidings.spark.metrics.state import Folding

    schema = ", ".join(f"`{name}` {kind}" for name, kind in {**table.keys, **table.values}.items())
    return rows.groupBy(*table.keys).transformWithStateInPandas(
        statefulProcessor=Folding(table), outputStructType=schema, outputMode="Append", timeMode="None"
    )
