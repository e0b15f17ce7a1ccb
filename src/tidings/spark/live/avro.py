"""Payloads in Avro's binary encoding, to values of Spark's types and back.

    .option("payloadFormat", "avro").option("payloadSchema", '{"type": "record", "name": "Quote", "fields": [...]}')

Avro (specification 1.12) writes values one behind the other, without names or types: only the schema with which they
were written says what the bytes mean. Spark can read it with a jar that does not come with PySpark; this can without.

    boolean, int, long, float, double, string, bytes         the same type of Spark
    enum, fixed                                              string, binary
    record, array, map                                       struct, array, map from string
    a union of null and one other                            that other, or null
    date, timestamp-millis, timestamp-micros, decimal        date, timestamp, decimal; other logical types as if plain

`avro_type` turns a schema into a tree of readers and writers, once. Spark has no type for unions of several, nor for a
type that holds itself, and arrays of what takes no bytes could be of any length; such a schema is refused.

**Damage.** Whatever bytes come, `decode` gives a value of the type, or None: of a payload that ends too early or
too late, of a number, an index or a text that cannot be. Damage that makes another payload of the same schema cannot be
seen. Nothing that is read is longer than the payload, since each item of a list takes a byte.

A payload is the datum alone: no header with the number of a schema, and no file with blocks. Kept beside it in the
tests is Avro's own implementation in Java, which Spark brings along.
"""

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from tidings.model.errors import UsageError

VARINT_BYTES_MAX = 10
PRECISION_MAX = 38
THOUSAND = 1000
EPOCH, EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1).toordinal()
MICROSECOND = timedelta(microseconds=1)


class DamagedPayload(Exception):
    """These bytes are no value of the schema."""


class UnfitValue(Exception):
    """This value has no bytes under the schema."""


class AvroBytes:
    """A payload, and how far it was read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise DamagedPayload
        taken, self.at = self.data[self.at : end], end
        return taken

    def long(self) -> int:
        """Seven bits a byte, the lowest first; even numbers are 0, 1, 2, ..., odd ones -1, -2, ..."""
        data, at, value = self.data, self.at, 0
        for shift in range(0, 7 * VARINT_BYTES_MAX, 7):
            if at >= len(data):
                raise DamagedPayload
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 64:
                    raise DamagedPayload
                self.at = at
                return (value >> 1) ^ -(value & 1)
        raise DamagedPayload


class AvroType(NamedTuple):
    """`least` is how many bytes a value takes at least."""

    kind: DataType
    read: Callable[[AvroBytes], Any]
    write: Callable[[bytearray, Any], None]
    least: int = 1
    is_nullable: bool = False

    def put(self, target: bytearray, value: Any, where: str) -> None:
        if value is None and not self.is_nullable:
            raise UnfitValue(f"{where} is null, and is not a union with null")
        self.write(target, value)


def decode(kind: AvroType, payload: bytes) -> Any:
    """The value, as Arrow takes it; None if it is damaged."""
    source = AvroBytes(payload)
    try:
        value = kind.read(source)
    except DamagedPayload:
        return None
    return value if source.at == len(payload) else None


def encode(kind: AvroType, value: Any) -> bytes:
    """The payload of a value as Arrow gives it; UsageError where the schema has no room for it."""
    target = bytearray()
    try:
        kind.write(target, value)
    except UnfitValue as problem:
        raise UsageError(f"column payload: {problem} in payloadSchema; make it fit, or change the schema") from None
    return bytes(target)


@lru_cache(maxsize=16)
def avro_type(schema: str) -> AvroType:
    """UsageError says what of the schema cannot be."""
    try:
        told = msgspec.json.decode(schema)
        made = AvroSchema().type_of(told, "")
    except (msgspec.DecodeError, RecursionError) as problem:
        raise UsageError(f"option payloadSchema: no schema of Avro, which is JSON: {problem}") from None
    if isinstance(told, list):
        raise refused("a payload that is a union", "it is null where it is damaged; name the type alone")
    return made


def refused(what: str, advice: str) -> UsageError:
    return UsageError(f"option payloadSchema: {what} has no type in Spark: {advice}")


# Values of plain types.


def write_long(target: bytearray, value: int) -> None:
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        target.append(left & 0x7F | 0x80)
        left >>= 7
    target.append(left)


def write_bytes(target: bytearray, value: bytes) -> None:
    write_long(target, len(value))
    target += value


def read_int(source: AvroBytes) -> int:
    value = source.long()
    if not -(2**31) <= value < 2**31:
        raise DamagedPayload
    return value


def read_boolean(source: AvroBytes) -> bool:
    byte = source.take(1)[0]
    if byte > 1:
        raise DamagedPayload
    return byte == 1


def read_bytes(source: AvroBytes) -> bytes:
    return source.take(source.long())


def read_string(source: AvroBytes) -> str:
    try:
        return read_bytes(source).decode()
    except UnicodeDecodeError:
        raise DamagedPayload from None


def number_type(kind: DataType, form: str) -> AvroType:
    packed = struct.Struct(form)
    return AvroType(
        kind,
        lambda source: packed.unpack(source.take(packed.size))[0],
        lambda target, value: target.extend(packed.pack(value)),
        packed.size,
    )


def read_millis(source: AvroBytes) -> int:
    value = source.long() * THOUSAND
    if not -(2**63) <= value < 2**63:
        raise DamagedPayload
    return value


def write_millis(target: bytearray, value: datetime) -> None:
    millis, rest = divmod((value - EPOCH) // MICROSECOND, THOUSAND)
    if rest:
        raise UnfitValue(f"{value} has microseconds, and is a timestamp-millis")
    write_long(target, millis)


PLAIN_TYPES = {
    "boolean": AvroType(BooleanType(), read_boolean, lambda target, value: target.append(value)),
    "int": AvroType(IntegerType(), read_int, write_long),
    "long": AvroType(LongType(), AvroBytes.long, write_long),
    "float": number_type(FloatType(), "<f"),
    "double": number_type(DoubleType(), "<d"),
    "string": AvroType(StringType(), read_string, lambda target, value: write_bytes(target, value.encode())),
    "bytes": AvroType(BinaryType(), read_bytes, write_bytes),
}
LOGICAL_TYPES = {
    ("int", "date"): AvroType(
        DateType(), read_int, lambda target, value: write_long(target, value.toordinal() - EPOCH_DAY)
    ),
    ("long", "timestamp-millis"): AvroType(TimestampType(), read_millis, write_millis),
    ("long", "timestamp-micros"): AvroType(
        TimestampType(),
        AvroBytes.long,
        lambda target, value: write_long(target, (value - EPOCH) // MICROSECOND),
    ),
}


# Types that are made of others.


class AvroSchema:
    """The named types of a schema, while it is read."""

    def __init__(self) -> None:
        self.named: dict[str, AvroType | None] = {}
        """None for one that is not finished: whoever names it lies within."""

    def type_of(self, told: Any, namespace: str) -> AvroType:
        match told:
            case str() if told in PLAIN_TYPES:
                return PLAIN_TYPES[told]
            case str():
                return self.known(told, namespace)
            case [*branches]:
                return self.union(branches, namespace)
            case {"type": "array", "items": items}:
                return array_of(self.type_of(items, namespace))
            case {"type": "map", "values": values}:
                return map_of(self.type_of(values, namespace))
            case {"type": "record" | "enum" | "fixed", "name": str()}:
                return self.declared(told, namespace)
            case {"type": "bytes", "logicalType": "decimal"}:
                return decimal_of(told, PLAIN_TYPES["bytes"], None)
            case {"type": str() as plain, "logicalType": str() as logical} if (plain, logical) in LOGICAL_TYPES:
                return LOGICAL_TYPES[plain, logical]
            case {"type": str() | list() | dict() as inner}:
                return self.type_of(inner, namespace)
        raise UsageError(f"option payloadSchema: {msgspec.json.encode(told).decode():.80} is no type of Avro")

    def known(self, name: str, namespace: str) -> AvroType:
        full = full_name(name, namespace)
        if full not in self.named:
            raise UsageError(f"option payloadSchema: there is no type {name}, or it is declared only later")
        found = self.named[full]
        if found is None:
            raise refused(f"{name}, which holds itself,", "read payloads as binary")
        return found

    def declared(self, told: dict[str, Any], namespace: str) -> AvroType:
        full = full_name(told["name"], told.get("namespace", namespace))
        self.named[full] = None
        match told:
            case {"type": "record", "fields": [*fields]}:
                made = self.record(fields, full.rpartition(".")[0])
            case {"type": "enum", "symbols": [*symbols]} if symbols and all(isinstance(it, str) for it in symbols):
                made = enum_of(symbols)
            case {"type": "fixed", "size": int(size)} if size >= 0:
                made = fixed_of(size)
                if told.get("logicalType") == "decimal":
                    made = decimal_of(told, made, size)
            case _:
                raise UsageError(f"option payloadSchema: {told['type']} {full} lacks its fields, symbols or size")
        self.named[full] = made
        return made

    def record(self, fields: list[Any], namespace: str) -> AvroType:
        kind, parts = StructType(), list[tuple[str, AvroType]]()
        for field in fields:
            match field:
                case {"name": str() as name, "type": told} if name not in kind.names:
                    part = self.type_of(told, namespace)
                case _:
                    raise UsageError(
                        f"option payloadSchema: {msgspec.json.encode(field).decode():.80} is no field, or there twice"
                    )
            kind.add(name, part.kind)
            parts.append((name, part))

        def write(target: bytearray, value: dict[str, Any]) -> None:
            for name, part in parts:
                part.put(target, value[name], name)

        return AvroType(
            kind,
            lambda source: {name: part.read(source) for name, part in parts},
            write,
            sum(part.least for _, part in parts),
        )

    def union(self, branches: list[Any], namespace: str) -> AvroType:
        others = [it for it in branches if it != "null"]
        if len(branches) != 2 or len(others) != 1:
            raise refused("a union other than of null and one type", "read payloads as binary")
        inner, null_at = self.type_of(others[0], namespace), branches.index("null")

        def read(source: AvroBytes) -> Any:
            place = source.long()
            if place not in (0, 1):
                raise DamagedPayload
            return None if place == null_at else inner.read(source)

        def write(target: bytearray, value: Any) -> None:
            write_long(target, null_at if value is None else 1 - null_at)
            if value is not None:
                inner.write(target, value)

        return AvroType(inner.kind, read, write, is_nullable=True)


def full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def read_blocks(source: AvroBytes, read: Callable[[AvroBytes], Any]) -> list[Any]:
    """Items come in blocks, each with their count in front; a negative one is followed by the block's bytes."""
    items: list[Any] = []
    while count := source.long():
        end = source.long() if count < 0 else None
        begin = source.at
        for _ in range(abs(count)):
            items.append(read(source))
        if end is not None and source.at - begin != end:
            raise DamagedPayload
    return items


def array_of(item: AvroType) -> AvroType:
    if not item.least:
        raise refused("an array of what takes no bytes", "it could be of any length; read payloads as binary")

    def write(target: bytearray, value: list[Any]) -> None:
        if value:
            write_long(target, len(value))
        for it in value:
            item.put(target, it, "an item of an array")
        target.append(0)

    return AvroType(ArrayType(item.kind), lambda source: read_blocks(source, item.read), write)


def map_of(item: AvroType) -> AvroType:
    def write(target: bytearray, value: list[tuple[str, Any]]) -> None:
        if value:
            write_long(target, len(value))
        for name, it in value:
            write_bytes(target, name.encode())
            item.put(target, it, "a value of a map")
        target.append(0)

    def read_entry(source: AvroBytes) -> tuple[str, Any]:
        return read_string(source), item.read(source)

    return AvroType(
        MapType(StringType(), item.kind),
        # Of a name that comes twice the last counts.
        lambda source: list(dict(read_blocks(source, read_entry)).items()),
        write,
    )


def enum_of(symbols: list[str]) -> AvroType:
    def read(source: AvroBytes) -> str:
        place = source.long()
        if not 0 <= place < len(symbols):
            raise DamagedPayload
        return symbols[place]

    def write(target: bytearray, value: str) -> None:
        if value not in symbols:
            raise UnfitValue(f"{value!r:.40} is none of the symbols of an enum")
        write_long(target, symbols.index(value))

    return AvroType(StringType(), read, write)


def fixed_of(size: int) -> AvroType:
    def write(target: bytearray, value: bytes) -> None:
        if len(value) != size:
            raise UnfitValue(f"{len(value)} bytes are a fixed of {size}")
        target += value

    return AvroType(BinaryType(), lambda source: source.take(size), write, size)


def decimal_of(told: dict[str, Any], plain: AvroType, size: int | None) -> AvroType:
    """The number without its point, as bytes, the highest first."""
    match told.get("precision"), told.get("scale", 0):
        case int(precision), int(scale) if 0 <= scale <= precision and 0 < precision <= PRECISION_MAX:
            pass
        case precision, scale:
            raise refused(f"a decimal of precision {precision} and scale {scale}", f"at most {PRECISION_MAX} digits")

    def read(source: AvroBytes) -> Decimal:
        unscaled = int.from_bytes(plain.read(source), "big", signed=True)
        if abs(unscaled) >= 10**precision:
            raise DamagedPayload
        # Made of digits, so that no context rounds it.
        return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))

    def write(target: bytearray, value: Decimal) -> None:
        sign, digits, exponent = value.as_tuple()
        assert exponent == -scale, "as Arrow gives decimals of this type"
        unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
        length = unscaled.bit_length() // 8 + 1
        if size is not None and length > size:
            raise UnfitValue(f"{value} does not fit into a fixed of {size}")
        plain.write(target, unscaled.to_bytes(size or length, "big", signed=True))

    return AvroType(DecimalType(precision, scale), read, write, plain.least)
