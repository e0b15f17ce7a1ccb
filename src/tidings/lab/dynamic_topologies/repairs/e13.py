"""E13: forwarding subscriptions and repairing them beside sending every event everywhere."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, STRAWMAN, Setting
from tidings.lab.dynamic_topologies.repairs.witness import run
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import over_seeds, parameter, side_by_side, union
from tidings.lab.plots import COLOURS, points

FLOODING, SUBSCRIPTION = ("flooding", "subscription")
RATES = (1.0, 3.0, 10.0, 30.0)
COMMON = {"density": 0.8, "event_rate": 1.0}
# Flooding has no tables to repair, and STRAWMAN sends nothing of its own.
KINDS = {FLOODING: {"strategy": FLOODING, "repair": STRAWMAN}, SUBSCRIPTION: {"repair": INFORMED}}

BURST = tuple(
    Variant(f"{name}, burst", {**COMMON, **kind, "has_burst": True, "changes_rate": 30.0})
    for name, kind in KINDS.items()
)
STEADY = tuple(
    Variant(f"{name}, {rate:g} a second", {**COMMON, **kind, "changes_rate": rate})
    for rate in RATES
    for name, kind in KINDS.items()
)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    from tidings.spark.metrics.changes import reconfiguration_cost

    burst, kind = F.col("variant").contains("burst"), F.coalesce(parameter("strategy"), F.lit(SUBSCRIPTION))
    bursts = side_by_side(results.where(burst), group=F.lit(""), side=kind)
    of = {name: F.col("sides")[name] for name in KINDS}
    phases = {
        f"beside subscriptions, {phase}": of[FLOODING][f"traffic, {phase}"] / of[SUBSCRIPTION][f"traffic, {phase}"]
        for phase in ("stable", "burst")
    }
    costs = reconfiguration_cost(traces).selectExpr("run", "cost_per_reconfiguration * reconfigurations AS overhead")
    steady = results.where(~burst).join(costs, on="run", how="inner")
    total = F.create_map(F.lit("total"), F.col("measures")["event hops"] + F.col("overhead"))
    totals = side_by_side(steady.withColumn("measures", total), group=parameter("changes_rate"), side=kind)
    return union(
        [
            over_seeds(bursts, phases),
            over_seeds(totals, {"beside subscriptions, total": of[FLOODING]["total"] / of[SUBSCRIPTION]["total"]}),
        ]
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    axes.plot(*points(measured, "beside subscriptions, total"), ".-", color=COLOURS[0])
    axes.axhline(1.0, color="grey", linewidth=0.5)
    axes.set(title="traffic of flooding beside that of subscriptions", xlabel="reconfigurations a second", xscale="log")


EXPERIMENT = define(__file__, run=run, setting=Setting, variants=(*BURST, *STEADY), figures=figures, plot=plot)
