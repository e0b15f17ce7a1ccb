"""Tables that Spark makes of tables of workloads, or of real ones of the same columns.

    interests   universe      (user, journal) of a crawl down to those of an experiment
                hosts         (user, host)
    social      popularity    (user, followers, popularity)
                publishers    (publisher, user, subscriptions)

What each means stands beside the workload (`workloads/interests.py`). Whatever is drawn here is drawn by the hash of a
seed and a name, so that it is the same however the table is cut up. A real crawl or edge list goes through the same
functions: `refine(spark.read.parquet("crawl"), seed_journals=30, publishers=25)`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidings.model.errors import UsageError
from tidings.workloads.interests import Readership, SocialGraph
from tidings.workloads.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
