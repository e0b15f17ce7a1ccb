"""E7: branches of 4 or 5 brokers fail together, in overlays of several sizes."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.failover.comparisons import plot_systems
from tidings.lab.dependable.failover.failing_runs import (
    GOSSIP,
    NEIGHBOURHOOD,
    RANDOM,
    SWEEP,
    SYSTEMS,
    TREE,
    outcomes,
    run,
)
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import over_seeds, parameter, side_by_side

SHARES = (0.5, 1.0)
"""Of the number of brokers of the scale."""


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    runs = outcomes(results, traces)
    side = F.concat(parameter("failures"), F.lit(" "), parameter("failover"))
    pairs = side_by_side(runs, group=parameter("share"), side=side)
    of = {f"{kind} {system}": F.col("sides")[f"{kind} {system}"] for kind in KINDS for system in SYSTEMS}
    values = {f"delivered, {system}": of[f"clustered {system}"]["delivered"] for system in SYSTEMS}
    values |= {
        f"lost to clusters, {system}": 1
        - F.try_divide(of[f"clustered {system}"]["delivered"], of[f"uniform {system}"]["delivered"])
        for system in (GOSSIP, NEIGHBOURHOOD)
    }
    tree = of[f"clustered {TREE}"]["messages"]
    values |= {f"overhead, {system}": F.try_divide(of[f"clustered {system}"]["messages"], tree) for system in SYSTEMS}
    ours, random = of[f"clustered {GOSSIP}"]["gossip"], of[f"clustered {RANDOM}"]["gossip"]
    values["delivered less than at random"] = (
        of[f"clustered {RANDOM}"]["delivered"] - of[f"clustered {GOSSIP}"]["delivered"]
    )
    values["overhead beside random"] = F.try_divide(
        of[f"clustered {RANDOM}"]["messages"], of[f"clustered {GOSSIP}"]["messages"]
    )
    values["gossip less than at random"] = 1 - F.try_divide(ours, random)
    return over_seeds(pairs, values)


KINDS = ("uniform", "clustered")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_systems(canvas, measured, "brokers, as a share of those of the scale")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(
        Variant(f"{system}, {kind}, share {share}", {"failover": system, "failures": kind, "share": share, "rate": 0.1})
        for share in SHARES
        for kind in KINDS
        for system in SYSTEMS
    ),
    figures=figures,
    plot=plot,
    sweep=SWEEP,
)
