"""E20: a bottleneck that has 1 and 2 Mbit/s in turns, and a publisher that always has more than that.

How quickly does the rate follow? After each change the receiver's rate is taken over half a second, every quarter of a
second. It has followed a rise when nine tenths of the new capacity are used; and a fall when the events lost in half a
second are no more than a twentieth of those that arrive.

Losses and goodput are metrics. Reactions are measured here, in spans shorter than the second that metrics know.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import by_variant, parameter
from tidings.lab.transport.congestion import bottleneck
from tidings.lab.transport.congestion.bottleneck import CONTROL, PLAIN, by_label, paced, plain, play
from tidings.lab.transport.congestion.series import draw_lines, in_spans, owed_to_pairs, together, within
from tidings.lab.transport.samples import Columns, Figure, measured_by_run, parameter_of, variant_of
from tidings.lab.transport.substrate import WIRE_BYTES
from tidings.spark.metrics.delivery import false_negatives
from tidings.spark.metrics.transport import goodput
from tidings.trace.writer import Writer
from tidings.workloads.plain import Points

RATE, SHARE = 4400.0, 0.22
LOW_BPS, HIGH_BPS = 1e6, 2e6
SPAN = 0.25
AFTER = 2.0
"""Seconds that are allowed."""
AFTER_MAX = 5.0

FOLLOWED, LOST_MAX = 0.9, 0.05


MODES = by_label(plain(), paced())


def capacity(seconds: float, period: float) -> Points:
    return tuple((at * period, HIGH_BPS if at % 2 else LOW_BPS) for at in range(int(seconds / period)))


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: seconds, and the period of changes."""
    seconds = parameters["seconds"]
    plan = bottleneck.BottleneckPlan(
        flows=(bottleneck.BottleneckFlow(1, ((0.0, RATE),), SHARE),),
        capacity=capacity(seconds, parameters["period"]),
        seconds=seconds,
    )
    play(plan, MODES[variant], seed, trace)
    return {}


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    owed = owed_to_pairs(traces)
    # As long at the one capacity as at the other.
    used = F.col("goodput_events_per_second") * 8 * WIRE_BYTES / ((LOW_BPS + HIGH_BPS) / 2)
    table = together(
        false_negatives(traces, owed).select("run", F.col("false_negative_share").alias("missed")),
        goodput(within(results, traces, F.lit(0.0), parameter("seconds", "double"))).select("run", used.alias("used")),
    )
    metrics = by_variant(results, table, {"used": "used", "missed": "missed"})
    return metrics.unionByName(measured_by_run(results, in_spans(traces, owed, SPAN), measure))


def measure(columns: Columns) -> list[Figure]:
    import numpy as np

    mode, period = variant_of(columns), parameter_of(columns, "period")
    length = int(parameter_of(columns, "seconds") / SPAN)
    steps = capacity(parameter_of(columns, "seconds"), period)
    events = np.array([steps[int(place * SPAN / period)][1] for place in range(length)]) / (8 * WIRE_BYTES)
    counted = {name: np.zeros(length) for name in ("delivered", "missed")}
    chosen = (columns["place"] >= 0) & (columns["place"] < length)
    for name, values in counted.items():
        values[columns["place"][chosen].astype(int)] = columns[name][chosen]
    made: list[Figure] = []
    for name, values in {"capacity": events, **{name: values / SPAN for name, values in counted.items()}}.items():
        made += [(f"{name} over time, {mode}", f"{place * SPAN}", float(value)) for place, value in enumerate(values)]
    return made + reactions(counted, steps[1:], period) if mode == CONTROL else made


def reactions(counted: Mapping[str, Any], changes: Points, period: float) -> list[Figure]:
    """For each change when it was followed, and how much of a rise was used two and five seconds later."""
    made: list[Figure] = []
    for at, capacity_bps in changes:
        first, last = int(at / SPAN), int((at + period) / SPAN)
        events = capacity_bps / (8 * WIRE_BYTES) * SPAN
        delivered, missed = counted["delivered"][first:last], counted["missed"][first:last]
        pairs = delivered[:-1] + delivered[1:]
        if capacity_bps > LOW_BPS:
            followed = pairs >= FOLLOWED * 2 * events
            made.append(("time to follow", "up", time_of(followed, period)))
            for after in (AFTER, AFTER_MAX):
                place = int(after / SPAN)
                if place + 2 <= len(delivered):
                    made.append((f"used after {after:g} s", "up", delivered[place - 2 : place + 2].mean() / events))
        else:
            lost = missed[:-1] + missed[1:]
            made.append(("time to follow", "down", time_of(lost <= LOST_MAX * pairs, period)))
    return made


def time_of(followed: Any, period: float) -> float:
    """The end of the first half second in which it is so."""
    return float((followed.argmax() + 2) * SPAN) if followed.any() else period


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    received = {
        f"capacity over time, {CONTROL}": "capacity",
        f"delivered over time, {CONTROL}": "received, with control",
    }
    draw_lines(left, measured, received)
    left.set_title("events a second")
    labels = {f"missed over time, {PLAIN}": "without control", f"missed over time, {CONTROL}": "with control"}
    draw_lines(right, measured, labels)
    right.set_title("events lost a second")


EXPERIMENT = define(__file__, run=run, variants=tuple(map(Variant, MODES)), figures=figures, plot=plot)
