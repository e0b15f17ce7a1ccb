"""E25: repair and density on a tree of peers."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.peers.peer_traffic import PeerSetting, run, variants
from tidings.lab.dynamic_topologies.peers.savings import peer_figures, plot_by
from tidings.lab.dynamic_topologies.repairs.rewired import STRAWMAN
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import over_seeds, parameter, union

TOP = 0.4


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return union([peer_figures(results, "density"), hill(results)])


def hill(results: DataFrame) -> DataFrame:
    """What STRAWMAN costs at the density at which it was found to cost most, beside the others, seed by seed."""
    from pyspark.sql import functions as F

    costs = results.where(parameter("repair") == STRAWMAN).select(
        "seed", parameter("density", "double").alias("density"), F.col("measures")["cost"].alias("cost")
    )
    top = costs.where(F.col("density") == TOP).select("seed", F.col("cost").alias("most"))
    others = costs.where(F.col("density") != TOP).join(top, on="seed", how="inner")
    names = F.format_string(f"{TOP:g} beside %s", F.regexp_replace(F.col("density").cast("string"), r"\.0$", ""))
    return over_seeds(others.withColumn("group", names), {"hill of strawman": F.col("most") / F.col("cost")})


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    plot_by(canvas, measured, "cost", "saved", "share of nodes that subscribe")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=PeerSetting,
    variants=variants("density", (0.05, 0.2, TOP, 1.0)),
    figures=figures,
    plot=plot,
)
