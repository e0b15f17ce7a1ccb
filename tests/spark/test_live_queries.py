"""The format "tidings" in Spark: batch reads, streams, the sink, and what Spark shows of them."""

import io
import json
import time
from base64 import b64encode
from contextlib import redirect_stdout
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import expr

from tests.spark.live_world import ThreadBroker, patiently
from tests.worlds.sockets import WAIT_MAX
from tidings.blocking import connect
from tidings.model.identity import name_of
from tidings.net.keys import new_key, signer
from tidings.protocols.access.tokens import Claims, make_token
from tidings.spark.live.progress import LagListener, QueryLag, lag

pytestmark = pytest.mark.spark

QUOTES: list[dict[str, Any]] = [
    {"type": "quote", "symbol": symbol, "price": price, "volume": volume}
    for volume, (symbol, price) in enumerate([("IBM", 10.5), ("ACME", 99.0), ("IBM", 101.25), ("ACME", 7.0)] * 5)
]


def read(spark: SparkSession, broker: ThreadBroker, **options: str) -> Any:
    return spark.read.format("tidings").option("url", broker.url).options(**options)


def read_stream(spark: SparkSession, broker: ThreadBroker, **options: str) -> Any:
    return spark.readStream.format("tidings").option("url", broker.url).options(**options)


def run_available(rows: DataFrame, folder: Path) -> Any:
    """One run of a query into Parquet, up to what there is now; the query, which has ended."""
    writer = (
        rows.writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
    )
    return run(writer)


def finish(query: Any) -> None:
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def run(writer: Any) -> Any:
    def attempt() -> Any:
        query = writer.start()
        query.awaitTermination()
        return query

    return patiently(attempt)


def explained(rows: DataFrame) -> str:
    shown = io.StringIO()
    with redirect_stdout(shown):
        rows.explain(True)
    return shown.getvalue()


def test_a_batch_read_has_the_columns_of_the_advertisement_and_the_rows_of_the_history(spark: SparkSession) -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", QUOTES, "type = 'quote' AND price > 0 AND EXISTS symbol")
        rows = read(spark, broker, filter="price > 50").load()
        assert rows.schema["price"].dataType.simpleString() == "double"
        assert "volume" not in rows.columns
        got = rows.select("publisher", "source", "type", "symbol", "price", "payload").collect()
    wanted = [it for it in QUOTES if it["price"] > 50]
    assert sorted((it.symbol, it.price) for it in got) == sorted((it["symbol"], it["price"]) for it in wanted)
    assert {(name_of(it.publisher), it.source, it.type) for it in got} == {("desk", "desk", "quote")}
    assert bytes(got[0].payload).startswith(b"{'type': 'quote'")


def test_conditions_of_spark_are_applied_at_the_broker(spark: SparkSession) -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", QUOTES)
        rows = read(spark, broker).schema("symbol string, price double, volume long").load()
        wanted = rows.where("symbol = 'IBM' AND price > 50 AND volume < 15")
        plan = explained(wanted)
        assert "price" not in plan.rpartition("Physical Plan")[2].partition("Filter")[2].partition("\n")[0]
        assert "volume#" in plan.rpartition("Physical Plan")[2].partition("Filter")[2].partition("\n")[0]
        expected = [it["volume"] for it in QUOTES if it["symbol"] == "IBM" and it["price"] > 50 and it["volume"] < 15]
        assert sorted(it.volume for it in wanted.collect()) == expected


def test_a_stream_reads_each_event_once_over_several_runs(spark: SparkSession, tmp_path: Path) -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", QUOTES)
        options = {"startingOffsets": "earliest", "maxEventsPerTrigger": "7"}
        rows = read_stream(spark, broker, **options).schema("publisher string, number long, price double").load()
        first = run_available(rows, tmp_path)
        assert [it["numInputRows"] for it in first.recentProgress if it["numInputRows"]] == [7, 7, 6]
        assert {name_of(life): behind for life, behind in lag(first).items()} == {"desk": 0}
        broker.publish("floor", QUOTES[:3])
        run_available(rows, tmp_path)
        got = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert len({(it.publisher, it.number) for it in got}) == len(got) == len(QUOTES) + 3
    assert sum(it.price for it in got) == sum(it["price"] for it in QUOTES + QUOTES[:3])


def test_with_each_report_comes_how_far_a_query_is_behind_and_what_it_observed(
    spark: SparkSession, tmp_path: Path
) -> None:
    told: Queue[QueryLag] = Queue()
    listener = LagListener(told.put)
    spark.streams.addListener(listener)
    try:
        with ThreadBroker() as broker:
            broker.publish("desk", QUOTES)
            options = {"startingOffsets": "earliest", "maxEventsPerTrigger": "7"}
            rows = read_stream(spark, broker, **options).schema("price double, accepted_at timestamp").load()
            observed = rows.observe("events", F.count("*").alias("rows"), F.max("price").alias("highest"))
            query = run_available(observed, tmp_path)
            reports = [told.get(timeout=WAIT_MAX) for _ in range(3)]
    finally:
        spark.streams.removeListener(listener)
    assert [(it.batch, it.rows, sum(it.behind.values())) for it in reports] == [(0, 7, 13), (1, 7, 6), (2, 6, 0)]
    assert {it.query for it in reports} == {str(query.id)} and all(it.rows_per_second_done > 0 for it in reports)
    seen = [it.observedMetrics["events"] for it in query.recentProgress if it.numInputRows]
    assert [it.rows for it in seen] == [7, 7, 6] and max(it.highest for it in seen) == max(it["price"] for it in QUOTES)


def test_spark_takes_no_metrics_of_its_own_from_a_source_in_python(spark: SparkSession) -> None:
    """When it does, they can be given there, and the guide must say so."""
    assert spark._jvm is not None
    named = spark._jvm.java.lang.Class.forName
    reports = named("org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics")
    python = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow"
    assert not reports.isAssignableFrom(named(python))


def test_a_stream_that_begins_adds_no_name_to_the_environment_that_all_streams_share(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The map has no lock. Where two streams that begin at once add a name each, it may count more than it holds, and
    each task of that format ends with java.io.OptionalDataException ever after."""
    formats = spark._jsparkSession.sessionState().dataSourceManager()
    shared = {
        name: formats.lookupDataSource(name).dataSourceCls().envVars()
        for name in ("tidings", "tidings-trace", "tidings-brokers")
    }
    before = {name: set(environment) for name, environment in shared.items()}
    with ThreadBroker() as broker:
        broker.publish("desk", QUOTES)
        live = read_stream(spark, broker, startingOffsets="earliest").schema("price double").load()
        run_available(live, tmp_path / "live")
        counts = spark.readStream.format("tidings-brokers").option("url", broker.url).load()
        run_available(counts, tmp_path / "counts")
    (tmp_path / "traces").mkdir()
    run_available(spark.readStream.format("tidings-trace").load(str(tmp_path / "traces")), tmp_path / "trace")
    assert {name: set(environment) for name, environment in shared.items()} == before
    assert all("SPARK_PYTHON_RUNTIME" in names for names in before.values())
    # The first of these streams has really put what it puts.
    assert shared["tidings"]["SPARK_PYTHON_RUNTIME"] == "PYTHON_WORKER"


def test_a_query_whose_first_batch_failed_begins_where_it_began_at_first(spark: SparkSession, tmp_path: Path) -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", QUOTES[:2])
        rows = read_stream(spark, broker, startingOffsets="latest").schema("price double").load()
        seen: list[list[float]] = []

        def fail_first(batch: DataFrame, number: int) -> None:
            seen.append([it.price for it in batch.collect()])
            if len(seen) == 1:
                raise RuntimeError("the first batch fails")

        writer = rows.writeStream.foreachBatch(fail_first).option("checkpointLocation", str(tmp_path))
        with pytest.raises(PySparkException, match="the first batch fails"):
            patiently(lambda: writer.start().awaitTermination())
        for quotes in (QUOTES[2:5], QUOTES[5:7]):
            broker.publish("desk", quotes)
            patiently(lambda: finish(writer.start()))
    assert seen[0] == seen[1] == []
    assert [price for batch in seen for price in batch] == [it["price"] for it in QUOTES[2:7]]


def test_rows_that_are_written_arrive_at_a_subscriber_once(spark: SparkSession) -> None:
    with ThreadBroker() as broker, connect(broker.url) as client:
        subscription = client.subscribe("type = 'made'")
        made = spark.range(1000).selectExpr(
            "'made' AS type", "id AS n", "id / 2 AS half", "CAST(CAST(id AS STRING) AS BINARY) AS payload"
        )
        made.write.format("tidings").option("url", broker.url).option("sinkName", "maker").mode("append").save()
        got: list[Any] = []
        while len(got) < 1000:
            got += subscription.take(timeout=30)
        assert sorted(it.attributes["n"] for it in got) == list(range(1000))
        assert all(it.attributes["half"] == it.attributes["n"] / 2 for it in got)
        assert {it.publisher.partition(".")[0] for it in got} == {"maker"}
        assert subscription.counts.waiting == 0


def test_a_batch_of_a_stream_that_is_written_again_is_not_published_again(spark: SparkSession, tmp_path: Path) -> None:
    with ThreadBroker() as source, ThreadBroker("target") as target:
        source.publish("desk", QUOTES)
        rows = read_stream(spark, source, startingOffsets="earliest").schema("symbol string, price double").load()
        writer = rows.writeStream.format("tidings").option("url", target.url).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path))
        run(writer)
        # As if the query had died right before it noted that the batch was done.
        (tmp_path / "commits" / "0").unlink()
        run(writer)
        got = read(spark, target).schema("publisher string, number long, symbol string, price double").load().collect()
    assert len(got) == len(QUOTES)
    assert sorted(it.price for it in got) == sorted(it["price"] for it in QUOTES)
    assert len({it.publisher for it in got}) == 1
    assert {it.number >> 35 for it in got} == {1}


def test_a_batch_behind_any_shuffle_is_published_once_though_it_is_repeated_elsewhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A join, a grouping and what drops duplicates, repeated with other partitions and while tasks die."""

    def queries(**settings: str) -> dict[str, Any]:
        for name, value in settings.items():
            spark.conf.set(name.replace("__", "."), value)
        rows = read_stream(spark, source, startingOffsets="earliest", partitions=partitions).schema(QUOTED).load()
        names = spark.createDataFrame([("IBM", "Armonk"), ("ACME", "Nowhere")], "symbol string, place string")
        made = {
            "joined": (rows.join(names.hint("shuffle_merge"), "symbol"), "append"),
            "grouped": (
                rows.groupBy("symbol").agg(expr("sum(price) AS price"), expr("count(*) AS volume")),
                "complete",
            ),
            "different": (rows.dropDuplicates(["volume"]), "append"),
        }
        return {
            name: table.mapInArrow(die_first(tmp_path / f"{name}.died"), table.schema)
            .writeStream.outputMode(mode)
            .format("tidings")
            .options(url=target.url, sinkName=name, checkpointLocation=str(tmp_path / name))
            .trigger(availableNow=True)
            for name, (table, mode) in made.items()
        }

    settings = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")
    before = {name: spark.conf.get(name) or "" for name in settings}
    with ThreadBroker() as source, ThreadBroker("target") as target:
        source.publish("desk", QUOTES)
        try:
            partitions = "1"
            for writer in queries(spark__sql__shuffle__partitions="2", spark__sql__adaptive__enabled="false").values():
                run(writer)
            partitions = "3"
            stateless = {"spark__sql__adaptive__streaming__stateless__enabled": "true"}
            others = {"spark__sql__shuffle__partitions": "5", "spark__sql__adaptive__enabled": "true", **stateless}
            for name, writer in queries(**others).items():
                # As if the query had died right before it noted that the batch was done.
                (tmp_path / name / "commits" / "0").unlink()
                run(writer)
        finally:
            for name, value in before.items():
                spark.conf.set(name, value)
        got = read(spark, target).schema("publisher string, symbol string, volume long, price double").load().collect()
    assert {it.name for it in tmp_path.glob("*.died")} == {"joined.died", "grouped.died", "different.died"}
    by_query: dict[str, list[int]] = {"joined": [], "grouped": [], "different": []}
    for row in got:
        by_query[row.publisher.partition(".")[0]].append(row.volume)
    everything = [it["volume"] for it in QUOTES]
    assert sorted(by_query["joined"]) == sorted(by_query["different"]) == everything
    assert by_query["grouped"] == [10, 10]


QUOTED = "symbol string, price double, volume long"


def die_first(mark: Path) -> Any:
    """The first task that gets a row dies behind it, in the middle of its work; those that come later do not."""

    def pass_on(batches: Any) -> Any:
        import os

        for batch in batches:
            yield batch
            if batch.num_rows and not mark.exists():
                mark.touch()
                os._exit(1)

    return pass_on


def test_a_token_is_nowhere_in_plans_offsets_and_reports(spark: SparkSession, tmp_path: Path) -> None:
    private, public = new_key(tmp_path / "office")
    claims = Claims("ann", ("client",), "", "", time.time() + 600, "office")
    token = make_token(claims, signer(private))
    secret = b64encode(token).decode()
    with ThreadBroker(authorities=[public]) as broker:
        with pytest.raises(AnalysisException, match="credentials are needed here; show a token") as refused:
            read(spark, broker).load()
        stream = read_stream(spark, broker, token=secret, startingOffsets="earliest").load()
        batch = read(spark, broker, token=secret).load()
        written = spark.range(3).selectExpr("id AS n").write.format("tidings").option("url", broker.url)
        written.option("token", secret).option("sinkName", "maker").mode("append").save()
        query = run_available(stream, tmp_path)
        assert {row.publisher.partition(".")[0] for row in batch.collect()} == {"ann+maker"}
        shown = [str(refused.value), explained(stream), explained(batch), str(query.recentProgress)]
        query.explain(True)
        kept = [path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert query.lastProgress["numInputRows"] in (0, 3)
    assert len(kept) > 2
    assert not any(secret[:40] in text for text in [*shown, *kept])


def test_mistakes_are_reported_when_the_format_is_loaded(spark: SparkSession) -> None:
    with ThreadBroker() as broker:
        for options, words in [
            ({"filter": "price >"}, "option filter: "),
            ({"filtre": "price > 1"}, "option filtre: there is no such option; did you mean filter"),
            ({"startingOffsets": "yesterday"}, "option startingOffsets: 'yesterday' is not understood"),
            ({"url": "http://x"}, "write tidings://host:port"),
            ({"url": "tidings://127.0.0.1:1", "timeout": "0.2"}, "no broker at 127.0.0.1:1"),
        ]:
            with pytest.raises(AnalysisException, match=words):
                read(spark, broker, **options).load()
        with pytest.raises(PySparkException, match="the attribute when cannot be interval"):
            read(spark, broker).schema("when interval day to second").load().collect()


def test_offsets_that_spark_keeps_are_positions_of_publishers(spark: SparkSession, tmp_path: Path) -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", QUOTES)
        run_available(read_stream(spark, broker, startingOffsets="earliest").load(), tmp_path)
    kept = json.loads((tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1])
    assert [name_of(life) for life in kept["after"]] == ["desk"]
    assert [name_of(life) for life in kept["begun"]] == ["desk"]
    assert (kept["since"], list(kept["begun"].values())) == (0.0, [0])
    assert kept["plan"].keys() == {"filter", "schema"}
