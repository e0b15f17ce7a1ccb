"""Who wants what of whom: readers of feeds or journals, and followers of accounts.

**Readers** (spec peer-to-peer.md 3K): Zipf popularity, and readers who share interests.

Real readers are not independent of each other: six well-chosen friends read, between them, everything that nineteen of
twenty users read (Patel thesis 4.1.2, from 1.8 million users of LiveJournal). Popularity alone does not give that;
communities do. Here every journal and every user belongs to a community. A user's first decision is how many journals
to read, which is Zipf-like; each of them is then taken from the user's own community with probability `locality`, and
from all journals otherwise, by Zipf popularity either way. A journal drawn twice is read once.

    interests        user, journal: one row for each that is read
    subscriptions    subscription (the user), filter: `feed IN (...)`, all that the user reads
    events           key, published_at, feed: each journal has an update a minute

What an experiment starts from is a refinement of this crawl, or of a real one (6.2.1): some *seed* journals are drawn;
the universe is everybody who reads one of them; publishers are the journals most read inside it; whatever else is read
is forgotten, and with it those who read nothing else. Each user is then a simulated host. Crawls are large, so Spark
does it (`spark/workloads/tables.py`), and it adds two tables: `universe` (user, journal) and `hosts` (user, host).

**Followers** (spec dependable.md 4.6, D-2). The graph has a wanted sequence of degrees: the r-th account is to have
users / r followers (Zipf, and never none), and how many accounts a user follows is heavy-tailed too, with the mean that
makes both sides agree. Each user draws whom to follow in proportion to the followers wanted there. That needs no
knowledge of what others drew, so the graph is the same however it is cut up; a graph that grows by preferential
attachment would have to be drawn in order. Whoever is drawn twice is followed once, so the very popular end up with
somewhat fewer followers than wanted. Besides, everybody follows one account given by a shift, so that nobody has no
follower.

    follows          follower, followee

From a graph, this one or a real edge list of the same two columns, Spark makes `popularity` (user, followers, and these
as a share of all users) and `publishers` (publisher, user, subscriptions): users drawn as publishers, and a wanted
number of subscriptions cut in proportion to their followers.
"""

from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy

from tidings.workloads.content import one_of
from tidings.workloads.dependable import followers
from tidings.workloads.schedule import Schedule, cumulative, places, steady, zipf
from tidings.workloads.table import Array, Columns, Drawn, Make, Names, Random, Table, stream
from tidings.workloads.workload import Workload, require

USERS_PER_CHUNK = 8192
"""A user is many rows, so a chunk has fewer users."""

FOLLOWING_SHAPE = 2.0
"""Of the Pareto law of how many accounts a user follows."""
FOLLOWING_MAX = 10_000


class Readership(Workload, frozen=True, kw_only=True, tag="interests"):
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
    seed_journals: int = 100
    publishers: int = 100
    """Of the refinement: journals that it starts from, and journals that are left."""
    hosts: int = 1000
    """That users are placed on."""

    def check(self) -> None:
        self.require_positive("users", "journals", "communities", "read_max", "update_period", "duration")
        self.require_positive("seed_journals", "publishers", "hosts")
        self.require_shares("locality")
        require(self.communities <= self.journals, f"communities: {self.communities} is more than there are journals")
        require(min(self.exponent, self.read_exponent) >= 0, "exponent: give 0 or more")
        require(
            self.read_max <= READ_MAX, f"read_max: {self.read_max} is too many for one filter; give up to {READ_MAX}"
        )

    def interests(self) -> Table:
        columns: Columns = {"user": "string", "journal": "string"}
        return self.user_table(columns, self.list_interests)

    def subscriptions(self) -> Table:
        columns: Columns = {"subscription": "string", "filter": "string"}
        return self.user_table(columns, self.list_subscriptions)

    def user_table(self, columns: Columns, make: Make) -> Table:
        """Both tables tell the same, so they are drawn from one stream."""
        return self.drawn("interests/users", self.users, columns, make=make, chunk_items=USERS_PER_CHUNK)

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

    def list_interests(self, random: Random, first: int, count: int) -> Drawn:
        users, journals = self.draw_reading(random, first, count)
        return {"user": Names("u", users), "journal": Names("j", journals)}

    def list_subscriptions(self, random: Random, first: int, count: int) -> Drawn:
        users, journals = self.draw_reading(random, first, count)
        begins = numpy.searchsorted(users, numpy.arange(first, first + count + 1)).tolist()
        names = [f"j{journal}" for journal in journals.tolist()]
        filters = [one_of("feed", names[begin:end]) for begin, end in pairwise(begins)]
        return {"subscription": Names("u", numpy.arange(first, first + count)), "filter": filters}

    def events(self) -> Table:
        schedule = steady(self.journals, 1 / self.update_period, self.duration, self.seed)
        columns: Columns = {"key": "string", "published_at": "double", "feed": "string"}
        make = partial(list_updates, schedule)
        return self.drawn("interests/events", schedule.total, columns, make=make)


READ_MAX = 200
"""A filter has at most 512 words and signs, and a name in a list takes two."""


def list_updates(schedule: Schedule, random: Random, first: int, count: int) -> Drawn:
    journals, numbers, times = schedule.rows(first, count)
    return {"key": Names("p", journals, numbers), "published_at": times, "feed": Names("j", journals)}


class SocialGraph(Workload, frozen=True, kw_only=True, tag="social"):
    """A graph of followers with Zipf popularity, as a stand-in for a crawl of a social network."""

    tables: ClassVar[tuple[str, ...]] = ("follows",)

    users: int = 81_306
    publishers: int = 200
    subscription_count: int = 22_000
    """Users that are drawn as publishers, and how many subscriptions are for them together."""

    def check(self) -> None:
        require(self.users > 1, f"users: {self.users} is too few; give 2 or more")
        self.require_positive("publishers", "subscription_count")

    def follows(self) -> Table:
        columns: Columns = {"follower": "long", "followee": "long"}
        wanted = followers(self.users).astype(numpy.float64)
        shift = int(stream(self.seed, "social/shift").integers(1, self.users))
        return self.drawn(
            "social/follows",
            self.users,
            columns,
            make=partial(self.draw_follows, cumulative(wanted), float(wanted.mean()), shift),
            chunk_items=USERS_PER_CHUNK,
        )

    def draw_follows(self, sums: Array, mean: float, shift: int, random: Random, first: int, count: int) -> Drawn:
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
