"""How long a packet takes: constant, drawn, read from a matrix, drifting, or as it was measured over time.

**Distributions** are values, drawn with nothing but `Random.random()`. Python promises the same numbers for the same
seed in every version for `random()` only; so each distribution here is a formula over uniform draws. A distribution
prints, compares, and knows its mean.

The innermost rules of a network are constant, drawn from a distribution, or read from a matrix. All delays are one way,
in seconds. Latency between hosts of an internet is in `internet.py`.

**Drift** is slow enough that two packets sent one right after the other take equally long. Routes and load on
the internet change over seconds, not from packet to packet. `Wandering` adds to each direction of each link an offset
between -spread and +spread. It is drawn anew every `period` seconds and goes there in a straight line. A period is
longer than the offset can change in it, so no packet overtakes another.

    Wandering(Constant(0.05), spread=0.005, period=10.0)           # 50 ms, give or take 5

**As it was measured.** `Fluctuating` takes the latency of the rule inside as the median of a
pair of nodes, and lets it vary. With a trace, each pair of nodes is tied to the measured pair whose median is nearest,
and replays its samples in their order, starting at a moment drawn for the pair; so congestion that lasted an hour lasts
an hour (peer-to-peer specification 3A.4, P-15). Without a trace each packet draws a factor: mostly close to 1, now and
then several times as much.
"""

import gzip
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Protocol

import msgspec

from tidings.machine.effects import Transport
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.network.rule import Fates, Rule, Wrapper, check_positive, later


class Uniforms(Protocol):
    """Whatever gives numbers from 0 up to, and without, 1."""

    def random(self) -> float: ...


class Uniform(msgspec.Struct, frozen=True):
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise UsageError(f"Uniform({self.low}, {self.high}): give 0 <= low <= high")

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    def draw(self, rng: Uniforms) -> float:
        return self.low + (self.high - self.low) * rng.random()


class Exponential(msgspec.Struct, frozen=True):
    mean: float

    def __post_init__(self) -> None:
        check_positive("mean", self.mean)

    def draw(self, rng: Uniforms) -> float:
        return -self.mean * math.log(1.0 - rng.random())


class LogNormal(msgspec.Struct, frozen=True):
    """exp(N(ln(median), sigma)): the logarithm is normal."""

    median: float
    sigma: float

    def __post_init__(self) -> None:
        check_positive("median", self.median)
        if self.sigma < 0:
            raise UsageError(f"sigma: {self.sigma} must not be below 0")

    @property
    def mean(self) -> float:
        return self.median * math.exp(self.sigma**2 / 2)

    def draw(self, rng: Uniforms) -> float:
        return self.median * math.exp(self.sigma * normal(rng))


class Pareto(msgspec.Struct, frozen=True):
    """At least `low`; P(more than x) = (low / x)**shape. The mean is infinite for a shape of 1 or less."""

    low: float
    shape: float

    def __post_init__(self) -> None:
        check_positive("low", self.low)
        check_positive("shape", self.shape)

    @property
    def mean(self) -> float:
        return self.low * self.shape / (self.shape - 1) if self.shape > 1 else math.inf

    def draw(self, rng: Uniforms) -> float:
        return self.low * math.pow(1.0 - rng.random(), -1.0 / self.shape)


Distribution = Uniform | Exponential | LogNormal | Pareto


def normal(rng: Uniforms) -> float:
    """A draw from the standard normal distribution (Box and Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - rng.random()))
    return radius * math.cos(2.0 * math.pi * rng.random())


class Constant(Rule):
    def __init__(self, delay: float) -> None:
        if not 0 <= delay < float("inf"):
            raise UsageError(f"delay: {delay} is no delay; give seconds from 0")
        self.fates: Fates = (delay,)

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        return self.fates


class Drawn(Rule):
    """Each packet draws its own delay: `Drawn(Exponential(0.05))`. Datagrams overtake each other."""

    def __init__(self, distribution: Distribution) -> None:
        self.distribution = distribution

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        return (self.distribution.draw(self.senders[sender]),)


class Jittered(Wrapper):
    """Adds to each packet up to `spread` seconds, uniformly."""

    def __init__(self, inner: Rule, spread: float) -> None:
        super().__init__(inner)
        if spread < 0:
            raise UsageError(f"spread: {spread} is no span of time; give seconds from 0")
        self.spread = spread

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        extra = self.spread * self.draws(sender).random()
        return later(self.inner.fate(now, sender, to, size_bytes, transport), extra)


class Matrix(Rule):
    """Delays by pair: `Matrix({("a", "b"): 0.05, ("b", "a"): 0.06})`. Who is not in it takes `default`."""

    def __init__(self, delays: Mapping[tuple[NodeId, NodeId], float], default: float | None = None) -> None:
        for (sender, to), delay in delays.items():
            if not 0 <= delay < float("inf"):
                raise UsageError(f"delay from {sender!r} to {to!r}: {delay} is no delay; give seconds from 0")
        self.known: dict[tuple[NodeId, NodeId], Fates] = {pair: (delay,) for pair, delay in delays.items()}
        self.default = None if default is None else (default,)

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        fates = self.known.get((sender, to), self.default)
        if fates is None:
            raise UsageError(f"the matrix has no delay from {sender!r} to {to!r}; add one, or give a default")
        return fates


class Wandering(Wrapper):
    def __init__(self, inner: Rule, spread: float, period: float) -> None:
        super().__init__(inner)
        if spread < 0:
            raise UsageError(f"spread: {spread} is no span of time; give seconds from 0")
        if not period > 2 * spread:
            raise UsageError(f"period: {period} is too short for a spread of {spread}; give more than {2 * spread}")
        self.spread, self.period = spread, period
        self.ways: dict[tuple[NodeId, NodeId], list[float]] = {}
        """The offsets of a direction at 0, 1, 2, ... periods, as far as they were needed."""

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        inner = self.inner.fate(now, sender, to, size_bytes, transport)
        # A latency shorter than the offset must not become a journey back in time.
        return later(inner, max(self.offset(now, sender, to), -min(inner, default=0.0)))

    def offset(self, now: float, sender: NodeId, to: NodeId) -> float:
        offsets = self.ways.setdefault((sender, to), [])
        place, part = divmod(now / self.period, 1.0)
        draws = self.draws(f"{sender}\x1f{to}")
        while len(offsets) <= place + 1:
            offsets.append(self.spread * (2 * draws.random() - 1))
        before, after = offsets[int(place)], offsets[int(place) + 1]
        return before + (after - before) * part


CALM_SHARE, CALM, BURST, FACTOR_MAX = 0.97, LogNormal(1.0, 0.08), Pareto(1.0, 1.5), 10.0
"""Without a trace: the share of packets near the median, their factor; half of what comes to 1 otherwise; the most."""


class MeasuredPair:
    """Samples of one pair of hosts: one-way delays in seconds, and when they were taken, in order."""

    __slots__ = ("delays", "median", "times")

    def __init__(self, times: Sequence[float], delays: Sequence[float]) -> None:
        if not delays or len(times) != len(delays) or list(times) != sorted(times):
            raise UsageError(f"{len(times)} times and {len(delays)} delays: give as many of both, times in order")
        self.times, self.delays = list(times), list(delays)
        self.median = median(delays)


class LatencyTrace:
    """Measurements between many pairs of hosts, over `length` seconds, after which they begin again."""

    def __init__(self, pairs: Sequence[MeasuredPair], length: float) -> None:
        if not pairs:
            raise UsageError("a latency trace without any pair; give at least one")
        check_positive("length", length)
        self.pairs = sorted(pairs, key=lambda pair: pair.median)
        self.medians = [pair.median for pair in self.pairs]
        self.length = length

    @classmethod
    def from_matrices(cls, slices: Sequence[Sequence[Sequence[float]]], period: float) -> "LatencyTrace":
        """From square tables of round-trip times in seconds, one every `period` seconds; no sample is 0 or NaN."""
        pairs = []
        for row in range(len(slices[0])):
            for column in range(row):
                known = [
                    (number * period, table[row][column] / 2)
                    for number, table in enumerate(slices)
                    if table[row][column] > 0
                ]
                if known:
                    pairs.append(MeasuredPair(*zip(*known, strict=True)))
        return cls(pairs, period * len(slices))

    def nearest(self, delay: float) -> MeasuredPair:
        """The pair whose median is nearest to `delay`."""
        place = bisect_left(self.medians, delay)
        around = self.pairs[max(0, place - 1) : place + 1]
        return min(around, key=lambda pair: abs(pair.median - delay))


class Fluctuating(Wrapper):
    def __init__(self, inner: Rule, trace: LatencyTrace | None = None) -> None:
        super().__init__(inner)
        self.trace = trace
        self.seed = 0
        self.place: tuple[str, ...] = ()
        self.tied: dict[tuple[NodeId, NodeId], tuple[MeasuredPair, float]] = {}

    def begin(self, seed: int, place: tuple[str, ...] = ("network",)) -> None:
        super().begin(seed, place)
        self.seed, self.place = seed, place

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        if self.trace is None:
            fates = self.inner.fate(now, sender, to, size_bytes, transport)
            return tuple([delay * factor(self.draws(sender)) for delay in fates]) if fates else fates
        tied = self.tied.get((sender, to))
        if tied is None:
            fates = self.inner.fate(now, sender, to, size_bytes, transport)
            if not fates:
                return fates
            tied = self.tied[sender, to] = self.tie(self.trace, sender, to, fates[0])
        pair, begin = tied
        # Before the first sample of a round, the last one of the round before still holds.
        place = bisect_right(pair.times, math.fmod(now + begin, self.trace.length)) - 1
        return (pair.delays[place],)

    def tie(self, trace: LatencyTrace, sender: NodeId, to: NodeId, delay: float) -> tuple[MeasuredPair, float]:
        rng = random_stream(self.seed, *self.place, "tie", sender, to)
        return trace.nearest(delay), rng.random() * trace.length


def factor(rng: Uniforms) -> float:
    """By how much a packet is slower than the median, where no trace tells."""
    if rng.random() < CALM_SHARE:
        return CALM.draw(rng)
    return min(1 + BURST.draw(rng) / 2, FACTOR_MAX)


def read_matrix(path: Path) -> list[list[float]]:
    """A table of numbers separated by white space, gzipped or not; a missing value is NaN."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [[float(cell) for cell in line.split()] for line in text.splitlines() if line.strip()]
