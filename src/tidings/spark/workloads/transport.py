"""The workloads of the transport family (spec transport.md 4.1 and 4.3): E1 ordering, E23 congestion; E10 is in
`recovery.py`.

**transport-e1**: 48 publishers whose rate ramps up over five minutes, and two intense ones that join on the way. A few
subscribers take the intense streams, with a match above 80 %; the others follow one topic each. The source gives
deliveries, not filters: 250,000 in the first 90 s, which is 11.5 receivers for each event published, and 30,000 a
second near 200 s, which leaves 8.5 for an intense event. So there are 33 topics, all equally asked for by 380
subscribers, and ten subscribers to each intense publisher.

**transport-e23**: two fast publishers, and subscribers with one filter of 1 to 5 constraints on values with Zipf
popularity: most get little, a few get a lot.
"""

from functools import partial

import numpy

from tidings.spark.workloads.attributes import word
from tidings.spark.workloads.chunks import Columns, Random, Table, chosen, numbered
from tidings.spark.workloads.distributions import distinct_places, zipf
from tidings.spark.workloads.filter_text import all_of, between, equals
from tidings.spark.workloads.publishing import EVENT, SUBSCRIPTION, Publishing, phases, spoken, steady
from tidings.spark.workloads.workload import Workload, require

RAMP_STEPS = 3000
"""A ramp is drawn as so many straight pieces; a tenth of a second each, by default."""

INTENSE = "intense"
"""The topic of all events of intense publishers."""


class Ordering(Workload, frozen=True, kw_only=True, tag="transport-e1"):
    """Transport E1: many ramping publishers and two intense ones; intense streams go to a few subscribers."""

    subscribers: int = 400
    brokers: int = 8
    """Which have the subscribers by turns."""
    ramping: int = 48
    ramp_from: float = 1.5
    ramp_to: float = 25.0
    """Rate of a ramping publisher at the beginning and at the end, in events a second."""
    intense_rate: float = 1200.0
    intense_at: tuple[float, ...] = (90.0, 190.0)
    """When each intense publisher begins; they have the numbers after the ramping ones."""
    intense_subscribers: int = 10
    """Of each intense publisher."""
    intense_match: float = 0.85
    topics: int = 33
    duration: float = 300.0
    slower: float = 1.0
    """All rates are divided by this, to fit a smaller machine."""

    def check(self) -> None:
        self.require_positive("subscribers", "brokers", "ramping", "intense_rate", "topics", "duration", "slower")
        self.require_shares("intense_match")
        require(0 <= self.ramp_from <= self.ramp_to, "ramp_from: it may not be below 0 or above ramp_to")
        require(all(0 <= at < self.duration for at in self.intense_at), "intense_at: all begin before the end")
        require(self.intense_total <= self.subscribers, "intense_subscribers: there are not so many subscribers")

    @property
    def intense_total(self) -> int:
        return self.intense_subscribers * len(self.intense_at)

    def publishing(self) -> Publishing:
        times = numpy.linspace(0.0, self.duration, RAMP_STEPS + 1)
        ramp = self.ramp_from * times + (self.ramp_to - self.ramp_from) * times**2 / (2 * self.duration)
        intense = [numpy.maximum(times - at, 0.0) * self.intense_rate for at in self.intense_at]
        reached = numpy.vstack([*[ramp] * self.ramping, *intense]) / self.slower
        return Publishing(times, reached, phases(len(reached), self.seed))

    def event_table(self) -> Table:
        publishing = self.publishing()
        columns: Columns = {**EVENT, "topic": "string", "level": "double"}
        make = partial(self.draw_events, publishing)
        return Table(stream="e1/events", seed=self.seed, items=publishing.total, columns=columns, make=make)

    def draw_events(self, publishing: Publishing, random: Random, first: int, count: int) -> dict[str, object]:
        publishers, numbers, times = publishing.rows(first, count)
        topics = numpy.where(publishers < self.ramping, random.integers(0, self.topics, count), self.topics)
        return {
            **spoken(publishers, numbers, times),
            "topic": chosen([*(f"t{place}" for place in range(self.topics)), INTENSE], topics),
            "level": random.random(count),
        }

    def subscription_table(self) -> Table:
        return Table(
            stream="e1/subscriptions",
            seed=self.seed,
            items=self.subscribers,
            columns=SUBSCRIPTION,
            make=self.draw_subscriptions,
        )

    def draw_subscriptions(self, random: Random, first: int, count: int) -> dict[str, object]:
        rows = numpy.arange(first, first + count)
        topics = random.integers(0, self.topics, count)
        filters = [self.filter_of(*pair) for pair in zip(rows.tolist(), topics.tolist(), strict=True)]
        return {"subscription": numbered("s", rows), "filter": filters, "place": rows % self.brokers}

    def filter_of(self, subscriber: int, topic: int) -> str:
        if subscriber >= self.intense_total:
            return equals("topic", f"t{topic}")
        publisher = self.ramping + subscriber % len(self.intense_at)
        return all_of([equals("publisher", f"p{publisher}"), between("level", -numpy.inf, self.intense_match)])


class Congestion(Workload, frozen=True, kw_only=True, tag="transport-e23"):
    """Transport E23: two fast publishers; filters of 1 to 5 constraints on values with Zipf popularity."""

    publishers: int = 2
    rate: float = 2000.0
    duration: float = 60.0
    subscribers: int = 758
    brokers: int = 8
    """Which have the subscribers by turns."""
    attributes: int = 5
    values: int = 20
    """Of each attribute."""
    exponent: float = 1.0
    constraints_max: int = 5

    def check(self) -> None:
        self.require_positive("publishers", "rate", "duration", "subscribers", "brokers", "attributes", "values")
        require(0 < self.constraints_max <= self.attributes, "constraints_max: from 1 to the number of attributes")
        require(self.exponent >= 0, f"exponent: {self.exponent} is not possible; give 0 or more")

    def event_table(self) -> Table:
        publishing = steady(self.publishers, self.rate, self.duration, self.seed)
        columns: Columns = {**EVENT, **dict.fromkeys(self.names, "string")}
        make = partial(self.draw_events, publishing)
        return Table(stream="e23/events", seed=self.seed, items=publishing.total, columns=columns, make=make)

    @property
    def names(self) -> list[str]:
        return [f"a{place + 1}" for place in range(self.attributes)]

    def draw_events(self, publishing: Publishing, random: Random, first: int, count: int) -> dict[str, object]:
        words = [word(place) for place in range(self.values)]
        drawn = {name: chosen(words, zipf(random, count, self.values, self.exponent)) for name in self.names}
        return {**spoken(*publishing.rows(first, count)), **drawn}

    def subscription_table(self) -> Table:
        return Table(
            stream="e23/subscriptions",
            seed=self.seed,
            items=self.subscribers,
            columns=SUBSCRIPTION,
            make=self.draw_subscriptions,
        )

    def draw_subscriptions(self, random: Random, first: int, count: int) -> dict[str, object]:
        rows, most = numpy.arange(first, first + count), self.constraints_max
        asked = distinct_places(random, self.attributes, random.integers(1, most + 1, count), most)
        values = zipf(random, count * most, self.values, self.exponent).reshape(count, most)
        filters = [
            all_of(equals(self.names[place], word(value)) for place, value in zip(*pair, strict=True) if place >= 0)
            for pair in zip(asked.tolist(), values.tolist(), strict=True)
        ]
        return {"subscription": numbered("s", rows), "filter": filters, "place": rows % self.brokers}
