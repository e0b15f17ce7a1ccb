"""The workload of the recovery experiments (transport E10; spec transport.md 4.2).

Two facts are known of it: over pairs of publisher and subscriber, 80 % have a match probability below 0.08 and none
above 0.1; over events, half have at most two receivers. An event has ten attributes; one of them, `topic`, decides.
Topics have Zipf shares cut at 0.1: two have 0.1 each, the r-th of the others 0.2 / r, and there are as many as it takes
to make 1, which is 137. A fifth of the pairs ask for one of the first two; the others are spread over the rest
by a Zipf law whose exponent is searched for, so that popular events have many receivers, and half have few. A pair is
independent of the next: a subscriber asks each publisher for another topic, and its filter is the disjunction.
"""

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy

from tidings.spark.workloads.chunks import Array, Columns, Random, Table, chosen, numbered, stream
from tidings.spark.workloads.distributions import cumulative, places, whole_parts
from tidings.spark.workloads.filter_text import all_of, equals
from tidings.spark.workloads.publishing import EVENT, SUBSCRIPTION, Publishing, phases, spoken
from tidings.spark.workloads.workload import Workload, require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MATCH_MAX = 0.1
TOPICS_POPULAR = 2
FEW = 2
EXPONENTS_TRIED = [step / 20 for step in range(61)]
TOPICS = 137
OTHERS = tuple(f"a{place}" for place in range(1, 10))
SPIKE_EVERY, SPIKE_SECONDS = 30, 4
"""A spike begins once in so many seconds, on average, and lasts so many."""


class Recovery(Workload, frozen=True, kw_only=True, tag="transport-e10"):
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

    def publishing(self) -> Publishing:
        """A rate for each second: a base, and now and then some seconds of a spike."""
        seconds = int(numpy.ceil(self.duration))
        rates = numpy.vstack([self.rates(publisher, seconds) for publisher in range(self.publishers)])
        times = numpy.minimum(numpy.arange(seconds + 1.0), self.duration)
        reached = numpy.hstack([numpy.zeros((self.publishers, 1)), numpy.cumsum(rates * numpy.diff(times), axis=1)])
        return Publishing(times, reached, phases(self.publishers, self.seed))

    def rates(self, publisher: int, seconds: int) -> Array:
        random = stream(self.seed, "e10/rates", publisher)
        base = self.rate_min * (1 + random.random(seconds))
        begins = random.random(seconds) < 1 / SPIKE_EVERY
        heights = self.rate_max * (0.5 + 0.5 * random.random(seconds))
        last = numpy.maximum.accumulate(numpy.where(begins, numpy.arange(seconds), -SPIKE_SECONDS))
        spiking = numpy.arange(seconds) - last < SPIKE_SECONDS
        return numpy.clip(numpy.where(spiking, heights[last], base), self.rate_min, self.rate_max)

    def event_table(self) -> Table:
        publishing = self.publishing()
        columns: Columns = {**EVENT, "topic": "string", **dict.fromkeys(OTHERS, "double")}
        make = partial(self.draw_events, publishing, cumulative(topic_shares()))
        return Table(stream="e10/events", seed=self.seed, items=publishing.total, columns=columns, make=make)

    def draw_events(
        self, publishing: Publishing, sums: Array, random: Random, first: int, count: int
    ) -> dict[str, object]:
        publishers, numbers, times = publishing.rows(first, count)
        topics = chosen([f"t{place}" for place in range(TOPICS)], places(sums, random.random(count)))
        others = {name: random.random(count) for name in OTHERS}
        return {**spoken(publishers, numbers, times), "topic": topics, **others}

    def subscription_table(self) -> Table:
        make = partial(self.list_subscriptions, numpy.vstack([self.asked(place) for place in range(self.publishers)]))
        return Table(
            stream="e10/subscriptions", seed=self.seed, items=self.subscribers, columns=SUBSCRIPTION, make=make
        )

    def list_subscriptions(self, asked: Array, random: Random, first: int, count: int) -> dict[str, object]:
        rows = numpy.arange(first, first + count)
        filters = [
            " OR ".join(
                f"({all_of([equals('publisher', f'p{publisher}'), equals('topic', f't{topic}')])})"
                for publisher, topic in enumerate(topics)
            )
            for topics in asked[:, rows].T.tolist()
        ]
        return {"subscription": numbered("s", rows), "filter": filters, "place": rows % self.brokers}

    def pairs(self, spark: "SparkSession", partitions: int | None = None) -> "DataFrame":
        """publisher, subscription, topic, match_probability: what is true of each pair."""
        return self.pair_table().frame(spark, partitions)

    def pair_table(self) -> Table:
        columns: Columns = {
            "publisher": "string",
            "subscription": "string",
            "topic": "string",
            "match_probability": "double",
        }
        asked = numpy.concatenate([self.asked(publisher) for publisher in range(self.publishers)])
        make = partial(self.list_pairs, asked)
        return Table(stream="e10/pairs", seed=self.seed, items=len(asked), columns=columns, make=make)

    def list_pairs(self, asked: Array, random: Random, first: int, count: int) -> dict[str, object]:
        rows = numpy.arange(first, first + count)
        return {
            "publisher": numbered("p", rows // self.subscribers),
            "subscription": numbered("s", rows % self.subscribers),
            "topic": numbered("t", asked[rows]),
            "match_probability": topic_shares()[asked[rows]],
        }


def topic_shares() -> Array:
    """The probability of each topic, which is the match probability of whoever asks for it."""
    shares = numpy.minimum(MATCH_MAX, TOPICS_POPULAR * MATCH_MAX / numpy.arange(1, TOPICS + 1))
    shares[-1] -= shares.sum() - 1
    return shares
