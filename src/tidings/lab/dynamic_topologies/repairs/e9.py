"""E9: how long an end of a new link holds filters back, without FLUSH, which would end the waiting before (G-17)."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, STRAWMAN, TABLES, Setting, run
from tidings.lab.dynamic_topologies.repairs.savings import sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import over_seeds
from tidings.lab.plots import COLOURS, points

TIMES = (0.02, 0.04, 0.06, 0.15, 0.5)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    pairs, cost = sides(results, traces, "subscribe_after"), "cost_per_reconfiguration"
    informed, plain = F.col("sides")[INFORMED][cost], F.col("sides")[STRAWMAN][cost]
    at = {
        name: pairs.where(F.col("group") == name).select("seed", informed.alias(f"cost{place}"))
        for place, name in enumerate(("0.04", "0.06", "0.5"))
    }
    steps = at["0.04"].join(at["0.06"], on="seed", how="inner").join(at["0.5"], on="seed", how="inner")
    steps = steps.withColumn("group", F.lit("around T_u - t_rep"))
    step = {"drop": 1 - F.col("cost1") / F.col("cost0"), "change beyond": F.col("cost2") / F.col("cost1") - 1}
    return over_seeds(pairs, {"cost, informed": informed, "saved, informed": 1 - informed / plain}).union(
        over_seeds(steps, step)
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    axes.plot(*points(measured, "cost, informed"), ".-", color=COLOURS[3], label="informed, without flush")
    axes.set(title="cost of one reconfiguration", xlabel="seconds before subscribing")
    axes.legend()


EXPERIMENT = define(
    __file__,
    run=run,
    setting=Setting,
    variants=variants("subscribe_after", TIMES, (STRAWMAN, INFORMED), has_flush=False),
    figures=figures,
    plot=plot,
    sweep=TABLES,
)
