"""Metrics of a running network without traces: the same kept up to date and at once, and what its brokers count."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.streaming.tws_tester import TwsTester
from pyspark.sql.types import StructType

from tests.spark.live_world import ThreadBroker, patiently
from tests.spark.references.values import mean, percentile, seconds
from tests.worlds.sockets import WAIT_MAX
from tidings.model.errors import UsageError
from tidings.net.inspector import Inspector, NotInspected
from tidings.pubsub.rows import CounterRow
from tidings.spark.live.counters import CounterReader, TidingsBrokersSource, differences, totals_of
from tidings.spark.metrics.live import LiveTable
from tidings.spark.metrics.loads import LOAD_TABLES, load_table
from tidings.spark.metrics.state import Folding
from tidings.spark.metrics.stored import COLUMNS, STORED_TABLES, stored_table

Keyed = dict[tuple[Any, ...], dict[str, Any]]

WHEN = datetime(2026, 11, 18, 11, 0, tzinfo=UTC)


def drawn_events(seed: int) -> list[tuple[str, int, datetime, datetime | None]]:
    """Rows of the source: ascending numbers with holes, several of one instant, clocks that go back."""
    rng = Random(seed)
    rows = []
    for publisher in ("ann", "bob", "eve"):
        number, passed = rng.randint(1, 9), 0.0
        for _ in range(rng.randint(1, 60)):
            accepted = WHEN + timedelta(seconds=passed)
            said = None if rng.random() < 0.2 else accepted - timedelta(microseconds=rng.randint(-500, 3_000_000))
            rows.append((publisher, number, accepted, said))
            number += rng.choice([1, 1, 1, 2, 7])
            passed += rng.choice([0.0, 0.0, 0.25, 1.5, -0.5])
    return rows


def folded(name: str, rows: Sequence[tuple[str, int, datetime, datetime | None]], seed: int) -> Keyed:
    """Without Spark: cut anywhere, states told and read in between."""
    table, states, answers, rng = STORED_TABLES[name], dict[str, bytes](), Keyed(), Random(seed)
    for publisher in dict.fromkeys(row[0] for row in rows):
        mine = [seen(row) for row in rows if row[0] == publisher and (name == "publishers" or row[3] is not None)]
        while mine:
            count = rng.randint(1, 8)
            batch, mine = mine[:count], mine[count:]
            state = (
                msgspec.msgpack.decode(states[publisher], type=table.state) if publisher in states else table.state()
            )
            answers[publisher,] = table.fold(state, batch)
            states[publisher] = msgspec.msgpack.encode(state)
    return answers


def seen(row: tuple[str, int, datetime, datetime | None]) -> dict[str, Any]:
    _, number, accepted, said = row
    latency = None if said is None else (accepted - said) // timedelta(microseconds=1)
    return {
        "number": number,
        "accepted_us": (accepted - WHEN) // timedelta(microseconds=1),
        "latency_us": latency,
    }


@pytest.mark.spark
def test_what_is_folded_from_any_pieces_is_what_a_batch_read_says(spark: SparkSession) -> None:
    for seed in range(3):
        rows = drawn_events(seed)
        events = spark.createDataFrame(rows, COLUMNS)
        for name in STORED_TABLES:
            batch = {(row.publisher,): row.asDict() for row in stored_table(events, name).collect()}
            one, other = folded(name, rows, 7), folded(name, rows, 8)
            assert one == other
            assert batch == {key: {"publisher": key[0], **values} for key, values in one.items()}
        told = folded("publishers", rows, 7)
        assert all(sum(values[column] for values in told.values()) for column in ("holes", "order_violations"))


def test_what_spark_is_given_to_keep_comes_to_what_the_whole_says() -> None:
    """Without Java: pandas tables through the processor, cut anywhere, beside a few lines of plain Python."""
    import pandas  # type: ignore[import-untyped]

    for seed in range(20):
        rows, rng = drawn_events(seed), Random(seed)
        for name, table in STORED_TABLES.items():
            tester, answers = TwsTester(Folding(table)), Keyed()
            for publisher in dict.fromkeys(row[0] for row in rows):
                mine = [seen(row) for row in rows if row[0] == publisher and (name == "publishers" or row[3])]
                while mine:
                    count = rng.randint(1, 8)
                    batch, mine = mine[:count], mine[count:]
                    rng.shuffle(batch)
                    given = pandas.DataFrame(batch)[list(table.rows)]
                    [answers[publisher,]] = tester.testInPandas(publisher, given).to_dict("records")
            assert answers == whole(name, rows)


def whole(name: str, rows: Sequence[tuple[str, int, datetime, datetime | None]]) -> Keyed:
    found = Keyed()
    for publisher in dict.fromkeys(row[0] for row in rows):
        mine = [seen(row) for row in rows if row[0] == publisher]
        numbers, times = [it["number"] for it in mine], [it["accepted_us"] for it in mine]
        latencies = [it["latency_us"] for it in mine if it["latency_us"] is not None]
        if name == "publishers":
            found[publisher,] = {
                "publisher": publisher,
                "events": len(mine),
                "holes": len(set(range(min(numbers), max(numbers))) - set(numbers)),
                "order_violations": sum(at < max(times[:place]) for place, at in enumerate(times) if place),
                "first_number": min(numbers),
                "last_number": max(numbers),
            }
        elif latencies:
            shares = {f"latency_p{each}": seconds(percentile(latencies, each / 100)) for each in (50, 95, 99)}
            found[publisher,] = {
                "publisher": publisher,
                "timed": len(latencies),
                "latency_mean": seconds(mean(latencies)),
                **shares,
                "latency_max": seconds(max(latencies)),
            }
    return found


def test_order_and_holes_of_three_events() -> None:
    rows = [("ann", 3, WHEN, None), ("ann", 4, WHEN, None), ("ann", 9, WHEN - timedelta(seconds=1), None)]
    assert folded("publishers", rows, 1) == {
        ("ann",): {"events": 3, "holes": 4, "order_violations": 1, "first_number": 3, "last_number": 9}
    }
    assert folded("acceptance", rows, 1) == {}


@pytest.mark.spark
def test_tables_over_the_live_source_are_those_of_a_batch_read(spark: SparkSession, tmp_path: Path) -> None:
    tables: dict[str, Keyed] = {name: {} for name in STORED_TABLES}
    with ThreadBroker() as broker:
        for stage in range(2):
            said = [{"n": n, "time": f"2026-11-18T11:00:{n % 60:02}Z"} if n % 3 else {"n": n} for n in range(200)]
            broker.publish("desk", said)
            broker.publish(f"other{stage}", said[:20])
            for name in STORED_TABLES:
                stream = spark.readStream.format("tidings").schema(COLUMNS).option("url", broker.url)
                events = stream.option("startingOffsets", "earliest").option("maxEventsPerTrigger", 70).load()
                keep_up(stored_table(events, name), STORED_TABLES[name], tmp_path / name, tables[name])
        stored = spark.read.format("tidings").schema(COLUMNS).option("url", broker.url).load()
        for name in STORED_TABLES:
            batch = [row.asDict() for row in stored_table(stored, name).collect()]
            assert {(row["publisher"],): row for row in batch} == tables[name]
    assert sorted(row["events"] for row in tables["publishers"].values()) == [20, 20, 400]
    assert sum(row["timed"] for row in tables["acceptance"].values()) > 200


def keep_up(table: DataFrame, about: LiveTable, checkpoint: Path, into: Keyed) -> None:
    def take(changed: DataFrame, number: int) -> None:
        for row in changed.collect():
            into[tuple(row[key] for key in about.keys)] = row.asDict()

    writer = table.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
    patiently(lambda: writer.trigger(availableNow=True).start().awaitTermination())


@pytest.mark.spark
def test_events_without_the_columns_are_refused_with_the_schema(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"have no number, time; read them with .schema\('publisher STRING"):
        stored_table(spark.createDataFrame([], "publisher STRING, accepted_at TIMESTAMP"), "publishers")
    with pytest.raises(UsageError, match="there are publishers, acceptance"):
        stored_table(spark.createDataFrame([], COLUMNS), "pairs")


# What brokers count.


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("ab"), st.dictionaries(st.sampled_from(["sent", "dropped:full"]), st.integers(0, 9))
        )
    )
)
def test_rows_between_positions_add_up_to_the_last_of_each_life(positions: list[dict[str, dict[str, int]]]) -> None:
    """A broker that is away keeps its place; one whose counters went back is another life."""
    before: dict[str, dict[str, int]] = {}
    sums: dict[tuple[str, str], int] = {}
    lives: dict[tuple[str, str], int] = {}
    for found in positions:
        after = {**before, **found}
        for row in differences(before, after):
            name = row["kind"] if row["reason"] is None else f"{row['kind']}:{row['reason']}"
            assert row["count"] > 0
            sums[row["broker"], name] = sums.get((row["broker"], name), 0) + row["count"]
        for broker, totals in found.items():
            earlier = before.get(broker, {})
            is_new_life = any(totals.get(name, 0) < count for name, count in earlier.items())
            for name, count in totals.items():
                lives[broker, name] = (
                    lives.get((broker, name), 0) + count - (0 if is_new_life else earlier.get(name, 0))
                )
        before = after
    assert sums == {key: count for key, count in lives.items() if count}


def counted(url: str) -> dict[str, int]:
    async def ask() -> dict[str, int]:
        async with Inspector(url.removeprefix("tidings://")) as inspector:
            return totals_of(await inspector.table("counters", CounterRow))

    return asyncio.run(ask())


def look_until(reader: CounterReader, brokers: set[str]) -> dict[str, dict[str, int]]:
    """Brokers need a moment until they are linked."""
    deadline = time.monotonic() + WAIT_MAX
    while (found := reader.look()).keys() != brokers:
        assert time.monotonic() < deadline, found.keys()
    return found


def test_all_brokers_are_found_from_one_and_one_that_is_gone_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with ThreadBroker("a") as one:
        source = TidingsBrokersSource({"url": one.url, "pollInterval": "0.05"})
        reader = source.streamReader(StructType())
        with ThreadBroker("b", links=[one.address]) as other:
            look_until(reader, {"a", "b"})
            before = counted(other.url)
            first = reader.latestOffset({}, ReadAllAvailable())
            after = counted(other.url)
            assert all(before[name] <= first["b"][name] <= after[name] for name in ("sent", "received"))
        assert "not counted" not in caplog.text
        look_until(reader, {"a"})
        again = reader.latestOffset(first, ReadAllAvailable())
        assert again["b"] == first["b"], "it keeps its place"
        assert "not counted: the broker b" in caplog.text
        [piece] = reader.partitions(first, again)
        [batch] = reader.read(piece)
        rows = {(row["broker"], row["kind"]): row["count"] for row in batch.to_pylist()}
        assert rows["a", "received"] == again["a"]["received"] - first["a"]["received"] > 0
        assert {broker for broker, _ in rows} == {"a"}
    with pytest.raises(NotInspected, match="is not reachable"):
        reader.look()


@pytest.mark.spark
def test_loads_and_drops_are_the_sums_of_what_brokers_count(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", "sent", None, 3), ("a", "received", None, 4), ("a", "dropped", "full", 2), ("b", "dropped", "old", 1)]
    tables: dict[str, Keyed] = {name: {} for name in LOAD_TABLES}
    folder = tmp_path / "counts"
    for _ in range(2):
        spark.createDataFrame(rows, "broker STRING, kind STRING, reason STRING, count LONG").coalesce(1).write.mode(
            "append"
        ).json(str(folder))
        for name in LOAD_TABLES:
            counts = spark.readStream.schema("broker STRING, kind STRING, reason STRING, count LONG").json(str(folder))
            keep_up(load_table(counts, name), LOAD_TABLES[name], tmp_path / name, tables[name])
    assert tables["loads"]["a",] == {"broker": "a", "sent": 6, "received": 8, "delivered": 0, "dropped": 4, "load": 14}
    assert {key: row["drops"] for key, row in tables["drops"].items()} == {("a", "full"): 4, ("b", "old"): 2}


def test_any_session_finds_the_format_by_its_package() -> None:
    assert import_module("pyspark_tidings_brokers").DefaultSource.name() == "tidings-brokers"
