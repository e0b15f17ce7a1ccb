"""How Spark keeps the state of a live table: one value of bytes for each key."""

from collections.abc import Iterator
from typing import Any

import msgspec
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tidings.spark.metrics.live import LiveTable


class Folding(StatefulProcessor):
    def __init__(self, table: LiveTable) -> None:
        self.table = table

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.kept = handle.getValueState("kept", "state BINARY")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas  # type: ignore[import-untyped]

        table = self.table
        found = pandas.concat(list(rows)).sort_values(list(table.rows), kind="stable")
        state = self.before() if self.kept.exists() else table.state()
        values = table.fold(state, found[list(table.rows)].to_dict("records"))
        self.kept.update((msgspec.msgpack.encode(state),))
        yield pandas.DataFrame([{**dict(zip(table.keys, key, strict=True)), **values}])

    def before(self) -> msgspec.Struct:
        kept = self.kept.get()
        assert kept is not None, "it exists"
        return msgspec.msgpack.decode(bytes(kept[0]), type=self.table.state)

    def close(self) -> None:
        """Nothing is open."""
