"""Latency between hosts of an internet: a graph of autonomous systems (AS) with a delay on each link.

Each host stands in a stub AS drawn uniformly, and packets take the path of least latency. The graph is synthetic, at a
tenth of the size of the real one that the source used: as many stub, transit and mixed AS in proportion, and about as
many links for each. A link takes 0 to 4 ms in 10 % of cases, 4 to 30 ms in 30 %, 30 to 115 ms in 60 %; the sum over a
path is a round trip, and one way is half of it. That gives round trips of 25, 58, 93, 131 and 195 ms at the 5th, 25th,
50th, 75th and 95th percentile, the targets of the specification (peer-to-peer 3A.4, P-13, P-14).

The graph, the place of each host and the paths depend on the seed. Paths are found when they are first needed, from one
stub to all others at once, and kept as 4-byte floats: at most some 23 MB in all.

    Fluctuating(Internet())          # with latency that varies over time, `latency.py`
"""

from array import array
from heapq import heappop, heappush

from tidings.machine.effects import Transport
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.identity import NodeId
from tidings.sim.network.rule import Fates, Rule

STUBS, TRANSITS, MIXED = 2006, 18, 828
"""AS that only have hosts, that only carry the packets of others, and that do both: a tenth of 20062, 175, 8279."""

LATENCY_CLASSES = ((0.10, 0.000, 0.004), (0.30, 0.004, 0.030), (0.60, 0.030, 0.115))
"""Share of the links, and the bounds in seconds between which their latency is uniform."""

MIXED_PROVIDERS, STUB_PROVIDERS, PEERINGS, LARGEST_SHARE = 2.0, 1.5, 400, 0.3
"""Mean number of AS that a mixed and a stub AS buy from, links beyond that, and the share of all these that lead to a
transit AS; the rest prefers AS with many links. Chosen so that there are 5,200 links, and for the percentiles above."""

INSIDE = 0.0005
"""Seconds that a packet takes inside an AS, so that two hosts in the same one are not at the same place."""


class Internet(Rule):
    def __init__(self) -> None:
        self.seed = 0
        self.place: tuple[str, ...] = ()
        self.links: list[list[tuple[int, float]]] = []
        """Per AS its neighbours and the latency of the link; stubs come last."""
        self.homes: dict[NodeId, int] = {}
        self.distances: dict[int, array[float]] = {}
        self.known: dict[tuple[NodeId, NodeId], Fates] = {}

    def begin(self, seed: int, place: tuple[str, ...] = ("network",)) -> None:
        super().begin(seed, place)
        self.seed, self.place = seed, (*place, "internet")
        self.links = build_graph(random_stream(seed, *self.place, "graph"))

    def home(self, host: NodeId) -> int:
        """The stub AS of a host."""
        if host not in self.homes:
            self.homes[host] = TRANSITS + MIXED + random_stream(self.seed, *self.place, "home", host).below(STUBS)
        return self.homes[host]

    def latency(self, sender: NodeId, to: NodeId) -> float:
        """One way."""
        begin, end = sorted((self.home(sender), self.home(to)))
        if begin not in self.distances:
            self.distances[begin] = shortest_from(self.links, begin)
        return self.distances[begin][end] / 2 + INSIDE

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        fates = self.known.get((sender, to))
        if fates is None:
            fates = self.known[sender, to] = (self.latency(sender, to),)
        return fates


def build_graph(rng: RandomStream) -> list[list[tuple[int, float]]]:
    """Transit AS are all connected; every other one buys from earlier ones, preferring those that have many links."""
    sellers = TRANSITS + MIXED
    links: list[list[tuple[int, float]]] = [[] for _ in range(sellers + STUBS)]
    ends: list[int] = []
    """Each AS that sells, once for each of its links."""

    def join(one: int, other: int) -> None:
        if one != other:
            latency = draw_latency(rng)
            links[one].append((other, latency))
            links[other].append((one, latency))
            ends.extend(number for number in (one, other) if number < sellers)

    def choose() -> int:
        return rng.below(TRANSITS) if rng.random() < LARGEST_SHARE else rng.choice(ends)

    def buy(number: int, mean: float) -> None:
        for provider in dict.fromkeys([choose() for _ in range(int(mean + rng.random()))]):
            join(number, provider)

    for one in range(TRANSITS):
        for other in range(one):
            join(one, other)
    for number in range(TRANSITS, sellers):
        buy(number, MIXED_PROVIDERS)
    for _ in range(PEERINGS):
        join(choose(), choose())
    for number in range(sellers, sellers + STUBS):
        buy(number, STUB_PROVIDERS)
    return links


def draw_latency(rng: RandomStream) -> float:
    place = rng.random()
    for share, low, high in LATENCY_CLASSES:
        if place < share:
            return rng.uniform(low, high)
        place -= share
    return LATENCY_CLASSES[-1][2]


def shortest_from(links: list[list[tuple[int, float]]], begin: int) -> "array[float]":
    """Least latency from one AS to all others (Dijkstra). A stub carries nobody else's packets."""
    distances = [float("inf")] * len(links)
    distances[begin] = 0.0
    waiting = [(0.0, begin)]
    while waiting:
        distance, number = heappop(waiting)
        if distance > distances[number] or (number >= TRANSITS + MIXED and number != begin):
            continue
        for other, latency in links[number]:
            reached = distance + latency
            if reached < distances[other]:
                distances[other] = reached
                heappush(waiting, (reached, other))
    return array("f", distances)
