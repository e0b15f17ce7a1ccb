"""E13: how long it takes until a lost event is repaired, and which part of that is spent before anybody notices.

Both delays are metrics: `recovery_delay` and `request_repair_delay`.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import by_variant, measured, over_seeds, side_by_side
from tidings.lab.plots import COLOURS
from tidings.lab.transport.recovery.lossy_tree import ADDITIONS, SWEEP, run, variant
from tidings.lab.transport.recovery.misses import side
from tidings.spark.metrics.delivery import recovery_delay
from tidings.spark.metrics.transport import request_repair_delay

VARIANTS = (variant(12, 10), variant(46, 10), variant(46, 10, 0.001), variant(12, 10, answers=ADDITIONS))
LARGE_WAY, CALM_WAY = VARIANTS[1].name, VARIANTS[2].name
COLUMNS = {
    "request to repair, 50 %": "request_repair_delay_p50",
    "request to repair, 80 %": "request_repair_delay_p80",
    "publication to repair, 50 %": "recovery_delay_p50",
    "publication to repair, 80 %": "recovery_delay_p80",
}


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    table = request_repair_delay(traces).join(recovery_delay(traces), on="run", how="inner").cache()
    sides = side_by_side(measured(results, table, *COLUMNS.values()), group=F.lit(""), side=F.col("variant"))
    calmer = side(CALM_WAY, "request_repair_delay_p50") / side(LARGE_WAY, "request_repair_delay_p50")
    return by_variant(results, table, COLUMNS).unionByName(over_seeds(sides, {"with less loss": calmer}))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    values = {(each.figure, each.group): 1000 * each.value for each in measured}
    groups = [each.name for each in VARIANTS]
    for axes, span in zip(
        canvas.subplots(1, 2, sharey=True), ("request to repair", "publication to repair"), strict=True
    ):
        for place, share in enumerate(("50 %", "80 %")):
            heights = [values.get((f"{span}, {share}", group), 0.0) for group in groups]
            at = [row + (place - 0.5) * 0.36 for row in range(len(groups))]
            axes.barh(at, heights, 0.34, color=COLOURS[place], label=f"{share} of the events")
        axes.set_yticks(range(len(groups)), [group.replace(", ", "\n") for group in groups])
        axes.grid(axis="x")
        axes.set(title=span, xlabel="milliseconds, at most")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    axes.invert_yaxis()


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot, sweep=SWEEP)
