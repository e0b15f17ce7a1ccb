"""E14: how much is said for each loss: requests and repairs, and how many of them were said twice.

A request that is repeated because it, or its answer, was lost is no duplicate; one that two receivers send for the same
loss is. So duplicates are counted among first requests. Of repairs all beyond the first of an event are duplicates,
though some answer a repeated request.

Requests and repairs are the metric `recovery_traffic`; it does not tell first requests from repeated ones, which are
counted here.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import by_variant
from tidings.lab.plots import COLOURS
from tidings.lab.transport.recovery.lossy_tree import ADDITIONS, RECEIVERS, SWEEP, run, variant
from tidings.pubsub.notes import RepairRequested
from tidings.spark.metrics.tables import is_note
from tidings.spark.metrics.transport import recovery_traffic

VARIANTS = (
    variant(12, 10),
    variant(46, 10),
    variant(12, 10, answers=RECEIVERS),
    variant(12, 10, answers=ADDITIONS),
    variant(46, 10, answers=ADDITIONS),
)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    first = traces.where(f"{is_note(RepairRequested)} AND get_json_object(detail, '$.round') = '0'")
    firsts = first.groupBy("run").agg((F.countDistinct("key") / F.count("*")).alias("single_requests"))
    table = recovery_traffic(traces).join(firsts, on="run", how="inner")
    table = table.withColumns(
        {
            "single_repairs": 1 - F.col("duplicate_repair_share"),
            "requests_per_repair": F.col("requests") / F.col("repairs"),
            "repeated": F.col("duplicate_request_share"),
        }
    )
    columns = {
        "requests not duplicated": "single_requests",
        "repairs not duplicated": "single_repairs",
        "requests to a repair": "requests_per_repair",
        "requests beyond the first": "repeated",
        "deliveries to a repair": "deliveries_per_repair",
    }
    return by_variant(results, table, columns)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    values = {(each.figure, each.group): 100 * each.value for each in measured}
    groups = [each.name for each in VARIANTS]
    for place, figure in enumerate(("requests not duplicated", "repairs not duplicated")):
        heights = [values.get((figure, group), 0.0) for group in groups]
        at = [row + (place - 0.5) * 0.36 for row in range(len(groups))]
        axes.barh(at, heights, 0.34, color=COLOURS[place], label=figure.removesuffix(" not duplicated"))
    axes.set_yticks(range(len(groups)), [group.replace(", ", "\n") for group in groups])
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.set_xlabel("% not duplicated")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot, sweep=SWEEP)
