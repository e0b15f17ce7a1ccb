"""Load and drops of brokers while they run, from what they count themselves, without a trace.

    counts = spark.readStream.format("tidings-brokers").option("url", ...).load()
    load_table(counts, "loads").writeStream...

    loads       broker            sent, received, delivered, dropped, load
    drops       broker, reason    drops

The twins of `nodes` and `drops` of a trace (`live.py`): each is the sum of all that a broker has said it counted since
the one before (`spark/live/counters.py`), so in the end it is what the broker's own counters say. Sums do not depend on
where micro-batches part.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.model.errors import UsageError
from tidings.spark.metrics.live import LONG, TEXT, LiveTable, Row, kept_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNTED_KINDS = ("sent", "received", "delivered", "dropped")


class CountedState(msgspec.Struct):
    counts: dict[str, int] = {}


def fold_loads(state: CountedState, rows: Iterable[Row]) -> dict[str, Any]:
    for row in rows:
        state.counts[row["kind"]] = state.counts.get(row["kind"], 0) + row["count"]
    found = {kind: state.counts.get(kind, 0) for kind in COUNTED_KINDS}
    return {**found, "load": found["sent"] + found["received"]}


def fold_drops(state: CountedState, rows: Iterable[Row]) -> dict[str, Any]:
    return {"drops": fold_loads(state, rows)["dropped"]}


LOAD_TABLES = {
    "loads": LiveTable(
        "What each broker sent, received, delivered and dropped since it started.",
        "TRUE",
        {"broker": TEXT},
        {"kind": "kind", "count": "count"},
        dict.fromkeys((*COUNTED_KINDS, "load"), LONG),
        CountedState,
        fold_loads,
    ),
    "drops": LiveTable(
        "What each broker gave up, by reason.",
        "kind = 'dropped'",
        {"broker": TEXT, "reason": TEXT},
        {"kind": "kind", "count": "count"},
        {"drops": LONG},
        CountedState,
        fold_drops,
    ),
}


def load_table(counts: "DataFrame", name: str) -> "DataFrame":
    """A table of a stream of the format "tidings-brokers": a row for each key that has changed."""
    if name not in LOAD_TABLES:
        raise UsageError(f"there is no table {name!r} of brokers; there are {', '.join(LOAD_TABLES)}")
    table = LOAD_TABLES[name]
    return kept_up(counts.where(table.where).select(*table.keys, *table.rows), table)
