"""Bulk matching: which of many events match which of many subscriptions, as a table.

    from tidings.spark.matching import match

    matches = match(events, subscriptions)              # key, subscriptions array<...>
    pairs = matches.select("key", explode("subscriptions").alias("subscription"))

`events` has a column for each attribute (`event_columns.py` says of which types) and one or several key columns;
`subscriptions` has a subscription and the text of a filter in each row. The answer has one row for each event, with the
subscriptions that match it, ascending, or with their number alone. Every column is an attribute if a filter asks for
its name, key columns included.

**How.** Subscriptions become an index once, in the driver (`builder.py`), in a file that each worker loads once
(`shipment.py`). Events stay where they are: each partition is matched batch by batch (`batches.py`), without a shuffle,
so the cost grows linearly with the events. The answer is exact, and the same under any partitioning.

A stream of events gives a stream of matches, with the subscriptions as they were when `match` was called. To match many
tables with the same subscriptions, `build_index_file` makes the file by itself, and `match` takes it in their place.

`cross_join.py` gives the same answer by asking every filter about every event: the oracle of the tests.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.model.errors import UsageError
from tidings.spark.matching.batches import MATCHES, SUBSCRIPTIONS, match_batches
from tidings.spark.matching.builder import build_index_file
from tidings.spark.matching.event_columns import attribute_columns
from tidings.spark.matching.index_file import names_of_table, read_table
from tidings.spark.matching.shipment import own_folder, ship, shipped_index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

KEY = "key"


def match(
    events: "DataFrame",
    subscriptions: "DataFrame | str | Path",
    *,
    keys: Sequence[str] = (KEY,),
    counts_only: bool = False,
) -> "DataFrame":
    """The key columns of every event, and `subscriptions`: those that match it, or `matches`: how many they are.

    `subscriptions` is a table of subscription and filter, or an index file. UsageError says what cannot be matched;
    values that no event can hold are found when the answer is computed.
    """
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
        return match_batches(batches, shipped_index(name), attributes, keys, counts_only=counts_only)

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
