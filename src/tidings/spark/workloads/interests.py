"""Who reads which feed or journal: Zipf popularity, and readers who share interests (spec peer-to-peer.md 3K).

Real readers are not independent of each other: six well-chosen friends read, between them, everything that nineteen of
twenty users read (Patel thesis 4.1.2, from 1.8 million users of LiveJournal). Popularity alone does not give that;
communities do. Here every journal and every user belongs to a community. A user's first decision is how many journals
to read, which is Zipf-like; each of them is then taken from the user's own community with probability `locality`, and
from all journals otherwise, by Zipf popularity either way. A journal drawn twice is read once.

    interests        user, journal: one row for each that is read
    subscriptions    subscription (the user), filter: `feed IN (...)`, all that the user reads
    events           key, published_at, feed: each journal has an update a minute

**Refinement** (6.2.1) makes an experiment out of a crawl, this one or a real one: take some *seed* journals at random;
the universe is everybody who reads one of them; publishers are the journals most read inside it; whatever else is read
is forgotten, and with it those who read nothing else. Each user is then a simulated host.
"""

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy

from tidings.model.errors import UsageError
from tidings.spark.workloads.chunks import Array, Columns, Make, Random, Table, numbered
from tidings.spark.workloads.distributions import zipf
from tidings.spark.workloads.filter_text import one_of
from tidings.spark.workloads.publishing import Publishing, keys, steady
from tidings.spark.workloads.workload import Workload, require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

USERS_PER_CHUNK = 8192
"""A user is many rows, so a chunk has fewer users."""


class Interests(Workload, frozen=True, kw_only=True, tag="interests"):
    """Peer-to-peer 3K: Zipf interests of users over feeds or journals, with latent communities."""

    tables: ClassVar[tuple[str, ...]] = ("interests", "subscriptions", "events")

    users: int = 20_000
    journals: int = 4_000
    communities: int = 100
    """Users and journals belong to them by turns."""
    exponent: float = 1.0
    """Of the popularity of journals, among all and inside a community."""
    locality: float = 0.9
    """How likely a journal is taken from the user's own community."""
    read_max: int = 50
    """A user reads from 1 to so many journals."""
    read_exponent: float = 1.0
    """Of the number of journals that a user reads."""
    update_period: float = 60.0
    """Seconds between two updates of a journal."""
    duration: float = 600.0

    def check(self) -> None:
        self.require_positive("users", "journals", "communities", "read_max", "update_period", "duration")
        self.require_shares("locality")
        require(self.communities <= self.journals, f"communities: {self.communities} is more than there are journals")
        require(min(self.exponent, self.read_exponent) >= 0, "exponent: give 0 or more")
        require(
            self.read_max <= READ_MAX, f"read_max: {self.read_max} is too many for one filter; give up to {READ_MAX}"
        )

    def interests(self, spark: "SparkSession", partitions: int | None = None) -> "DataFrame":
        return self.interest_table().frame(spark, partitions)

    def interest_table(self) -> Table:
        columns: Columns = {"user": "string", "journal": "string"}
        return self.user_table(columns, self.list_interests)

    def subscription_table(self) -> Table:
        columns: Columns = {"subscription": "string", "filter": "string"}
        return self.user_table(columns, self.list_subscriptions)

    def user_table(self, columns: Columns, make: Make) -> Table:
        """Both tables tell the same, so they are drawn from one stream."""
        return Table(
            stream="interests/users",
            seed=self.seed,
            items=self.users,
            columns=columns,
            make=make,
            chunk_items=USERS_PER_CHUNK,
        )

    def draw_reading(self, random: Random, first: int, count: int) -> tuple[Array, Array]:
        """Pairs of user and journal, sorted, each once."""
        wanted = zipf(random, count, self.read_max, self.read_exponent) + 1
        users = numpy.repeat(numpy.arange(first, first + count), wanted)
        local = self.journals // self.communities
        inside = zipf(random, len(users), local, self.exponent) * self.communities + users % self.communities
        outside = zipf(random, len(users), self.journals, self.exponent)
        journals = numpy.where(random.random(len(users)) < self.locality, inside, outside)
        pairs = numpy.unique(users * self.journals + journals)
        return pairs // self.journals, pairs % self.journals

    def list_interests(self, random: Random, first: int, count: int) -> dict[str, object]:
        users, journals = self.draw_reading(random, first, count)
        return {"user": numbered("u", users), "journal": numbered("j", journals)}

    def list_subscriptions(self, random: Random, first: int, count: int) -> dict[str, object]:
        users, journals = self.draw_reading(random, first, count)
        begins = numpy.searchsorted(users, numpy.arange(first, first + count + 1)).tolist()
        names = numbered("j", journals).to_pylist()
        filters = [one_of("feed", names[begin:end]) for begin, end in pairwise(begins)]
        return {"subscription": numbered("u", numpy.arange(first, first + count)), "filter": filters}

    def event_table(self) -> Table:
        publishing = steady(self.journals, 1 / self.update_period, self.duration, self.seed)
        columns: Columns = {"key": "string", "published_at": "double", "feed": "string"}
        make = partial(list_updates, publishing)
        return Table(stream="interests/events", seed=self.seed, items=publishing.total, columns=columns, make=make)


READ_MAX = 200
"""A filter has at most 512 words and signs, and a name in a list takes two."""


def list_updates(publishing: Publishing, random: Random, first: int, count: int) -> dict[str, object]:
    journals, numbers, times = publishing.rows(first, count)
    return {"key": keys(journals, numbers), "published_at": times, "feed": numbered("j", journals)}


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
