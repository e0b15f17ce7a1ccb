"""Bulk matching on Spark: the answer of asking every filter, under any partitioning, for tables and for streams."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import explode

from tests.conftest import EXAMPLES
from tests.properties.test_index import NAMES, NUMBERS, STRINGS, filters
from tests.spark.cross_join import match_by_cross_join
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.spark.matching import build_index_file, index_file, match

pytestmark = pytest.mark.spark

INTEGERS = tuple(number for number in NUMBERS if isinstance(number, int))
FLOATS = (0.5, 1.5, 5.0, -1.5, 100.0, -0.0)
TYPES: dict[str, tuple[Any, ...]] = {"string": STRINGS, "long": INTEGERS, "double": FLOATS, "boolean": (True, False)}


def subscriptions(spark: SparkSession, wanted: Iterable[tuple[Any, str]], kind: str = "long") -> DataFrame:
    return spark.createDataFrame(list(wanted), f"subscription {kind}, filter string")


def lists(matches: DataFrame) -> dict[Any, Any]:
    return {row[0]: row[1] for row in matches.collect()}


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, list[tuple[Any, ...]]]:
    """A schema with a column for each name, each of one type, and rows."""
    kinds = [draw(st.sampled_from(sorted(TYPES))) for _ in NAMES]
    row = st.tuples(*[st.sampled_from((None, *TYPES[kind])) for kind in kinds])
    rows = draw(st.lists(row, min_size=40, max_size=60))
    schema = ", ".join(["key long", *[f"{name} {kind}" for name, kind in zip(NAMES, kinds, strict=True)]])
    return schema, [(key, *values) for key, values in enumerate(rows)]


@given(table=tables(), wanted=st.lists(filters, min_size=30, max_size=40))
@settings(max_examples=max(1, EXAMPLES // 60), phases=[Phase.generate])
def test_matches_are_those_of_every_filter_asked_about_every_event_on_any_number_of_partitions(
    spark: SparkSession, table: tuple[str, list[tuple[Any, ...]]], wanted: list[Filter]
) -> None:
    schema, rows = table
    read = [parse(filter.text()) for filter in wanted]
    expected = {}
    for key, *values in rows:
        event = Event({name: it for name, it in zip(NAMES, values, strict=True) if it is not None})
        expected[key] = [number for number, filter in enumerate(read) if filter.matches(event)]
    asked = subscriptions(spark, [(number, filter.text()) for number, filter in enumerate(wanted)])
    events = spark.createDataFrame(rows, schema)
    for parts in (1, 2, 8):
        assert lists(match(events.repartition(parts), asked)) == expected
    pairs = match_by_cross_join(events, asked).collect()
    assert sorted(pairs) == [(key, number) for key, found in sorted(expected.items()) for number in found]


@pytest.fixture
def quotes(spark: SparkSession) -> DataFrame:
    rows = [
        ("e1", "IBM", 120.5, 2**53 + 1, True, 1),
        ("e2", "", -0.0, 2**53, None, 2),
        ("e3", None, None, None, False, None),
        ("e4", "Grüße 🚲", 99.0, -(2**63), None, -3),
    ]
    return spark.createDataFrame(
        rows, "key string, symbol string, price double, volume long, urgent boolean, `a.b` int"
    )


FILTERS = {
    "above": "price > 100",
    "exists": "NOT EXISTS price",
    "function": "LENGTH(symbol) > 3 AND price < 100",
    "large": "volume = 9007199254740993",
    "none": "symbol = 'nobody'",
    "quoted": "a.b > 0 OR symbol = 'Grüße 🚲'",
    "true": "urgent = TRUE OR symbol = ''",
}
FOUND = {
    "e1": ["above", "large", "quoted", "true"],
    "e2": ["quoted", "true"],
    "e3": ["exists"],
    "e4": ["function", "quoted"],
}


def test_filters_of_all_kinds_on_columns_of_all_kinds(spark: SparkSession, quotes: DataFrame) -> None:
    wanted = subscriptions(spark, FILTERS.items(), "string")
    matches = match(quotes, wanted)
    assert matches.dtypes == [("key", "string"), ("subscriptions", "array<string>")]
    assert lists(matches) == FOUND
    assert lists(match(quotes, wanted, counts_only=True)) == {key: len(found) for key, found in FOUND.items()}
    pairs = matches.select("key", explode("subscriptions").alias("subscription"))
    assert sorted(pairs.collect()) == sorted(match_by_cross_join(quotes, wanted).collect())


def test_keys_may_be_several_columns_and_attributes_too(spark: SparkSession) -> None:
    rows = [("s", "1", 5), ("s", "2", 7), ("t", None, 9)]
    events = spark.createDataFrame(rows, "source string, id string, X int")
    wanted = subscriptions(spark, [(1, "source = 's' AND X > 5"), (2, "x > 0")])
    matches = match(events, wanted, keys=["id", "source"])
    assert matches.columns == ["id", "source", "subscriptions"]
    assert sorted(map(tuple, matches.collect()), key=str) == [("1", "s", []), ("2", "s", [1]), (None, "t", [])]


def test_columns_that_no_filter_asks_for_may_hold_anything(spark: SparkSession) -> None:
    events = spark.sql(
        "SELECT 1 AS key, double('NaN') AS noise, binary('x') AS payload, array(1) AS more, 2 AS x, 3 AS X"
    )
    with_case = spark.conf.get("spark.sql.caseSensitive")
    assert with_case == "false"
    assert lists(match(events, subscriptions(spark, [(7, "x = 2 AND X = 3")]))) == {1: [7]}


def test_an_index_file_serves_in_place_of_the_table_and_stays(
    spark: SparkSession, quotes: DataFrame, tmp_path: Path
) -> None:
    path = build_index_file(subscriptions(spark, FILTERS.items(), "string"), tmp_path / "index")
    assert lists(match(quotes, path)) == lists(match(quotes, str(path))) == FOUND
    assert path.exists()
    assert [it for it in index_file.own_folder().iterdir() if not it.name.startswith("tidings-index-")] == []


def test_no_subscriptions_match_nothing(spark: SparkSession, quotes: DataFrame) -> None:
    assert lists(match(quotes, subscriptions(spark, []))) == {key: [] for key in FOUND}


def test_many_filters_are_read_by_spark(
    spark: SparkSession, quotes: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_file, "READ_HERE_MAX", 1)
    assert lists(match(quotes, subscriptions(spark, FILTERS.items(), "string"))) == FOUND
    with pytest.raises(UsageError, match="subscriptions: 'b': unexpected IS"):
        match(quotes, subscriptions(spark, [("c", "price >"), ("b", "price IS 4"), ("a", "TRUE")], "string"))


def test_a_stream_of_events_gives_a_stream_of_matches(spark: SparkSession, quotes: DataFrame, tmp_path: Path) -> None:
    quotes.repartition(3).write.parquet(str(tmp_path / "quotes"))
    stream = spark.readStream.schema(quotes.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "quotes"))
    matches = match(stream, subscriptions(spark, FILTERS.items(), "string"))
    assert matches.isStreaming
    query = matches.writeStream.format("memory").queryName("bulk_matches").trigger(availableNow=True).start()
    try:
        query.awaitTermination()
        assert lists(spark.table("bulk_matches")) == FOUND
        assert len(query.recentProgress) > 1
    finally:
        query.stop()
        spark.sql("DROP VIEW IF EXISTS bulk_matches")


def test_a_worker_loads_an_index_once(spark: SparkSession, quotes: DataFrame, tmp_path: Path) -> None:
    path = build_index_file(subscriptions(spark, FILTERS.items(), "string"), tmp_path / "index")
    name = index_file.ship(spark, path)

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            first, second = index_file.shipped_index(name), index_file.shipped_index(name)
            yield pa.record_batch({"same": [first is second], "size": [len(first.index)]})

    seen = quotes.select("key").repartition(4).mapInArrow(look, "same boolean, size long").collect()
    assert {tuple(row) for row in seen} == {(True, len(FILTERS))}


def test_tables_that_do_not_fit_are_refused_with_what_to_do(spark: SparkSession, quotes: DataFrame) -> None:
    fine = subscriptions(spark, [(1, "price > 1")])
    with pytest.raises(UsageError, match="keys: there are 0 columns 'id' among key, symbol"):
        match(quotes, fine, keys=["id"])
    with pytest.raises(UsageError, match="two columns of one name"):
        match(quotes.withColumnRenamed("key", "subscriptions"), fine, keys=["subscriptions"])
    with pytest.raises(UsageError, match="no column 'filter' among subscription, text; rename"):
        match(quotes, fine.withColumnRenamed("filter", "text"))
    with pytest.raises(UsageError, match="has type double; cast it to string or long"):
        match(quotes, subscriptions(spark, [(1.0, "TRUE")], "double"))
    with pytest.raises(UsageError, match="filters ask for column 'price', which has type array<double>"):
        match(quotes.selectExpr("key", "array(price) AS price"), fine)


def test_more_subscriptions_than_one_index_takes_are_refused(
    spark: SparkSession, quotes: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_file, "SUBSCRIPTIONS_MAX", 2)
    with pytest.raises(UsageError, match="3 rows, at most 2 fit into one index; match them in parts"):
        match(quotes, subscriptions(spark, [(1, "TRUE"), (2, "TRUE"), (3, "TRUE")]))


def test_not_a_number_where_a_filter_asks_fails_the_job_and_names_the_column(spark: SparkSession) -> None:
    events = spark.sql("SELECT 1 AS key, double('NaN') AS x")
    with pytest.raises(PythonException, match="column 'x' holds NaN or infinity; put null"):
        match(events, subscriptions(spark, [(1, "x > 0")])).collect()
