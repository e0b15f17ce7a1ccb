"""One Arrow batch of events in, one of matches out; nothing here knows of Spark.

The answer for a batch is a list column: the subscriptions of all events, one after the other, and where those of each
event begin. It is made of the slots that the index found, ascending, by taking each slot's subscription; no Python
object is made for a match. Subscriptions lie in the table of the index in ascending order, so the list of an event is
in ascending order too, whatever the index has learned from the events before it and whoever saw those.

A batch whose answer might not fit into memory is cut into slices of so many rows that it fits even if every event
matches every subscription.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
    for batch in batches:
        for rows in slices(batch, subscriptions):
            yield match_rows(rows, subscriptions, attributes, keys, counts_only=counts_only)


def slices(batch: Any, subscriptions: IndexedSubscriptions) -> Iterator[Any]:
    rows_max = max(1, ANSWER_BYTES_MAX // max(1, subscriptions.keys.nbytes))
    for begin in range(0, batch.num_rows, rows_max):
        yield batch.slice(begin, rows_max)


def match_rows(
    batch: Any,
    subscriptions: IndexedSubscriptions,
    attributes: Sequence[str],
    keys: Sequence[str],
    *,
    counts_only: bool,
) -> Any:
    columns = dict(zip(attributes, batch.columns, strict=False))
    check_values(columns)
    slots, offsets = find_slots(batch.num_rows, columns, subscriptions)
    answers = [*batch.columns[len(attributes) :]]
    if counts_only:
        counts = pa.array(offsets, pa.int64())
        answers.append(pc.subtract(counts[1:], counts[:-1]))
    else:
        kind = pa.list_(pa.field("element", subscriptions.keys.type, nullable=False))
        found = pc.take(subscriptions.keys, pa.array(slots, pa.int32()), boundscheck=False)
        answers.append(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), found, kind))
    return pa.RecordBatch.from_arrays(answers, names=[*keys, MATCHES if counts_only else SUBSCRIPTIONS])


def find_slots(rows: int, columns: dict[str, Any], subscriptions: IndexedSubscriptions) -> tuple[Any, Any]:
    """The slots that match, and where those of each row begin."""
    if columns:
        return subscriptions.index.match_slots(pa.RecordBatch.from_pydict(columns))
    from tidings.model.event import Event

    # Arrow has no batch of rows without columns.
    return subscriptions.index.match_slots([Event({})] * rows)
