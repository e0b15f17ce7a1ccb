"""E3: how much the delays of two consecutive messages differ.

The difference of two delays over k brokers is a sum of k Laplace variables. The source describes it for any k by the
sum of two, with a scale fitted to the samples. What ordering needs of this is the tail: how rarely a message is later
than the next one by more than a quantile says. Brokers are alike here, as in the check of the specification.

Measured here, of the delays in the trace: no metric compares consecutive events.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.plots import COLOURS, points
from tidings.lab.transport.network.chain import brokers_of, run
from tidings.lab.transport.network.fits import TwoLaplace, distance, fit_two_laplace, tail
from tidings.lab.transport.samples import Columns, Figure, arrivals, by_subscriber, measured_by_run, with_previous

DRAWN = 5
"""The pair whose differences are drawn."""

NEAR_ZERO = 0.3
"""Differences up to so many times the scale count as 0 where the spike there is measured."""

HISTOGRAM_MS = range(-30, 31)


def measure(columns: Columns) -> list[Figure]:
    """Differences of all pairs of one run."""
    import numpy as np

    made: list[Figure] = []
    for node in np.unique(columns["node"]):
        brokers = brokers_of(str(node))
        differences = columns["difference"][columns["node"] == node]
        model = fit_two_laplace(differences)
        near = np.mean(np.abs(differences) < NEAR_ZERO * model.b)
        expected = 2 * model.cumulative(NEAR_ZERO * model.b) - 1
        values = {
            "tail beyond 0.95": tail(differences, 0.95),
            "tail beyond 0.99": tail(differences, 0.99),
            "mean": np.mean(differences) / model.b,
            "above zero": np.mean(differences > 0),
            "distance": distance(differences, model.cumulative),
            "spike": near / expected,
        }
        made += [(name, f"{brokers} broker{'s' * (brokers > 1)}", float(value)) for name, value in values.items()]
        if brokers == DRAWN:
            made += [("scale", "", model.b), *histogram(differences)]
    return made


def histogram(differences: object) -> list[Figure]:
    """The share of differences within half a millisecond of each."""
    import numpy as np

    edges = np.array([*HISTOGRAM_MS, HISTOGRAM_MS[-1] + 1]) - 0.5
    numbers, _ = np.histogram(np.asarray(differences) * 1000, edges)
    shares = numbers / len(np.asarray(differences))
    return [("differences", f"{place} ms", share) for place, share in zip(HISTOGRAM_MS, shares, strict=True)]


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    difference = (F.col("delay") - F.col("previous")).alias("difference")
    samples = with_previous(arrivals(by_subscriber(traces))).select("run", "node", difference)
    return measured_by_run(results, samples, measure)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    import numpy as np

    left, right = canvas.subplots(1, 2)
    found = {each.figure: each.value for each in measured if each.figure == "scale"}
    left.bar(*points(measured, "differences", 100), 0.9, color=COLOURS[1], label="measured")
    if "scale" in found:
        at = np.linspace(min(HISTOGRAM_MS), max(HISTOGRAM_MS), 400)
        model = TwoLaplace(found["scale"] * 1000)
        left.plot(at, 100 * model.density(at), color=COLOURS[0], label="two Laplace variables")
    left.set(title=f"differences over {DRAWN} brokers", xlabel="milliseconds", ylabel="% of pairs in 1 ms")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    for share, colour in zip((0.95, 0.99), COLOURS, strict=False):
        right.plot(*points(measured, f"tail beyond {share}", 100), "o-", color=colour, label=f"beyond {share}")
        right.axhline(100 * (1 - share), color=colour, linestyle=":", linewidth=1)
    right.set(title="differences beyond a fitted quantile", xlabel="brokers", ylabel="% of pairs", ylim=(0, 7))
    right.legend()


EXPERIMENT = define(
    __file__, run=run, variants=(Variant("brokers are alike", {"alike": True}),), figures=figures, plot=plot
)
