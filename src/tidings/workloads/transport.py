"""The workloads of the transport family (spec transport.md 4.1 to 4.3): E1 ordering, E10 recovery, E23 congestion.

**transport-e1**: 48 publishers whose rate ramps up over five minutes, and two intense ones that join on the way. A few
subscribers take the intense streams, with a match above 80 %; the others follow one topic each. The source gives
deliveries, not filters: 250,000 in the first 90 s, which is 11.5 receivers for each event published, and 30,000 a
second near 200 s, which leaves 8.5 for an intense event. So there are 33 topics, all equally asked for by 380
subscribers, and ten subscribers to each intense publisher.

**transport-e10**: two facts are known of it: over pairs of publisher and subscriber, 80 % have a match probability
below 0.08 and none above 0.1; over events, half have at most two receivers. An event has ten attributes; one of them,
`topic`, decides. Topics have Zipf shares cut at 0.1: two have 0.1 each, the r-th of the others 0.2 / r, and there are
as many as it takes to make 1, which is 137. A fifth of the pairs ask for one of the first two; the others are spread
over the rest by a Zipf law whose exponent is searched for, so that popular events have many receivers, and half have
few. A pair is independent of the next: a subscriber asks each publisher for another topic, and its filter is the
disjunction.

**transport-e23**: two fast publishers, and subscribers with one filter of 1 to 5 constraints on values with Zipf
popularity: most get little, a few get a lot.
"""

import math
from functools import partial
from typing import ClassVar

import numpy

from tidings.workloads.content import all_of, between, equals, word
from tidings.workloads.schedule import (
    EVENT,
    SUBSCRIPTION,
    Arrivals,
    Schedule,
    cumulative,
    distinct_places,
    places,
    spoken,
    steady,
    whole_parts,
    zipf,
)
from tidings.workloads.table import Array, Choices, Columns, Drawn, Names, Random, Table, stream
from tidings.workloads.workload import Workload, require

RAMP_STEPS = 3000
"""A ramp is drawn as so many straight pieces; a tenth of a second each, by default."""

DECIMALS = 3
"""Of the shares of a stream that subscribers want."""

GRADES_MAX = 60
"""A filter has at most 512 words and signs, and a grade takes eight."""

INTENSE = "intense"
"""The topic of all events of intense publishers."""

MATCH_MAX = 0.1
TOPICS_POPULAR = 2
FEW = 2
EXPONENTS_TRIED = [step / 20 for step in range(61)]
TOPICS = 137
OTHERS = tuple(f"a{place}" for place in range(1, 10))
SPIKE_EVERY, SPIKE_SECONDS = 30, 4
"""A spike begins once in so many seconds, on average, and lasts so many."""


class RisingLoad(Workload, frozen=True, kw_only=True, tag="transport-e1"):
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
    """The share of the stream that each wants, give or take `match_spread`."""
    match_spread: float = 0.0
    grades: int = 0
    """Where set, events have one of so many grades instead of a level, and who wants a share wants some of the grades.
    A Bloom row tells whether two values are equal, and not which is less."""
    topics: int = 33
    duration: float = 300.0
    slower: float = 1.0
    """All rates are divided by this, to fit a smaller machine."""
    arrivals: Arrivals = "even"

    def check(self) -> None:
        self.require_positive("subscribers", "brokers", "ramping", "intense_rate", "topics", "duration", "slower")
        self.require_shares("intense_match", "match_spread")
        fits = self.intense_match - self.match_spread >= 0 and self.intense_match + self.match_spread <= 1
        require(fits, "match_spread: intense_match, give or take this, is from 0 to 1")
        require(0 <= self.grades <= GRADES_MAX, f"grades: {self.grades}; give 0 to {GRADES_MAX}")
        require(0 <= self.ramp_from <= self.ramp_to, "ramp_from: it may not be below 0 or above ramp_to")
        require(all(0 <= at < self.duration for at in self.intense_at), "intense_at: all begin before the end")
        require(self.intense_total <= self.subscribers, "intense_subscribers: there are not so many subscribers")

    @property
    def intense_total(self) -> int:
        return self.intense_subscribers * len(self.intense_at)

    def schedule(self) -> Schedule:
        times = numpy.linspace(0.0, self.duration, RAMP_STEPS + 1)
        ramp = self.ramp_from * times + (self.ramp_to - self.ramp_from) * times**2 / (2 * self.duration)
        intense = [numpy.maximum(times - at, 0.0) * self.intense_rate for at in self.intense_at]
        reached = numpy.vstack([*[ramp] * self.ramping, *intense]) / self.slower
        return Schedule(times, reached, self.seed, self.arrivals)

    def events(self) -> Table:
        schedule = self.schedule()
        measured: Columns = {"grade": "long"} if self.grades else {"level": "double"}
        columns: Columns = {**EVENT, "topic": "string", **measured}
        make = partial(self.draw_events, schedule)
        return self.drawn("e1/events", schedule.total, columns, make=make)

    def draw_events(self, schedule: Schedule, random: Random, first: int, count: int) -> Drawn:
        publishers, numbers, times = schedule.rows(first, count)
        topics = numpy.where(publishers < self.ramping, random.integers(0, self.topics, count), self.topics)
        levels = random.random(count)
        return {
            **spoken(publishers, numbers, times),
            "topic": Choices([*(f"t{place}" for place in range(self.topics)), INTENSE], topics),
            "level": levels,
            "grade": (levels * self.grades).astype(numpy.int64),
        }

    def subscriptions(self) -> Table:
        return self.drawn(
            "e1/subscriptions",
            self.subscribers,
            {**SUBSCRIPTION, "topic": "string", "publisher": "string", "share": "double"},
            make=self.draw_subscriptions,
        )

    def draw_subscriptions(self, random: Random, first: int, count: int) -> Drawn:
        """Of a topic everything is wanted; of an intense publisher a share."""
        rows = numpy.arange(first, first + count)
        intense = rows < self.intense_total
        topics = numpy.where(intense, -1, random.integers(0, self.topics, count)).tolist()
        publishers = (self.ramping + rows % max(1, len(self.intense_at))).tolist()
        spread = self.match_spread * (2 * random.random(count) - 1)
        shares = numpy.where(intense, numpy.round(self.intense_match + spread, DECIMALS), 1.0).tolist()
        return {
            "subscription": Names("s", rows),
            "filter": [self.filter_of(*each) for each in zip(topics, publishers, shares, strict=True)],
            "place": rows % self.brokers,
            "topic": [f"t{topic}" if topic >= 0 else None for topic in topics],
            "publisher": [f"p{own}" if topic < 0 else None for topic, own in zip(topics, publishers, strict=True)],
            "share": numpy.array(shares),
        }

    def filter_of(self, topic: int, publisher: int, share: float) -> str:
        if topic >= 0:
            return equals("topic", f"t{topic}")
        speaker = equals("publisher", f"p{publisher}")
        if not self.grades:
            return all_of([speaker, between("level", -numpy.inf, share)])
        return " OR ".join(f"{speaker} AND grade = {grade}" for grade in range(math.ceil(share * self.grades)))


class RareMatches(Workload, frozen=True, kw_only=True, tag="transport-e10"):
    """Transport E10: match probabilities below 0.1 for every pair, and few receivers for most events."""

    tables: ClassVar[tuple[str, ...]] = ("events", "subscriptions", "pairs")

    publishers: int = 6
    subscribers: int = 54
    """6 and 54 in the small experiment, 10 and 220 in the large one."""
    brokers: int = 12
    """12 or 46; they have the subscribers by turns."""
    popular_share: float = 0.2
    """Of the pairs, those that ask for one of the two topics with the largest match probability."""
    few_share: float = 0.5
    """Of the events, those with at most two receivers; reached as nearly as whole subscribers allow."""
    rate_min: float = 20.0
    rate_max: float = 500.0
    """Events a second of a publisher: near the smallest most of the time, and near the largest in spikes."""
    duration: float = 300.0

    def check(self) -> None:
        self.require_positive("publishers", "subscribers", "brokers", "rate_min", "duration")
        self.require_shares("popular_share", "few_share")
        require(self.rate_min <= self.rate_max, "rate_min: it may not be above rate_max")

    def receivers(self) -> Array:
        """How many subscribers want each topic of a publisher, by the exponent that gives `few_share` best."""
        shares, tried = topic_shares(), [self.receivers_by(exponent) for exponent in EXPONENTS_TRIED]
        return min(tried, key=lambda counts: abs(shares[counts <= FEW].sum() - self.few_share))

    def receivers_by(self, exponent: float) -> Array:
        popular = int(self.popular_share * self.subscribers)
        ranks = numpy.arange(TOPICS_POPULAR + 1, TOPICS + 1, dtype=numpy.float64)
        others = whole_parts(self.subscribers - popular, ranks**-exponent)
        return numpy.concatenate([whole_parts(popular, numpy.ones(TOPICS_POPULAR)), others])

    def asked(self, publisher: int) -> Array:
        """The topic that each subscriber wants of a publisher. How many want each is fixed; who, is drawn."""
        wanted = numpy.repeat(numpy.arange(TOPICS), self.receivers())
        return stream(self.seed, "e10/asked", publisher).permutation(wanted)

    def schedule(self) -> Schedule:
        """A rate for each second: a base, and now and then some seconds of a spike."""
        seconds = int(numpy.ceil(self.duration))
        rates = numpy.vstack([self.rates(publisher, seconds) for publisher in range(self.publishers)])
        times = numpy.minimum(numpy.arange(seconds + 1.0), self.duration)
        reached = numpy.hstack([numpy.zeros((self.publishers, 1)), numpy.cumsum(rates * numpy.diff(times), axis=1)])
        return Schedule(times, reached, self.seed)

    def rates(self, publisher: int, seconds: int) -> Array:
        random = stream(self.seed, "e10/rates", publisher)
        base = self.rate_min * (1 + random.random(seconds))
        begins = random.random(seconds) < 1 / SPIKE_EVERY
        heights = self.rate_max * (0.5 + 0.5 * random.random(seconds))
        last = numpy.maximum.accumulate(numpy.where(begins, numpy.arange(seconds), -SPIKE_SECONDS))
        spiking = numpy.arange(seconds) - last < SPIKE_SECONDS
        return numpy.clip(numpy.where(spiking, heights[last], base), self.rate_min, self.rate_max)

    def events(self) -> Table:
        schedule = self.schedule()
        columns: Columns = {**EVENT, "topic": "string", **dict.fromkeys(OTHERS, "double")}
        make = partial(self.draw_events, schedule, cumulative(topic_shares()))
        return self.drawn("e10/events", schedule.total, columns, make=make)

    def draw_events(self, schedule: Schedule, sums: Array, random: Random, first: int, count: int) -> Drawn:
        publishers, numbers, times = schedule.rows(first, count)
        topics = Choices([f"t{place}" for place in range(TOPICS)], places(sums, random.random(count)))
        others = {name: random.random(count) for name in OTHERS}
        return {**spoken(publishers, numbers, times), "topic": topics, **others}

    def subscriptions(self) -> Table:
        make = partial(self.list_subscriptions, numpy.vstack([self.asked(place) for place in range(self.publishers)]))
        return self.drawn("e10/subscriptions", self.subscribers, SUBSCRIPTION, make=make)

    def list_subscriptions(self, asked: Array, random: Random, first: int, count: int) -> Drawn:
        rows = numpy.arange(first, first + count)
        filters = [
            " OR ".join(
                f"({all_of([equals('publisher', f'p{publisher}'), equals('topic', f't{topic}')])})"
                for publisher, topic in enumerate(topics)
            )
            for topics in asked[:, rows].T.tolist()
        ]
        return {"subscription": Names("s", rows), "filter": filters, "place": rows % self.brokers}

    def pairs(self) -> Table:
        """What is true of each pair."""
        columns: Columns = {
            "publisher": "string",
            "subscription": "string",
            "topic": "string",
            "match_probability": "double",
        }
        asked = numpy.concatenate([self.asked(publisher) for publisher in range(self.publishers)])
        make = partial(self.list_pairs, asked)
        return self.drawn("e10/pairs", len(asked), columns, make=make)

    def list_pairs(self, asked: Array, random: Random, first: int, count: int) -> Drawn:
        rows = numpy.arange(first, first + count)
        return {
            "publisher": Names("p", rows // self.subscribers),
            "subscription": Names("s", rows % self.subscribers),
            "topic": Names("t", asked[rows]),
            "match_probability": topic_shares()[asked[rows]],
        }


def topic_shares() -> Array:
    """The probability of each topic, which is the match probability of whoever asks for it."""
    shares = numpy.minimum(MATCH_MAX, TOPICS_POPULAR * MATCH_MAX / numpy.arange(1, TOPICS + 1))
    shares[-1] -= shares.sum() - 1
    return shares


class SharedInterests(Workload, frozen=True, kw_only=True, tag="transport-e23"):
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
    arrivals: Arrivals = "even"

    def check(self) -> None:
        self.require_positive("publishers", "rate", "duration", "subscribers", "brokers", "attributes", "values")
        require(0 < self.constraints_max <= self.attributes, "constraints_max: from 1 to the number of attributes")
        require(self.exponent >= 0, f"exponent: {self.exponent} is not possible; give 0 or more")

    def events(self) -> Table:
        schedule = steady(self.publishers, self.rate, self.duration, self.seed, self.arrivals)
        columns: Columns = {**EVENT, **dict.fromkeys(self.names, "string")}
        make = partial(self.draw_events, schedule)
        return self.drawn("e23/events", schedule.total, columns, make=make)

    @property
    def names(self) -> list[str]:
        return [f"a{place + 1}" for place in range(self.attributes)]

    def draw_events(self, schedule: Schedule, random: Random, first: int, count: int) -> Drawn:
        words = [word(place) for place in range(self.values)]
        drawn = {name: Choices(words, zipf(random, count, self.values, self.exponent)) for name in self.names}
        return {**spoken(*schedule.rows(first, count)), **drawn}

    def subscriptions(self) -> Table:
        return self.drawn(
            "e23/subscriptions",
            self.subscribers,
            {**SUBSCRIPTION, **dict.fromkeys(self.names, "string")},
            make=self.draw_subscriptions,
        )

    def draw_subscriptions(self, random: Random, first: int, count: int) -> Drawn:
        rows, most = numpy.arange(first, first + count), self.constraints_max
        asked = distinct_places(random, self.attributes, random.integers(1, most + 1, count), most)
        values = zipf(random, count * most, self.values, self.exponent).reshape(count, most)
        wanted = [
            {self.names[place]: word(value) for place, value in zip(*pair, strict=True) if place >= 0}
            for pair in zip(asked.tolist(), values.tolist(), strict=True)
        ]
        return {
            "subscription": Names("s", rows),
            "filter": [all_of(equals(*each) for each in own.items()) for own in wanted],
            "place": rows % self.brokers,
            **{name: [own.get(name) for own in wanted] for name in self.names},
        }
