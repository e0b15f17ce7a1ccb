"""One Arrow batch of events in, one of matches out; nothing here knows of Spark.

The answer for a batch is a list column: the subscriptions of all events, one after the other, and where those of each
event begin. It is made of the slots that the index found, ascending, by taking each slot's subscription; no Python
object is made for a match. Subscriptions lie in the table of the index in ascending order, so the list of an event is
in ascending order too, whatever the index has learned from the events before it and whoever saw those.

A batch is answered in slices of so many rows that a slice fits into memory even if every event matches every
subscription.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidings.matching.index.answers import Events
from tidings.model.event import Event
from tidings.spark.matching.event_columns import check_values
from tidings.spark.matching.index_file import IndexedSubscriptions

ANSWER_BYTES_MAX = 1 << 30
"""What the lists of one slice may take up; an Arrow list counts in 32 bit."""

SUBSCRIPTIONS, MATCHES = "subscriptions", "matches"
"""The column of lists, and the column of counts."""


def match_batches(
    batches: Iterable[Any],
    subscriptions: IndexedSubscriptions,
    attributes: Sequence[str],
    keys: Sequence[str],
    *,
    counts_only: bool,
) -> Iterator[Any]:
    """Each batch holds the columns of the attributes, and behind them those of the keys; the first are named by
    `attributes`, the second get the names `keys`."""
    rows_max = max(1, ANSWER_BYTES_MAX // max(1, subscriptions.keys.nbytes))
    for batch in batches:
        events = events_of(batch, attributes)
        begin = 0
        for slots, offsets in subscriptions.index.match_slots(events, rows_max):
            rows = batch.slice(begin, len(offsets) - 1)
            begin += rows.num_rows
            answer = counts(offsets) if counts_only else lists(slots, offsets, subscriptions)
            columns = [*rows.columns[len(attributes) :], answer]
            yield pa.RecordBatch.from_arrays(columns, names=[*keys, MATCHES if counts_only else SUBSCRIPTIONS])


def events_of(batch: Any, attributes: Sequence[str]) -> Events:
    columns = dict(zip(attributes, batch.columns, strict=False))
    check_values(columns)
    # Arrow has no batch of rows without columns.
    return pa.RecordBatch.from_pydict(columns) if columns else [Event({})] * batch.num_rows


def counts(offsets: Any) -> Any:
    ends = pa.array(offsets, pa.int64())
    return pc.subtract(ends[1:], ends[:-1])


def lists(slots: Any, offsets: Any, subscriptions: IndexedSubscriptions) -> Any:
    kind = pa.list_(pa.field("element", subscriptions.keys.type, nullable=False))
    found = pc.take(subscriptions.keys, pa.array(slots, pa.int32()), boundscheck=False)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), found, kind)
