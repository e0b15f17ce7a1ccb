"""From a matrix of measured latencies to an overlay (spec dependable.md 4.6, D-3; the topologies of W-POP).

The source takes a graph of hosts with measured latencies, goes breadth-first from a random root until it has as many
hosts as wanted, and makes the shortest-path tree from the root the overlay. Whatever is sent outside the tree takes the
latency measured between its two ends.

In the matrix we have everybody is measured with everybody, and breadth-first over that would stop after one step. So
each host is linked with its nearest few first, in either direction; if too few hosts can be reached from the root in
this way, with twice as many, and so on.

    tree         parent, child, latency; the root is no child
    latencies    a, b (a before b), latency, in_tree: of every pair

Hosts are numbered anew, 0 being the root, in the order in which they were reached. A latency is one way, in seconds.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy
import pyarrow

from tidings.model.errors import UsageError
from tidings.sim.topologies.matrices import planetlab_matrix
from tidings.spark.workloads.chunks import Array, stream
from tidings.spark.workloads.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Overlay(msgspec.Struct, frozen=True):
    hosts: tuple[int, ...]
    """The rows of the matrix that were taken, the root first."""
    parents: tuple[int, ...]
    """Of each host but the root, the place of its parent among `hosts`."""
    latencies: Array
    """One way, between any two of `hosts`."""

    def tree(self) -> Any:
        children = numpy.arange(1, len(self.hosts))
        parents = numpy.array(self.parents, dtype=numpy.int64)
        lengths = self.latencies[parents, children]
        return pyarrow.table({"parent": parents, "child": children, "latency": lengths})

    def pairs(self) -> Any:
        first, second = numpy.triu_indices(len(self.hosts), 1)
        edges = {tuple(sorted(pair)) for pair in zip(self.parents, range(1, len(self.hosts)), strict=True)}
        in_tree = [pair in edges for pair in zip(first.tolist(), second.tolist(), strict=True)]
        return pyarrow.table({"a": first, "b": second, "latency": self.latencies[first, second], "in_tree": in_tree})


class LatencyTree(Workload, frozen=True, kw_only=True, tag="latency-tree"):
    """An overlay cut out of measured latencies between PlanetLab hosts: a tree, and the latencies beside it."""

    tables: ClassVar[tuple[str, ...]] = ("tree", "latencies")

    brokers: int = 200
    neighbours: int = 5
    """So many nearest hosts each host is linked with, at first."""
    slice: int = 1
    """Which of the measurements: 1, 6, 12 or 18."""

    def check(self) -> None:
        self.require_positive("brokers", "neighbours", "slice")

    def overlay(self) -> Overlay:
        round_trips = planetlab_matrix(self.slice).round_trips
        root = int(stream(self.seed, "latency/root").integers(0, len(round_trips)))
        return cut_overlay(round_trips, root, self.brokers, self.neighbours)

    def tree(self, spark: "SparkSession", partitions: int | None = None) -> "DataFrame":
        return spark.createDataFrame(self.overlay().tree())

    def latencies(self, spark: "SparkSession", partitions: int | None = None) -> "DataFrame":
        return spark.createDataFrame(self.overlay().pairs())


def cut_overlay(round_trips: Sequence[Sequence[float]], root: int, brokers: int, neighbours: int) -> Overlay:
    """`round_trips` in seconds, everybody to everybody."""
    measured = numpy.array(round_trips, dtype=numpy.float64)
    if not 1 <= brokers <= len(measured):
        raise UsageError(f"brokers: {brokers} is not possible; the matrix has {len(measured)} hosts")
    one_way = (measured + measured.T) / 4
    found: list[int] = []
    while len(found) < brokers:
        around = nearest(one_way, neighbours)
        found = breadth_first(around, root, brokers)
        neighbours *= 2
    chosen = {host: place for place, host in enumerate(found)}
    inside = [[chosen[other] for other in around[host] if other in chosen] for host in found]
    between = one_way[numpy.ix_(found, found)]
    return Overlay(tuple(found), shortest_paths(inside, between), between)


def nearest(one_way: Array, neighbours: int) -> list[list[int]]:
    """Of each host those it is linked with, the nearest first."""
    hosts = len(one_way)
    apart = one_way + numpy.diag(numpy.full(hosts, numpy.inf))
    closest = numpy.argsort(apart, axis=1, kind="stable")[:, : min(neighbours, hosts - 1)]
    linked: list[set[int]] = [set(row) for row in closest.tolist()]
    for host, others in enumerate(closest.tolist()):
        for other in others:
            linked[other].add(host)
    return [sorted(others, key=lambda other: (one_way[host, other], other)) for host, others in enumerate(linked)]


def breadth_first(around: list[list[int]], root: int, wanted: int) -> list[int]:
    found, waiting = {root: None}, deque([root])
    while waiting and len(found) < wanted:
        for other in around[waiting.popleft()]:
            if other not in found and len(found) < wanted:
                found[other] = None
                waiting.append(other)
    return list(found)


def shortest_paths(around: list[list[int]], lengths: Array) -> tuple[int, ...]:
    """The parent of each host but the first, on a shortest path from the first."""
    parents, waiting, done = [0] * len(around), [(0.0, 0, 0)], set[int]()
    while waiting:
        distance, host, parent = heapq.heappop(waiting)
        if host not in done:
            done.add(host)
            parents[host] = parent
            for other in around[host]:
                if other not in done:
                    heapq.heappush(waiting, (distance + float(lengths[host, other]), other, host))
    return tuple(parents[1:])
