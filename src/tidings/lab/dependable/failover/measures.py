"""By which measure similar brokers are best found: the plain one beside three others, on the runs of E6 (FW-2).

Each measure is compared with the plain form ("minima") seed by seed: points of delivery, and messages around failures.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.failover.failing_runs import GOSSIP, outcomes, run
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import over_seeds, parameter, side_by_side
from tidings.lab.plots import COLOURS, points

PLAIN, *OTHERS = MEASURES = ("minima", "jaccard", "weighted", "filters")
RATES = (0.1, 0.3)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    pairs = side_by_side(outcomes(results, traces), group=parameter("rate"), side=parameter("measure"))
    plain, values = F.col("sides")[PLAIN], {"delivered, minima": F.col("sides")[PLAIN]["delivered"]}
    for name in OTHERS:
        side = F.col("sides")[name]
        values[f"delivered more, {name}"] = side["delivered"] - plain["delivered"]
        values[f"gossip more, {name}"] = F.try_divide(side["gossip"], plain["gossip"]) - 1
    return over_seeds(pairs, values)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    for place, name in enumerate(OTHERS):
        axes.plot(*points(measured, f"delivered more, {name}"), ".-", color=COLOURS[place], label=name)
    axes.set(title="delivered more than by minima", xlabel="share of brokers that fail")
    axes.legend()


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(
        Variant(f"{measure}, rate {rate}", {"failover": GOSSIP, "rate": rate, "measure": measure})
        for rate in RATES
        for measure in MEASURES
    ),
    figures=figures,
    plot=plot,
)
