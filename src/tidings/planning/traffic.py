"""What a tree of brokers costs its traffic: hops, latency and load, from a plain table of rates and latencies.

    rates       events a second from broker a to broker b, wherever a's publications are wanted at b
    latencies   seconds from one broker to another, over the link that they have or would have

**The model.** Events go along the tree. An event from a to b takes as many hops as the way has links, and as long as
these take together; queues and processing are not in it. Each broker on the way handles it: its load is the events a
second that it receives from clients or neighbours. An event that several brokers want is counted for each of them,
although a tree carries it once over a link that they share: so loads are upper bounds, and exact where every event has
one destination. What is not in the table of latencies takes the mean of those that are. Nothing here measures
anything: the table is what was measured.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.planning.tree import Link, OverlayTree, link, reached_from

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    Array = numpy.typing.NDArray[Any]
else:
    Array = Any

LATENCY_DEFAULT = 0.010
"""Seconds, where no latency is known at all: hops are what counts then."""

MODEL = (
    "events go along the tree; latency is the sum of those of its links, without queues and processing; "
    "load counts an event once for each broker that it is meant for"
)


class TrafficRow(msgspec.Struct, frozen=True):
    """A line of the table; what is not known is absent."""

    a: NodeId
    b: NodeId
    rate: float | None = None
    """From a to b."""
    latency: float | None = None
    """Between them, in seconds."""


class Traffic(msgspec.Struct, frozen=True):
    rates: Mapping[tuple[NodeId, NodeId], float]
    latencies: Mapping[Link, float]

    @property
    def latency_otherwise(self) -> float:
        return sum(self.latencies.values()) / len(self.latencies) if self.latencies else LATENCY_DEFAULT

    @property
    def rate(self) -> float:
        return sum(self.rates.values())


def traffic_of(rows: Iterable[TrafficRow]) -> Traffic:
    rates: dict[tuple[NodeId, NodeId], float] = {}
    latencies: dict[Link, float] = {}
    for row in rows:
        for name, value in (("rate", row.rate), ("latency", row.latency)):
            if value is not None and not 0 <= value < float("inf"):
                raise UsageError(f"the {name} of {row.a}, {row.b} is {value}; give a number from 0 on")
        if row.a == row.b:
            continue
        if row.rate:
            rates[row.a, row.b] = rates.get((row.a, row.b), 0.0) + row.rate
        if row.latency is not None:
            latencies[link(row.a, row.b)] = row.latency
    return Traffic(rates, latencies)


class TreeFigures(msgspec.Struct, frozen=True):
    """What traffic meets in a tree. Means are over events."""

    hops: float
    latency: float
    load_max: float
    """Events a second of the busiest broker."""
    busiest: NodeId
    load_mean: float
    degree_max: int


class TrafficArrays:
    """The table as matrices over the brokers of a tree; brokers that the tree does not have are left out."""

    def __init__(self, brokers: tuple[NodeId, ...], traffic: Traffic) -> None:
        import numpy

        self.brokers, count = brokers, len(brokers)
        self.place = {broker: at for at, broker in enumerate(brokers)}
        self.rates = numpy.zeros((count, count))
        for (a, b), rate in traffic.rates.items():
            if a in self.place and b in self.place:
                self.rates[self.place[a], self.place[b]] += rate
        self.both = self.rates + self.rates.T
        self.latencies = numpy.full((count, count), traffic.latency_otherwise)
        for (a, b), latency in traffic.latencies.items():
            if a in self.place and b in self.place:
                self.latencies[self.place[a], self.place[b]] = self.latencies[self.place[b], self.place[a]] = latency
        numpy.fill_diagonal(self.latencies, 0.0)

    def distances(self, links: Iterable[Link], *, is_hops: bool = False) -> Array:
        """Between any two brokers along the links; infinite where there is no way."""
        import numpy
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import shortest_path

        ends = [(self.place[a], self.place[b]) for a, b in links]
        count = len(self.brokers)
        if not ends:
            apart = numpy.full((count, count), numpy.inf)
            numpy.fill_diagonal(apart, 0.0)
            return apart
        rows, columns = (list(each) for each in zip(*ends, strict=True))
        # A weight of zero would be no link for the library.
        weights = numpy.ones(len(ends)) if is_hops else numpy.maximum(self.latencies[rows, columns], 1e-9)
        graph = csr_array((weights, (rows, columns)), shape=(count, count))
        ways: Array = shortest_path(graph, directed=False)
        return ways

    def loads(self, tree: OverlayTree) -> Array:
        """Events a second that each broker handles: half of what its links carry, and of what begins or ends there."""
        import numpy

        around, root = tree.neighbours(), tree.brokers[0]
        before = reached_from(around, root)
        inside: dict[NodeId, Array] = {}
        carried = numpy.zeros(len(self.brokers))
        for broker in reversed(list(before)):
            mine = inside.setdefault(broker, numpy.zeros(len(self.brokers), dtype=bool))
            mine[self.place[broker]] = True
            above = before[broker]
            if above is not None:
                crossing = float(self.both[mine][:, ~mine].sum())
                carried[self.place[broker]] += crossing
                carried[self.place[above]] += crossing
                inside[above] = inside.get(above, numpy.zeros(len(self.brokers), dtype=bool)) | mine
                del inside[broker]
        handled: Array = (carried + self.both.sum(axis=1)) / 2
        return handled

    def figures(self, tree: OverlayTree) -> TreeFigures:
        rate = float(self.rates.sum())
        loads = self.loads(tree)
        degrees = [len(near) for near in tree.neighbours().values()]
        busiest = max(range(len(self.brokers)), key=lambda at: (loads[at], -at))
        share = self.rates / rate if rate else self.rates
        return TreeFigures(
            hops=float((share * self.distances(tree.links, is_hops=True)).sum()) if rate else 0.0,
            latency=float((share * self.distances(tree.links)).sum()) if rate else 0.0,
            load_max=float(loads[busiest]),
            busiest=self.brokers[busiest],
            load_mean=float(loads.mean()),
            degree_max=max(degrees),
        )
