"""What groups of their own save beside one group of all brokers: the ablation that the source describes (5.4.3).

All measures are those of E9 to E13 (`compared.py`); `heard` is how often a gossiped publication was taken by a broker,
for each delivery that came of it.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.popularity.followed import PopularSetting, run
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import measured, over_seeds, parameter, side_by_side
from tidings.lab.plots import bars

GROUPS = ("wanting", "everybody")


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    from tidings.spark.metrics.gossip import gossip_matches, popularity_latency

    table = gossip_matches(traces).join(popularity_latency(traces), on="run", how="full")
    columns = "gossip_false_positive_ratio", "match_per_gossip", "unpopular_latency_p99"
    runs = measured(results, table, *columns)
    pairs = side_by_side(runs, group=parameter("system"), side=parameter("group_of"))
    own, all_in_one = (F.col("sides")[name] for name in GROUPS)
    return over_seeds(
        pairs,
        {
            "unwanted, groups of their own": own["gossip_false_positive_ratio"],
            "unwanted, one of all": all_in_one["gossip_false_positive_ratio"],
            "heard for a delivery, less": 1 - all_in_one["match_per_gossip"] / own["match_per_gossip"],
            "unpopular latency, more": own["unpopular_latency_p99"] / all_in_one["unpopular_latency_p99"] - 1,
        },
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"unwanted, groups of their own": "their own", "unwanted, one of all": "one of all"})
    axes.set(title="gossiped publications that nobody wants where they come")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=PopularSetting,
    variants=tuple(Variant(f"group of {name}", {"system": "gossip", "group_of": name}) for name in GROUPS),
    figures=figures,
    plot=plot,
)
