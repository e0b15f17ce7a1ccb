"""Popularity that changes while events are published.

What everybody wants today is not what everybody wants next year, and a protocol that has adapted must adapt again. A
workload here knows the share of each topic at a few moments, the *snapshots*, and between two of them shares move in a
straight line from the one to the next: at a time that has gone a part w of the way, a topic is drawn from the later
snapshot with probability w, and from the earlier one otherwise.

    drifting    snapshots are made up: Zipf shares, and from one snapshot to the next some topics change places
    stars       snapshots are real: stars of some thousand repositories on four days of two years

    events           key, published_at, topic
    subscriptions    subscription, filter, joins_at: topics are asked for as they are popular at that time
"""

from functools import partial

import msgspec
import numpy

from tidings.workloads.content import equals
from tidings.workloads.recorded import Stars
from tidings.workloads.schedule import cumulative, places, zipf_shares
from tidings.workloads.table import Array, Choices, Columns, Drawn, Names, Random, Table, stream
from tidings.workloads.workload import Workload, require


class Snapshots(msgspec.Struct, frozen=True):
    """`shares[k]` are the shares of all topics at `times[k]`; times begin at 0 and grow."""

    topics: tuple[str, ...]
    times: Array
    shares: Array

    def draw(self, random: Random, at: Array) -> Array:
        """A topic for each time."""
        later = numpy.clip(numpy.searchsorted(self.times, at, side="right"), 1, len(self.times) - 1)
        begin, end = self.times[later - 1], self.times[later]
        snapshot = numpy.where(random.random(len(at)) < (at - begin) / (end - begin), later, later - 1)
        uniform, topics = random.random(len(at)), numpy.empty(len(at), numpy.int64)
        for one in numpy.unique(snapshot).tolist():
            here = snapshot == one
            topics[here] = places(cumulative(self.shares[one]), uniform[here])
        return topics

    def shares_at(self, time: float) -> Array:
        """What `draw` follows at that time."""
        return numpy.array([numpy.interp(time, self.times, own) for own in self.shares.T])


class Changing(Workload, frozen=True, kw_only=True):
    event_count: int = 1_000_000
    subscription_count: int = 10_000
    duration: float = 600.0
    """Events and subscriptions come evenly over so many seconds."""

    def check(self) -> None:
        self.require_positive("event_count", "subscription_count", "duration")

    def snapshots(self) -> Snapshots:
        raise NotImplementedError

    def events(self) -> Table:
        columns: Columns = {"key": "string", "published_at": "double", "topic": "string"}
        make = partial(self.draw_events, self.snapshots())
        return self.drawn("changing/events", self.event_count, columns, make=make)

    def draw_events(self, snapshots: Snapshots, random: Random, first: int, count: int) -> Drawn:
        rows = numpy.arange(first, first + count)
        at = rows * (self.duration / self.event_count)
        topics = Choices(snapshots.topics, snapshots.draw(random, at))
        return {"key": Names("", rows), "published_at": at, "topic": topics}

    def subscriptions(self) -> Table:
        columns: Columns = {"subscription": "string", "filter": "string", "joins_at": "double"}
        make = partial(self.draw_subscriptions, self.snapshots())
        return self.drawn("changing/subscriptions", self.subscription_count, columns, make=make)

    def draw_subscriptions(self, snapshots: Snapshots, random: Random, first: int, count: int) -> Drawn:
        rows = numpy.arange(first, first + count)
        at = rows * (self.duration / self.subscription_count)
        filters = [equals("topic", snapshots.topics[place]) for place in snapshots.draw(random, at).tolist()]
        return {"subscription": Names("s", rows), "filter": filters, "joins_at": at}


class Drifting(Changing, frozen=True, kw_only=True, tag="drifting"):
    """Popularity that drifts: Zipf shares, and from snapshot to snapshot some topics change places."""

    topics: int = 1000
    exponent: float = 1.0
    snapshot_count: int = 5
    """At equal distances, the first at the beginning and the last at the end."""
    drift: float = 0.2
    """The share of topics that change places from one snapshot to the next."""

    def check(self) -> None:
        self.require_positive("event_count", "subscription_count", "duration", "topics")
        self.require_shares("drift")
        require(self.snapshot_count >= 2, f"snapshot_count: {self.snapshot_count} is too few; give 2 or more")
        require(self.exponent >= 0, f"exponent: {self.exponent} is not possible; give 0 or more")

    def snapshots(self) -> Snapshots:
        random, ranks = stream(self.seed, "drifting/places"), numpy.arange(self.topics)
        shares = [zipf_shares(self.topics, self.exponent)]
        for _ in range(self.snapshot_count - 1):
            moving = random.permutation(self.topics)[: round(self.drift * self.topics)]
            ranks[moving] = ranks[random.permutation(moving)]
            shares.append(shares[0][ranks])
        names = tuple(f"t{place}" for place in range(self.topics))
        return Snapshots(names, numpy.linspace(0.0, self.duration, self.snapshot_count), numpy.vstack(shares))


class StarPopularity(Changing, frozen=True, kw_only=True, tag="star-popularity"):
    """Popularity that changed in earnest: topics are repositories, shares their stars on four days of two years."""

    def snapshots(self) -> Snapshots:
        rows = list(Stars().read())
        names, days = sorted({row["repo"] for row in rows}), sorted({row["time"] for row in rows})
        place, day_place = {name: n for n, name in enumerate(names)}, {day: n for n, day in enumerate(days)}
        stars = numpy.zeros((len(days), len(names)))
        for row in rows:
            stars[day_place[row["time"]], place[row["repo"]]] = row["stars"]
        passed = numpy.array([day.toordinal() for day in days], dtype=numpy.float64)
        times = (passed - passed[0]) * (self.duration / (passed[-1] - passed[0]))
        return Snapshots(tuple(names), times, stars / stars.sum(axis=1, keepdims=True))
