"""From a table of subscriptions to an index file.

The table has the columns `subscription` (string or an integer type; each value once) and `filter` (text of the filter
language). Reading a filter takes a quarter of a millisecond, so a large table is read by Spark, in as many parts as
shuffles have; a small one is read here. The index itself is made by the driver, which has to hold all filters:
SUBSCRIPTIONS_MAX bounds that.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.spark.matching.index_file import encode_filter, write_index_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

SUBSCRIPTIONS_MAX = 10_000_000
"""An index of that many takes about 3 GB in the driver and in every worker."""

READ_HERE_MAX = 2_000
"""A table up to this size is read by the driver, since that takes less time than to ask Spark."""

KEY_TYPES = ("byte", "short", "integer", "long", "string")


def build_index_file(subscriptions: "DataFrame", path: str | Path) -> Path:
    """Write the index of a table of subscriptions to a file, which `match` takes in place of the table."""
    path = Path(path)
    write_index_file(path, in_order(collect_filters(subscriptions)))
    return path


def subscription_type(subscriptions: "DataFrame") -> "DataType":
    """The type of the column `subscription`; UsageError if the table is not one of subscriptions."""
    missing = [name for name in ("subscription", "filter") if name not in subscriptions.columns]
    if missing:
        raise UsageError(
            f"subscriptions: there is no column {missing[0]!r} among {', '.join(subscriptions.columns)}; "
            "rename columns to subscription and filter"
        )
    kind = subscriptions.schema["subscription"].dataType
    if kind.typeName() not in KEY_TYPES:
        raise UsageError(
            f"subscriptions: column subscription has type {kind.simpleString()}; cast it to string or long"
        )
    if subscriptions.schema["filter"].dataType.typeName() != "string":
        raise UsageError("subscriptions: column filter is no string; it has to hold the text of filters")
    return kind


def collect_filters(subscriptions: "DataFrame") -> Any:
    """A table of subscription, encoded filter, and what was wrong with it."""
    kind = subscription_type(subscriptions)
    if subscriptions.isStreaming:
        raise UsageError("subscriptions: a stream of subscriptions has no end to build an index from; use a table")
    chosen = subscriptions.select("subscription", "filter")
    count = chosen.count()
    if count > SUBSCRIPTIONS_MAX:
        raise UsageError(
            f"subscriptions: {count} rows, at most {SUBSCRIPTIONS_MAX} fit into one index; "
            "match them in parts and unite the answers"
        )
    return read_here(chosen) if count <= READ_HERE_MAX else read_by_spark(chosen, kind)


def read_here(chosen: "DataFrame") -> Any:
    whole = chosen.toArrow()
    kind = whole.schema.field("subscription").type
    schema = pa.schema([("subscription", kind), ("filter", pa.binary()), ("problem", pa.string())])
    return pa.Table.from_batches(read_filters(whole.to_batches()), schema)


def read_by_spark(chosen: "DataFrame", kind: "DataType") -> Any:
    parts = int(chosen.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    schema = f"subscription {kind.simpleString()}, filter binary, problem string"
    return chosen.repartition(parts).mapInArrow(read_filters, schema).toArrow()


def read_filters(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches with the filters encoded, and where that was not possible the problem."""
    for batch in batches:
        encoded: list[bytes | None] = []
        problems: list[str | None] = []
        for text in batch.column("filter").to_pylist():
            try:
                encoded.append(encode_filter(parse(text)) if text is not None else None)
                problems.append(None if text is not None else "the filter is null")
            except UsageError as error:
                encoded.append(None)
                problems.append(str(error))
        columns = [batch.column("subscription"), pa.array(encoded, pa.binary()), pa.array(problems, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, names=["subscription", "filter", "problem"])


def in_order(read: Any) -> Any:
    """Subscription and encoded filter, sorted; UsageError for the first with which something is wrong."""
    ordered = read.sort_by("subscription")
    keys = ordered.column("subscription").combine_chunks()
    if keys.null_count:
        raise UsageError("subscriptions: column subscription holds null; give each subscription a name or number")
    problems = ordered.filter(pc.is_valid(ordered.column("problem"))).slice(0, 1).to_pylist()
    if problems:
        raise UsageError(f"subscriptions: {problems[0]['subscription']!r}: {problems[0]['problem']}")
    again = pc.indices_nonzero(pc.equal(keys[1:], keys[:-1]))
    if len(again):
        raise UsageError(
            f"subscriptions: {keys[again[0].as_py()].as_py()!r} stands there more than once; "
            "give each row a subscription of its own, or join its filters by OR"
        )
    return ordered.drop_columns(["problem"])
