"""Latency that changes over time as it was measured.

`Fluctuating` takes the latency of the rule inside as the median of a pair of nodes, and lets it vary. With a trace,
each pair of nodes is tied to the measured pair whose median is nearest, and replays its samples in their order,
starting at a moment drawn for the pair; so congestion that lasted an hour lasts an hour (peer-to-peer specification
3A.4, P-15). Without a trace each packet draws a factor: mostly close to 1, now and then several times as much.
"""

import gzip
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tidings.machine.effects import Transport
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.network.distributions import LogNormal, Pareto, Uniforms
from tidings.sim.network.rule import Fates, Rule, Wrapper, check_positive

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
