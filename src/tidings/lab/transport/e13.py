"""E13: how long it takes until a lost event is repaired, and which part of that is spent before anybody notices."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidings.lab.experiment import Band, Claim, Experiment, Measured
from tidings.lab.transport.recovering import ADDITIONS, RUN, SCALES, SWEEP, variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from pyspark.sql import DataFrame

VARIANTS = (variant(12, 10), variant(46, 10), variant(46, 10, 0.001), variant(12, 10, answers=ADDITIONS))
SMALL_WAY, LARGE_WAY, CALM_WAY, ADDED = (each.name for each in VARIANTS)
COLUMNS = {
    "request to repair, 50 %": "request_repair_delay_p50",
    "request to repair, 80 %": "request_repair_delay_p80",
    "publication to repair, 50 %": "recovery_delay_p50",
    "publication to repair, 80 %": "recovery_delay_p80",
}


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    from tidings.lab.figures import over_seeds, side_by_side
    from tidings.lab.transport.recovered import by_variant, measured, side
    from tidings.spark.metrics.delivery import recovery_delay
    from tidings.spark.metrics.recovery import request_repair_delay

    table = request_repair_delay(traces).join(recovery_delay(traces), on="run", how="inner").cache()
    sides = side_by_side(measured(results, table, *COLUMNS.values()), group=F.lit(""), side=F.col("variant"))
    calmer = side(CALM_WAY, "request_repair_delay_p50") / side(LARGE_WAY, "request_repair_delay_p50")
    return by_variant(results, table, COLUMNS).unionByName(over_seeds(sides, {"with less loss": calmer}))


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    from tidings.lab.plots import COLOURS

    axes = canvas.subplots(1, 1)
    values = {(each.figure, each.group): 1000 * each.value for each in measured}
    groups = [each.name for each in VARIANTS]
    for place, (figure, colour) in enumerate(zip(COLUMNS, COLOURS, strict=False)):
        heights = [values.get((figure, group), 0.0) for group in groups]
        axes.barh([at + (place - 1.5) * 0.2 for at in range(len(groups))], heights, 0.18, color=colour, label=figure)
    axes.set_yticks(range(len(groups)), groups)
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.set_xlabel("milliseconds")
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.16), ncols=2)


WAITING = (
    "from the first request to the first repair a request must travel to whoever answers, who then waits a random time "
    "between once and twice its distance, as others may be quicker; with links of 50 ms the publisher, who often is "
    "the only one to have the event, is three links away on average, and two such distances are 300 ms already"
)

E13 = Experiment(
    id="transport/E13",
    title="Time to recover",
    question=(
        "How long does it take from the first request for an event to its first repair? And from its publication until "
        "a receiver that lost it has it? The second is longer, since a loss is noticed only when a later event comes; "
        "digests shorten that."
    ),
    source="Transport for best-effort content-based networks, section 4.4.2; specification transport.md 4.2",
    run=RUN,
    sweep=SWEEP,
    variants=VARIANTS,
    scales=SCALES,
    figures=figures,
    claims=(
        Claim(
            figure="request to repair, 80 %",
            says="first request to first repair, 80 % of the events",
            published="below 200 ms",
            unit="seconds",
            groups=(SMALL_WAY,),
            band=Band(high=0.25),
            requirement="T-109",
            reason=WAITING,
        ),
        Claim(
            figure="request to repair, 80 %",
            says="first request to first repair, 80 % of the events",
            published="below 350 ms",
            unit="seconds",
            groups=(LARGE_WAY,),
            band=Band(high=0.45),
            requirement="T-109",
            reason=WAITING,
        ),
        Claim(
            figure="with less loss",
            says="median from request to repair at a loss of 0.1 %, against 1 % (46 brokers)",
            published="about half",
            unit="times",
        ),
        Claim(
            figure="request to repair, 50 %",
            says="first request to first repair, median",
            published="curves only",
            unit="seconds",
        ),
        Claim(
            figure="publication to repair, 80 %",
            says="publication to repair, 80 % of the events",
            published="much longer; up to 1 s to notice",
            unit="seconds",
        ),
    ),
    plot=plot,
)
