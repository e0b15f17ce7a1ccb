"""From a matrix of measured latencies to an overlay (spec dependable.md 4.6, D-3; the topologies of W-POP).

The source takes a graph of hosts with measured latencies, goes breadth-first from a random root until it has as many
hosts as wanted, and makes the shortest-path tree from the root the overlay. Whatever is sent outside the tree takes the
latency measured between its two ends.

In the matrix we have everybody is measured with everybody, and breadth-first over that would stop after one step. So
each host is linked with its nearest few first, in either direction; if too few hosts can be reached from the root in
this way, with twice as many, and so on.

    tree         parent, child, latency; the root is no child
    latencies    a, b (a before b), latency, in_tree: of every pair

Hosts are Names anew, 0 being the root, in the order in which they were reached. A latency is one way, in seconds.

Measured round trips between many hosts, as matrices in seconds. Two sets are read (Zhu and others, IEEE/ACM ToN 25(2),
2017; MIT licence): PlanetLab, 490 servers, in milliseconds, and Seattle, 99 personal devices, in seconds. Both are
tables of numbers; a file may be gzip'ed or a member of a tar file. What is not measured there (an entry of 0 off the
diagonal, or one below it) counts as unknown: the entry of the other direction is taken, and where that is unknown too,
the median of the matrix. So a matrix here is complete.
"""

import gzip
import heapq
import math
import tarfile
from collections import deque
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import ClassVar

import msgspec
import numpy

from tidings.model.errors import UsageError
from tidings.workloads.recorded import require_folder
from tidings.workloads.table import Array, Columns, Listed, Row, stream
from tidings.workloads.workload import Workload

HOSTS_MAX = 2_000
SEATTLE = "seattle-16-of-688-slices.tar.gz"

Rows = tuple[tuple[float, ...], ...]


class LatencyMatrix(msgspec.Struct, frozen=True):
    """`rows[i][j]` seconds from host i to host j and back; zero on the diagonal, above zero elsewhere."""

    name: str
    rows: Rows


def planetlab_matrix(slice: int = 1) -> LatencyMatrix:
    """One of the time slices 1, 6, 12 and 18."""
    path = require_folder("the PlanetLab matrix") / "latency" / f"PlanetLabData_{slice}.tsv.gz"
    if not path.is_file():
        raise UsageError(f"slice: there is no {path.name}; give 1, 6, 12 or 18")
    return read_matrix(gzip.decompress(path.read_bytes()).decode(), f"planetlab-{slice}", 1e-3)


def seattle_matrix(slice: int = 1) -> LatencyMatrix:
    """One of the 16 time slices that are kept: 1, 44, 87, 130, ... 646."""
    path = require_folder("the Seattle matrix") / "latency" / SEATTLE
    with tarfile.open(path) as archive:
        for member in archive:
            if Path(member.name).name == f"SeattleData_{slice}" and (file := archive.extractfile(member)) is not None:
                return read_matrix(file.read().decode(), f"seattle-{slice}", 1.0)
    raise UsageError(f"slice: there is no SeattleData_{slice}; give 1, 44, 87 and so on, every 43rd up to 646")


def read_matrix(text: str, name: str, unit_seconds: float) -> LatencyMatrix:
    """Rows of numbers apart by white space; as many rows as columns."""
    rows = []
    for place, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                rows.append([float(entry) * unit_seconds for entry in line.split()])
            except ValueError:
                raise UsageError(f"{name}, line {place}: an entry is no number") from None
    if len(rows) > HOSTS_MAX or any(len(row) != len(rows) for row in rows):
        raise UsageError(f"{name}: {len(rows)} rows; a matrix has as many columns, and at most {HOSTS_MAX}")
    return LatencyMatrix(name, complete(rows))


def complete(rows: list[list[float]]) -> Rows:
    known = [entry for i, row in enumerate(rows) for j, entry in enumerate(row) if i != j and is_known(entry)]
    middle = median(known) if known else 0.0

    def entry(i: int, j: int) -> float:
        if i == j:
            return 0.0
        if is_known(rows[i][j]):
            return rows[i][j]
        return rows[j][i] if is_known(rows[j][i]) else middle

    return tuple(tuple(entry(i, j) for j in range(len(rows))) for i in range(len(rows)))


def is_known(entry: float) -> bool:
    return math.isfinite(entry) and entry > 0


class MeasuredTree(msgspec.Struct, frozen=True):
    hosts: tuple[int, ...]
    """The rows of the matrix that were taken, the root first."""
    parents: tuple[int, ...]
    """Of each host but the root, the place of its parent among `hosts`."""
    latencies: Array
    """One way, between any two of `hosts`."""

    def links(self) -> list[Row]:
        return [
            {"parent": parent, "child": child, "latency": float(self.latencies[parent, child])}
            for child, parent in enumerate(self.parents, 1)
        ]

    def pairs(self) -> list[Row]:
        edges = {tuple(sorted(pair)) for pair in enumerate(self.parents, 1)}
        return [
            {"a": a, "b": b, "latency": float(self.latencies[a, b]), "in_tree": (a, b) in edges}
            for a, b in combinations(range(len(self.hosts)), 2)
        ]


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

    def measured(self) -> MeasuredTree:
        round_trips = planetlab_matrix(self.slice).rows
        root = int(stream(self.seed, "latency/root").integers(0, len(round_trips)))
        return cut_tree(round_trips, root, self.brokers, self.neighbours)

    def tree(self) -> Listed:
        columns: Columns = {"parent": "long", "child": "long", "latency": "double"}
        return Listed(columns, lambda: self.measured().links())

    def latencies(self) -> Listed:
        columns: Columns = {"a": "long", "b": "long", "latency": "double", "in_tree": "boolean"}
        return Listed(columns, lambda: self.measured().pairs())


def cut_tree(round_trips: Sequence[Sequence[float]], root: int, brokers: int, neighbours: int) -> MeasuredTree:
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
    return MeasuredTree(tuple(found), shortest_paths(inside, between), between)


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
