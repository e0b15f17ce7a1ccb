"""Rows to encoded events: what the sink publishes.

Each row becomes a head, the map of its attributes in ascending order of their names with nulls left out, and a
payload. Rows are encoded through a struct that is made for the schema: its fields stand in that order, and what equals
its default is not written, so that the bytes are those of `encode_head`.

What an event must not hold (`model/event.py`) is looked for in whole columns first: a number that is none, a text that
is too long, an empty text where CloudEvents wants one. The error names the column and says what to do about it.

    string, boolean, double, long          as they are          float, int, short, byte      as double and long
    timestamp                              RFC 3339 text        date, decimal                as text, with all digits

`payload` is binary; a string is written as UTF-8, and an array, a map or a struct as JSON where `payloadFormat` is
"json". With "avro" it is what `payloadSchema` says (`avro.py`).

The columns publisher, number and accepted_at are what the network said of an event that was read; they are left out.
"""

from typing import Any

import msgspec
import pyarrow
import pyarrow.compute as compute
from pyspark.sql.types import BinaryType, StringType, StructType

from tidings.model.bounds import ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.event import CONTEXT_NAMES
from tidings.model.values import check_name
from tidings.spark.live.avro import avro_type, encode
from tidings.spark.live.casts import BINARY, JSON, check_payload
from tidings.spark.live.columns import OF_THE_NETWORK, PAYLOAD, TIME

NATURAL = {"string": str, "boolean": bool, "double": float, "bigint": int}
WIDENED = {"float": "double", "int": "bigint", "smallint": "bigint", "tinyint": "bigint"}
INSTANTS = ("timestamp", "timestamp_ntz")
AS_TEXT = ("date", "decimal")
INSTEAD = "string, boolean, double, bigint, a narrower number, decimal, date or timestamp"


class Encoder:
    def __init__(self, schema: StructType, payload_format: str = BINARY, avro_schema: str = "") -> None:
        self.kinds = {
            field.name: field.dataType.simpleString() for field in schema.fields if field.name not in OF_THE_NETWORK
        }
        self.kinds.pop(PAYLOAD, None)
        self.avro = avro_type(avro_schema) if avro_schema else None
        check_written_payload(schema, payload_format, avro_schema)
        if len(self.kinds) > ATTRIBUTES_MAX:
            raise UsageError(
                f"{len(self.kinds)} columns, and an event has at most {ATTRIBUTES_MAX} attributes; drop some"
            )
        for name, kind in self.kinds.items():
            check_column(name, kind)
        self.names = sorted(self.kinds)
        fields = [(f"a{place}", object, None) for place in range(len(self.names))]
        rename = {f"a{place}": name for place, name in enumerate(self.names)}
        self.row = msgspec.defstruct("Row", fields, rename=rename, omit_defaults=True, gc=False)
        self.encode = msgspec.msgpack.Encoder().encode

    def events(self, batch: pyarrow.RecordBatch) -> tuple[list[bytes], list[bytes]]:
        """Heads and payloads; UsageError for a row that is no event."""
        columns = [prepare(name, self.kinds[name], batch.column(name)).to_pylist() for name in self.names]
        rows = map(self.row, *columns) if columns else (self.row() for _ in range(batch.num_rows))
        heads = list(map(self.encode, rows))
        longest = max(map(len, heads), default=0)
        if longest > ATTRIBUTES_BYTES_MAX:
            raise UsageError(
                f"a row of {longest} encoded bytes, at most {ATTRIBUTES_BYTES_MAX} are allowed; put what is large into "
                "payload"
            )
        return heads, self.payloads(batch)

    def payloads(self, batch: pyarrow.RecordBatch) -> list[bytes]:
        if PAYLOAD not in batch.schema.names:
            return [b""] * batch.num_rows
        column = batch.column(PAYLOAD)
        if self.avro is not None:
            column = pyarrow.array(
                [None if it is None else encode(self.avro, it) for it in column.to_pylist()], pyarrow.binary()
            )
        elif pyarrow.types.is_string(column.type):
            column = column.cast(pyarrow.binary())
        elif not pyarrow.types.is_binary(column.type):
            values = (plain_json(it, column.type) for it in column.to_pylist())
            texts = [None if it is None else msgspec.json.encode(it) for it in values]
            column = pyarrow.array(texts, pyarrow.binary())
        longest = compute.max(compute.binary_length(column)).as_py() or 0
        if longest > PAYLOAD_BYTES_MAX:
            raise UsageError(
                f"column payload: {longest} bytes, at most {PAYLOAD_BYTES_MAX} are allowed; cut it in pieces"
            )
        return [b"" if it is None else it for it in column.to_pylist()]


def check_written_payload(schema: StructType, payload_format: str, avro_schema: str) -> None:
    kinds = [field.dataType for field in schema.fields if field.name == PAYLOAD]
    if avro_schema:
        check_payload(schema, payload_format, avro_schema)
    elif kinds and kinds[0] not in (BinaryType(), StringType()):
        if payload_format != JSON:
            raise UsageError(
                f"column payload: it is {kinds[0].simpleString()}, and must be binary or string; cast it, or write it "
                'as JSON: .option("payloadFormat", "json")'
            )
        check_payload(schema, payload_format)


def plain_json(value: Any, kind: pyarrow.DataType) -> Any:
    """A map comes from Arrow as a list of pairs."""
    if value is None:
        return None
    if pyarrow.types.is_map(kind):
        return {name: plain_json(it, kind.item_type) for name, it in value}
    if pyarrow.types.is_struct(kind):
        return {field.name: plain_json(value[field.name], field.type) for field in kind}
    if pyarrow.types.is_list(kind):
        return [plain_json(it, kind.value_type) for it in value]
    return value


def check_column(name: str, kind: str) -> None:
    check_name(name)
    allowed = kind in NATURAL or kind in WIDENED or kind in INSTANTS or kind.startswith(AS_TEXT)
    if not allowed:
        raise UsageError(f"column {name}: {kind} is no type of an attribute; cast it to {INSTEAD}")
    if name in CONTEXT_NAMES and kind != "string" and not (name == TIME and kind in INSTANTS):
        raise UsageError(f"column {name}: CloudEvents wants a text here, not {kind}; cast it to string")


def prepare(name: str, kind: str, column: pyarrow.Array) -> pyarrow.Array:
    """The column as values of an event."""
    if kind.startswith(AS_TEXT):
        return column.cast(pyarrow.string())
    if kind in INSTANTS:
        return instants(name, column)
    if kind in ("double", "float"):
        if not compute.all(compute.is_finite(column), min_count=0).as_py():
            raise UsageError(f"column {name}: NaN or infinity is no value of an event; turn it into null")
        return column.cast(pyarrow.float64())
    if kind == "string":
        longest = compute.max(compute.binary_length(column)).as_py() or 0
        if longest > STRING_BYTES_MAX:
            raise UsageError(
                f"column {name}: a text of {longest} bytes, at most {STRING_BYTES_MAX} are allowed; put it into payload"
            )
        if name in CONTEXT_NAMES and compute.any(compute.equal(compute.binary_length(column), 0)).as_py():
            raise UsageError(f"column {name}: CloudEvents wants no empty text here; turn it into null")
    return column


def instants(name: str, column: pyarrow.Array) -> pyarrow.Array:
    """2026-11-15T20:45:00.000000Z."""
    texts = column.cast(pyarrow.timestamp("us", tz="UTC")).cast(pyarrow.string())
    is_usual = compute.equal(compute.utf8_length(texts), len("2026-11-15 20:45:00.000000Z"))
    if not compute.all(is_usual, min_count=0).as_py():
        raise UsageError(
            f"column {name}: outside of the years 0 to 9999 a time has no RFC 3339 text; turn it into null"
        )
    return compute.replace_substring(texts, " ", "T")
