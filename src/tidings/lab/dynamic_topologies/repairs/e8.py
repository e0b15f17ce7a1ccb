"""E8: how long to wait before taking back what a lost neighbour wanted. ILA with and without FLUSH (G-17)."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, NOTIFIED, STRAWMAN, TABLES, TIMED, Setting, run
from tidings.lab.dynamic_topologies.repairs.savings import sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import over_seeds, union
from tidings.lab.plots import COLOURS, points

TIMES = (0.0, 0.09, 0.11, 0.15, 0.24, 0.26, 0.5)
SHOWN = (STRAWMAN, TIMED, NOTIFIED, INFORMED)
QUIET = tuple(
    Variant(f"{each.name}, no flush", each.parameters)
    for each in variants("unsubscribe_after", TIMES, (INFORMED,), changes_rate=30.0, has_flush=False)
)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    flush = F.get_json_object("parameters", "$.has_flush") == "true"
    every = sides(results.where(flush), traces, "unsubscribe_after")
    quiet = sides(results.where(~flush), traces, "unsubscribe_after")
    of, cost = F.col("sides"), "cost_per_reconfiguration"
    change = F.col("after") / F.col("before") - 1
    waiting = {f"beside strawman, {name}": of[name][cost] / of[STRAWMAN][cost] for name in SHOWN[1:]}
    return union(
        [
            over_seeds(every, {f"cost, {name}": of[name][cost] for name in SHOWN} | waiting),
            over_seeds(quiet, {"cost, informed without flush": of[INFORMED][cost]}),
            over_seeds(steps(quiet), {"step of informed": F.col("after") / F.col("before") - 1}),
            over_seeds(drops(every), {"drop of timed": 1 - F.col("after") / F.col("before")}),
            *(over_seeds(later(every, name), {f"further, {name}": change}) for name in (TIMED, NOTIFIED)),
        ]
    )


def between(pairs: DataFrame, name: str, first: str, second: str) -> DataFrame:
    from pyspark.sql import functions as F

    cost = F.col("sides")[name]["cost_per_reconfiguration"]
    one = pairs.where(F.col("group") == first).select("seed", cost.alias("before"))
    other = pairs.where(F.col("group") == second).select("seed", cost.alias("after"))
    return one.join(other, on="seed", how="inner").withColumn("group", F.lit(f"{first} to {second} s"))


def steps(quiet: DataFrame) -> DataFrame:
    return between(quiet, INFORMED, "0.24", "0.26")


def drops(every: DataFrame) -> DataFrame:
    return between(every, TIMED, "0.09", "0.11")


def later(every: DataFrame, name: str) -> DataFrame:
    return between(every, name, "0.15", "0.5")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    for name, colour in zip((*SHOWN, "informed without flush"), COLOURS, strict=False):
        axes.plot(*points(measured, f"cost, {name}"), ".-", color=colour, label=name)
    axes.set(title="cost of one reconfiguration, 30 a second", xlabel="seconds before unsubscribing")
    axes.legend()


EXPERIMENT = define(
    __file__,
    run=run,
    setting=Setting,
    variants=(*variants("unsubscribe_after", TIMES, SHOWN, changes_rate=30.0, has_flush=True), *QUIET),
    figures=figures,
    plot=plot,
    sweep=TABLES,
)
