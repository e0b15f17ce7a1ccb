"""E21: three flows of different size through one bottleneck that shrinks twice.

Without control every flow loses the same share, so whoever sends most gets most. With it the flow that takes most must
give way first, until all have the same. Fairness is Jain's index: (sum of x) squared over n times the sum of x squared;
1 if all have the same, 1/3 if one of three has everything. Our additions run beside.

Goodput, fairness, losses and rates are metrics.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import by_variant, parameter, summarise, union
from tidings.lab.transport.congestion import bottleneck
from tidings.lab.transport.congestion.bottleneck import ADDITIONS, CONTROL, PLAIN, by_label, paced, plain, play
from tidings.lab.transport.congestion.series import draw_lines, lines, owed_to_pairs, within
from tidings.lab.transport.substrate import WIRE_BYTES
from tidings.pubsub.notes import FeedbackSent
from tidings.spark.metrics.delivery import false_negatives
from tidings.spark.metrics.tables import is_note
from tidings.spark.metrics.traffic import rates
from tidings.spark.metrics.transport import CONGESTION, fairness, goodput
from tidings.trace.writer import Writer
from tidings.workloads.plain import Points

LENGTH = 300.0
RATE = 1000.0
SHARES = 0.40, 0.16, 0.14
CAPACITY: Points = ((0.0, 2e6), (100.0, 1e6), (200.0, 500e3))
PHASES = {"2 Mbit/s": (10.0, 100.0), "1 Mbit/s": (110.0, 200.0), "500 kbit/s": (210.0, 300.0)}
SUBSCRIBERS = [f"s{pair}" for pair in (1, 2, 3)]

MODES = by_label(plain(), paced(), *ADDITIONS)


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: stretch, how many times as long everything takes; and whether additions run too."""
    stretch = parameters["stretch"]
    plan = bottleneck.BottleneckPlan(
        flows=tuple(bottleneck.BottleneckFlow(pair, ((0.0, RATE),), share) for pair, share in enumerate(SHARES, 1)),
        capacity=tuple((at * stretch, rate_bps) for at, rate_bps in CAPACITY),
        seconds=LENGTH * stretch,
    )
    if parameters["additions"] or variant in (PLAIN, CONTROL):
        play(plan, MODES[variant], seed, trace)
    return {}


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    missed = false_negatives(traces, owed_to_pairs(traces)).select("run", "false_negative_share")
    tables, stretch = [by_variant(results, missed, {"missed": "false_negative_share"})], parameter("stretch", "double")
    variant, goodputs = results.select("run", "variant"), F.col("goodput_events_per_second")
    for (phase, (begin, end)), (_, capacity_bps) in zip(PHASES.items(), CAPACITY, strict=True):
        rows = within(results, traces, begin * stretch, end * stretch)
        each = goodput(rows, by=["node"]).where("node IS NOT NULL").join(variant, on="run", how="inner")
        name = F.concat(F.lit("rate, "), "variant", F.lit(f", {phase}")).alias("figure")
        tables.append(summarise(each.select(name, F.col("node").alias("group"), goodputs.alias("value"))))
        if phase != "2 Mbit/s":
            both = CONGESTION.table([fairness, goodput], rows, None, [])
            used = (goodputs * 8 * WIRE_BYTES / capacity_bps).alias("used")
            chosen = {f"fairness, {phase}": "fairness", f"used, {phase}": "used"}
            tables.append(by_variant(results, both.select("run", "fairness", used), chosen))
    tables.append(reacts_first(results, traces))
    at_node = rates(traces, by=["node"])
    for node in SUBSCRIBERS:
        figure = {f"received over time, {{variant}}, {node}": "delivered"}
        tables.append(lines(results, at_node.where(F.col("node") == node), figure))
    return union(tables)


def reacts_first(results: DataFrame, traces: DataFrame) -> DataFrame:
    """Whether s1 is the first to report when the link has shrunk for the first time."""
    from pyspark.sql import functions as F

    controlled, stretch = results.where(F.col("variant") == CONTROL), parameter("stretch", "double")
    (_, _), (shrinks_at, _), _ = CAPACITY
    rows = within(controlled, traces, shrinks_at * stretch, F.lit(LENGTH) * stretch).where(is_note(FeedbackSent))
    first = rows.groupBy("run").agg(F.min_by("node", "time").alias("node"))
    is_large = (F.col("node") == SUBSCRIBERS[0]).cast("double").alias("value")
    return summarise(first.select(F.lit("first to react").alias("figure"), F.lit("").alias("group"), is_large))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    panels = canvas.subplots(1, 2, sharey=True)
    for axes, mode, title in zip(panels, (PLAIN, CONTROL), ("without control", "with control"), strict=True):
        lines = {
            f"received over time, {mode}, {node}": f"{RATE * share:g} wanted"
            for node, share in zip(SUBSCRIBERS, SHARES, strict=True)
        }
        draw_lines(axes, measured, lines)
        axes.set_title(f"events received a second, {title}")


EXPERIMENT = define(__file__, run=run, variants=tuple(map(Variant, MODES)), figures=figures, plot=plot)
