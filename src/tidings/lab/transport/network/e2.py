"""E2: which distribution delays have.

Delays over 3, 5 and 10 brokers, less what the links take, are fitted by a hypoexponential distribution with as many
phases as there are brokers, by a gamma distribution and by a power law; delays over one broker by an exponential one.
A fit is judged by how likely a distance as large as that between fit and samples is if the fit is true (Kolmogorov and
Smirnov). Since the fit was made for these samples, this is too kind to all of them alike.

Measured here, of the delays in the trace: no metric fits distributions, and `latency` has a few percentiles only.
"""

from collections.abc import Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.plots import COLOURS, INK, points
from tidings.lab.transport.network.chain import constant_delay, run, subscriber
from tidings.lab.transport.network.fits import (
    Fit,
    Hypoexponential,
    chance_of,
    fit_exponential,
    fit_gamma,
    fit_hypoexponential,
    fit_power_law,
)
from tidings.lab.transport.samples import Columns, Figure, arrivals, by_subscriber, measured_by_run, variant_of

UNLIKE, ALIKE = "brokers differ", "brokers are alike"

PAIRS = (1, 3, 5, 10)
"""How many brokers the pairs are apart."""

DRAWN, SHOWN = 5, 3
"""The pair whose distribution is drawn, and that whose delays are."""

CURVE_MS = range(0, 82, 2)
HISTOGRAM_MS = range(96, 161, 2)


def measure(columns: Columns) -> list[Figure]:
    """Delays of all pairs of one run."""
    suffix = "" if variant_of(columns) == UNLIKE else ", alike"
    made: list[Figure] = []
    for brokers in PAIRS:
        delays = columns["delay"][columns["node"] == subscriber(brokers)]
        group = f"{brokers} broker{'s' * (brokers > 1)}{suffix}"
        made.append(("smallest delay", group, delays.min()))
        made += fits(brokers, group, delays - constant_delay(brokers))
        if brokers == SHOWN and not suffix:
            made += histogram(delays)
    return made


def fits(brokers: int, group: str, handled: Any) -> list[Figure]:
    """`handled`: the delays without what links take."""
    import numpy as np

    # Rounding may leave a delay a hair below what the links take.
    handled = np.maximum(handled, 1e-9)
    if brokers == 1:
        tried = [fit_exponential(handled)]
    else:
        tried = [fit_hypoexponential(handled, brokers), fit_gamma(handled), fit_power_law(handled)]
    made: list[Figure] = []
    for fit in tried:
        made += [
            (f"{fit.name} distance", group, fit.distance),
            (f"{fit.name} chance", group, chance_of(fit.distance, len(handled))),
        ]
    if brokers > 1:
        hypoexponential, gamma, _ = tried
        made.append(("better than gamma", group, hypoexponential.likelihood - gamma.likelihood))
    return made + (curves(handled, tried) if group == f"{DRAWN} brokers" else [])


def curves(handled: Any, tried: Sequence[Fit]) -> list[Figure]:
    """Samples and fits as shares below a time, to be drawn."""
    import numpy as np
    from scipy.stats import gamma, lomax

    times = np.array(CURVE_MS) / 1000
    hypoexponential, by_gamma, by_power = (fit.parameters for fit in tried)
    shares = {
        "measured": np.searchsorted(np.sort(handled), times, side="right") / len(handled),
        "hypoexponential": Hypoexponential(hypoexponential, times[-1]).cumulative(times),
        "gamma": gamma(by_gamma[0], scale=by_gamma[1]).cdf(times),
        "power law": lomax(by_power[0], scale=by_power[1]).cdf(times),
    }
    return [
        (f"below, {name}", f"{at} ms", share)
        for name, values in shares.items()
        for at, share in zip(CURVE_MS, values, strict=True)
    ]


def histogram(delays: Any) -> list[Figure]:
    import numpy as np

    numbers, _ = np.histogram(delays, np.array(HISTOGRAM_MS) / 1000)
    shares = numbers / len(delays)
    return [("delays", f"{at} ms", share) for at, share in zip(HISTOGRAM_MS, shares, strict=False)]


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    pairs = [subscriber(brokers) for brokers in PAIRS]
    samples = arrivals(by_subscriber(traces)).where(F.col("node").isin(pairs)).select("run", "node", "delay")
    return measured_by_run(results, samples, measure)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    left.bar(*points(measured, "delays", 100, shift=1), 1.8, color=COLOURS[1])
    left.set(title=f"delay over {SHOWN} brokers", xlabel="milliseconds", ylabel="% of messages")
    for name, colour in zip(("power law", "gamma", "hypoexponential"), COLOURS, strict=False):
        right.plot(*points(measured, f"below, {name}"), color=colour, label=name)
    right.plot(*points(measured, "below, measured"), ".", color=INK, label="measured")
    right.set(title=f"handling in {DRAWN} brokers", xlabel="milliseconds", ylabel="share below")
    right.legend(loc="lower right")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(Variant(UNLIKE, {"alike": False}), Variant(ALIKE, {"alike": True})),
    figures=figures,
    plot=plot,
)
