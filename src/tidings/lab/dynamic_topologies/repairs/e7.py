"""E7: what a reconfiguration costs as they overlap. RP does not allow for that and is left out."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, NOTIFIED, REPAIRS, TABLES, TIMED, Setting, run
from tidings.lab.dynamic_topologies.repairs.savings import curves, savings, sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import over_seeds, union

RATES = (1.0, 3.0, 10.0, 30.0, 100.0, 200.0, 400.0)
SHOWN = REPAIRS[:4]


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    pairs = sides(results, traces, "changes_rate")
    of, cost = F.col("sides"), "cost_per_reconfiguration"
    beside = {f"{name} beside timed": of[name][cost] / of[TIMED][cost] for name in (NOTIFIED, INFORMED)}
    heights = {f"hill of {name}": F.col(name) for name in SHOWN}
    return union([savings(pairs, SHOWN), over_seeds(pairs, beside), over_seeds(hills(pairs), heights)])


def hills(pairs: DataFrame) -> DataFrame:
    """For each seed and repair the most that it costs at a rate between, beside the more costly end."""
    from pyspark.sql import functions as F

    rate, ends = F.col("group").cast("double"), (RATES[0], RATES[-1])
    of = {name: F.col("sides")[name]["cost_per_reconfiguration"] for name in SHOWN}
    most = {
        name: F.max(F.when(~rate.isin(*ends), cost)) / F.max(F.when(rate.isin(*ends), cost))
        for name, cost in of.items()
    }
    return (
        pairs.groupBy("seed").agg(*(value.alias(name) for name, value in most.items())).withColumn("group", F.lit(""))
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    curves(canvas, measured, "reconfigurations a second")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=Setting,
    variants=variants("changes_rate", RATES, repairs=SHOWN),
    figures=figures,
    plot=plot,
    sweep=TABLES,
)
