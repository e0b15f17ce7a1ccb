"""Columns of types that no attribute has, made of those that it has; and payloads that are decoded.

An attribute of an event is a text, an integer, a number or a truth, and a column reads it so (`readings.py`). Spark has
more types. A column of one of these is read as the widest attribute that holds all of its values, and cast in the end:

    byte, short, int      from an integer that lies within           float          from a number
    date                  from a text such as 2026-11-15             timestamp      from RFC 3339 text
    decimal(p, s)         from the digits of a number or a text, where they fit without rounding

What cannot be cast is null, or an error with `mode` = "FAILFAST", as with other types. The sink writes them back in the
same spelling (`encoder.py`). Arrays, maps and structs are no attributes; in a payload they have a meaning:

    payloadFormat         column payload
    binary (the default)  binary
    text                  string: UTF-8
    json                  whatever type the schema gives it: a string (the JSON itself), a struct, an array, a map of
                          texts, integers, numbers and truths
    avro                  the type that `payloadSchema` says (`avro.py`)
"""

from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import pyarrow
import pyarrow.compute as compute
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidings.model.errors import UsageError
from tidings.spark.live.avro import AvroType, avro_type, decode
from tidings.spark.live.columns import FIXED, PAYLOAD
from tidings.spark.live.readings import read_time

BINARY, JSON = "binary", "json"

PLAIN: dict[type[DataType], DataType] = {
    **dict.fromkeys((ByteType, ShortType, IntegerType), LongType()),
    FloatType: DoubleType(),
    **dict.fromkeys((DateType, TimestampType, DecimalType), StringType()),
}
"""As what attributes of these types are read first."""

Cast = Callable[[pyarrow.Array, pyarrow.DataType], pyarrow.Array]


def plain_schema(schema: StructType) -> StructType:
    """What brokers' pages are decoded to."""
    return StructType([StructField(field.name, plain_type(field), field.nullable) for field in schema.fields])


def plain_type(field: StructField) -> DataType:
    if field.name in FIXED:
        return FIXED[field.name]
    return PLAIN.get(type(field.dataType), field.dataType)


def payload_type(payload_format: str, avro_schema: str = "") -> DataType:
    """Where no schema is given."""
    if avro_schema:
        return avro_type(avro_schema).kind
    return BinaryType() if payload_format == BINARY else StringType()


def check_payload(schema: StructType, payload_format: str, avro_schema: str = "") -> None:
    kinds = [field.dataType for field in schema.fields if field.name == PAYLOAD]
    for kind in kinds:
        if avro_schema:
            check_avro(kind, avro_type(avro_schema).kind)
            continue
        is_right = kind == BinaryType() if payload_format == BINARY else kind == StringType()
        if not is_right and not (payload_format == JSON and is_json(kind)):
            raise UsageError(
                f"schema: the column payload cannot be {kind.simpleString()} with payloadFormat {payload_format}; "
                "binary is BINARY, text is STRING, json is STRING or an ARRAY, MAP or STRUCT of STRING, LONG, DOUBLE, "
                "BOOLEAN (for other types read it as text, and use from_json)"
            )


def check_avro(kind: DataType, wanted: DataType) -> None:
    if kind != wanted:
        raise UsageError(
            f"schema: the column payload cannot be {kind.simpleString()} with this payloadSchema, whose type is "
            f"{wanted.simpleString()}; write it so, with nothing NOT NULL"
        )


def is_json(kind: DataType, is_inner: bool = False) -> bool:
    match kind:
        case StructType():
            return all(is_json(field.dataType, True) for field in kind.fields)
        case ArrayType():
            return is_json(kind.elementType, True)
        case MapType():
            return kind.keyType == StringType() and is_json(kind.valueType, True)
    return is_inner and isinstance(kind, StringType | LongType | IntegerType | DoubleType | BooleanType)


class DeclaredColumns:
    """Batches of plain columns to those of a schema. `misread` counts values that are null because they do not fit."""

    def __init__(self, schema: StructType, payload_format: str, fails: bool, avro_schema: str = "") -> None:
        self.fails, self.misread = fails, 0
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.casts: dict[str, Cast] = {}
        for field in schema.fields:
            if field.name == PAYLOAD and avro_schema:
                self.casts[field.name] = cast_avro(avro_type(avro_schema))
            elif field.name == PAYLOAD and payload_format != BINARY:
                self.casts[field.name] = cast_text if field.dataType == StringType() else cast_json
            elif plain_type(field) != field.dataType:
                self.casts[field.name] = CASTS[type(field.dataType)]

    def batch(self, plain: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        if not self.casts:
            return plain
        return pyarrow.RecordBatch.from_arrays(
            list(map(self.column, plain.schema.names, plain.columns)), schema=self.schema
        )

    def column(self, name: str, plain: pyarrow.Array) -> pyarrow.Array:
        if name not in self.casts:
            return plain
        made = self.casts[name](plain, self.schema.field(name).type)
        misread = made.null_count - plain.null_count
        if misread and self.fails:
            unfit = next(
                value
                for value, it in zip(plain.to_pylist(), made.is_null().to_pylist(), strict=True)
                if it and value is not None
            )
            raise UsageError(
                f"attribute {name}: {unfit!r:.80} is nothing for a column of {made.type}; choose another type, or "
                'leave mode "FAILFAST" to get null'
            )
        self.misread += misread
        return made


def cast_whole(plain: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    bits = kind.bit_width - 1
    fits = compute.and_(compute.greater_equal(plain, -(1 << bits)), compute.less(plain, 1 << bits))
    return compute.if_else(fits, plain, pyarrow.scalar(None, plain.type)).cast(kind)


def cast_float(plain: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    made = plain.cast(kind)
    return compute.if_else(compute.is_finite(made), made, pyarrow.scalar(None, kind))


def one_by_one(read: Callable[[Any, pyarrow.DataType], Any]) -> Cast:
    """For types of which Arrow takes all values or none."""

    def cast(plain: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
        made: Iterable[Any] = (None if value is None else read(value, kind) for value in plain.to_pylist())
        return pyarrow.array(list(made), kind)

    return cast


def read_date(text: str, kind: pyarrow.DataType) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def read_decimal(text: str, kind: pyarrow.DataType) -> Decimal | None:
    """Nothing is rounded."""
    try:
        number = Decimal(text)
        if not number.is_finite() or number.adjusted() >= kind.precision - kind.scale:
            return None
        scaled = number.quantize(Decimal(1).scaleb(-kind.scale))
    except InvalidOperation:
        return None
    return scaled if scaled == number else None


def cast_text(plain: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    try:
        return plain.cast(kind)
    except pyarrow.ArrowInvalid:
        return one_by_one(read_text)(plain, kind)


def read_text(payload: bytes, kind: pyarrow.DataType) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


def cast_json(plain: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    values = [None if value is None else read_json(value) for value in plain.to_pylist()]
    try:
        return pyarrow.array(values, kind)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return pyarrow.array([value if is_of(value, kind) else None for value in values], kind)


def read_json(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def cast_avro(told: AvroType) -> Cast:
    return one_by_one(lambda payload, kind: decode(told, payload))


def is_of(value: Any, kind: pyarrow.DataType) -> bool:
    try:
        pyarrow.array([value], kind)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return False
    return True


CASTS: dict[type[DataType], Cast] = {
    **dict.fromkeys((ByteType, ShortType, IntegerType), cast_whole),
    FloatType: cast_float,
    DateType: one_by_one(read_date),
    TimestampType: one_by_one(lambda text, kind: read_time(text)),
    DecimalType: one_by_one(read_decimal),
}
