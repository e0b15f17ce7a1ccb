"""Payloads in Avro: as its specification says, as its own implementation in Java does it, and whatever bytes come."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructType

from tests.spark.live_world import ThreadBroker
from tests.spark.test_live_casts import read, schema_of
from tidings.model.errors import UsageError
from tidings.spark.live.avro import avro_type, decode, encode
from tidings.spark.live.encoder import Encoder
from tidings.spark.live.source import TidingsSource


def schema_text(told: Any) -> str:
    return json.dumps(told)


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": told} for name, told in fields.items()]}


@pytest.mark.parametrize(
    ("told", "value", "payload"),
    [
        # The examples of the specification, "Binary Encoding".
        ("long", 0, "00"),
        ("long", -1, "01"),
        ("long", 1, "02"),
        ("long", -64, "7f"),
        ("long", 64, "8001"),
        ("string", "foo", "06666f6f"),
        (record(a="long", b="string"), {"a": 27, "b": "foo"}, "3606666f6f"),
        ({"type": "enum", "name": "Foo", "symbols": ["A", "B", "C", "D"]}, "D", "06"),
        ({"type": "array", "items": "long"}, [3, 27], "04063600"),
        (record(a=["null", "string"]), {"a": None}, "00"),
        (record(a=["null", "string"]), {"a": "a"}, "020261"),
    ],
)
def test_examples_of_the_specification(told: Any, value: Any, payload: str) -> None:
    kind = avro_type(schema_text(told))
    assert decode(kind, bytes.fromhex(payload)) == value
    assert encode(kind, value).hex() == payload


def test_a_block_may_say_its_size() -> None:
    kind = avro_type(schema_text({"type": "array", "items": "long"}))
    assert decode(kind, bytes.fromhex("0304063600")) == [3, 27]
    assert decode(kind, bytes.fromhex("0302063600")) is None, "another size than it has"


@pytest.mark.parametrize(
    ("told", "payload"),
    [
        ("long", ""),
        ("long", "0000"),
        ("long", "80"),
        ("long", "ffffffffffffffffff02"),
        ("long", "8080808080808080808000"),
        ("int", "8080808010"),
        ("boolean", "02"),
        ("double", "00000000000000"),
        ("string", "02ff"),
        ("string", "01"),
        ("bytes", "0a00"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "02"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "01"),
        (record(a=["null", "long"]), "04"),
        (record(a=["null", "long"]), "01"),
        ({"type": "array", "items": "long"}, "feffffffffffffffff01"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, "040100"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "feffffffffffffffff01"),
    ],
)
def test_damage_is_seen(told: Any, payload: str) -> None:
    assert decode(avro_type(schema_text(told)), bytes.fromhex(payload)) is None


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("[", "is JSON"),
        ('"strnig"', "there is no type strnig"),
        ('{"type": "record", "name": "R"}', "record R lacks its fields"),
        ('["null", "long"]', "a payload that is a union"),
        (schema_text(record(a=["long", "string"])), "a union other than of null and one type"),
        (schema_text(record(a=["null", "R"])), "R, which holds itself"),
        ('{"type": "array", "items": {"type": "record", "name": "E", "fields": []}}', "what takes no bytes"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 40}', "precision 40"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "a", "type": "int"}]}',
            "there twice",
        ),
        ("7", "7 is no type of Avro"),
    ],
)
def test_a_schema_that_has_no_type_in_spark_is_refused(told: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        avro_type(told)


@pytest.mark.parametrize(
    ("told", "value", "says"),
    [
        (record(a="long"), {"a": None}, "a is null"),
        (record(a={"type": "enum", "name": "E", "symbols": ["A"]}), {"a": "B"}, "'B' is none of the symbols"),
        (record(a={"type": "fixed", "name": "F", "size": 2}), {"a": b"x"}, "1 bytes are a fixed of 2"),
        (
            record(a={"type": "long", "logicalType": "timestamp-millis"}),
            {"a": datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)},
            "has microseconds",
        ),
        (
            record(a={"type": "fixed", "name": "D", "size": 1, "logicalType": "decimal", "precision": 3}),
            {"a": Decimal("128")},
            "does not fit into a fixed of 1",
        ),
    ],
)
def test_a_value_for_which_the_schema_has_no_room_is_refused(told: Any, value: Any, says: str) -> None:
    with pytest.raises(UsageError, match=f"column payload: .*{says}"):
        encode(avro_type(schema_text(told)), value)


# Any schema, any value.


class Drawn(NamedTuple):
    """A type, values of it as Arrow has them, and those as Avro's JSON has them."""

    told: Any
    values: st.SearchStrategy[Any]
    as_json: Callable[[Any], Any]
    branch: str
    """How its JSON calls it in a union."""


def latin(value: bytes) -> str:
    return value.decode("latin-1")


def plain(told: str, values: st.SearchStrategy[Any], as_json: Callable[[Any], Any] = lambda value: value) -> Drawn:
    return Drawn(told, values, as_json, told)


WHOLE, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN = (
    plain("boolean", st.booleans()),
    plain("int", WHOLE),
    plain("long", LONG),
    plain("float", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    plain("double", st.floats(allow_nan=False, allow_infinity=False)),
    plain("string", TEXT),
    plain("bytes", st.binary(max_size=8), latin),
)


def array(item: Drawn) -> Drawn:
    told = {"type": "array", "items": item.told}
    return Drawn(told, st.lists(item.values, max_size=3), lambda value: list(map(item.as_json, value)), "array")


def mapped(item: Drawn) -> Drawn:
    values = st.dictionaries(TEXT, item.values, max_size=3).map(lambda value: list(value.items()))
    told = {"type": "map", "values": item.told}
    return Drawn(told, values, lambda value: {name: item.as_json(it) for name, it in value}, "map")


def nullable(item: Drawn, is_first: bool) -> Drawn:
    return Drawn(
        ["null", item.told] if is_first else [item.told, "null"],
        st.none() | item.values,
        lambda value: None if value is None else {item.branch: item.as_json(value)},
        "",
    )


class Names:
    """Each record, enum and fixed of a schema has a name of its own."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> str:
        self.count += 1
        return f"T{self.count}"


def struct_of(name: str, parts: list[Drawn]) -> Drawn:
    told = {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{place}", "type": it.told} for place, it in enumerate(parts)],
    }
    values = st.tuples(*(it.values for it in parts)).map(
        lambda value: {f"f{place}": it for place, it in enumerate(value)}
    )
    return Drawn(
        told,
        values,
        lambda value: {f"f{place}": it.as_json(value[f"f{place}"]) for place, it in enumerate(parts)},
        name,
    )


@st.composite
def types(draw: st.DrawFn, names: Names, depth: int) -> Drawn:
    made = ["plain", "enum", "fixed"] + (["array", "map", "record", "nullable"] if depth else [])
    match draw(st.sampled_from(made)):
        case "plain":
            chosen: Drawn = draw(st.sampled_from(PLAIN))
            return chosen
        case "enum":
            name, symbols = names.next(), ["A", "B", "C"]
            told = {"type": "enum", "name": name, "symbols": symbols}
            return Drawn(told, st.sampled_from(symbols), lambda value: value, name)
        case "fixed":
            name, size = names.next(), draw(st.integers(1, 4))
            shape = {"type": "fixed", "name": name, "size": size}
            return Drawn(shape, st.binary(min_size=size, max_size=size), latin, name)
        case "array":
            return array(draw(types(names, depth - 1)))
        case "map":
            return mapped(draw(types(names, depth - 1)))
        case "nullable":
            inner = draw(types(names, depth - 1).filter(lambda it: not isinstance(it.told, list)))
            return nullable(inner, draw(st.booleans()))
    parts = draw(st.lists(types(names, depth - 1), min_size=1, max_size=4))
    return struct_of(names.next(), parts)


@st.composite
def records(draw: st.DrawFn) -> Drawn:
    names = Names()
    return struct_of("Outer", draw(st.lists(types(names, 2), min_size=1, max_size=4)))


@given(st.data(), records())
def test_what_is_written_is_read_back_and_arrow_takes_it(data: st.DataObject, drawn: Drawn) -> None:
    kind, value = avro_type(schema_text(drawn.told)), data.draw(drawn.values)
    payload = encode(kind, value)
    assert decode(kind, payload) == value
    arrow = to_arrow_schema(StructType().add("payload", kind.kind)).field(0).type
    assert pyarrow.array([decode(kind, payload)], arrow).to_pylist() == [value]
    assert decode(kind, payload + b"\0") is None


@given(records(), st.binary(max_size=40))
def test_any_bytes_are_a_value_of_the_type_or_damaged(drawn: Drawn, payload: bytes) -> None:
    kind = avro_type(schema_text(drawn.told))
    value = decode(kind, payload)
    if value is not None:
        arrow = to_arrow_schema(StructType().add("payload", kind.kind)).field(0).type
        pyarrow.array([value], arrow)


class JavaAvro:
    """Avro's own implementation, in the Java of a session."""

    def __init__(self, spark: SparkSession, schema: str) -> None:
        jvm: Any = spark._jvm
        self.avro, self.io = jvm.org.apache.avro, jvm.java.io
        self.schema = jvm.org.apache.avro.Schema.Parser().parse(schema)

    def bytes_of(self, text: str) -> bytes:
        factory = self.avro.io.DecoderFactory.get()
        value = self.avro.generic.GenericDatumReader(self.schema).read(None, factory.jsonDecoder(self.schema, text))
        target = self.io.ByteArrayOutputStream()
        encoder = self.avro.io.EncoderFactory.get().binaryEncoder(target, None)
        self.avro.generic.GenericDatumWriter(self.schema).write(value, encoder)
        encoder.flush()
        return bytes(target.toByteArray())

    def json_of(self, payload: bytes) -> Any:
        decoder = self.avro.io.DecoderFactory.get().binaryDecoder(payload, None)
        value = self.avro.generic.GenericDatumReader(self.schema).read(None, decoder)
        target = self.io.ByteArrayOutputStream()
        encoder = self.avro.io.EncoderFactory.get().jsonEncoder(self.schema, target)
        self.avro.generic.GenericDatumWriter(self.schema).write(value, encoder)
        encoder.flush()
        return json.loads(bytes(target.toByteArray()))


@pytest.mark.spark
def test_payloads_are_those_of_avros_own_implementation(spark: SparkSession) -> None:
    @given(st.data(), records())
    def agree(data: st.DataObject, drawn: Drawn) -> None:
        schema, value = schema_text(drawn.told), data.draw(drawn.values)
        kind, theirs, told = avro_type(schema), JavaAvro(spark, schema), drawn.as_json(value)
        # Java gives the entries of a map in an order of its own.
        assert drawn.as_json(decode(kind, theirs.bytes_of(json.dumps(told)))) == told
        assert theirs.json_of(encode(kind, value)) == told

    agree()


# In the source and the sink.

TRADE = {
    "type": "record",
    "name": "Trade",
    "namespace": "desk",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "side", "type": {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]}},
        {"name": "back", "type": ["null", "Side"], "default": None},
        {"name": "fills", "type": {"type": "array", "items": "int"}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
    ],
}
ROWS = [
    {
        "at": datetime(2026, 11, 18, 11, 0, 0, 250, tzinfo=UTC),
        "day": date(1969, 12, 31),
        "price": Decimal("-12.50"),
        "side": "SELL",
        "back": "BUY",
        "fills": [1, -2],
        "tags": [("a", "b")],
    },
    {
        "at": datetime(1960, 1, 1, tzinfo=UTC),
        "day": date(2026, 11, 18),
        "price": Decimal("1234567.89"),
        "side": "BUY",
        "back": None,
        "fills": [],
        "tags": [],
    },
]


def test_payloads_are_written_and_read_and_damaged_ones_obey_the_mode(caplog: pytest.LogCaptureFixture) -> None:
    schema = schema_of(payload=avro_type(schema_text(TRADE)).kind)
    batch = pyarrow.RecordBatch.from_pylist(
        [{"payload": row} for row in ROWS], schema=to_arrow_schema(schema, timezone="UTC")
    )
    options = {"payloadFormat": "avro", "payloadSchema": schema_text(TRADE)}
    with ThreadBroker() as broker:
        source = TidingsSource({"url": broker.url, "sinkName": "maker", **options})
        source.writer(schema, overwrite=False).publish("maker.0", iter([batch]), is_again=False)
        assert read(broker, schema, mode="FAILFAST", **options) == batch.to_pylist()
        assert source.schema()["payload"].dataType == schema["payload"].dataType
        # Its payload is a text.
        broker.publish("wrong", [{"n": 1}])
        got = [row["payload"] for row in read(broker, schema, **options)]
        assert got.count(None) == 1 and len(got) == 3
        with pytest.raises(UsageError, match=r"attribute payload: .* is nothing for a column of struct"):
            read(broker, schema, mode="FAILFAST", **options)
    assert "1 values had another type" in caplog.text


def test_options_and_columns_that_do_not_go_together_are_refused() -> None:
    url, schema = {"url": "tidings://localhost:7411"}, schema_text(TRADE)
    for options in ({"payloadFormat": "avro"}, {"payloadSchema": schema}):
        with pytest.raises(UsageError, match="payloadFormat, payloadSchema"):
            TidingsSource({**url, **options})
    source = TidingsSource({**url, "payloadFormat": "avro", "payloadSchema": schema})
    with pytest.raises(UsageError, match=r"cannot be string .* whose type is struct<at:timestamp,day:date"):
        source.reader(schema_of(payload=StringType()))
    with pytest.raises(UsageError, match=r"cannot be string .* whose type is struct<at:timestamp,day:date"):
        Encoder(schema_of(payload=StringType()), "avro", schema)
