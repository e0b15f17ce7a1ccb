"""E13: how long it takes until a lost event is repaired, and which part of that is spent before anybody notices."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidings.lab.experiment import Band, Claim, Experiment, Measured
from tidings.lab.transport.recovery.lossy_tree import ADDITIONS, RUN, SCALES, SWEEP, variant

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
    from tidings.lab.transport.recovery.misses import by_variant, measured, side
    from tidings.spark.metrics.delivery import recovery_delay
    from tidings.spark.metrics.recovery import request_repair_delay

    table = request_repair_delay(traces).join(recovery_delay(traces), on="run", how="inner").cache()
    sides = side_by_side(measured(results, table, *COLUMNS.values()), group=F.lit(""), side=F.col("variant"))
    calmer = side(CALM_WAY, "request_repair_delay_p50") / side(LARGE_WAY, "request_repair_delay_p50")
    return by_variant(results, table, COLUMNS).unionByName(over_seeds(sides, {"with less loss": calmer}))


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    from tidings.lab.plots import COLOURS

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
        axes.set_title(span)
        axes.set_xlabel("milliseconds, at most")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    axes.invert_yaxis()


WAITING = (
    "a request travels to whoever answers, who then waits half to one and a half of its distance, as others may be "
    "quicker; the publisher, often the only one to have the event, is some 200 ms away in the median (400 ms among 46 "
    "brokers), and two distances are more than the band; where receivers alone answer it takes 0.7 times as long"
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
