"""The workloads of the dependable family (Salehi thesis; spec dependable.md 4.1): W-GEPS, W-POP, W-ITT and W-PSDG.

All four are made of events and subscriptions of a class and differ in how many there are and in who asks for
what:

    w-geps   100 classes with Zipf popularity and 1 to 4 numbers each; every leaf broker publishes to one, asks for two
    w-pop    200 publishers in 20 classes; a publisher has as many subscriptions as an account in a social network has
             followers; or, in the synthetic variant, Zipf shares
    w-itt    20 publishers in 10 classes; subscribers take a class with Zipf popularity, exponent 1.1
    w-psdg   10 publishers in 5 classes, exponent 1; some subscribers are there at first, others join at a steady rate

Where the source is silent we chose: numbers reach from 0 to 1000 in W-GEPS too; ranges are asked for in every number of
a class; the Zipf exponent of W-GEPS is 1; where classes are said to be uniform, publishers take them by turns.
Followers are those of G-65: of `users` accounts the r-th has users / r followers, and nobody has none; each publisher
is one of the accounts, drawn at random. A real edge list gives its own (`subscription_parts`).

**In common** they have events of a class, and subscriptions to a class. An event has a class (`c7`), and numbers `x1`,
`x2`, ... that are uniform from 0 to 1000; how many depends on the class, and the others are null. A publisher
advertises one class and publishes nothing else, at a steady rate. A subscription asks for one class and for a range in
each number of it; both ends of a range are uniform.

Three tables come of it. `place` is the number of a broker among those that may have subscribers (or publishers); which
brokers of a topology these are is for the experiment to say.

    events           key, published_at, publisher, class, x1, x2, ...
    subscriptions    subscription, filter, class, place, joins_at
    advertisements   publisher, filter, class, place, rate
"""

from functools import partial
from typing import ClassVar

import numpy

from tidings.workloads.content import all_of, between, equals
from tidings.workloads.schedule import EVENT, Schedule, spoken, steady, uniform_ranges, whole_parts, zipf, zipf_shares
from tidings.workloads.table import Array, Choices, Column, Columns, Drawn, Names, Random, Table, stream
from tidings.workloads.workload import Workload, require

VALUE_MAX = 1000.0
DECIMALS = 3
"""Ends of ranges are cut after so many."""

ANY = -1
"""In place of a publisher: whoever it is."""


class Classed(Workload, frozen=True, kw_only=True):
    tables: ClassVar[tuple[str, ...]] = ("events", "subscriptions", "advertisements")

    rate: float = 10.0
    """Events a second, of each publisher."""
    duration: float = 60.0
    """Seconds for which they publish."""

    def advertised(self) -> Array:
        """The class of each publisher."""
        raise NotImplementedError

    def number_counts(self) -> Array:
        """How many numbers an event of each class has."""
        raise NotImplementedError

    def publisher_place(self, publishers: Array) -> Array:
        raise NotImplementedError

    def subscribed(self) -> int:
        """The number of subscriptions."""
        raise NotImplementedError

    def wanted(self, random: Random, rows: Array) -> tuple[Array, Array]:
        """Which class each subscription asks for, and which publisher."""
        raise NotImplementedError

    def place(self, random: Random, rows: Array) -> Array:
        raise NotImplementedError

    def joins_at(self, rows: Array) -> Array:
        """Unless it is said otherwise, everybody has subscribed before the first event."""
        return numpy.zeros(len(rows))

    def events(self) -> Table:
        advertised, numbers = self.advertised(), self.number_counts()
        schedule = steady(len(advertised), self.rate, self.duration, self.seed)
        columns: Columns = {
            **EVENT,
            "class": "string",
            **dict.fromkeys(number_names(numbers), "double"),
        }
        make = partial(draw_events, schedule, advertised, numbers)
        return self.drawn("classes/events", schedule.total, columns, make=make)

    def subscriptions(self) -> Table:
        columns: Columns = {
            "subscription": "string",
            "filter": "string",
            "class": "string",
            "place": "long",
            "joins_at": "double",
        }
        make = partial(self.draw_subscriptions, self.number_counts())
        return self.drawn("classes/subscriptions", self.subscribed(), columns, make=make)

    def draw_subscriptions(self, numbers: Array, random: Random, first: int, count: int) -> Drawn:
        rows, width = numpy.arange(first, first + count), int(numbers.max())
        classes, publishers = self.wanted(random, rows)
        ends = numpy.round(uniform_ranges(random, (count, width), 0.0, VALUE_MAX), DECIMALS)
        asked = zip(classes.tolist(), publishers.tolist(), numbers[classes].tolist(), ends.tolist(), strict=True)
        return {
            "subscription": Names("s", rows),
            "filter": [class_filter(own, publisher, ranges[:some]) for own, publisher, some, ranges in asked],
            "class": Choices(class_names(len(numbers)), classes),
            "place": self.place(random, rows),
            "joins_at": self.joins_at(rows),
        }

    def advertisements(self) -> Table:
        columns: Columns = {
            "publisher": "string",
            "filter": "string",
            "class": "string",
            "place": "long",
            "rate": "double",
        }
        advertised = self.advertised()
        make = partial(self.list_advertisements, advertised)
        return self.drawn("classes/advertisements", len(advertised), columns, make=make)

    def list_advertisements(self, advertised: Array, random: Random, first: int, count: int) -> Drawn:
        publishers = numpy.arange(first, first + count)
        own = advertised[publishers]
        return {
            "publisher": Names("p", publishers),
            "filter": [class_filter(*pair, []) for pair in zip(own.tolist(), publishers.tolist(), strict=True)],
            "class": Choices(class_names(int(advertised.max()) + 1), own),
            "place": self.publisher_place(publishers),
            "rate": numpy.full(count, self.rate),
        }


def draw_events(schedule: Schedule, advertised: Array, numbers: Array, random: Random, first: int, count: int) -> Drawn:
    publishers, order, times = schedule.rows(first, count)
    classes = advertised[publishers]
    drawn: dict[str, Column] = {
        **spoken(publishers, order, times),
        "class": Choices(class_names(len(numbers)), classes),
    }
    for place, name in enumerate(number_names(numbers)):
        drawn[name] = numpy.ma.MaskedArray(random.random(count) * VALUE_MAX, mask=numbers[classes] <= place)
    return drawn


def class_filter(own: int, publisher: int, ranges: list[list[float]]) -> str:
    speaker = [] if publisher == ANY else [equals("publisher", f"p{publisher}")]
    asked = [between(f"x{place}", low, high) for place, (low, high) in enumerate(ranges, 1)]
    return all_of([equals("class", f"c{own}"), *speaker, *asked])


def class_names(count: int) -> list[str]:
    return [f"c{place}" for place in range(count)]


def number_names(numbers: Array) -> list[str]:
    return [f"x{place + 1}" for place in range(int(numbers.max()))]


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
