"""Semi-probabilistic routing beside the tree and beside gossip around failures: the baseline that the source left out.

All messages with publications count, guessed or not, beside those of the plain tree without failures.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.failover.failing_runs import GOSSIP, GUESSED, TREE, outcomes, run
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import over_seeds, parameter, side_by_side
from tidings.lab.plots import COLOURS, points

COMPARED = (TREE, GOSSIP, GUESSED)
RATES = (0.0, 0.1, 0.3)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    pairs = side_by_side(outcomes(results, traces), group=parameter("rate"), side=parameter("failover"))
    tree, gossip, guessed = (F.col("sides")[name] for name in COMPARED)
    values = {f"delivered, {name}": F.col("sides")[name]["delivered"] for name in COMPARED}
    values["delivered more than the tree"] = guessed["delivered"] - tree["delivered"]
    values["delivered more than by gossip"] = guessed["delivered"] - gossip["delivered"]
    values["messages beside the tree"] = F.try_divide(guessed["messages"], tree["messages"])
    return over_seeds(pairs, values)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    for place, name in enumerate(COMPARED):
        axes.plot(*points(measured, f"delivered, {name}"), ".-", color=COLOURS[place], label=name)
    axes.set(title="delivered", xlabel="share of brokers that fail")
    axes.legend()


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(
        Variant(f"{name}, rate {rate}", {"failover": name, "rate": rate}) for rate in RATES for name in COMPARED
    ),
    figures=figures,
    plot=plot,
)
