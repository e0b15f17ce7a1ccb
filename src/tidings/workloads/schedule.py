"""Who publishes when: publishers whose rates are constant, ramp, or have spikes; evenly or at random.

A publisher's rate is given as the number of events it is to have published up to each of a few times, joined by
straight lines: (0, 0) and (60, 240) is four a second for a minute. Where its events lie on that line is a second law,
the *arrivals*:

    even       event number j is where the line reaches j plus the publisher's *phase*, a number drawn from [0, 1), so
               that publishers of equal rate do not speak in step
    poisson    as many events as a Poisson draw says, each anywhere on the line: at random, independently of each other

Events of all publishers stand one publisher after the other. Which rows a chunk holds is thereby known without looking
at any other chunk.
"""

from functools import lru_cache
from typing import Literal

import msgspec
import numpy

from tidings.workloads.table import Array, Columns, Drawn, Names, stream
from tidings.workloads.workload import require

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
