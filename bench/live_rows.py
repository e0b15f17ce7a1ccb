"""The source of `tidings.spark.live` with one difference: it yields rows, one tuple for each event. A baseline."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tidings.pubsub.publications import head_decoder
from tidings.spark.live.connection import LiveConnection
from tidings.spark.live.options import Options
from tidings.spark.live.pieces import Piece, read_pages
from tidings.spark.live.source import TidingsReader, TidingsSource
from tidings.spark.live.stream import TidingsStreamReader


def read_rows(piece: InputPartition, filter: str, schema: StructType, options: Options) -> Iterator[tuple[Any, ...]]:
    """Columns in the order of a schema that was inferred."""
    assert isinstance(piece, Piece)
    attributes = schema.names[10:-1]
    with LiveConnection(options) as link:
        for range in piece.ranges:
            for page in read_pages(link, filter, range, options.fails_on_loss):
                columns = page.numbers, page.accepted_at, page.heads, page.payloads
                for number, at, head, payload in zip(*columns, strict=True):
                    get = head_decoder.decode(head).get
                    yield (
                        page.publisher,
                        number,
                        datetime.fromtimestamp(at, UTC),
                        get("id") or str(number),
                        get("source") or page.publisher,
                        get("type"),
                        get("subject"),
                        read_time(get("time")),
                        get("datacontenttype"),
                        get("dataschema"),
                        *map(get, attributes),
                        payload,
                    )


def read_time(text: Any) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


class RowReader(TidingsReader):
    def read(self, partition: InputPartition) -> Any:
        return read_rows(partition, self.filter, self.schema, self.options)


class RowStreamReader(TidingsStreamReader):
    def read(self, partition: InputPartition) -> Any:
        return read_rows(partition, self.options.filter, self.schema, self.options)


class RowSource(TidingsSource):
    @classmethod
    def name(cls) -> str:
        return "tidings_rows"

    def reader(self, schema: StructType) -> RowReader:
        return RowReader(schema, self.said(schema))

    def streamReader(self, schema: StructType) -> RowStreamReader:
        return RowStreamReader(schema, self.said(schema))
