"""Matching a stream of events while subscriptions come and go.

    matched = match_changing(events, changes, "state", take)
    query = matched.option("checkpointLocation", "checkpoint").start()

`events` is a stream as `match` takes it. `changes` is a second stream, with the columns `subscription`, `filter` (the
text of a filter; null takes the subscription away) and `number` (of two changes of one subscription the higher counts).
`take(matches, batch)` is called with the matches of each micro-batch, as `foreachBatch` calls it.

**Exact at every boundary.** Both streams are one query, so Spark writes down together how far each has been read. The
events of a micro-batch are matched with the subscriptions as they are when all changes of this micro-batch and of all
before it are carried out, no fewer and no more. Which changes come with which events is for the triggers to say; within
a micro-batch there is no before and after.

**Versions.** The subscriptions behind each micro-batch that changed them are kept at `state`, in any store:

    subscriptions-000000000012.parquet      as they are from micro-batch 12 on: subscription, filter, number

A micro-batch that is repeated after a crash begins from the version before it and comes to the same one. Two versions
are kept, because Spark repeats no batch but the last. Workers load the index of a version when they first meet it
(`index_file.py`); a micro-batch without changes costs nothing more than `match` does.

`take` may be called again with the same micro-batch; it gets the same matches, in a table that knows the number.
"""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet

from tidings.model.errors import UsageError
from tidings.spark.matching.bulk import KEY, check_key_columns, match
from tidings.spark.matching.index_file import SUBSCRIPTIONS_MAX, build_index_file, own_folder
from tidings.spark.place import Place, place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

CHANGE_COLUMNS = ("subscription", "filter", "number")
VERSIONS_KEPT = 2
BATCH_DIGITS = 12
PREFIX, SUFFIX = "subscriptions-", ".parquet"

Take = Callable[["DataFrame", int], None]


def match_changing(
    events: "DataFrame",
    changes: "DataFrame",
    state: str | Path | Place,
    take: Take,
    *,
    keys: tuple[str, ...] = (KEY,),
) -> "DataStreamWriter":
    """To be started with a checkpointLocation."""
    from pyspark.sql import functions as F

    check_key_columns(events, keys, counts_only=False)
    missing = [name for name in CHANGE_COLUMNS if name not in changes.columns]
    if missing or not events.isStreaming or not changes.isStreaming:
        told = f"the changes lack {', '.join(missing)}" if missing else "both are streams; a table goes to `match`"
        raise UsageError(f"match_changing: {told}; changes have the columns {', '.join(CHANGE_COLUMNS)}")
    both = events.select(F.struct("*").alias("event")).unionByName(
        changes.select(F.struct(*CHANGE_COLUMNS).alias("change")), allowMissingColumns=True
    )
    return both.writeStream.foreachBatch(VersionedMatch(place_of(state), take, keys))


class VersionedMatch:
    """What happens to one micro-batch."""

    def __init__(self, place: Place, take: Take, keys: tuple[str, ...]) -> None:
        self.place, self.take, self.keys = place, take, keys
        self.built: tuple[int, Path] | None = None
        """The version whose index file we have."""

    def __call__(self, batch: "DataFrame", number: int) -> None:
        batch.persist()
        try:
            version = self.advance(batch.where("change IS NOT NULL").select("change.*"), number)
            events = batch.where("event IS NOT NULL").select("event.*")
            self.take(match(events, self.index(events, version), keys=self.keys), number)
        finally:
            batch.unpersist()

    def advance(self, changes: "DataFrame", number: int) -> int:
        """The version that holds for this micro-batch, made if something changed."""
        found = [tuple(row) for row in changes.select(*CHANGE_COLUMNS).collect()]
        before = max((version for version in self.versions() if version < number), default=None)
        if not found and before is not None:
            return before
        kept = {} if before is None else {row[0]: row for row in self.read(before)}
        for row in sorted(found, key=lambda row: row[2]):
            if row[0] not in kept or kept[row[0]][2] <= row[2]:
                kept[row[0]] = row
        self.write(number, list(kept.values()))
        self.forget_old(number)
        return number

    def index(self, events: "DataFrame", version: int) -> Path:
        if self.built is None or self.built[0] != version:
            rows = [(row[0], row[1]) for row in self.read(version) if row[1] is not None]
            if len(rows) > SUBSCRIPTIONS_MAX:
                raise UsageError(f"{len(rows)} subscriptions; an index holds {SUBSCRIPTIONS_MAX}: match them in parts")
            kind = "STRING" if rows and isinstance(rows[0][0], str) else "BIGINT"
            table = events.sparkSession.createDataFrame(rows, f"subscription {kind}, filter STRING")
            self.built = version, build_index_file(table, own_folder() / f"version-{version}")
        return self.built[1]

    def versions(self) -> list[int]:
        names = [each.name for each in self.place.files()]
        return [
            int(name.removeprefix(PREFIX).removesuffix(SUFFIX))
            for name in names
            if name.startswith(PREFIX) and name.endswith(SUFFIX)
        ]

    def file(self, version: int) -> Place:
        return self.place / f"{PREFIX}{version:0{BATCH_DIGITS}}{SUFFIX}"

    def read(self, version: int) -> list[tuple[Any, ...]]:
        """Those that were taken away are there too, with a null filter: an older change must not bring them back."""
        table = pyarrow.parquet.read_table(BytesIO(self.file(version).read_bytes()))
        return list(zip(*(table.column(name).to_pylist() for name in CHANGE_COLUMNS), strict=True))

    def write(self, version: int, rows: list[tuple[Any, ...]]) -> None:
        columns = {name: [row[place] for row in rows] for place, name in enumerate(CHANGE_COLUMNS)}
        file = BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
        self.file(version).write_bytes(file.getvalue())

    def forget_old(self, version: int) -> None:
        for old in sorted(each for each in self.versions() if each <= version)[:-VERSIONS_KEPT]:
            self.file(old).remove()
