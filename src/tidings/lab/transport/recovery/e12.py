"""E12: whether recovery helps all the time, through spikes and after."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidings.lab.experiment import Band, Claim, Experiment, Measured
from tidings.lab.transport.recovery.lossy_tree import LARGE, NOT_RECOVERED, RUN, SCALES, SMALL, SWEEP, variant, way_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from pyspark.sql import DataFrame

PARTS = 6
"""A run is cut into so many."""
FULL = way_of(10)


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    from tidings.lab.figures import over_seeds, parameter
    from tidings.lab.transport.recovery.misses import between, compared, expected, missed, ratio
    from tidings.lab.transport.substrate import WARM_UP

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


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    from tidings.lab.plots import COLOURS

    values = {(each.figure, each.group): each.value for each in measured}
    for axes, group in zip(canvas.subplots(1, 2), (SMALL, LARGE), strict=True):
        for colour, name in zip(COLOURS, ("none", "R = 10"), strict=False):
            shares = [values.get((f"{name}, part {place}", group)) for place in range(PARTS)]
            percents = [None if share is None else 100 * share for share in shares]
            axes.plot(range(1, PARTS + 1), percents, color=colour, marker="o", label=name)
        axes.set_title(group)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"part of the run, of {PARTS}")
        axes.set_ylabel("% of deliveries missed")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


E12 = Experiment(
    id="transport/E12",
    title="Recovery over time",
    question=(
        "Rates vary by a factor of 20, and requests and repairs are lost as events are. Is the gain of recovery there "
        "all the time, or does it collapse when a spike comes? A run is cut into six parts; in each, events missed "
        "with records of 10 are compared with those missed without recovery."
    ),
    source="Transport for best-effort content-based networks, section 4.4.2; specification transport.md 4.2",
    run=RUN,
    sweep=SWEEP,
    variants=tuple(variant(brokers, record) for brokers in (12, 46) for record in (0, 10)),
    scales=SCALES,
    figures=figures,
    claims=(
        Claim(
            figure="worst part",
            says="missed against no recovery, in the worst sixth of a run",
            published="a half (12 brokers), a third (46); constant",
            unit="times",
            groups=(SMALL, LARGE),
            band=Band(high=0.8),
        ),
        Claim(
            figure="best part",
            says="missed against no recovery, in the best sixth of a run",
            published="a half (12 brokers), a third (46); constant",
            unit="times",
            groups=(SMALL, LARGE),
        ),
    ),
    plot=plot,
)
