"""Bulk matching without Spark: Arrow batches of events in, of matches out, by an index that was saved and loaded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, DataType, DecimalType, LongType, NullType, StructType, TimestampType

from tests.properties.test_index import NAMES, columns, filters
from tidings.matching import Index
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.spark.matching import bulk
from tidings.spark.matching.bulk import attribute_columns, match_batches
from tidings.spark.matching.index_file import (
    SIGNATURE,
    IndexedSubscriptions,
    encode_filter,
    in_order,
    load_index_file,
    names_in,
    read_filters,
    write_index_file,
)

WANTED = (
    "price > 100 AND symbol = 'IBM'",
    "symbol LIKE 'I%' OR NOT EXISTS price",
    "LENGTH(symbol) > 3",
    "volume = 9007199254740993",
    "volume > 9007199254740992",
    "flag = TRUE",
    "symbol = ''",
    "TRUE",
    "symbol = 'Grüße 🚲'",
    "a.b >= 0",
    "price = 0",
)


def table_of(wanted: Sequence[Filter], names: Sequence[Any] | None = None) -> Any:
    keys = pa.array(range(len(wanted)), pa.int64()) if names is None else pa.array(names)
    return pa.table({"subscription": keys, "filter": pa.array([encode_filter(it) for it in wanted], pa.binary())})


def saved(folder: Path, wanted: Sequence[Filter], names: Sequence[Any] | None = None) -> IndexedSubscriptions:
    write_index_file(folder / "index", table_of(wanted, names))
    return load_index_file(folder / "index")


def plain(wanted: Sequence[Filter]) -> IndexedSubscriptions:
    index = Index("plain")
    index.add_many(enumerate(wanted))
    return IndexedSubscriptions(pa.array(range(len(wanted)), pa.int64()), names_in(wanted), index)


def answer(batch: Any, subscriptions: IndexedSubscriptions, *, counts_only: bool = False) -> list[Any]:
    """The last column for every row of a batch of attributes."""
    keyed = pa.RecordBatch.from_arrays([*batch.columns, pa.array(range(batch.num_rows))], [*batch.schema.names, "key"])
    found = list(match_batches([keyed], subscriptions, batch.schema.names, ["key"], counts_only=counts_only))
    whole = pa.Table.from_batches(found)
    assert whole.column("key").to_pylist() == list(range(batch.num_rows))
    values: list[Any] = whole.column("matches" if counts_only else "subscriptions").to_pylist()
    return values


def asked_one_by_one(batch: Any, wanted: Sequence[Filter]) -> list[list[int]]:
    rows = [Event({name: value for name, value in row.items() if value is not None}) for row in batch.to_pylist()]
    return [[number for number, filter in enumerate(wanted) if filter.matches(row)] for row in rows]


@given(
    wanted=st.lists(filters, max_size=30),
    table=st.dictionaries(st.sampled_from((*NAMES, "other")), columns, min_size=1),
    slice_bytes=st.sampled_from((1, 700, 1 << 30)),
)
def test_every_event_gets_exactly_the_subscriptions_whose_filter_matches_it(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[Filter], table: dict[str, Any], slice_bytes: int
) -> None:
    batch = pa.record_batch({name: pa.array(values) for name, values in table.items()})
    named = batch.select([name for name in batch.schema.names if not pa.types.is_null(batch.schema.field(name).type)])
    expected = asked_one_by_one(batch, wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "ANSWER_BYTES_MAX", slice_bytes)
        for subscriptions in (saved(tmp_path_factory.mktemp("saved"), wanted), plain(wanted)):
            assert answer(named, subscriptions) == expected
            assert answer(named, subscriptions, counts_only=True) == [len(found) for found in expected]


def test_values_at_the_edges_are_judged_as_filters_judge_them(tmp_path: Path) -> None:
    wanted = [parse(text) for text in WANTED]
    rows: list[dict[str, Any]] = [
        {"symbol": "IBM", "price": 100.5, "volume": 2**53 + 1, "flag": True, "a.b": 0},
        {"symbol": "", "price": -0.0, "volume": 2**53, "flag": False, "a.b": -1},
        {"symbol": "Grüße 🚲", "price": 0.0, "volume": 2**53 + 2, "flag": None, "a.b": None},
        {"symbol": None, "price": None, "volume": -(2**63), "flag": None, "a.b": 2**63 - 1},
    ]
    batch = pa.RecordBatch.from_pylist(rows)
    expected = asked_one_by_one(batch, wanted)
    assert answer(batch, saved(tmp_path, wanted)) == answer(batch, plain(wanted)) == expected
    assert [len(found) for found in expected] == [7, 3, 5, 3]


def test_small_integers_and_floats_are_the_numbers_of_the_same_value(tmp_path: Path) -> None:
    wanted = [parse("x = 0.1"), parse("x > 0.1"), parse("n >= 127"), parse("n = -128")]
    batch = pa.record_batch(
        {
            "x": pa.array([0.1, 0.5], pa.float32()),
            "n": pa.array([127, -128], pa.int8()),
            "m": pa.array([1, 2], pa.int16()),
        }
    )
    assert answer(batch, saved(tmp_path, wanted)) == [[1, 2], [1, 3]]


def test_a_batch_without_attributes_is_still_matched(tmp_path: Path) -> None:
    subscriptions = saved(tmp_path, [parse("TRUE"), parse("EXISTS x"), parse("NOT EXISTS x")])
    batch = pa.record_batch({"key": pa.array(["first", "second"])})
    [found] = match_batches([batch], subscriptions, [], ["key"], counts_only=False)
    assert found.to_pylist() == [{"key": key, "subscriptions": [0, 2]} for key in ("first", "second")]


@pytest.mark.parametrize("names", [["a", "b", "ç"], [-5, 2**40, 2**62]])
def test_subscriptions_keep_their_type_and_stand_in_ascending_order(tmp_path: Path, names: list[Any]) -> None:
    subscriptions = saved(tmp_path, [parse("x > 1"), parse("x > 2"), parse("x < 9")], names)
    assert answer(pa.record_batch({"x": [2, 5]}), subscriptions) == [[names[0], names[2]], names]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([1.0, float("nan")]), "holds NaN or infinity; put null"),
        (pa.array([None, float("-inf")], pa.float32()), "holds NaN or infinity; put null"),
        (pa.array(["x" * 70_000]), "at most 65536 are allowed"),
    ],
)
def test_a_value_that_no_event_can_hold_is_refused(tmp_path: Path, column: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        answer(pa.record_batch({"x": column}), saved(tmp_path, [parse("x > 1")]))


def test_a_value_that_no_event_can_hold_may_count_as_null(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wanted = ["x > 1", "NOT EXISTS x", "EXISTS time", "long LIKE 'y%'", "EXISTS n AND flag = TRUE"]
    batch = pa.record_batch(
        {
            "x": pa.array([2.0, float("nan"), None, float("inf")]),
            "time": ["2026-11-15T20:45:00Z", "yesterday", None, ""],
            "long": ["y", "y" * 70_000, "", "y"],
            "n": [1, 2, 3, 4],
            "flag": [True, False, None, True],
        }
    )
    subscriptions, keyed = saved(tmp_path, list(map(parse, wanted))), batch.append_column("key", batch.column("n"))
    [found] = match_batches([keyed], subscriptions, batch.schema.names, ["key"], counts_only=False, fails=False)
    assert found.column("subscriptions").to_pylist() == [[0, 2, 3, 4], [1], [1], [1, 3, 4]]
    assert "5 values are none that an event can hold" in caplog.text


def test_a_filter_that_asks_for_what_lies_within_a_column_is_refused() -> None:
    inner = StructType().add("city", "string")
    with pytest.raises(UsageError, match=r"'place.city', and column 'place' is a struct, .*take it out as a column"):
        attribute_columns([("key", LongType()), ("place", inner)], ["place.city"])
    assert attribute_columns([("place", inner), ("place.city", LongType())], ["place.city"]) == [1]
    assert attribute_columns([("place", LongType())], ["place.city"]) == []


@pytest.mark.parametrize(("name", "value"), [("id", ""), ("time", "yesterday")])
def test_context_attributes_are_held_to_what_cloudevents_says(tmp_path: Path, name: str, value: str) -> None:
    subscriptions = saved(tmp_path, [parse(f"EXISTS {name}")])
    assert answer(pa.record_batch({name: pa.array([None, "2026-11-15T20:45:00Z"])}), subscriptions) == [[], [0]]
    with pytest.raises(UsageError, match=name):
        answer(pa.record_batch({name: [value]}), subscriptions)


def test_more_attributes_than_an_event_can_have_are_refused(tmp_path: Path) -> None:
    names = [f"x{number}" for number in range(130)]
    subscriptions = saved(tmp_path, [parse(f"{name} > 1") for name in names])
    sparse = pa.RecordBatch.from_pylist(
        [dict.fromkeys(names[:128], 2)], schema=pa.schema([(it, pa.int64()) for it in names])
    )
    assert answer(sparse, subscriptions) == [list(range(128))]
    with pytest.raises(UsageError, match="more than 128 attributes"):
        answer(pa.record_batch({name: [2] for name in names}), subscriptions)


def test_an_index_of_other_kernels_is_built_again_from_the_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidings.matching.index import archive

    wanted = [parse("x > 1"), parse("x < 3")]
    write_index_file(tmp_path / "index", table_of(wanted))
    monkeypatch.setattr(archive, "FORMAT", archive.FORMAT + 1)
    assert answer(pa.record_batch({"x": [2, 4]}), load_index_file(tmp_path / "index")) == [[0, 1], [0]]


@pytest.mark.parametrize(
    "content", [b"", b"nothing of ours" * 9, SIGNATURE + (1000).to_bytes(8, "little") * 2 + bytes(16) + b"cut"]
)
def test_a_file_that_is_no_index_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "index").write_bytes(content)
    with pytest.raises(UsageError, match=r"make (one|it again) with build_index_file"):
        load_index_file(tmp_path / "index")


def test_a_damaged_index_file_is_refused_wherever_the_damage_is(tmp_path: Path) -> None:
    wanted = [parse(f"x > {number} OR name LIKE 'a%{number}'") for number in range(40)]
    write_index_file(tmp_path / "index", table_of(wanted))
    data, damaged = (tmp_path / "index").read_bytes(), tmp_path / "damaged"
    for place in range(0, len(data), max(1, len(data) // 300)):
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        with pytest.raises(UsageError):
            load_index_file(damaged)
    assert answer(pa.record_batch({"x": [2]}), load_index_file(tmp_path / "index")) == [[0, 1]]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (DecimalType(9, 2), r"type decimal\(9,2\); cast it to double"),
        (TimestampType(), "write it as text"),
        (BinaryType(), "it can be no attribute"),
        (StructType([]), "take out the fields"),
        (NullType(), "cast it to the type"),
    ],
)
def test_a_column_that_cannot_be_an_attribute_is_refused(kind: DataType, said: str) -> None:
    with pytest.raises(UsageError, match=f"filters ask for column 'x', which has .*{said}"):
        attribute_columns([("key", LongType()), ("x", kind)], ["x", "y"])
    assert attribute_columns([("x", kind), ("y", LongType())], ["y", "z"]) == [1]


def test_columns_that_cannot_be_told_apart_or_are_context_of_another_type_are_refused() -> None:
    with pytest.raises(UsageError, match="two columns are called 'x', for which filters ask"):
        attribute_columns([("x", LongType()), ("X", LongType()), ("x", LongType())], ["x"])
    with pytest.raises(UsageError, match="'id' is a context attribute of CloudEvents and has to be a string"):
        attribute_columns([("id", LongType())], ["id"])


def test_subscriptions_are_sorted_and_the_first_that_is_wrong_is_named() -> None:
    def read(*rows: tuple[Any, str | None]) -> list[Any]:
        batch = pa.record_batch({"subscription": [key for key, _ in rows], "filter": [text for _, text in rows]})
        read: list[Any] = in_order(pa.Table.from_batches(read_filters([batch]))).column("subscription").to_pylist()
        return read

    assert read(("b", "x > 1"), ("a", "TRUE"), ("c", "FALSE")) == ["a", "b", "c"]
    for rows, said in (
        ([("c", "x >"), ("b", "x IS 4"), ("a", "TRUE")], "'b': unexpected IS"),
        ([("a", "TRUE"), ("b", None)], "'b': the filter is null"),
        ([(2, "TRUE"), (1, "TRUE"), (2, "FALSE")], "2 stands there more than once"),
        ([(1, "TRUE"), (None, "TRUE")], "holds null; give each subscription a name"),
    ):
        with pytest.raises(UsageError, match=said):
            read(*rows)
