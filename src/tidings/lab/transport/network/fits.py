"""Distributions of delays, fitted to samples: hypoexponential, its rivals, and the sum of two Laplace variables.

*Hypoexponential.* The time to pass through k phases one after the other, each exponentially distributed with a mean of
its own. It is the distribution of handling times over k brokers. With phases alike it is an Erlang, and so a gamma
distribution of shape k; only unlike phases tell the two apart. Its density has no form that is both simple and safe
when two means come close, so it is computed on a grid: the probabilities of being in each phase after a step follow
from those before by one small matrix exponential. The means are found by maximum likelihood.

*Two Laplace variables.* The difference of two exponential variables with the same mean b is a Laplace variable; that of
two delays over k brokers is a sum of k of these. The source describes it, for any k, by the sum of two with a fitted b
(transport specification, 3.3.3 and 3.3.4):

    f(x) = (|x| + b) / (4 b^2) exp(-|x| / b)           b = 2/3 mean |x|
    F(x) = 1 - (2 b + x) / (4 b) exp(-x / b)           for x >= 0, and F(-x) = 1 - F(x)

Functions take and give arrays. Everything here is plain numpy and scipy, for samples that fit into memory.
"""

import math
from typing import Any, NamedTuple

import numpy as np

Samples = Any
"""An array of floats."""

GRID = 1500
"""Points at which the density of a hypoexponential is computed."""

BEYOND = 1.5
"""The grid ends so many times further out than the largest sample."""


class Fit(NamedTuple):
    name: str
    parameters: tuple[float, ...]
    likelihood: float
    """Mean logarithm of the density at the samples; the larger the better."""
    distance: float
    """Kolmogorov and Smirnov's: the largest difference between the distributions of samples and fit."""


class Hypoexponential:
    """`Hypoexponential([0.001, 0.003], end)` has two phases of 1 and 3 ms, and is known from 0 to `end`."""

    def __init__(self, means: Samples, end: float) -> None:
        from scipy.linalg import expm

        rates = 1 / np.asarray(means, float)
        step = end / (GRID - 1)
        advance = expm(step * (np.diag(-rates) + np.diag(rates[:-1], 1)))
        phases = np.empty((GRID, len(rates)))
        phases[0] = 0.0
        phases[0, 0] = 1.0
        for place in range(1, GRID):
            phases[place] = phases[place - 1] @ advance
        self.grid = np.linspace(0.0, end, GRID)
        self.densities = np.maximum(phases[:, -1] * rates[-1], 0.0)
        self.shares = np.clip(1.0 - phases.sum(axis=1), 0.0, 1.0)

    def density(self, x: Samples) -> Samples:
        return np.interp(x, self.grid, self.densities)

    def cumulative(self, x: Samples) -> Samples:
        return np.interp(x, self.grid, self.shares, left=0.0, right=1.0)


def fit_hypoexponential(samples: Samples, phases: int) -> Fit:
    from scipy.optimize import minimize

    samples = np.asarray(samples, float)
    end, mean = float(samples.max()) * BEYOND, float(samples.mean())
    # The sum of the means is that of the samples; left free are their proportions, as logarithms.
    start = np.linspace(-0.7, 0.7, phases)

    def means(proportions: Samples) -> Samples:
        parts = np.exp(np.clip(proportions, -8, 8))
        return mean * parts / parts.sum()

    def unlikely(proportions: Samples) -> float:
        return -mean_log(Hypoexponential(means(proportions), end).density(samples))

    best = means(minimize(unlikely, start, method="L-BFGS-B").x) if phases > 1 else np.array([mean])
    fitted = Hypoexponential(best, end)
    likelihood = mean_log(fitted.density(samples))
    parameters = tuple(sorted(float(it) for it in best))
    return Fit("hypoexponential", parameters, likelihood, distance(samples, fitted.cumulative))


def fit_gamma(samples: Samples) -> Fit:
    from scipy.stats import gamma

    shape, _, scale = gamma.fit(samples, floc=0.0)
    return fit_of("gamma", (float(shape), float(scale)), samples, gamma(shape, scale=scale))


def fit_power_law(samples: Samples) -> Fit:
    """P(more than x) = (scale / (scale + x))^shape, a power law that begins at 0 (Lomax)."""
    from scipy.stats import lomax

    shape, _, scale = lomax.fit(samples, floc=0.0)
    return fit_of("power law", (float(shape), float(scale)), samples, lomax(shape, scale=scale))


def fit_exponential(samples: Samples) -> Fit:
    from scipy.stats import expon

    mean = float(np.mean(samples))
    return fit_of("exponential", (mean,), samples, expon(scale=mean))


def fit_of(name: str, parameters: tuple[float, ...], samples: Samples, frozen: Any) -> Fit:
    return Fit(name, parameters, mean_log(frozen.pdf(samples)), distance(samples, frozen.cdf))


def mean_log(densities: Samples) -> float:
    return float(np.mean(np.log(np.maximum(densities, 1e-300))))


def distance(samples: Samples, cumulative: Any) -> float:
    """Kolmogorov and Smirnov's."""
    below = cumulative(np.sort(samples))
    count = len(below)
    return float(max(np.max(np.arange(1, count + 1) / count - below), np.max(below - np.arange(count) / count)))


def chance_of(distance: float, count: int) -> float:
    """The probability of a distance at least this large between a distribution and `count` samples of it."""
    from scipy.stats import kstwo

    return float(kstwo.sf(distance, count))


class TwoLaplace(NamedTuple):
    b: float

    def density(self, x: Samples) -> Samples:
        size = np.abs(x)
        return (size + self.b) / (4 * self.b**2) * np.exp(-size / self.b)

    def cumulative(self, x: Samples) -> Samples:
        size = np.abs(x)
        above = (2 * self.b + size) / (4 * self.b) * np.exp(-size / self.b)
        return np.where(np.asarray(x) >= 0, 1 - above, above)

    def quantile(self, share: float) -> float:
        """For a share from 0.5 to 1 (the corrected form, erratum X-1)."""
        from scipy.special import lambertw

        return -self.b * (float(lambertw(4 * math.exp(-2) * (share - 1), k=-1).real) + 2)


def fit_two_laplace(differences: Samples) -> TwoLaplace:
    return TwoLaplace(float(np.mean(np.abs(differences))) * 2 / 3)


def tail(differences: Samples, share: float) -> float:
    """Which part of the samples lies beyond the fitted quantile; the mean of both sides."""
    limit = fit_two_laplace(differences).quantile(share)
    return float(np.mean(np.abs(differences) > limit)) / 2
