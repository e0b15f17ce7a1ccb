"""The workloads of the dependable family (Salehi thesis; spec dependable.md 4.1): W-GEPS, W-POP, W-ITT and W-PSDG.

All four are made of events and subscriptions of a class (`classes.py`) and differ in how many there are and in who asks
for what:

    w-geps   100 classes with Zipf popularity and 1 to 4 numbers each; every leaf broker publishes to one, asks for two
    w-pop    200 publishers in 20 classes; a publisher has as many subscriptions as an account in a social network has
             followers; or, in the synthetic variant, Zipf shares
    w-itt    20 publishers in 10 classes; subscribers take a class with Zipf popularity, exponent 1.1
    w-psdg   10 publishers in 5 classes, exponent 1; some subscribers are there at first, others join at a steady rate

Where the source is silent we chose: numbers reach from 0 to 1000 in W-GEPS too; ranges are asked for in every number of
a class; the Zipf exponent of W-GEPS is 1; where classes are said to be uniform, publishers take them by turns.
Followers are those of G-65: of `users` accounts the r-th has users / r followers, and nobody has none; each publisher
is one of the accounts, drawn at random. A real edge list gives its own (`subscription_parts`).
"""

import numpy

from tidings.workloads.classes import ANY, Classed
from tidings.workloads.schedule import whole_parts, zipf, zipf_shares
from tidings.workloads.table import Array, Random, stream
from tidings.workloads.workload import require

TWO_NUMBERS = 2


class Geps(Classed, frozen=True, kw_only=True, tag="w-geps"):
    """W-GEPS: 100 classes with Zipf popularity, 1 to 4 numbers each, one publisher and two subscriptions a leaf."""

    leaves: int = 250
    """Leaf brokers; each has one client, which publishes and subscribes."""
    classes: int = 100
    exponent: float = 1.0
    """Of the popularity of classes, among publishers and among subscriptions."""
    numbers_max: int = 4
    """A class has from 1 to so many numbers, all equally likely."""
    subscriptions_each: int = 2
    rate: float = 4.0

    def check(self) -> None:
        self.require_positive("leaves", "classes", "numbers_max", "subscriptions_each", "rate", "duration")
        require_exponent(self.exponent)

    def advertised(self) -> Array:
        return zipf(stream(self.seed, "w-geps/publishers"), self.leaves, self.classes, self.exponent)

    def number_counts(self) -> Array:
        return stream(self.seed, "w-geps/classes").integers(1, self.numbers_max + 1, self.classes)

    def publisher_place(self, publishers: Array) -> Array:
        return publishers

    def subscribed(self) -> int:
        return self.leaves * self.subscriptions_each

    def wanted(self, random: Random, rows: Array) -> tuple[Array, Array]:
        return from_anybody(random, len(rows), self.classes, self.exponent)

    def place(self, random: Random, rows: Array) -> Array:
        return rows // self.subscriptions_each


class ByTurns(Classed, frozen=True, kw_only=True):
    """Publishers take the classes by turns; a class has two numbers."""

    publishers: int
    classes: int

    def advertised(self) -> Array:
        return numpy.arange(self.publishers) % self.classes

    def number_counts(self) -> Array:
        return numpy.full(self.classes, TWO_NUMBERS)


class PopSub(ByTurns, frozen=True, kw_only=True, tag="w-pop"):
    """W-POP: 200 publishers in 20 classes; subscriptions are spread over publishers as followers over accounts."""

    publishers: int = 200
    classes: int = 20
    subscription_count: int = 22_000
    """One for each client."""
    brokers: int = 200
    """Subscribers are on any of them, all equally likely."""
    publisher_brokers: int = 5
    """The root and its children, which have the publishers by turns."""
    users: int = 81_306
    """Accounts of the social network that publishers are drawn from."""
    zipf_exponent: float | None = None
    """If it is given, publishers have Zipf shares of the subscriptions with this exponent instead (0.05 to 1)."""
    subscription_parts: tuple[int, ...] | None = None
    """If it is given, so many subscriptions go to each publisher; `social.subscriptions_per_publisher` finds them."""

    def check(self) -> None:
        self.require_positive("publishers", "classes", "subscription_count", "brokers", "publisher_brokers")
        self.require_positive("rate", "duration")
        parts = self.subscription_parts
        if parts is not None:
            fits = len(parts) == self.publishers and min(parts) >= 0 and sum(parts) == self.subscription_count
            require(fits, "subscription_parts: give one number a publisher; together they are subscription_count")
        require(self.users >= self.publishers, f"users: {self.users} is fewer than the {self.publishers} publishers")
        require_exponent(self.zipf_exponent or 0.0)

    def publisher_place(self, publishers: Array) -> Array:
        return publishers % self.publisher_brokers

    def subscribed(self) -> int:
        return self.subscription_count

    def wanted(self, random: Random, rows: Array) -> tuple[Array, Array]:
        followed = numpy.repeat(numpy.arange(self.publishers), self.subscriptions_per_publisher())
        followed = stream(self.seed, "w-pop/order").permutation(followed)[rows]
        return self.advertised()[followed], followed

    def place(self, random: Random, rows: Array) -> Array:
        return random.integers(0, self.brokers, len(rows))

    def subscriptions_per_publisher(self) -> Array:
        if self.subscription_parts is not None:
            return numpy.array(self.subscription_parts)
        if self.zipf_exponent is not None:
            return whole_parts(self.subscription_count, zipf_shares(self.publishers, self.zipf_exponent))
        accounts = stream(self.seed, "w-pop/accounts").choice(self.users, self.publishers, replace=False)
        return whole_parts(self.subscription_count, followers(self.users)[accounts].astype(numpy.float64))


class Itt(ByTurns, frozen=True, kw_only=True, tag="w-itt"):
    """W-ITT: 20 publishers in 10 classes with 2 numbers; subscribers take a class by Zipf with exponent 1.1."""

    publishers: int = 20
    """All at the root."""
    classes: int = 10
    exponent: float = 1.1
    subscribers: int = 1000
    leaves: int = 30
    """Subscribers are on any of them, all equally likely."""
    rate: float = 5.0
    duration: float = 600.0

    def check(self) -> None:
        self.require_positive("publishers", "classes", "subscribers", "leaves", "rate", "duration")
        require_exponent(self.exponent)

    def publisher_place(self, publishers: Array) -> Array:
        return numpy.zeros_like(publishers)

    def subscribed(self) -> int:
        return self.subscribers

    def wanted(self, random: Random, rows: Array) -> tuple[Array, Array]:
        return from_anybody(random, len(rows), self.classes, self.exponent)

    def place(self, random: Random, rows: Array) -> Array:
        return random.integers(0, self.leaves, len(rows))


class Psdg(ByTurns, frozen=True, kw_only=True, tag="w-psdg"):
    """W-PSDG: 10 publishers in 5 classes with 2 numbers; 20 subscribers at first, then 5 a second join for 30 s."""

    publishers: int = 10
    classes: int = 5
    exponent: float = 1.0
    brokers: int = 6
    """3, 6 or 10 in the source; subscribers are on any of them, all equally likely."""
    publisher_brokers: int = 3
    """Which have the publishers by turns."""
    first_subscribers: int = 20
    join_rate: float = 5.0
    """Subscribers that join in a second: 5, 10 or 15 in the source."""
    join_duration: float = 30.0
    duration: float = 300.0

    def check(self) -> None:
        self.require_positive("publishers", "classes", "brokers", "publisher_brokers", "rate", "duration", "join_rate")
        require(self.first_subscribers >= 0, f"first_subscribers: {self.first_subscribers} is below 0")
        require(self.join_duration >= 0, f"join_duration: {self.join_duration} is below 0")
        require(self.subscribed() > 0, "first_subscribers: there must be a subscriber, at first or later")
        require_exponent(self.exponent)

    def publisher_place(self, publishers: Array) -> Array:
        return publishers % self.publisher_brokers

    def subscribed(self) -> int:
        return self.first_subscribers + round(self.join_rate * self.join_duration)

    def wanted(self, random: Random, rows: Array) -> tuple[Array, Array]:
        return from_anybody(random, len(rows), self.classes, self.exponent)

    def place(self, random: Random, rows: Array) -> Array:
        return random.integers(0, self.brokers, len(rows))

    def joins_at(self, rows: Array) -> Array:
        """Those that are not there at first come one by one, evenly spaced."""
        return numpy.asarray(numpy.maximum(rows - self.first_subscribers + 1, 0) / self.join_rate)


def from_anybody(random: Random, size: int, classes: int, exponent: float) -> tuple[Array, Array]:
    """A class by its popularity, whoever publishes to it."""
    return zipf(random, size, classes, exponent), numpy.full(size, ANY)


def followers(users: int) -> Array:
    """Of each account, the most followed first; every account has at least one."""
    return numpy.asarray(numpy.maximum(1, users // numpy.arange(1, users + 1)))


def require_exponent(exponent: float) -> None:
    require(exponent >= 0, f"exponent: {exponent} is not possible; give 0 or more")
