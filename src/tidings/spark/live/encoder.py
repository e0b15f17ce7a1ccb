"""Rows to encoded events: what the sink publishes.

Each row becomes a head, the map of its attributes in ascending order of their names with nulls left out, and a
payload. Rows are encoded through a struct that is made for the schema: its fields stand in that order, and what equals
its default is not written, so that the bytes are those of `encode_head`.

What an event must not hold (`model/event.py`) is looked for in whole columns first: a number that is none, a text that
is too long, an empty text where CloudEvents wants one. The error names the column and says what to do about it.

    string, boolean, double, long          as they are          float, int, short, byte      as double and long
    timestamp                              RFC 3339 text        binary                       only `payload`

The columns publisher, number and accepted_at are what the network said of an event that was read; they are left out.
"""

import msgspec
import pyarrow
import pyarrow.compute as compute
from pyspark.sql.types import StructType

from tidings.model.bounds import ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.event import CONTEXT_NAMES
from tidings.model.values import check_name
from tidings.spark.live.columns import OF_THE_NETWORK, PAYLOAD, TIME

NATURAL = {"string": str, "boolean": bool, "double": float, "bigint": int}
WIDENED = {"float": "double", "int": "bigint", "smallint": "bigint", "tinyint": "bigint"}
INSTANTS = ("timestamp", "timestamp_ntz")
INSTEAD = "string, boolean, double, bigint, or a narrower number, or timestamp"


class Encoder:
    def __init__(self, schema: StructType) -> None:
        self.kinds = {
            field.name: field.dataType.simpleString() for field in schema.fields if field.name not in OF_THE_NETWORK
        }
        has_payload = self.kinds.pop(PAYLOAD, "binary")
        if has_payload != "binary":
            raise UsageError(f"column payload: it is {has_payload}, and must be binary; cast it")
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
        longest = compute.max(compute.binary_length(column)).as_py() or 0
        if longest > PAYLOAD_BYTES_MAX:
            raise UsageError(
                f"column payload: {longest} bytes, at most {PAYLOAD_BYTES_MAX} are allowed; cut it in pieces"
            )
        return [b"" if it is None else it for it in column.to_pylist()]


def check_column(name: str, kind: str) -> None:
    check_name(name)
    allowed = kind in NATURAL or kind in WIDENED or kind in INSTANTS
    if not allowed:
        raise UsageError(f"column {name}: {kind} is no type of an attribute; cast it to {INSTEAD}")
    if name in CONTEXT_NAMES and kind != "string" and not (name == TIME and kind in INSTANTS):
        raise UsageError(f"column {name}: CloudEvents wants a text here, not {kind}; cast it to string")


def prepare(name: str, kind: str, column: pyarrow.Array) -> pyarrow.Array:
    """The column as values of an event."""
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
