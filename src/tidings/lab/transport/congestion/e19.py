"""E19: a load that grows far beyond the bottleneck, stays there, and falls; with and without congestion control.

One pair, 500 kbit/s, which are 219 events a second. Of 1000 events published a second 220 are wanted, so losses begin
there. The other lines of the comparison are our additions, each by itself, and a longer record.

Losses, goodput, feedback and rates are metrics; how long events travel is counted in `series.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import against, by_variant, parameter, union
from tidings.lab.transport.congestion import bottleneck
from tidings.lab.transport.congestion.bottleneck import (
    ADDITIONS,
    CONTROL,
    PLAIN,
    RECORD,
    Mode,
    by_label,
    paced,
    plain,
    play,
)
from tidings.lab.transport.congestion.series import draw_lines, lines, owed_to_pairs, sent, together, travel, within
from tidings.lab.transport.substrate import WARM_UP, WIRE_BYTES
from tidings.protocols.transport.params import as_published
from tidings.spark.metrics.delivery import DELIVERY, deliveries, delivery_ratio, false_negatives
from tidings.spark.metrics.traffic import rates
from tidings.spark.metrics.transport import feedback_rate, goodput
from tidings.trace.writer import Writer
from tidings.workloads.plain import Points

LENGTH = 250.0
SHARE = 0.22
CAPACITY_BPS = 500e3
EVENT_BITS = WIRE_BYTES * 8
LOAD: Points = (
    (0.0, 400.0),
    (20.0, 400.0),
    (80.0, 4000.0),
    (140.0, 4000.0),
    (160.0, 600.0),
    (180.0, 600.0),
    (182.0, 2500.0),
    (185.0, 2500.0),
    (187.0, 600.0),
    (205.0, 600.0),
    (207.0, 2500.0),
    (210.0, 2500.0),
    (212.0, 600.0),
    (230.0, 600.0),
    (232.0, 2500.0),
    (235.0, 2500.0),
    (237.0, 600.0),
    (LENGTH, 600.0),
)
PERSISTENT = 85.0, 140.0
"""When the load is at its height."""
LOW = 0.0, 20.0
"""When it has not begun to grow."""

LITERAL = Mode("as published", as_published(is_paced=True, record=RECORD))
"""The rules of the source to the letter, where ours are others."""
MODES = by_label(plain(), paced(), *ADDITIONS, paced("record of 5", record=5), LITERAL)


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: stretch, how many times as long everything takes."""
    stretch, mode = parameters["stretch"], MODES[variant]
    plan = bottleneck.BottleneckPlan(
        flows=(bottleneck.BottleneckFlow(1, tuple((at * stretch, rate) for at, rate in LOAD), SHARE),),
        capacity=((0.0, CAPACITY_BPS),),
        seconds=LENGTH * stretch,
    )
    play(plan.for_record(mode.params.record), mode, seed, trace)
    return {}


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    owed, stretch = owed_to_pairs(traces), parameter("stretch", "double")
    begin, end = (at * stretch for at in PERSISTENT)
    used = F.col("goodput_events_per_second") * EVENT_BITS / CAPACITY_BPS
    table = together(
        deliveries(traces).select("run", F.col("delivered").alias("received")),
        false_negatives(traces, owed).select("run", F.col("false_negatives").alias("missed")),
        goodput(within(results, traces, begin, end)).select("run", used.alias("used")),
        feedback_rate(traces).select("run", F.col("feedback_per_second").alias("feedback")),
        travel(traces),
    ).cache()
    by_second = DELIVERY.table([delivery_ratio, false_negatives], traces, owed, ["second"])
    at_height = F.col("second").between(begin + WARM_UP, end + WARM_UP)
    missed_when = (
        by_second.join(results.select("run", "parameters"), on="run", how="inner")
        .groupBy("run")
        .agg(
            F.sum(F.when(at_height, F.col("false_negatives")).otherwise(0)).alias("missed_then"),
            F.sum("false_negatives").alias("missed"),
        )
    )
    avoided = against(
        results,
        missed_when,
        PLAIN,
        {
            "avoided at the height": lambda ours, plain: (
                (plain["missed_then"] - ours["missed_then"]) / (plain["missed"] - ours["missed"])
            )
        },
    )
    leaving = together(
        leaves(results, traces, PERSISTENT).withColumnRenamed("rate", "high"),
        leaves(results, traces, LOW).withColumnRenamed("rate", "low"),
    ).select("run", (F.col("high") / F.col("low")).alias("visible"))
    return union(
        [
            by_variant(results, table, {name: name for name in ("missed", "received", "used", "travel", "feedback")}),
            against(
                results,
                table,
                PLAIN,
                {
                    "reduced": lambda ours, plain: plain["missed"] / F.greatest(ours["missed"], F.lit(1.0)),
                    "received share": lambda ours, plain: ours["received"] / plain["received"],
                },
            ),
            avoided,
            by_variant(results, leaving, {"visible": "visible"}),
            lines(results, by_second, {"missed over time, {variant}": "false_negatives"}),
            lines(results.where(F.col("variant") == PLAIN), by_second, {"wanted over time": "expected"}),
            lines(results, rates(traces), {"received over time, {variant}": "delivered"}),
        ]
    )


def leaves(results: DataFrame, traces: DataFrame, span: tuple[float, float]) -> DataFrame:
    """Events a second that are published in this span and not withheld: run, rate."""
    from pyspark.sql import functions as F

    stretch, (begin, end) = parameter("stretch", "double"), span
    rows = within(results, traces, begin * stretch, end * stretch)
    published = rows.where("kind = 'publish'").select("run", "key", F.lit("").alias("node"))
    counted = sent(traces, published).groupBy("run").agg(F.count("*").alias("count"))
    lasting = results.select("run", (stretch * (end - begin)).alias("lasting"))
    return counted.join(lasting, on="run", how="inner").select("run", (F.col("count") / F.col("lasting")).alias("rate"))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    draw_lines(
        left,
        measured,
        {"missed over time, plain": "without control", f"missed over time, {CONTROL}": "with control"},
    )
    left.set_title("events lost a second")
    draw_lines(
        right,
        measured,
        {"wanted over time": "published for it", f"received over time, {CONTROL}": "received, with control"},
    )
    right.set_title("events a second")


EXPERIMENT = define(__file__, run=run, variants=tuple(map(Variant, MODES)), figures=figures, plot=plot)
