"""Distributions as values, drawn with nothing but `Random.random()`.

Python promises the same numbers for the same seed in every version for `random()` only; so each distribution here is a
formula over uniform draws. A distribution prints, compares, and knows its mean.
"""

import math
from typing import Protocol

import msgspec

from tidings.model.errors import UsageError
from tidings.sim.network.rule import check_positive


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
