"""Workloads on Spark: the same rows however they are cut, what is made of tables by Spark, and workloads on disk."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from tidings import UsageError
from tidings.cli.program import run
from tidings.spark.workloads import frame, read, read_table, tables_of, write
from tidings.spark.workloads.tables import (
    arrow,
    draw_seeds,
    partitions_for,
    place_users,
    popularity,
    refine,
    subscriptions_per_publisher,
    table_frame,
)
from tidings.workloads.content import Decimals, TypedContent, Words
from tidings.workloads.interests import Readership, SocialGraph
from tidings.workloads.machines import chance
from tidings.workloads.recorded import Quakes
from tidings.workloads.registry import make
from tidings.workloads.table import CHUNK_ITEMS, Table

pytestmark = pytest.mark.spark

SMALL = TypedContent(event_count=5 * CHUNK_ITEMS + 17, attributes=(Words("word", 50), Decimals("x")))


def rows_of(found: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in found.collect()]


@pytest.mark.parametrize("partitions", [1, 2, 8])
def test_events_are_the_same_on_any_number_of_partitions(spark: SparkSession, partitions: int) -> None:
    made = frame(spark, SMALL, "events", partitions)
    assert made.toArrow().equals(arrow(SMALL.events()))
    assert dict(made.dtypes) == {"key": "string", "word": "string", "x": "double"}


DRAWN: dict[str, dict[str, object]] = {
    "w-geps": {"duration": 2.0},
    "w-pop": {"subscription_count": 3000, "duration": 2.0},
    "w-itt": {"duration": 20.0},
    "w-psdg": {"duration": 20.0},
    "transport-e1": {"slower": 100.0},
    "transport-e10": {"duration": 10.0},
    "transport-e23": {"duration": 1.0},
    "patterns": {},
    "interests": {"users": 5000},
    "social": {"users": 4000},
    "quotes": {"event_count": CHUNK_ITEMS + 100, "subscription_count": 3000},
    "drifting": {"event_count": 5000, "subscription_count": 3000},
    "machines": {"machines": 4000},
    "topology-change": {},
}


@pytest.mark.parametrize("name", list(DRAWN))
def test_every_table_is_the_same_on_spark_and_without(spark: SparkSession, name: str) -> None:
    workload = make(name, DRAWN[name])
    for table in map(workload.table, workload.tables):
        if not isinstance(table, Table):
            assert table_frame(spark, table).toArrow().equals(arrow(table))
            continue
        # Quotes tie their walk to the size of a chunk; all others are cut small, so that there are many chunks.
        finely = table if name == "quotes" else msgspec.structs.replace(table, chunk_items=700)
        assert table_frame(spark, finely, 3).toArrow().equals(arrow(finely)), table.stream


def test_too_few_partitions_are_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="partitions: 0 is too few"):
        frame(spark, SMALL, "events", 0)


def test_a_large_table_is_cut_so_that_little_is_drawn_twice(spark: SparkSession) -> None:
    assert [partitions_for(spark, chunks) for chunks in (0, 1, 2, 100, 1526)] == [1, 1, 2, 2, 24]


CRAWLED = Readership(users=1500, journals=400, communities=20, seed_journals=30, publishers=25, hosts=10)


@pytest.fixture(scope="module")
def crawl(spark: SparkSession) -> DataFrame:
    return frame(spark, CRAWLED, "interests", 2).cache()


@pytest.fixture(scope="module")
def refined(crawl: DataFrame) -> list[tuple[str, str]]:
    return [(user, journal) for user, journal in rows_of(refine(crawl, seed_journals=30, publishers=25))]


@pytest.mark.spec("P-121", "P-122")
def test_refinement_gives_a_closed_universe_of_the_most_read_journals(
    crawl: DataFrame, refined: list[tuple[str, str]]
) -> None:
    """Step by step as the source has it: seeds, all their readers, the journals most read among these, nothing else."""
    reads: dict[str, set[str]] = defaultdict(set)
    for user, journal in rows_of(crawl):
        reads[user].add(journal)
    seeds = {journal for (journal,) in rows_of(draw_seeds(crawl, 30))}
    assert len(seeds) == 30
    universe = [user for user, journals in reads.items() if journals & seeds]
    counts = Counter(journal for user in universe for journal in reads[user])
    publishers = set(sorted(counts, key=lambda journal: (-counts[journal], journal))[:25])
    assert {journal for _, journal in refined} == publishers
    assert Counter(refined) == Counter((user, journal) for user in universe for journal in reads[user] & publishers)


def test_refinement_is_the_same_on_any_number_of_partitions_and_depends_on_the_seed(
    crawl: DataFrame, refined: list[tuple[str, str]]
) -> None:
    assert sorted(rows_of(refine(crawl.repartition(8), 30, 25))) == sorted(refined)
    assert sorted(rows_of(frame(crawl.sparkSession, CRAWLED, "universe", 3))) == sorted(refined)
    assert set(rows_of(draw_seeds(crawl, 30, seed=2))) != set(rows_of(draw_seeds(crawl, 30)))


def test_users_are_placed_on_hosts_whatever_they_read(spark: SparkSession, crawl: DataFrame) -> None:
    placed = dict(rows_of(place_users(crawl, 10)))
    assert placed == dict(rows_of(frame(spark, CRAWLED, "hosts")))
    assert len(placed) == 1500
    assert min(Counter(placed.values()).values()) > 100
    assert set(placed.values()) == set(range(10))


def test_popularity_is_followers_by_users(spark: SparkSession) -> None:
    edges = spark.createDataFrame([(1, 2), (3, 2), (3, 2), (2, 1), (4, 1), (3, 1)], "follower long, followee long")
    assert sorted(rows_of(popularity(edges))) == [(1, 3, 0.75), (2, 2, 0.5)]


def test_subscriptions_are_cut_in_proportion_to_followers(spark: SparkSession) -> None:
    """D-2: edge list -> followers per user -> popularity -> subscriptions per publisher."""
    followed = SocialGraph(users=2000, publishers=50, subscription_count=7001)
    graph = frame(spark, followed, "follows", 2)
    counted = popularity(graph).cache()
    answers = [
        rows_of(subscriptions_per_publisher(counted.repartition(count), publishers=50, subscriptions=7001))
        for count in (1, 8)
    ]
    assert sorted(answers[0]) == sorted(answers[1]) == sorted(rows_of(frame(spark, followed, "publishers")))
    followers = {user: count for user, count, _ in rows_of(counted)}
    assert len(followers) == 2000
    total = sum(followers[user] for _, user, _ in answers[0])
    assert sum(parts for _, _, parts in answers[0]) == 7001
    for _, user, parts in answers[0]:
        assert abs(parts - 7001 * followers[user] / total) < 1
    assert sorted(publisher for publisher, _, _ in answers[0]) == list(range(50))


def test_machines_are_drawn_in_the_order_of_a_hash_that_spark_has_too(spark: SparkSession) -> None:
    for seed in (1, 7, 2**40 + 3):
        machines = spark.range(200).select(functions.xxhash64(functions.lit(seed), functions.col("id").cast("string")))
        assert [drawn for (drawn,) in rows_of(machines)] == [chance(seed, machine) for machine in range(200)]


def test_a_workload_on_disk_says_what_it_is(spark: SparkSession, tmp_path: Path) -> None:
    workload = TypedContent(seed=11, event_count=3000, subscription_count=50)
    write(spark, workload, tmp_path / "w", partitions=2)
    stored = read(spark, tmp_path / "w")
    assert stored.workload == workload
    assert sorted(stored.tables) == sorted(workload.tables)
    for table, found in stored.tables.items():
        assert sorted(rows_of(found)) == sorted(rows_of(frame(spark, workload, table)))
    assert json.loads((tmp_path / "w" / "_workload.json").read_text())["workload"]["seed"] == 11
    alone = next((tmp_path / "w" / "subscriptions").glob("*.parquet"))
    footer = pyarrow.parquet.read_schema(alone).metadata[b"org.apache.spark.sql.parquet.row.metadata"]
    assert '\\"seed\\":11' in footer.decode()


def test_parquet_of_others_is_not_taken_for_a_workload(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "events"))
    with pytest.raises(UsageError, match="does not say which workload it is of"):
        read_table(spark, tmp_path / "events")
    with pytest.raises(UsageError, match="there is no workload here"):
        read(spark, tmp_path / "absent")


def test_tables_of_two_workloads_in_one_folder_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    for seed, table in ((1, "events"), (2, "subscriptions")):
        write(spark, TypedContent(seed=seed, event_count=100, subscription_count=20), tmp_path, [table])
    with pytest.raises(UsageError, match="different workloads"):
        read(spark, tmp_path)
    workload, found = read_table(spark, tmp_path / "subscriptions")
    assert (workload.seed, found.count()) == (2, 20)


def test_real_events_become_a_frame_with_times_and_nulls(
    spark: SparkSession, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_DATA", str(data_folder))
    quakes = frame(spark, Quakes(), "events", 3)
    kinds = dict(quakes.dtypes)
    assert (kinds["time"], kinds["mag"], kinds["felt"], kinds["tsunami"]) == (
        "timestamp",
        "double",
        "bigint",
        "boolean",
    )
    assert quakes.where("alert is null").count() == 1695
    assert quakes.where("mag >= 5 and place like '%Taiwan%'").count() > 0


def test_every_drawn_workload_makes_a_frame_of_each_table(spark: SparkSession) -> None:
    """Only the plan: that names and types are there does not need the rows."""
    for name in ("content", *DRAWN):
        for table in tables_of(make(name)):
            columns = frame(spark, make(name), table).columns
            assert ("key" in columns) == (table == "events"), name
            assert ({"subscription", "filter"} <= set(columns)) == (table == "subscriptions"), name


def test_the_command_writes_tables_that_can_be_read(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["--set", "users=300", "--set", "publishers=5", "--set", "subscription_count=40"]
    assert run(["workload", "write", "social", str(tmp_path / "w"), "--seed", "3", *settings, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workload"]["users"] == 300
    stored = read(spark, tmp_path / "w")
    assert stored.workload == SocialGraph(seed=3, users=300, publishers=5, subscription_count=40)
    assert sorted(stored.tables) == ["follows", "popularity", "publishers"]
    assert stored.tables["publishers"].agg({"subscriptions": "sum"}).collect()[0][0] == 40
