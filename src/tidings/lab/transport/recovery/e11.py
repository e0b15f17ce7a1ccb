"""E11: how many fewer events are missed as headers tell of more events before them.

A loss is seen only by a record that tells of it. With a record of one, the very next event of the publisher must reach
us; with ten, one of the next ten.

What is missed is the metric `false_negatives`. An event is *lost* if somebody misses it where nothing is recovered.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import by_variant, over_seeds, parameter
from tidings.lab.plots import COLOURS
from tidings.lab.transport.recovery.lossy_tree import (
    ADDITIONS,
    LARGE,
    NOT_RECOVERED,
    RECEIVERS,
    RUNS,
    SMALL,
    SWEEP,
    run,
    way_of,
)
from tidings.lab.transport.recovery.misses import between, compared, expected, group, missed, ratio
from tidings.spark.metrics.tables import IS_DELIVER

SHARE = "false_negative_share"
FULL = way_of(10)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    owed = between(expected(traces)).cache()
    table = missed(traces, owed).cache()
    against = {
        "R = 10 against R = 1": ratio(FULL, way_of(1), SHARE),
        "R = 10 against none": ratio(FULL, NOT_RECOVERED, SHARE),
        "receivers only against none": ratio(way_of(10, RECEIVERS), NOT_RECOVERED, SHARE),
        "additions against none": ratio(way_of(10, ADDITIONS), NOT_RECOVERED, SHARE),
    }
    ratios = over_seeds(compared(results, table, SHARE), against)
    told = ratios.unionByName(by_variant(results, table, {"missed": SHARE}))
    return told.unionByName(receivers_of_lost(results, traces, owed))


def receivers_of_lost(results: DataFrame, traces: DataFrame, owed: DataFrame) -> DataFrame:
    """How many would have got an event that somebody lost, on average."""
    from pyspark.sql import functions as F

    plain = results.where(parameter("record", "int") == 0).select("run", "seed", group().alias("group"))
    got = traces.where(IS_DELIVER).select("run", "key", "node").distinct().withColumn("is_there", F.lit(1))
    due = owed.join(plain.select("run"), on="run", how="left_semi").join(got, on=["run", "key", "node"], how="left")
    events = due.groupBy("run", "key").agg(F.count("*").alias("receivers"), F.count("is_there").alias("reached"))
    lost = events.where("reached < receivers").groupBy("run").agg(F.mean("receivers").alias("receivers"))
    return over_seeds(plain.join(lost, on="run", how="inner"), {"receivers of a lost event": F.col("receivers")})


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    shares = {each.group: 100 * each.value for each in measured if each.figure == "missed"}
    axes = canvas.subplots(1, 2)
    for panel, network in zip(axes, (SMALL, LARGE), strict=True):
        told = [name for name in shares if name.startswith(f"{network}, ") and "loss" not in name]
        ways = [name.removeprefix(f"{network}, ") for name in told]
        panel.barh(range(len(ways)), [shares[name] for name in told], 0.7, color=COLOURS[1])
        panel.set_yticks(range(len(ways)), ways)
        panel.invert_yaxis()
        panel.grid(axis="x")
        panel.set(title=network, xlabel="% of deliveries missed")


EXPERIMENT = define(__file__, run=run, variants=RUNS, figures=figures, plot=plot, sweep=SWEEP)
