"""E3: how many cycles views take from random to good.

A view is as good as the share of the best possible members that are in it, and settled in the first cycle from which on
it gains less than a twentieth of what it gains in all. Nothing is published.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.failover.failing_runs import run
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import between, over_seeds, parameter
from tidings.lab.plots import COLOURS, points

SIZES = (10, 20)
CYCLES = 12


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    from tidings.spark.metrics.gossip import convergence_ratio

    by_cycle = convergence_ratio(traces, by=["cycle"]).where(F.col("convergence_ratio").isNotNull())
    runs = results.select("run", "seed", parameter("siblings").alias("group")).join(by_cycle, on="run", how="inner")
    whole = Window.partitionBy("run")
    best, first = F.max("convergence_ratio").over(whole), F.min("convergence_ratio").over(whole)
    settled = F.col("convergence_ratio") >= best - (best - first) / 20
    in_runs = runs.withColumn("settled", F.when(settled, F.col("cycle"))).withColumn("final", best)
    one = in_runs.groupBy("run", "seed", "group").agg(
        F.min("settled").cast("double").alias("cycles"), F.max("final").alias("final")
    )
    few, many = map(str, SIZES)
    more = between(one, few, many, {"converged more": F.col("final")}, ratio=False)
    return (
        over_seeds(one, {"cycles": F.col("cycles"), "converged": F.col("final")})
        .union(more)
        .union(
            over_seeds(
                runs.withColumn("group", F.concat("group", F.lit(" siblings, cycle "), F.col("cycle").cast("string"))),
                {"ratio": F.col("convergence_ratio")},
            )
        )
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    axes.plot(*points(measured, "converged"), ".-", color=COLOURS[1])
    axes.set(title="share of the best siblings that are known", xlabel="siblings")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(
        Variant(f"{size} siblings", {"siblings": size, "compares_views": True, "rate": 0.1, "event_rate": 0.001})
        for size in SIZES
    ),
    figures=figures,
    plot=plot,
)
