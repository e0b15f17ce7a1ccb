"""What the index set out to reach, each as a row: the target, what was measured, and whether it was reached.

Ratios are between figures of the same run. "Numpy counting" is counting as published; the row below it compares with
the faster form that we found while writing the baselines, for which no target was set.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.matchers import COUNTING, FAST, NAIVE, NARROW, NUMPY, ROARING
from bench.measures import (
    ARROW_OF_BEST,
    BYTES,
    CHURN_ADD,
    CHURN_DISCARD,
    EVENTS_PER_SECOND,
    LISTS_OF_BEST,
    LISTS_OF_PLAIN,
    LOAD,
    P50,
    PAUSE,
    SINGLE_OF_BEST,
    Figure,
)
from bench.workload import VARIANTS

K100, M1 = 100_000, 1_000_000


@dataclass(frozen=True)
class Target:
    """`measured` is None where the figures for it were not taken."""

    text: str
    limit: float | None
    at_least: bool
    measured: float | None
    unit: str

    @property
    def reached(self) -> bool | None:
        if self.measured is None or self.limit is None:
            return None
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


class Figures:
    def __init__(self, figures: Sequence[Figure]) -> None:
        self.values = {(f.who, f.what, f.filters, f.rate, f.variant): f.value for f in figures}

    def get(self, who: str, what: str, filters: int, rate: float = 0.001, variant: str = "uniform") -> float | None:
        return self.values.get((who, what, filters, rate, variant))

    def ratio(self, who: str, other: str, filters: int, rate: float = 0.001) -> float | None:
        mine = self.get(who, EVENTS_PER_SECOND, filters, rate)
        theirs = self.get(other, EVENTS_PER_SECOND, filters, rate)
        return None if mine is None or theirs is None else mine / theirs

    def worst_at_high_rate(self) -> float | None:
        """Against every kind of counting, at every size measured with a 10 % match rate."""
        ratios = [
            self.ratio(ARROW_OF_BEST, peer, filters, 0.1)
            for peer in (NUMPY, NARROW, COUNTING)
            for filters in (10_000, K100)
        ]
        return lowest(ratios)

    def worst_variant(self) -> float | None:
        """How many times slower than on uniform data, for the slowest variant and way of asking."""
        slowdowns = []
        for way in (ARROW_OF_BEST, LISTS_OF_BEST):
            rates = [self.get(f"{way}, among variants", EVENTS_PER_SECOND, K100, variant=name) for name in VARIANTS]
            known = [rate for rate in rates if rate is not None]
            slowdowns += [rates[0] / min(known)] if rates[0] is not None else []
        return max(slowdowns) if slowdowns else None

    def worst_of(self, what: str) -> float | None:
        values = [self.get(FAST, what, filters) for filters in (K100, M1)]
        known = [value for value in values if value is not None]
        return max(known) if known else None


def lowest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return min(known) if known else None


def targets(measured: Sequence[Figure]) -> list[Target]:
    figures = Figures(measured)

    def at_least(text: str, limit: float | None, value: float | None, unit: str = "x") -> Target:
        return Target(text, limit, True, value, unit)

    def at_most(text: str, limit: float, value: float | None, unit: str) -> Target:
        return Target(text, limit, False, value, unit)

    return [
        at_least("100k, 0.1 %: Arrow batches / numpy counting", 25, figures.ratio(ARROW_OF_BEST, NUMPY, K100)),
        at_least(
            "100k, 0.1 %: Arrow batches / numpy counting, narrowed", None, figures.ratio(ARROW_OF_BEST, NARROW, K100)
        ),
        at_least("100k, 0.1 %: Arrow batches / pyroaring", 8, figures.ratio(ARROW_OF_BEST, ROARING, K100)),
        at_least("100k, 0.1 %: lists of Event / numpy counting", 12, figures.ratio(LISTS_OF_BEST, NUMPY, K100)),
        at_most("100k, 0.1 %: one event at a time, p50", 60, figures.get(SINGLE_OF_BEST, P50, K100), "us"),
        at_least("1M, 0.1 %: Arrow batches / numpy counting", 60, figures.ratio(ARROW_OF_BEST, NUMPY, M1)),
        at_least("1M, 0.1 %: Arrow batches / numpy counting, narrowed", None, figures.ratio(ARROW_OF_BEST, NARROW, M1)),
        at_least("1M, 0.1 %: 4 links / all keys", 8, figures.ratio(f"{FAST}: 4 links", f"{FAST}: all keys", M1)),
        at_least("10 %: Arrow batches / any counting, worst case", 1, figures.worst_at_high_rate()),
        at_most("bytes a filter, worst of 100k and 1M", 300, figures.worst_of(BYTES), "bytes"),
        at_least(
            "bulk load, worst of 100k and 1M", 100_000, lowest([figures.get(FAST, LOAD, n) for n in (K100, M1)]), "/s"
        ),
        at_most("churn: add, worst of 100k and 1M", 50, figures.worst_of(CHURN_ADD), "us"),
        at_most("churn: discard, worst of 100k and 1M", 20, figures.worst_of(CHURN_DISCARD), "us"),
        at_most("churn: longest pause, worst of 100k and 1M", 50, figures.worst_of(PAUSE), "ms"),
        at_most("100k, 0.1 %: slowest other data / uniform", 2, figures.worst_variant(), "x slower"),
        at_least("10k, 0.1 %: plain engine / naive loop", 20, figures.ratio(LISTS_OF_PLAIN, NAIVE, 10_000)),
        at_least("10k, 1 %: plain engine / naive loop", 20, figures.ratio(LISTS_OF_PLAIN, NAIVE, 10_000, 0.01)),
    ]
