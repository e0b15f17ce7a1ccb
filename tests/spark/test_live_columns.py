"""Events to columns and back: schemas, decoding, encoding."""

from datetime import UTC, datetime
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.values import Value, number_of, text_of, truth_of
from tidings.pubsub.pages import StoredPage, page_of
from tidings.pubsub.publications import decode_head, encode_head
from tidings.spark.live.columns import columns_of, infer_schema
from tidings.spark.live.decoder import Decoder
from tidings.spark.live.readings import read_time
from tidings.spark.live.sink import Encoder

values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "IBM", "5", "05", "2.5", "1e3", "true", "False", "-7", "nan", "inf"]),
    st.text(max_size=5),
)
rows = st.lists(st.dictionaries(st.sampled_from(["text", "whole", "real", "truth", "other"]), values), max_size=12)


def schema(**kinds: str) -> StructType:
    made = StructType()
    for name, kind in kinds.items():
        made.add(name, kind)
    return made


TYPED = schema(text="string", whole="long", real="double", truth="boolean")


def page_with(events: list[dict[str, Value]]) -> StoredPage:
    return page_of_heads(list(map(encode_head, events)))


def page_of_heads(heads: list[bytes]) -> StoredPage:
    return page_of([12.5] * len(heads), range(1, len(heads) + 1), heads, [b"x"] * len(heads))


def decode(decoder: Decoder, events: list[dict[str, Value]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = decoder.batch("desk", page_with(events)).to_pylist()
    return rows


def test_attributes_and_their_types_come_from_advertisements() -> None:
    offers = [
        "magnitude >= 4 AND place LIKE '%Chile%' AND felt = TRUE",
        "magnitude < 2 AND EXISTS note AND NOT EXISTS x",
    ]
    inferred = infer_schema(offers)
    found = {field.name: field.dataType.simpleString() for field in inferred.fields}
    assert (found["magnitude"], found["place"], found["felt"], found["note"]) == (
        "double",
        "string",
        "boolean",
        "string",
    )
    assert "x" not in found
    assert (inferred.names[:3], inferred.names[-1]) == (["publisher", "number", "accepted_at"], "payload")


def test_an_attribute_that_is_advertised_in_two_ways_is_a_string() -> None:
    assert infer_schema(["a > 3", "a = 'x'"])["a"].dataType.simpleString() == "string"


def test_context_attributes_have_their_own_columns_whatever_is_advertised() -> None:
    inferred = infer_schema(["type = 'quake' AND time > '2026'"])
    assert inferred["time"].dataType.simpleString() == "timestamp"
    assert inferred.names.count("type") == 1


@pytest.mark.parametrize(
    ("given_schema", "words"),
    [
        (schema(price="binary"), "attribute price cannot be binary; make it string, bigint"),
        (schema(number="string"), "column number is bigint, not string"),
        (schema(time="string"), "column time is timestamp, not string"),
        (schema(a="string", A="string"), "a and A differ only in case"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused(given_schema: StructType, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        columns_of(given_schema)


def test_what_the_network_says_of_an_event_and_cloudevents_have_columns() -> None:
    wanted = infer_schema(["price > 0"])
    attributes: dict[str, Value] = {"type": "quote", "time": "2026-11-15T20:45:00Z", "price": 7}
    [row] = decode(Decoder(wanted), [attributes])
    assert (row["publisher"], row["number"], row["id"], row["source"]) == ("desk", 1, "1", "desk")
    assert row["accepted_at"] == datetime(1970, 1, 1, 0, 0, 12, 500_000, tzinfo=UTC)
    assert row["time"] == datetime(2026, 11, 15, 20, 45, tzinfo=UTC)
    assert (row["type"], row["subject"], row["price"], row["payload"]) == ("quote", None, 7.0, b"x")


def test_an_event_that_has_id_and_source_keeps_them() -> None:
    wanted = schema(source="string", id="string")
    got = decode(Decoder(wanted), [{"id": "e7", "source": "/desk"}, {"id": "e8"}])
    assert got == [{"source": "/desk", "id": "e7"}, {"source": "desk", "id": "e8"}]


@given(rows)
def test_columns_read_values_as_filters_do(events: list[dict[str, Value]]) -> None:
    got = decode(Decoder(TYPED), events)
    for attributes, row in zip(events, got, strict=True):
        assert row["text"] == (text_of(attributes["text"]) if "text" in attributes else None)
        assert row["truth"] is (truth_of(attributes["truth"]) if "truth" in attributes else None)
        real = number_of(attributes["real"]) if "real" in attributes else None
        assert row["real"] == (None if real is None else float(real))
        whole = number_of(attributes["whole"]) if "whole" in attributes else None
        fits = whole is not None and whole == int(whole) and -(2**63) <= int(whole) < 2**63
        assert row["whole"] == (int(whole) if fits and whole is not None else None)


def test_payloads_are_asked_for_only_where_a_column_is_made_of_them() -> None:
    network = {"publisher": "string", "number": "long", "accepted_at": "timestamp", "time": "timestamp"}
    assert not Decoder(schema(**network, id="string", price="double")).needs_payloads
    assert Decoder(schema(payload="binary")).needs_payloads
    assert Decoder(infer_schema(["price > 0"])).needs_payloads


def test_values_of_another_type_are_counted_or_refused() -> None:
    page = page_with([{"real": "IBM", "whole": 2.5, "truth": 1}, {"real": 3}])
    decoder = Decoder(TYPED)
    assert decoder.batch("desk", page).column("real").to_pylist() == [None, 3.0]
    assert decoder.misread == 3
    with pytest.raises(UsageError, match="'IBM' is nothing for a column of float"):
        Decoder(schema(real="double"), fails_on_type=True).batch("desk", page)


def test_heads_that_do_not_decode_have_nulls_and_harm_no_other() -> None:
    good = encode_head({"real": 1.5})
    page = page_of_heads([good, b"\xc1", good])
    decoder = Decoder(TYPED)
    assert decoder.batch("desk", page).column("real").to_pylist() == [1.5, None, 1.5]
    assert decoder.misread == 1


def test_batches_have_exactly_the_schema_that_spark_checks() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = infer_schema(["price > 0 AND ok = TRUE"])
    assert Decoder(wanted).batch("desk", page_with([{"price": 1}])).schema == to_arrow_schema(wanted, timezone="UTC")


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01t01:00:01.5+01:00", 1_500_000),
        ("1970-01-01T00:00:00.123456789Z", 123_456),
        ("1969-12-31T23:59:60Z", 0),
        ("1970-01-01T00:00:00-00:30", 1_800_000_000),
        ("0000-01-01T00:00:00Z", None),
    ],
)
def test_times_are_read_in_all_their_spellings(text: str, micros: int | None) -> None:
    assert read_time(text) == micros


columns = st.fixed_dictionaries(
    {
        "text": st.none() | st.text(max_size=5),
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
        "real": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "truth": st.none() | st.booleans(),
        "payload": st.none() | st.binary(max_size=5),
    }
)
WRITTEN = schema(text="string", whole="long", real="double", truth="boolean", payload="binary")


@given(st.lists(columns, max_size=10))
def test_rows_become_the_heads_that_a_publisher_would_make_and_come_back(rows: list[dict[str, Any]]) -> None:
    arrow = pyarrow.schema(
        [("text", "string"), ("whole", "int64"), ("real", "float64"), ("truth", "bool"), ("payload", "binary")]
    )
    heads, payloads = Encoder(WRITTEN).events(pyarrow.RecordBatch.from_pylist(rows, arrow))
    for row, head, payload in zip(rows, heads, payloads, strict=True):
        attributes = {name: value for name, value in row.items() if name != "payload" and value is not None}
        assert head == encode_head(attributes)
        assert Event(decode_head(head), payload) == Event(attributes, row["payload"] or b"")


def test_times_are_written_as_rfc_3339_and_what_the_network_says_is_left_out() -> None:
    wanted = schema(publisher="string", number="long", accepted_at="timestamp", time="timestamp", n="integer")
    at = datetime(2026, 11, 15, 20, 45, 0, 250_000, tzinfo=UTC)
    batch = pyarrow.record_batch(
        {
            "publisher": ["x"],
            "number": [1],
            "accepted_at": pyarrow.array([at], pyarrow.timestamp("us", "UTC")),
            "time": pyarrow.array([at], pyarrow.timestamp("us", "UTC")),
            "n": pyarrow.array([4], pyarrow.int32()),
        }
    )
    [head], [payload] = Encoder(wanted).events(batch)
    assert decode_head(head) == {"n": 4, "time": "2026-11-15T20:45:00.250000Z"}
    assert payload == b""


@pytest.mark.parametrize(
    ("kinds", "column", "words"),
    [
        ({"x": "double"}, pyarrow.array([1.0, float("nan")]), "column x: NaN or infinity"),
        ({"type": "string"}, pyarrow.array([""]), "column type: CloudEvents wants no empty text"),
        ({"x": "string"}, pyarrow.array(["a" * 70_000]), "a text of 70000 bytes, at most 65536"),
        ({"payload": "binary"}, pyarrow.array([b"a" * 2_000_000]), "column payload: 2000000 bytes"),
    ],
)
def test_rows_that_are_no_events_are_refused_by_column(
    kinds: dict[str, str], column: pyarrow.Array, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        Encoder(schema(**kinds)).events(pyarrow.RecordBatch.from_arrays([column], names=list(kinds)))


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ({"x": "binary"}, "column x: binary is no type of an attribute; cast it"),
        ({"type": "long"}, "column type: CloudEvents wants a text here"),
        ({"payload": "long"}, "column payload: it is bigint, and must be binary or string"),
        ({"a b": "string"}, "attribute name 'a b'"),
    ],
)
def test_columns_that_are_no_attributes_are_refused(kinds: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Encoder(schema(**kinds))
