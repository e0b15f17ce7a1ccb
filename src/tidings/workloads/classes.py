"""What the four workloads of the dependable family have in common: events of a class, and subscriptions to a class.

An event has a class (`c7`), and numbers `x1`, `x2`, ... that are uniform from 0 to 1000; how many depends on the class,
and the others are null. A publisher advertises one class and publishes nothing else, at a steady rate. A subscription
asks for one class and for a range in each number of it; both ends of a range are uniform.

Three tables come of it. `place` is the number of a broker among those that may have subscribers (or publishers); which
brokers of a topology these are is for the experiment to say.

    events           key, published_at, publisher, class, x1, x2, ...
    subscriptions    subscription, filter, class, place, joins_at
    advertisements   publisher, filter, class, place, rate
"""

from functools import partial
from typing import ClassVar

import numpy

from tidings.workloads.attributes import all_of, between, equals
from tidings.workloads.schedule import EVENT, Schedule, spoken, steady, uniform_ranges
from tidings.workloads.table import Array, Choices, Column, Columns, Drawn, Names, Random, Table
from tidings.workloads.workload import Workload

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
