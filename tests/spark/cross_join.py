"""The plain counterpart of `match`: join every event with every subscription, and ask the filter.

Slow and obviously right. It shares with `match` only the filter language and what columns may be attributes; it is the
oracle that `match` is tested against.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.spark.matching.bulk import KEY, check_key_columns, check_type
from tidings.spark.matching.index_file import names_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILTERS_REMEMBERED = 10_000
SUBSCRIPTION = "subscription"


def match_by_cross_join(
    events: "DataFrame", subscriptions: "DataFrame", *, keys: Sequence[str] = (KEY,)
) -> "DataFrame":
    """The key columns of an event and a `subscription` that matches it, a row for each such pair."""
    from pyspark.sql.types import StructField, StructType

    check_key_columns(events, keys, counts_only=False)
    names = events.columns
    numbered = events.toDF(*[f"c{place}" for place in range(len(names))])
    pairs = numbered.crossJoin(subscriptions.select(SUBSCRIPTION, "filter"))
    types = {field.name: field.dataType for field in events.schema.fields}
    key_places = [names.index(key) for key in keys]

    def judge(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = zip(*(column.to_pylist() for column in batch.columns[:-2]), strict=True)
            texts = batch.column("filter").to_pylist()
            kept = [matches(dict(zip(names, row, strict=True)), text) for row, text in zip(rows, texts, strict=True)]
            columns = [*(batch.column(place) for place in key_places), batch.column(SUBSCRIPTION)]
            found = pa.RecordBatch.from_arrays(columns, names=[*keys, SUBSCRIPTION])
            yield found.filter(pa.array(kept, pa.bool_()))

    def matches(row: dict[str, Any], text: str) -> bool:
        filter, asked = read_filter(text)
        for name in asked & types.keys():
            check_type(name, types[name])
        return filter.matches(Event({name: row[name] for name in asked if row.get(name) is not None}))

    fields = [events.schema[key] for key in keys]
    return pairs.mapInArrow(
        judge, StructType([*fields, StructField(SUBSCRIPTION, subscriptions.schema[SUBSCRIPTION].dataType)])
    )


@lru_cache(maxsize=FILTERS_REMEMBERED)
def read_filter(text: str) -> tuple[Filter, set[str]]:
    filter = parse(text)
    return filter, names_of(filter)
