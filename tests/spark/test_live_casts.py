"""Columns of types that no attribute has, in both directions, and payloads that are decoded."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
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
    StructType,
    TimestampType,
)

from tests.spark.live_world import ThreadBroker
from tidings.model.errors import UsageError
from tidings.pubsub.publications import decode_head
from tidings.spark.live.columns import columns_of, kinds_of
from tidings.spark.live.encoder import Encoder
from tidings.spark.live.source import TidingsSource

TYPES: dict[str, DataType] = {
    "i": IntegerType(),
    "s": ShortType(),
    "b": ByteType(),
    "f": FloatType(),
    "d": DateType(),
    "t": TimestampType(),
    "m": DecimalType(9, 2),
}
INNER = (
    StructType()
    .add("name", StringType())
    .add("sizes", ArrayType(LongType()))
    .add("by", MapType(StringType(), DoubleType()))
)


def schema_of(**types: DataType) -> StructType:
    schema = StructType()
    for name, kind in types.items():
        schema.add(name, kind)
    return schema


def read(broker: ThreadBroker, schema: StructType, **options: str) -> list[dict[str, Any]]:
    reader = TidingsSource({"url": broker.url, **options}).reader(schema)
    return [row for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]


def test_attributes_become_values_of_narrower_and_other_types() -> None:
    good = {"i": 7, "s": -3, "b": 127, "f": 0.5, "d": "2026-11-15", "t": "2026-11-15T20:45:00.25Z", "m": "12.5"}
    with ThreadBroker() as broker:
        broker.publish("desk", [good, {}, {"m": 3, "d": 5, "i": "8", "f": 2}])
        first, empty, other = read(broker, schema_of(**TYPES))
    when = datetime(2026, 11, 15, 20, 45, 0, 250_000, tzinfo=UTC)
    assert first == {"i": 7, "s": -3, "b": 127, "f": 0.5, "d": date(2026, 11, 15), "t": when, "m": Decimal("12.50")}
    assert set(empty.values()) == {None}
    assert (other["m"], other["d"], other["i"], other["f"]) == (Decimal("3.00"), None, 8, 2.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("i", 2**31), ("s", 40_000), ("b", 128), ("f", 1e300), ("d", "yesterday"), ("t", "soon")),
        *(("m", "12.345"), ("m", "123456789"), ("m", "many")),
    ],
)
def test_a_value_that_does_not_fit_is_null_and_counted_or_an_error(
    name: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    schema = schema_of(**{name: TYPES[name]})
    with ThreadBroker() as broker:
        broker.publish("desk", [{name: value}])
        assert read(broker, schema) == [{name: None}]
        with pytest.raises(UsageError, match=f"attribute {name}: .* is nothing for a column of"):
            read(broker, schema, mode="FAILFAST")
    assert "1 values had another type than their column" in caplog.text


def test_what_is_written_is_read_back() -> None:
    schema, when = schema_of(**TYPES), datetime(2026, 11, 15, 20, 45, tzinfo=UTC)
    row = {"i": 7, "s": -3, "b": 1, "f": 0.5, "d": date(1999, 12, 31), "t": when, "m": Decimal("-0.10")}
    batch = pyarrow.RecordBatch.from_pylist([row, dict.fromkeys(row)], schema=to_arrow_schema(schema, timezone="UTC"))
    heads, _ = Encoder(schema).events(batch)
    assert decode_head(heads[0])["m"] == "-0.10"
    with ThreadBroker() as broker:
        broker.publish("desk", [dict(decode_head(head)) for head in heads])
        assert read(broker, schema) == batch.to_pylist()


def test_conditions_reach_brokers_only_where_both_compare_alike() -> None:
    assert kinds_of(columns_of(schema_of(**TYPES))) == {"i": int, "s": int, "b": int}


def test_arrays_are_no_attributes() -> None:
    with pytest.raises(
        UsageError, match=r"the attribute x cannot be array<bigint>; make it string, .*date or timestamp"
    ):
        columns_of(schema_of(x=ArrayType(LongType())))
    with pytest.raises(UsageError, match="column x: array<bigint> is no type of an attribute"):
        Encoder(schema_of(x=ArrayType(LongType())))


def test_payloads_are_texts_or_json_of_the_type_that_the_schema_gives(caplog: pytest.LogCaptureFixture) -> None:
    schema = schema_of(payload=INNER)
    rows = [
        {"payload": {"name": "Grüße", "sizes": [1, 2], "by": [("a", 0.5)]}},
        {"payload": {"name": None, "sizes": [], "by": []}},
    ]
    batch = pyarrow.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schema, timezone="UTC"))
    options = {"payloadFormat": "json", "sinkName": "maker"}
    with ThreadBroker() as broker:
        source = TidingsSource({"url": broker.url, **options})
        source.writer(schema, overwrite=False).publish("maker.0", iter([batch]), is_again=False)
        assert read(broker, schema, payloadFormat="json") == rows
        texts = [row["payload"] for row in read(broker, schema_of(payload=StringType()), payloadFormat="text")]
        assert texts[0] == '{"name":"Grüße","sizes":[1,2],"by":{"a":0.5}}'
        assert source.schema()["payload"].dataType == StringType()
        broker.publish("wrong", [{"n": 1}])
        got = read(broker, schema, payloadFormat="json")
        assert [row["payload"] for row in got].count(None) == 1
    assert "1 values had another type" in caplog.text


@pytest.mark.parametrize(
    ("kind", "payload_format"), [(StringType(), "binary"), (INNER, "text"), (ArrayType(DateType()), "json")]
)
def test_a_payload_of_another_type_than_its_format_is_refused(kind: DataType, payload_format: str) -> None:
    with (
        ThreadBroker() as broker,
        pytest.raises(UsageError, match=r"the column payload cannot be .* with payloadFormat .*from_json"),
    ):
        read(broker, schema_of(payload=kind), payloadFormat=payload_format)
