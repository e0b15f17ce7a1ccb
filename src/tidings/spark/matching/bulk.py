"""Bulk matching: which of many events match which of many subscriptions, as a table.

    from tidings.spark.matching import match

    matches = match(events, subscriptions)              # key, subscriptions array<...>
    pairs = matches.select("key", explode("subscriptions").alias("subscription"))

`events` has a column for each attribute (of the types below) and one or several key columns;
`subscriptions` has a subscription and the text of a filter in each row. The answer has one row for each event, with the
subscriptions that match it, ascending, or with their number alone. Every column is an attribute if a filter asks for
its name, key columns included.

**How.** Subscriptions become an index once, in the driver, in a file that each worker loads once (`index_file.py`).
Events stay where they are: each partition is matched batch by batch, without a shuffle, so the cost grows linearly with
the events. The answer is exact, and the same under any partitioning.

A stream of events gives a stream of matches, with the subscriptions as they were when `match` was called. To match many
tables with the same subscriptions, `build_index_file` makes the file by itself, and `match` takes it in their place.

**Batches.** One Arrow batch of events comes in, one of matches goes out, without Spark. The answer for a batch is a
list column: the subscriptions of all events, one after the other, and where those of each event begin. It is made of
the slots that the index found, ascending, by taking each slot's subscription; no Python object is made for a match.
Subscriptions lie in the table of the index in ascending order, so the list of an event is in ascending order too,
whatever the index has learned from the events before it and whoever saw those.

A batch is answered in slices of so many rows that a slice fits into memory even if every event matches every
subscription.

**Columns as attributes**: which types a column may have, and which values.

    byte, short, int, long    an integer
    float, double             a number; a float is the double of exactly the same value
    string                    a string (also char and varchar)
    boolean                   TRUE or FALSE
    null                      the attribute is absent

Other types have no one reading as an attribute, so they are refused where a filter asks for such a column, with what to
cast it to: only the caller knows whether a decimal may be rounded and how a timestamp is to be spelled. Columns that
no filter asks for are not looked at and may hold anything.

A filter that asks for `place.city`, where `place` is a struct or a map, is refused too: it would never match.

A row has to be an event that somebody could have published, or its answer would depend on which filter is asked
first. So what `Event` refuses is refused here, for the columns that filters ask for: NaN and infinity, a string over
64 KiB, and a context attribute of CloudEvents that is empty or, for `time`, no RFC 3339 time. With `mode="FAILFAST"` it
ends the job; with `mode="PERMISSIVE"` it is as null, and the log of the worker says how often.
"""

import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidings.matching.index.answers import Events
from tidings.model.bounds import ATTRIBUTES_MAX, STRING_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.event import CONTEXT_NAMES, Event, check_context
from tidings.spark.matching.index_file import (
    IndexedSubscriptions,
    build_index_file,
    names_of_table,
    own_folder,
    read_table,
    ship,
    shipped_index,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

FAILFAST, PERMISSIVE = "FAILFAST", "PERMISSIVE"
PERMIT = 'match with mode="PERMISSIVE" to take it for null'

log = logging.getLogger("tidings.spark.matching")

TYPES = ("byte", "short", "integer", "long", "float", "double", "string", "char", "varchar", "boolean")
"""Spark's names of the types that a column may have."""

ADVICE = {
    "decimal": "cast it to double, or to string if its digits matter",
    "timestamp": "write it as text, such as date_format(column, \"yyyy-MM-dd'T'HH:mm:ss'Z'\") for times in UTC",
    "timestamp_ntz": "write it as text, such as date_format(column, \"yyyy-MM-dd'T'HH:mm:ss'Z'\") for times in UTC",
    "date": "cast it to string",
    "binary": "it can be no attribute; leave it out of the filters or decode it to string",
    "void": "cast it to the type it would have",
    "null": "cast it to the type it would have",
}
ADVICE_ELSE = "take out the fields that filters ask for, as columns of their own"


def attribute_columns(columns: Sequence[tuple[str, "DataType"]], names: Sequence[str]) -> list[int]:
    """Where the columns stand that filters ask for by these names; UsageError if one cannot be an attribute."""
    wanted = set(names)
    found: dict[str, int] = {}
    check_inner_names(columns, names)
    for place, (name, kind) in enumerate(columns):
        if name not in wanted:
            continue
        if name in found:
            raise UsageError(f"events: two columns are called {name!r}, for which filters ask; rename one of them")
        check_type(name, kind)
        found[name] = place
    return list(found.values())


def check_inner_names(columns: Sequence[tuple[str, "DataType"]], names: Sequence[str]) -> None:
    """No filter may ask for what lies within a column."""
    types = {name: kind for name, kind in columns if kind.typeName() in ("struct", "map")}
    there = {name for name, _ in columns}
    for name in names:
        outer = name.partition(".")[0]
        if name not in there and "." in name and outer in types:
            raise UsageError(
                f"events: filters ask for {name!r}, and column {outer!r} is a {types[outer].typeName()}, in which no "
                f'filter looks; take it out as a column of its own: .withColumn("{name}", events.{name})'
            )


def check_type(name: str, kind: "DataType") -> None:
    told = kind.typeName()
    if told not in TYPES:
        advice = ADVICE.get(told, ADVICE_ELSE)
        raise UsageError(f"events: filters ask for column {name!r}, which has type {kind.simpleString()}; {advice}")
    if name in CONTEXT_NAMES and told not in ("string", "char", "varchar"):
        raise UsageError(
            f"events: column {name!r} is a context attribute of CloudEvents and has to be a string, "
            f"not {kind.simpleString()}; cast it or rename it"
        )


def without_unfit(columns: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """The columns with null for each value that no event can hold, and how many there were."""
    made, count = {}, 0
    for name, column in columns.items():
        fits = fitting(name, column)
        kept = column if fits is None else pc.if_else(fits, column, pa.scalar(None, column.type))
        made[name] = kept
        count += kept.null_count - column.null_count
    return made, count


def fitting(name: str, column: Any) -> Any:
    """For each value whether an event can hold it; None where all can."""
    if pa.types.is_floating(column.type):
        return pc.is_finite(column)
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return None
    fits = pc.less_equal(pc.binary_length(column), STRING_BYTES_MAX)
    if name in CONTEXT_NAMES:
        unfit = [text for text in pc.unique(column.drop_null()).to_pylist() if not is_context(name, text)]
        return pc.and_(fits, pc.invert(pc.is_in(column, pa.array(unfit, column.type))))
    return fits


def is_context(name: str, text: str) -> bool:
    try:
        check_context(name, text)
    except UsageError:
        return False
    return True


def check_values(columns: Mapping[str, Any]) -> None:
    """UsageError if a row is no event that could be published."""
    for name, column in columns.items():
        if pa.types.is_floating(column.type):
            if not pc.all(pc.is_finite(column)).as_py() and column.null_count < len(column):
                raise UsageError(
                    f"events: column {name!r} holds NaN or infinity; put null where there is no number, or {PERMIT}"
                )
        elif not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
            check_strings(name, column)
    if len(columns) > ATTRIBUTES_MAX and max(filled_counts(columns)) > ATTRIBUTES_MAX:
        raise UsageError(
            f"events: a row has more than {ATTRIBUTES_MAX} attributes that filters ask for, which no event has; "
            "match the subscriptions in parts"
        )


def check_strings(name: str, column: Any) -> None:
    lengths = pc.min_max(pc.binary_length(column)).as_py()
    if (lengths["max"] or 0) > STRING_BYTES_MAX:
        raise UsageError(
            f"events: column {name!r} holds a string of {lengths['max']} bytes, at most {STRING_BYTES_MAX} are allowed"
            f"; cut it, or {PERMIT}"
        )
    if name in CONTEXT_NAMES and (lengths["min"] == 0 or name == "time"):
        for text in pc.unique(column.drop_null()).to_pylist():
            check_context(name, text)


def filled_counts(columns: Mapping[str, Any]) -> list[int]:
    """For each row how many columns hold a value."""
    counts = None
    for column in columns.values():
        filled = column.is_valid().cast(pa.int32())
        counts = filled if counts is None else pc.add(counts, filled)
    return [0] if counts is None else [0, *counts.to_pylist()]


KEY = "key"


def match(
    events: "DataFrame",
    subscriptions: "DataFrame | str | Path",
    *,
    keys: Sequence[str] = (KEY,),
    counts_only: bool = False,
    mode: str = FAILFAST,
) -> "DataFrame":
    """The key columns of every event, and `subscriptions`: those that match it, or `matches`: how many they are.

    `subscriptions` is a table of subscription and filter, or an index file. UsageError says what cannot be matched;
    values that no event can hold are found when the answer is computed, and end the job, or with `mode="PERMISSIVE"`
    are taken for null.
    """
    if mode.upper() not in (FAILFAST, PERMISSIVE):
        raise UsageError(f"mode {mode!r:.40}: there are {FAILFAST} and {PERMISSIVE}")
    check_key_columns(events, keys, counts_only=counts_only)
    path, is_ours = index_file_of(subscriptions)
    table, _ = read_table(path)
    columns = [(field.name, field.dataType) for field in events.schema.fields]
    places = attribute_columns(columns, names_of_table(table))
    attributes = [columns[place][0] for place in places]
    schema = answer_schema(events, keys, table.schema.field("subscription").type, counts_only=counts_only)
    # Columns are chosen by place: names may hold dots, or differ in case only.
    numbered = events.toDF(*[f"c{place}" for place in range(len(columns))])
    places += [events.columns.index(key) for key in keys]
    # A key that is an attribute too is sent twice, under two names.
    chosen = numbered.selectExpr(*[f"c{place} AS a{number}" for number, place in enumerate(places)])
    name = ship(events.sparkSession, path)
    if is_ours:
        path.unlink()

    def match_partition(batches: Iterable[Any]) -> Iterator[Any]:
        fails = mode.upper() == FAILFAST
        return match_batches(batches, shipped_index(name), attributes, keys, counts_only=counts_only, fails=fails)

    return chosen.mapInArrow(match_partition, schema)


def check_key_columns(events: "DataFrame", keys: Sequence[str], *, counts_only: bool) -> None:
    if isinstance(keys, str) or not keys:
        raise UsageError(f"keys {keys!r}: give a list of columns that tell events apart, such as ['source', 'id']")
    for key in keys:
        if events.columns.count(key) != 1:
            raise UsageError(
                f"keys: there are {events.columns.count(key)} columns {key!r} among {', '.join(events.columns)}; "
                "name columns that stand there once"
            )
    answer = MATCHES if counts_only else SUBSCRIPTIONS
    if len(set(keys)) < len(keys) or answer in keys:
        raise UsageError(f"keys {list(keys)}: the answer would have two columns of one name; rename a column")


def index_file_of(subscriptions: "DataFrame | str | Path") -> tuple[Path, bool]:
    """The file, and whether it was made here and is ours to remove."""
    if isinstance(subscriptions, str | Path):
        return Path(subscriptions), False
    with tempfile.NamedTemporaryFile(dir=own_folder(), delete=False) as file:
        path = Path(file.name)
    return build_index_file(subscriptions, path), True


def answer_schema(events: "DataFrame", keys: Sequence[str], subscription: Any, *, counts_only: bool) -> "StructType":
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import ArrayType, LongType, StructField, StructType

    fields = [StructField(key, events.schema[key].dataType, events.schema[key].nullable) for key in keys]
    if counts_only:
        return StructType([*fields, StructField(MATCHES, LongType(), False)])
    element = ArrayType(from_arrow_type(subscription), containsNull=False)
    return StructType([*fields, StructField(SUBSCRIPTIONS, element, False)])


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
    fails: bool = True,
) -> Iterator[Any]:
    """Each batch holds the columns of the attributes, and behind them those of the keys; the first are named by
    `attributes`, the second get the names `keys`."""
    rows_max = max(1, ANSWER_BYTES_MAX // max(1, subscriptions.keys.nbytes))
    unfit = 0
    for batch in batches:
        events, count = events_of(batch, attributes, fails)
        unfit += count
        begin = 0
        for slots, offsets in subscriptions.index.match_slots(events, rows_max):
            rows = batch.slice(begin, len(offsets) - 1)
            begin += rows.num_rows
            answer = counts(offsets) if counts_only else lists(slots, offsets, subscriptions)
            columns = [*rows.columns[len(attributes) :], answer]
            yield pa.RecordBatch.from_arrays(columns, names=[*keys, MATCHES if counts_only else SUBSCRIPTIONS])
    if unfit:
        log.warning("%d values are none that an event can hold, and were taken for null", unfit)


def events_of(batch: Any, attributes: Sequence[str], fails: bool) -> tuple[Events, int]:
    """And how many values were taken for null."""
    columns, unfit = dict(zip(attributes, batch.columns, strict=False)), 0
    if not fails:
        columns, unfit = without_unfit(columns)
    check_values(columns)
    # Arrow has no batch of rows without columns.
    return (pa.RecordBatch.from_pydict(columns) if columns else [Event({})] * batch.num_rows), unfit


def counts(offsets: Any) -> Any:
    ends = pa.array(offsets, pa.int64())
    return pc.subtract(ends[1:], ends[:-1])


def lists(slots: Any, offsets: Any, subscriptions: IndexedSubscriptions) -> Any:
    kind = pa.list_(pa.field("element", subscriptions.keys.type, nullable=False))
    found = pc.take(subscriptions.keys, pa.array(slots, pa.int32()), boundscheck=False)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), found, kind)
