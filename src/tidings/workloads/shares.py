"""Shares, and what is drawn by them: the few distributions that workloads are made of.

**Zipf**: of `count` things the r-th most popular has a share proportional to r to the power of minus `exponent`; with
exponent 0 all shares are equal. A number drawn from it is a *place*, 0 being the most popular.

Every draw turns uniform numbers into the wanted ones through the inverse of the distribution, so a place in the space
of quantiles belongs to each value, and an interval of quantiles is an interval of values.
"""

from functools import lru_cache

import numpy

from tidings.workloads.table import Array, Random

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
