"""Tables of workloads for Spark: in partitions, and on disk as Parquet that knows what it is.

**In partitions.** A table that is drawn is cut into chunks, each with its own generator (`workloads/table.py`). Spark
only says who draws which chunks; a partition is a range of them, so rows are the same however many partitions there
are. What is listed is small, and goes from here to wherever Spark needs it.

**On disk.**

    folder/_workload.json         the workload as JSON and the names of the tables, for people and other programs
    folder/events/*.parquet       one folder for each table
    folder/subscriptions/*.parquet

Rows without the parameters they were drawn with are worth little a month later. Spark writes no key-value pairs of ours
into a Parquet file, but it writes its schema there, and a column of a schema may carry metadata. So the first column of
every table carries the workload, and each single file says in its footer what it is; moved, renamed or alone, it can be
drawn again. The JSON file beside says the same, and which tables there are: whoever reads the folder asks it, and the
folder may be in any store (`spark/place.py`).

Rows stand in the files in the order of the table, but how many files there are depends on the partitions.

Tables that Spark makes of tables of workloads, or of real ones of the same columns.

    interests   universe      (user, journal) of a crawl down to those of an experiment
                hosts         (user, host)
    social      popularity    (user, followers, popularity)
                publishers    (publisher, user, subscriptions)

What each means stands beside the workload (`workloads/interests.py`). Whatever is drawn here is drawn by the hash of a
seed and a name, so that it is the same however the table is cut up. A real crawl or edge list goes through the same
functions: `refine(spark.read.parquet("crawl"), seed_journals=30, publishers=25)`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow
import pyarrow.compute

from tidings.model.errors import UsageError
from tidings.spark.place import Place, meaning_of_storage, place_of
from tidings.workloads.interests import Readership, SocialGraph
from tidings.workloads.registry import decode, encode
from tidings.workloads.table import Choices, Column, ColumnType, Listed, Names, Table
from tidings.workloads.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BESIDE = "_workload.json"
METADATA_KEY = "tidings.workload"

CHUNKS_PER_PARTITION = 64
"""So much of a table, at most, is drawn again when a task fails."""

ARROW_TYPES: dict[ColumnType, Any] = {
    "string": pyarrow.string(),
    "long": pyarrow.int64(),
    "double": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
    "timestamp": pyarrow.timestamp("us", tz="UTC"),
}


def tables_of(workload: Workload) -> tuple[str, ...]:
    """Its own, and those that Spark derives from them."""
    return (*workload.tables, *DERIVED.get(type(workload), {}))


def frame(spark: "SparkSession", workload: Workload, name: str, partitions: int | None = None) -> "DataFrame":
    """A table of a workload, drawn when it is used. Rows stand in the order of the items; `partitions` says how finely
    the work is cut."""
    if name in (derived := DERIVED.get(type(workload), {})):
        source, derive = derived[name]
        return derive(workload, frame(spark, workload, source, partitions))
    return table_frame(spark, workload.table(name), partitions)


def table_frame(spark: "SparkSession", table: Table | Listed, partitions: int | None = None) -> "DataFrame":
    if partitions is not None and partitions < 1:
        raise UsageError(f"partitions: {partitions} is too few; give 1 or more, or leave it out")
    if isinstance(table, Listed):
        made = spark.createDataFrame(arrow(table))
        return made if partitions is None else made.repartition(partitions, next(iter(table.columns)))

    def fill(batches: Iterator[Any]) -> Iterator[Any]:
        for numbers in batches:
            for chunk in numbers.column(0).to_pylist():
                yield batch(table, chunk)

    ddl = ", ".join(f"`{name}` {kind}" for name, kind in table.columns.items())
    numbers = spark.range(0, table.chunks, 1, partitions or partitions_for(spark, table.chunks))
    return numbers.mapInArrow(fill, ddl)


def partitions_for(spark: "SparkSession", chunks: int) -> int:
    """Enough for all cores, and no more chunks in a partition than one would like to draw twice."""
    cores = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return max(1, min(chunks, max(cores, -(-chunks // CHUNKS_PER_PARTITION))))


# To Arrow.


def schema(table: Table | Listed) -> Any:
    return pyarrow.schema([(name, ARROW_TYPES[kind]) for name, kind in table.columns.items()])


def arrow(table: Table | Listed) -> Any:
    """All rows in this process."""
    if isinstance(table, Listed):
        return pyarrow.Table.from_pylist(list(table.rows()), schema(table))
    return pyarrow.Table.from_batches([batch(table, chunk) for chunk in range(table.chunks)], schema(table))


def batch(table: Table, chunk: int) -> Any:
    drawn = table.chunk(chunk)
    arrays = [arrow_array(drawn[name], kind) for name, kind in table.columns.items()]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema(table))


def arrow_array(column: Column, kind: ColumnType) -> Any:
    match column:
        case Names(prefix, firsts, numbers):
            names = pyarrow.compute.binary_join_element_wise(prefix, digits(firsts), "") if prefix else digits(firsts)
            return names if numbers is None else pyarrow.compute.binary_join_element_wise(names, digits(numbers), " ")
        case Choices(words, places):
            return pyarrow.array(words, pyarrow.string()).take(pyarrow.array(places, pyarrow.int64()))
    return pyarrow.array(column, ARROW_TYPES[kind])


def digits(numbers: Any) -> Any:
    return pyarrow.compute.cast(pyarrow.array(numbers, pyarrow.int64()), pyarrow.string())


# On disk.


class StoredWorkload(msgspec.Struct, frozen=True):
    workload: Workload
    tables: "dict[str, DataFrame]"


def write(
    spark: "SparkSession",
    workload: Workload,
    folder: str | Path,
    tables: Iterable[str] | None = None,
    partitions: int | None = None,
) -> None:
    """All tables, or those named. A table that is there already is replaced; other files are left alone."""
    place, described = place_of(folder), encode(workload)
    chosen = list(tables_of(workload) if tables is None else tables)
    for name in chosen:
        made = frame(spark, workload, name, partitions)
        carrier = made.columns[0]
        carrying = made.withMetadata(carrier, {METADATA_KEY: described})
        try:
            carrying.write.mode("overwrite").parquet((place / name).text)
        except Exception as problem:
            raise meaning_of_storage(problem, place, "parquet") or problem from problem
    beside = {"workload": json.loads(described), "tables": sorted({*chosen, *tables_beside(place)})}
    (place / BESIDE).write_bytes((json.dumps(beside, indent=1) + "\n").encode())


def tables_beside(place: Place) -> list[str]:
    """Those that were written here before."""
    beside = place / BESIDE
    return list(json.loads(beside.read_bytes())["tables"]) if beside.exists() else []


def read(spark: "SparkSession", folder: str | Path) -> StoredWorkload:
    """The workload and those of its tables that were written."""
    place = place_of(folder)
    found = {name: read_table(spark, (place / name).text) for name in tables_beside(place)}
    if not found:
        raise UsageError(f"{place}: there is no workload here; write one first")
    workload = next(iter(found.values()))[0]
    if any(other != workload for other, _ in found.values()):
        raise UsageError(f"{place}: tables of different workloads lie here; read them one by one with read_table")
    return StoredWorkload(workload, {name: table for name, (_, table) in found.items()})


def read_table(spark: "SparkSession", folder: str | Path) -> "tuple[Workload, DataFrame]":
    """One table with the workload that its files name."""
    place = place_of(folder)
    try:
        stored = spark.read.parquet(place.text)
    except Exception as problem:
        raise meaning_of_storage(problem, place, "parquet") or problem from problem
    described = stored.schema[0].metadata.get(METADATA_KEY)
    if described is None:
        raise UsageError(f"{folder}: this Parquet does not say which workload it is of; it was not written by `write`")
    return decode(described), stored


def refine(interests: "DataFrame", seed_journals: int, publishers: int, seed: int = 1) -> "DataFrame":
    """(user, journal) of a crawl down to (user, journal) of an experiment with so many publishers."""
    if publishers < 1:
        raise UsageError(f"publishers: {publishers} is too few; give 1 or more")
    from pyspark.sql import functions

    seeds = draw_seeds(interests, seed_journals, seed)
    users = interests.join(seeds, on="journal", how="left_semi").select("user").distinct()
    universe = interests.join(users, on="user", how="left_semi")
    readers = universe.groupBy("journal").agg(functions.count_distinct("user").alias("readers"))
    most_read = readers.orderBy(functions.desc("readers"), "journal").limit(publishers)
    return universe.join(most_read, on="journal", how="left_semi").select("user", "journal")


def draw_seeds(interests: "DataFrame", seed_journals: int, seed: int = 1) -> "DataFrame":
    """(journal): those whose hashes are smallest, the hash depending on `seed`. That is a uniform sample, and the same
    however the crawl is cut up."""
    if seed_journals < 1:
        raise UsageError(f"seed_journals: {seed_journals} is too few; give 1 or more")
    from pyspark.sql import functions

    chance = functions.xxhash64(functions.lit(seed), functions.col("journal"))
    return interests.select("journal").distinct().orderBy(chance, "journal").limit(seed_journals)


def place_users(interests: "DataFrame", hosts: int, seed: int = 1) -> "DataFrame":
    """(user, host): every user on a host that is drawn uniformly, whatever the user reads."""
    if hosts < 1:
        raise UsageError(f"hosts: {hosts} is too few; give 1 or more")
    from pyspark.sql import functions

    chance = functions.xxhash64(functions.lit(seed), functions.col("user"))
    return interests.select("user").distinct().withColumn("host", functions.pmod(chance, functions.lit(hosts)))


def popularity(follows: "DataFrame") -> "DataFrame":
    """(user, followers, popularity) of an edge list (follower, followee); popularity is followers / number of users."""
    from pyspark.sql import functions

    edges = follows.select("follower", "followee").distinct()
    users = edges.select(functions.col("follower").alias("user")).union(edges.select("followee")).distinct()
    total = users.agg(functions.count("*").alias("users"))
    counted = edges.groupBy(functions.col("followee").alias("user")).agg(functions.count("*").alias("followers"))
    return counted.crossJoin(total).select(
        "user", "followers", (functions.col("followers") / functions.col("users")).alias("popularity")
    )


def subscriptions_per_publisher(
    popular: "DataFrame", publishers: int, subscriptions: int, seed: int = 1
) -> "DataFrame":
    """(publisher, user, subscriptions): users drawn as publishers, and their part of so many subscriptions.

    Parts are whole and sum up exactly: each is rounded down, and what is left over goes to those that lost most."""
    if publishers < 1 or subscriptions < 0:
        raise UsageError("publishers, subscriptions: give 1 or more publishers, and 0 or more subscriptions")
    from pyspark.sql import Window, functions

    column = functions.col
    chance = functions.xxhash64(functions.lit(seed), column("user").cast("string"))
    everyone = Window.partitionBy().rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    drawn = popular.orderBy(chance, "user").limit(publishers)
    # Whole numbers throughout: a sum of decimals would depend on the order in which they are added.
    scaled = drawn.withColumn("product", column("followers") * functions.lit(subscriptions))
    total = functions.sum("followers").over(everyone)
    cut = scaled.withColumn("total", total).select(
        "user",
        "followers",
        functions.expr("product div total").alias("part"),
        functions.expr("product % total").alias("rest"),
    )
    left = functions.lit(subscriptions) - functions.sum("part").over(everyone)
    by_rest = Window.partitionBy().orderBy(functions.desc("rest"), "user")
    ranked = cut.withColumn("left", left).withColumn("place", functions.row_number().over(by_rest))
    by_user = Window.partitionBy().orderBy(functions.desc("followers"), "user")
    return ranked.select(
        (functions.row_number().over(by_user) - 1).cast("long").alias("publisher"),
        "user",
        (column("part") + functions.when(column("place") <= column("left"), 1).otherwise(0)).alias("subscriptions"),
    )


Derive = Callable[[Any, "DataFrame"], "DataFrame"]
"""From a workload and the DataFrame of one of its tables to another DataFrame."""

DERIVED: Mapping[type[Workload], Mapping[str, tuple[str, Derive]]] = {
    Readership: {
        "universe": ("interests", lambda own, table: refine(table, own.seed_journals, own.publishers, own.seed)),
        "hosts": ("interests", lambda own, table: place_users(table, own.hosts, own.seed)),
    },
    SocialGraph: {
        "popularity": ("follows", lambda own, table: popularity(table)),
        "publishers": ("follows", lambda own, table: publishers_of(own, table)),
    },
}
"""The table that each is made of, and how."""


def publishers_of(graph: SocialGraph, follows: "DataFrame") -> "DataFrame":
    return subscriptions_per_publisher(popularity(follows), graph.publishers, graph.subscription_count, graph.seed)
