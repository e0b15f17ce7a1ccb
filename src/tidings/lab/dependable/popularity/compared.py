"""Figures of the experiments on popularity: each system beside the plain one, seed by seed.

All measures are metrics. `gain` is deliveries for each forward on the tree, `pure` the copies on the tree that brokers
without a client that matches sent, in relation to the plain system; `unpopular` the share of deliveries that came
another way. Latencies are 99th percentiles from acceptance to delivery.
"""

from collections.abc import Mapping, Sequence

from tidings.lab.dependable.popularity.followed import SYSTEMS
from tidings.lab.experiment import Canvas, Column, DataFrame, Measured
from tidings.lab.figures import between, measured, over_seeds, parameter, side_by_side, union
from tidings.lab.plots import COLOURS, points
from tidings.spark.metrics.gossip import (
    direct_forwards,
    gain_ratio,
    gossip_matches,
    popularity_latency,
    pure_forwards,
    queue_size,
    unpopular_deliveries,
)

DIVERTING = SYSTEMS[1:]
Growth = Mapping[str, tuple[Sequence[str], str]]

COLUMNS = (
    *("gain_ratio", "pure_forwards", "unpopular_delivery_share", "popular_latency_p99", "unpopular_latency_p99"),
    *("unpopular_latency_p90", "direct_forwards_p99", "gossip_false_positive_ratio", "match_per_gossip"),
    *("gossip_groups", "queue_size_mean"),
)


def sides(results: DataFrame, traces: DataFrame, name: str) -> DataFrame:
    """The systems of a run side by side, for each value of this parameter."""
    table = gain_ratio(traces)
    metrics = pure_forwards, unpopular_deliveries, popularity_latency, gossip_matches, direct_forwards, queue_size
    for metric in metrics:
        table = table.join(metric(traces), on="run", how="full")
    runs = measured(results, table, *COLUMNS)
    return side_by_side(runs, group=parameter(name), side=parameter("system"))


def figures_of(results: DataFrame, traces: DataFrame, name: str) -> DataFrame:
    return over_seeds(sides(results, traces, name), values())


def with_growth(results: DataFrame, traces: DataFrame, name: str, ends: tuple[str, str], what: Growth) -> DataFrame:
    """Besides, how much there is of it at the upper end of the parameter, against the lower.

    {"growth of gain": (SYSTEMS, "gain_ratio")} makes the figures "growth of gain, plain" and so on."""
    from pyspark.sql import functions as F

    pairs = sides(results, traces, name).cache()
    grown = {
        f"{figure}, {system}": F.col("sides")[system][column]
        for figure, (systems, column) in what.items()
        for system in systems
    }
    return union([over_seeds(pairs, values()), between(pairs, *ends, grown)])


def values() -> dict[str, Column]:
    from pyspark.sql import functions as F

    all_sides = F.col("sides")
    plain, direct, gossip = all_sides["plain"], all_sides["direct"], all_sides["gossip"]
    made: dict[str, Column] = {"gain, plain": plain["gain_ratio"], "queue, plain": plain["queue_size_mean"]}
    for system in DIVERTING:
        ours = all_sides[system]
        made |= {
            f"gain more, {system}": ours["gain_ratio"] / plain["gain_ratio"] - 1,
            f"gain, {system}": ours["gain_ratio"],
            f"pure forwards less, {system}": 1 - ours["pure_forwards"] / plain["pure_forwards"],
            f"unpopular, {system}": ours["unpopular_delivery_share"],
            f"popular latency, {system}": ours["popular_latency_p99"] / plain["popular_latency_p99"] - 1,
            f"unpopular latency, {system}": ours["unpopular_latency_p99"],
            f"queue less, {system}": 1 - F.coalesce(ours["queue_size_mean"], F.lit(0.0)) / plain["queue_size_mean"],
        }
        if system != "direct":
            made[f"unpopular latency over direct, {system}"] = (
                ours["unpopular_latency_p99"] / direct["unpopular_latency_p99"]
            )
            made[f"unpopular latency of 90 % over direct, {system}"] = (
                ours["unpopular_latency_p90"] / direct["unpopular_latency_p90"]
            )
    batching = all_sides["batching"]
    made |= {
        "gain, gossip beside batching": gossip["gain_ratio"] / batching["gain_ratio"],
        "queue, batching beside plain": batching["queue_size_mean"] / plain["queue_size_mean"],
        "queue, direct beside batching": F.coalesce(direct["queue_size_mean"], F.lit(0.0))
        / batching["queue_size_mean"],
        "queue, gossip beside direct": F.coalesce(gossip["queue_size_mean"], F.lit(0.0)) / direct["queue_size_mean"],
        "popular latency, batching beside direct": batching["popular_latency_p99"] / direct["popular_latency_p99"],
        "popular latency, batching beside gossip": batching["popular_latency_p99"] / gossip["popular_latency_p99"],
        "gossip over batching": gossip["unpopular_latency_p99"] / batching["unpopular_latency_p99"],
        "popular under unpopular, gossip": 1 - gossip["popular_latency_p99"] / gossip["unpopular_latency_p99"],
        "copies of a direct publication": direct["direct_forwards_p99"],
        "gossip false positives": gossip["gossip_false_positive_ratio"],
        "matches of a gossiped publication": gossip["match_per_gossip"],
        "gossip groups": gossip["gossip_groups"],
    }
    return made


def plot_pair(canvas: Canvas, found: Sequence[Measured], first: str, second: str, label: str) -> None:
    for axes, figure in zip(canvas.subplots(1, 2), (first, second), strict=True):
        for place, system in enumerate(DIVERTING):
            axes.plot(*points(found, f"{figure}, {system}"), ".-", color=COLOURS[place], label=system)
        axes.set(title=figure, xlabel=label)
        axes.legend()
