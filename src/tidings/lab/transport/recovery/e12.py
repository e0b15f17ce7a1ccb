"""E12: whether recovery helps all the time, through spikes and after.

What is missed is the metric `false_negatives`, by second.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import over_seeds, parameter
from tidings.lab.plots import COLOURS
from tidings.lab.transport.recovery.lossy_tree import LARGE, NOT_RECOVERED, SMALL, SWEEP, run, variant, way_of
from tidings.lab.transport.recovery.misses import between, compared, expected, missed, ratio
from tidings.lab.transport.substrate import WARM_UP

PARTS = 6
"""A run is cut into so many."""
FULL = way_of(10)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    length = F.when(parameter("brokers", "int") == 12, parameter("seconds", "double")).otherwise(
        parameter("seconds_large", "double")
    )
    spans = results.select("run", (length / PARTS).alias("span"))
    part = F.floor((F.col("second") - WARM_UP) / F.col("span")).cast("int")
    parts = (
        missed(traces, between(expected(traces)), by=["second"])
        .join(spans, on="run", how="inner")
        .withColumn("part", part)
    )
    of_run = parts.groupBy("run").agg(
        *(
            F.expr(f"sum(CASE WHEN part = {place} THEN {count} END)").alias(f"{name}_{place}")
            for name, count in (("missed", "false_negatives"), ("due", "expected"))
            for place in range(PARTS)
        )
    )
    shares = of_run.select(
        "run", *(F.expr(f"missed_{place} / due_{place}").alias(f"part_{place}") for place in range(PARTS))
    )
    pairs = compared(results, shares, *(f"part_{place}" for place in range(PARTS)))
    ratios = [ratio(FULL, NOT_RECOVERED, f"part_{place}") for place in range(PARTS)]
    series = {
        f"{name}, part {place}": F.col("sides")[side][f"part_{place}"]
        for name, side in (("none", NOT_RECOVERED), ("R = 10", FULL))
        for place in range(PARTS)
    }
    return over_seeds(pairs, {"worst part": F.greatest(*ratios), "best part": F.least(*ratios), **series})


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    values = {(each.figure, each.group): each.value for each in measured}
    for axes, group in zip(canvas.subplots(1, 2), (SMALL, LARGE), strict=True):
        for colour, name in zip(COLOURS, ("none", "R = 10"), strict=False):
            shares = [values.get((f"{name}, part {place}", group)) for place in range(PARTS)]
            percents = [None if share is None else 100 * share for share in shares]
            axes.plot(range(1, PARTS + 1), percents, color=colour, marker="o", label=name)
        axes.set_title(group)
        axes.set_ylim(bottom=0)
        axes.set(xlabel=f"part of the run, of {PARTS}", ylabel="% of deliveries missed")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(variant(brokers, record) for brokers in (12, 46) for record in (0, 10)),
    figures=figures,
    plot=plot,
    sweep=SWEEP,
)
