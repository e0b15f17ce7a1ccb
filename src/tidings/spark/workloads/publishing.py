"""Who publishes when: publishers whose rates are constant, ramp, or have spikes.

A publisher's rate is given as the number of events it has published up to each of a few times, joined by straight
lines: (0, 0) and (60, 240) is four a second for a minute. Its event number j appears where that line reaches j plus the
publisher's *phase*, a number drawn from [0, 1), so that publishers of equal rate do not speak in step.

Events of all publishers stand one publisher after the other. Which rows a chunk holds is thereby known without looking
at any other chunk.
"""

from typing import Any

import msgspec
import numpy
import pyarrow.compute

from tidings.spark.workloads.chunks import Array, Columns, numbered, stream

EVENT: Columns = {"key": "string", "published_at": "double", "publisher": "string"}
"""What events have that publishers publish by a schedule."""

SUBSCRIPTION: Columns = {"subscription": "string", "filter": "string", "place": "long"}


class Publishing(msgspec.Struct, frozen=True):
    """`reached[p, k]` events are published by publisher p up to `times[k]`; both grow, `reached` from 0."""

    times: Array
    reached: Array
    phases: Array

    @property
    def begins(self) -> Array:
        """The row of each publisher's first event, and at the end the number of all rows."""
        counts = numpy.ceil(self.reached[:, -1] - self.phases).astype(numpy.int64)
        return numpy.concatenate([[0], numpy.cumsum(numpy.maximum(counts, 0))])

    @property
    def total(self) -> int:
        return int(self.begins[-1])

    def rows(self, first: int, count: int) -> tuple[Array, Array, Array]:
        """For each row its publisher, the number of the event there, and the time."""
        begins, wanted = self.begins, numpy.arange(first, first + count)
        publishers = numpy.searchsorted(begins, wanted, side="right") - 1
        numbers = wanted - begins[publishers]
        times = numpy.empty(count)
        for publisher in numpy.unique(publishers).tolist():
            own = slice(*span(publishers, publisher))
            times[own] = numpy.interp(numbers[own] + self.phases[publisher], self.reached[publisher], self.times)
        return publishers, numbers, times


def span(publishers: Array, publisher: int) -> tuple[int, int]:
    """Rows are sorted by publisher, so those of one are neighbours."""
    low, high = numpy.searchsorted(publishers, [publisher, publisher + 1])
    return int(low), int(high)


def steady(publishers: int, rate: float, duration: float, seed: int) -> Publishing:
    """All at the same rate, in events a second."""
    reached = numpy.tile([0.0, rate * duration], (publishers, 1))
    return Publishing(numpy.array([0.0, duration]), reached, phases(publishers, seed))


def phases(publishers: int, seed: int) -> Array:
    return stream(seed, "phases").random(publishers)


def keys(publishers: Array, numbers: Array) -> Any:
    """`p17 4` is event 4 of publisher 17, as a trace has it."""
    spoken = numbered("p", publishers)
    return pyarrow.compute.binary_join_element_wise(spoken, numbered("", numbers), " ")


def spoken(publishers: Array, numbers: Array, times: Array) -> dict[str, object]:
    return {"key": keys(publishers, numbers), "published_at": times, "publisher": numbered("p", publishers)}
