"""Who publishes when, and the shares that things have: the few laws that workloads are made of.

**Schedules.** Publishers' rates are constant, ramp, or have spikes; they publish evenly or at random. A publisher's
rate is given as the number of events it is to have published up to each of a few times, joined by straight lines: (0,
0) and (60, 240) is four a second for a minute. Where its events lie on that line is a second law, the *arrivals*:

    even       event number j is where the line reaches j plus the publisher's *phase*, a number drawn from [0, 1), so
               that publishers of equal rate do not speak in step
    poisson    as many events as a Poisson draw says, each anywhere on the line: at random, independently of each other

Events of all publishers stand one publisher after the other. Which rows a chunk holds is thereby known without looking
at any other chunk.

**Zipf shares.** Of `count` things the r-th most popular has a share proportional to r to the power of minus `exponent`;
with exponent 0 all shares are equal. A number drawn from it is a *place*, 0 being the most popular.

Every draw turns uniform numbers into the wanted ones through the inverse of the distribution, so a place in the space
of quantiles belongs to each value, and an interval of quantiles is an interval of values.
"""

from functools import lru_cache
from typing import Literal

import msgspec
import numpy

from tidings.workloads.table import Array, Columns, Drawn, Names, Random, stream
from tidings.workloads.workload import require

TABLES_KEPT = 64


@lru_cache(maxsize=TABLES_KEPT)
def zipf_shares(count: int, exponent: float) -> Array:
    weights = numpy.arange(1, count + 1, dtype=numpy.float64) ** -exponent
    shares: Array = weights / weights.sum()
    shares.flags.writeable = False
    return shares


@lru_cache(maxsize=TABLES_KEPT)
def zipf_cumulative(count: int, exponent: float) -> Array:
    return cumulative(zipf_shares(count, exponent))


def cumulative(shares: Array) -> Array:
    """The last entry is exactly 1, so that every uniform number below 1 falls somewhere."""
    sums: Array = numpy.cumsum(shares)
    sums /= sums[-1]
    sums.flags.writeable = False
    return sums


def zipf(random: Random, size: int, count: int, exponent: float) -> Array:
    return places(zipf_cumulative(count, exponent), random.random(size))


def places(sums: Array, uniform: Array) -> Array:
    """Where uniform numbers fall among cumulative shares."""
    return numpy.searchsorted(sums, uniform, side="right")


def uniform_ranges(random: Random, shape: tuple[int, ...], low: float, high: float) -> Array:
    """Ranges whose two ends are uniform numbers, the smaller first; on average a third of the whole is inside."""
    return numpy.sort(low + (high - low) * random.random((*shape, 2)), axis=-1)


def whole_parts(total: int, shares: Array) -> Array:
    """`total` cut into whole numbers in proportion to `shares`: rounded down, and what is left over goes to those that
    lost most by rounding."""
    exact = shares * (total / shares.sum())
    parts: Array = numpy.floor(exact).astype(numpy.int64)
    left = total - int(parts.sum())
    parts[numpy.argsort(parts - exact, kind="stable")[:left]] += 1
    return parts


def distinct_places(random: Random, available: int, counts: Array, width: int) -> Array:
    """For each count so many different places below `available`; a row is `width` long, and -1 fills it up."""
    order = numpy.argsort(random.random((len(counts), available)), axis=1)[:, :width]
    return numpy.where(numpy.arange(width) < counts[:, None], order, -1)


Arrivals = Literal["even", "poisson"]

EVENT: Columns = {"key": "string", "published_at": "double", "publisher": "string"}
"""What events have that publishers publish by a schedule."""

SUBSCRIPTION: Columns = {"subscription": "string", "filter": "string", "place": "long"}

RANDOM_ARRIVALS_MAX = 10_000_000
"""Events of one publisher at random times: all of them are drawn at once."""

PUBLISHERS_KEPT = 64
"""Whose arrivals at random times are remembered from one chunk to the next."""


class Schedule(msgspec.Struct, frozen=True):
    """`reached[p, k]` events are published by publisher p up to `times[k]`; both grow, `reached` from 0."""

    times: Array
    reached: Array
    seed: int
    arrivals: Arrivals = "even"

    @property
    def phases(self) -> Array:
        return stream(self.seed, "phases").random(len(self.reached))

    @property
    def begins(self) -> Array:
        """The row of each publisher's first event, and at the end the number of all rows."""
        ends = self.reached[:, -1]
        if self.arrivals == "even":
            counts = numpy.maximum(numpy.ceil(ends - self.phases).astype(numpy.int64), 0)
        else:
            counts = numpy.array([arrival_count(self.seed, *each) for each in enumerate(ends.tolist())])
        return numpy.concatenate([[0], numpy.cumsum(counts)])

    @property
    def total(self) -> int:
        return int(self.begins[-1])

    def rows(self, first: int, count: int) -> tuple[Array, Array, Array]:
        """For each row its publisher, the number of the event there, and the time."""
        begins, phases, wanted = self.begins, self.phases, numpy.arange(first, first + count)
        publishers = numpy.searchsorted(begins, wanted, side="right") - 1
        numbers = wanted - begins[publishers]
        times = numpy.empty(count)
        for publisher in numpy.unique(publishers).tolist():
            own, line = slice(*span(publishers, publisher)), self.reached[publisher]
            if self.arrivals == "even":
                points = numbers[own] + phases[publisher]
            else:
                points = random_arrivals(self.seed, publisher, float(line[-1]))[numbers[own]]
            times[own] = numpy.interp(points, line, self.times)
        return publishers, numbers, times


def span(publishers: Array, publisher: int) -> tuple[int, int]:
    """Rows are sorted by publisher, so those of one are neighbours."""
    low, high = numpy.searchsorted(publishers, [publisher, publisher + 1])
    return int(low), int(high)


def arrival_count(seed: int, publisher: int, expected: float) -> int:
    require(expected <= RANDOM_ARRIVALS_MAX, f"{expected:.0f} events of one publisher at random times are too many")
    return int(stream(seed, "arrivals", publisher).poisson(expected))


@lru_cache(maxsize=PUBLISHERS_KEPT)
def random_arrivals(seed: int, publisher: int, expected: float) -> Array:
    """Where a publisher's events lie, from 0 to the number of them that is expected, in order."""
    random = stream(seed, "arrivals", publisher)
    points: Array = numpy.sort(random.random(random.poisson(expected))) * expected
    points.flags.writeable = False
    return points


def steady(publishers: int, rate: float, duration: float, seed: int, arrivals: Arrivals = "even") -> Schedule:
    """All at the same rate, in events a second."""
    reached = numpy.tile([0.0, rate * duration], (publishers, 1))
    return Schedule(numpy.array([0.0, duration]), reached, seed, arrivals)


def spoken(publishers: Array, numbers: Array, times: Array) -> Drawn:
    """The columns of EVENT. The key `p17 4` is event 4 of publisher 17, as a trace has it."""
    return {
        "key": Names("p", publishers, numbers),
        "published_at": times,
        "publisher": Names("p", publishers),
    }
