"""E16: how small caches may be and still answer: each receiver keeps as many events as seem to be of use.

Few keep much, those that repair; the others shrink to K_min. What is measured begins ten seconds after the first
event, where the run is as long. Hit ratios are the metric `hit_ratio`; no metric draws it over time, so that is counted
here. K is that of all rings of all receivers, noted each second in the run: the metric has that of rings searched only.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import by_variant, summarise
from tidings.lab.plots import COLOURS
from tidings.lab.transport.recovery.lossy_tree import RECEIVERS, SWEEP, run, variant
from tidings.lab.transport.substrate import WARM_UP
from tidings.pubsub.notes import RepairRequested, RepairSent
from tidings.spark.metrics.tables import is_note
from tidings.spark.metrics.transport import hit_ratio

VARIANTS = (variant(12, 10), variant(12, 10, answers=RECEIVERS))
EVERYBODY_WAY, RECEIVERS_WAY = (each.name for each in VARIANTS)
SETTLED = 10.0
SPAN = 2
"""Seconds of one point in the plot."""
NOTE = "mean DOUBLE, largest DOUBLE, rate DOUBLE"


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    notes = traces.where("kind = 'note'").withColumn("at", F.col("time") - WARM_UP)
    repaired = notes.where(is_note(RepairSent)).select("run", "key").distinct().withColumn("is_hit", F.lit(1.0))
    asked = notes.where(is_note(RepairRequested)).select("run", "key", "at")
    asked = asked.join(repaired, on=["run", "key"], how="left").withColumn("hit", F.coalesce("is_hit", F.lit(0.0)))
    sizes = (
        notes.where("message = 'caches'").withColumn("said", F.from_json("detail", NOTE)).select("run", "at", "said.*")
    )
    samples = (
        after(sizes, "mean", "mean K")
        .unionByName(after(sizes, "largest", "largest K"))
        .unionByName(over_time(asked, "hit", "hit ratio"))
        .unionByName(over_time(sizes, "mean", "mean K"))
        .unionByName(over_time(sizes, "largest", "largest K"))
        .unionByName(over_time(sizes, "rate", "rate"))
    )
    of_runs = summarise(samples.join(results.select("run", F.col("variant").alias("group")), on="run", how="inner"))
    ratios = {"hit ratio": "network_hit_ratio", "hit ratio of look-ups": "cache_hit_ratio"}
    return of_runs.unionByName(by_variant(results, hit_ratio(traces.where(F.col("time") >= WARM_UP + SETTLED)), ratios))


def after(rows: DataFrame, column: str, name: str) -> DataFrame:
    """The mean from `SETTLED` on: run, figure, value."""
    from pyspark.sql import functions as F

    means = rows.where(f"at >= {SETTLED}").groupBy("run").agg(F.avg(column).alias("value"))
    return means.select("run", F.lit(name).alias("figure"), "value")


def over_time(rows: DataFrame, column: str, name: str) -> DataFrame:
    from pyspark.sql import functions as F

    spans = rows.withColumn("place", F.floor(F.col("at") / SPAN).cast("int")).where("place >= 0")
    means = spans.groupBy("run", "place").agg(F.avg(column).alias("value"))
    return means.select("run", F.concat(F.lit(f"{name}, span "), F.col("place")).alias("figure"), "value")


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    for colour, way, label in zip(COLOURS, (EVERYBODY_WAY, RECEIVERS_WAY), ("everybody", "receivers"), strict=False):
        ratios = series(measured, "hit ratio", way)
        left.plot(
            [at for at, _ in ratios], [100 * value for _, value in ratios], color=colour, label=f"{label} may answer"
        )
        for name, style in (("mean K", "-"), ("largest K", ":")):
            sizes = series(measured, name, way)
            right.plot(
                [at for at, _ in sizes], [value for _, value in sizes], style, color=colour, label=f"{name}, {label}"
            )
    left.set(ylim=(0, 102), title="requests that somebody answered", ylabel="%")
    right.set_yscale("log")
    right.set_title("size of caches, in events")
    for axes in (left, right):
        axes.set_xlabel("seconds")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def series(measured: Sequence[Measured], name: str, way: str) -> list[tuple[int, float]]:
    prefix = f"{name}, span "
    found = [each for each in measured if each.figure.startswith(prefix) and each.group == way]
    return sorted((SPAN * int(each.figure.removeprefix(prefix)), each.value) for each in found)


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot, sweep=SWEEP)
