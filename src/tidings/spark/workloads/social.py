"""Who follows whom, and what that says about popularity (spec dependable.md 4.6, D-2).

The graph has a wanted sequence of degrees: the r-th account is to have users / r followers (Zipf, and never none), and
how many accounts a user follows is heavy-tailed too, with the mean that makes both sides agree. Each user draws whom to
follow in proportion to the followers wanted there. That needs no knowledge of what others drew, so the graph is the
same however it is cut up; a graph that grows by preferential attachment would have to be drawn in order. Whoever is
drawn twice is followed once, so the very popular end up with somewhat fewer followers than wanted. Besides, everybody
follows one account given by a shift, so that nobody has no follower.

    follows          follower, followee

From a graph, this one or a real edge list of the same two columns, D-2 makes a workload: `popularity` counts followers
and divides by the number of users, and `subscriptions_per_publisher` draws publishers among the users and cuts a wanted
number of subscriptions in proportion.
"""

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy

from tidings.model.errors import UsageError
from tidings.spark.workloads.chunks import Array, Columns, Random, Table, stream
from tidings.spark.workloads.dependable import followers
from tidings.spark.workloads.distributions import cumulative, places
from tidings.spark.workloads.workload import Workload, require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

USERS_PER_CHUNK = 8192
FOLLOWING_SHAPE = 2.0
"""Of the Pareto law of how many accounts a user follows."""
FOLLOWING_MAX = 10_000


class SocialGraph(Workload, frozen=True, kw_only=True, tag="social"):
    """A graph of followers with Zipf popularity, as a stand-in for a crawl of a social network."""

    tables: ClassVar[tuple[str, ...]] = ("follows",)

    users: int = 81_306

    def check(self) -> None:
        require(self.users > 1, f"users: {self.users} is too few; give 2 or more")

    def follows(self, spark: "SparkSession", partitions: int | None = None) -> "DataFrame":
        return self.follow_table().frame(spark, partitions)

    def follow_table(self) -> Table:
        columns: Columns = {"follower": "long", "followee": "long"}
        wanted = followers(self.users).astype(numpy.float64)
        shift = int(stream(self.seed, "social/shift").integers(1, self.users))
        return Table(
            stream="social/follows",
            seed=self.seed,
            items=self.users,
            columns=columns,
            make=partial(self.draw_follows, cumulative(wanted), float(wanted.mean()), shift),
            chunk_items=USERS_PER_CHUNK,
        )

    def draw_follows(
        self, sums: Array, mean: float, shift: int, random: Random, first: int, count: int
    ) -> dict[str, object]:
        users = numpy.arange(first, first + count)
        wanted = draw_following(random, count, mean)
        drawing = numpy.repeat(users, wanted)
        drawn = places(sums, random.random(len(drawing)))
        follower = numpy.concatenate([drawing, users])
        followee = numpy.concatenate([drawn, (users + shift) % self.users])
        pairs = numpy.unique((follower * self.users + followee)[follower != followee])
        return {"follower": pairs // self.users, "followee": pairs % self.users}


def draw_following(random: Random, count: int, mean: float) -> Array:
    """How many accounts each user draws: Pareto with that mean, cut to whole numbers."""
    scale = mean * (FOLLOWING_SHAPE - 1) / FOLLOWING_SHAPE
    drawn = scale * (1 - random.random(count)) ** (-1 / FOLLOWING_SHAPE)
    return numpy.minimum(drawn + random.random(count), FOLLOWING_MAX).astype(numpy.int64)


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
