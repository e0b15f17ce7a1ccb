"""E1: a best-effort network and a store-and-forward network under growing load.

The load (`rising_load.py`) grows over 300 s until brokers are at their limit. The best-effort network drops the excess
and goes on; its brokers handle messages in parallel, so streams arrive out of order. The store-and-forward network
loses nothing and keeps the order, and stands still at last: with intense streams in both directions, the stores of both
hubs fill, and each waits for the other (`store_and_forward.py`).

Whether it stands still depends on something that the source does not tell. If both streams come from one side, only the
stores on their way fill, and publishers are slowed down to what the hubs can take; a third variant shows that.

Time is cut into spans of 10 s. Deliveries, violations of order and what publishers had to withhold count in the span in
which they happen; events wanted and lost in the span in which they were published. All rates are scaled back.

Rates, drops and the delivery ratio are metrics, second by second. Violations of order are counted here: the metric
`fifo_violations` has no time.
"""

from collections.abc import Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Axes, Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import union
from tidings.lab.plots import COLOURS, points
from tidings.lab.transport.network.rising_load import LENGTH, run
from tidings.lab.transport.network.store_and_forward import PUBLISHER_BLOCKED
from tidings.lab.transport.samples import (
    Columns,
    Figure,
    arrivals,
    by_subscriber,
    late,
    measured_by_run,
    parameter_of,
    variant_of,
)
from tidings.lab.transport.substrate import WARM_UP
from tidings.spark.metrics.delivery import delivery_ratio
from tidings.spark.metrics.traffic import drops, rates

SPAN = 10.0
SPANS = int(LENGTH / SPAN)

BEST_EFFORT, STORING, ONE_SIDE = "best effort", "store and forward", "store and forward, one side"

SERIES = ("published", "withheld", "wanted", "reached", "delivered", "violations")

LOST_MIN = 0.01
"""The share of what is wanted from which on events count as being lost."""


# What Spark counts.


def counts(traces: DataFrame) -> DataFrame:
    """How many of each series in each span: run, series, span, number."""
    from pyspark.sql import functions as F

    traces = by_subscriber(traces)
    by_second = rates(traces).select("run", "second", "published", "delivered")
    withheld = drops(traces, by=["second"]).where(F.col("reason") == PUBLISHER_BLOCKED)
    reached = delivery_ratio(traces, expected(traces), by=["second"])
    violations = late(arrivals(traces)).withColumn("second", F.floor(F.col("at") + WARM_UP))
    tables = [
        by_second.select("run", "second", F.lit("published").alias("series"), F.col("published").alias("number")),
        by_second.select("run", "second", F.lit("delivered"), "delivered"),
        withheld.select("run", "second", F.lit("withheld"), "drops"),
        reached.select("run", "second", F.lit("wanted"), "expected"),
        reached.select("run", "second", F.lit("reached"), "delivered_due"),
        violations.select("run", "second", F.lit("violations"), F.lit(1)),
    ]
    span = F.floor((F.col("second") - WARM_UP) / SPAN).alias("span")
    within = union(tables).where((span >= 0) & (span < SPANS))
    return within.groupBy("run", "series", span).agg(F.sum("number").alias("number")).where("number > 0")


def expected(traces: DataFrame) -> DataFrame:
    """run, key, node: which event is owed to whom, of those that were sent."""
    from pyspark.sql import functions as F

    fields = F.from_json("detail", "topic STRING, publisher STRING, level DOUBLE, share DOUBLE").alias("said")
    notes = traces.where("kind = 'note' AND message = 'interest'").select("run", "node", fields)
    withheld = traces.where(F.col("reason") == PUBLISHER_BLOCKED).select("run", "key")
    sent = traces.where("kind = 'publish'").join(withheld, on=["run", "key"], how="left_anti")
    interests = notes.select("run", "node", "said.*")
    events = sent.select("run", "key", fields).select("run", "key", "said.*")
    below = interests.select("run", "node", "publisher", F.col("share").alias("share_wanted"))
    by_topic = events.join(interests.select("run", "node", "topic"), on=["run", "topic"], how="inner")
    by_stream = events.join(below, on=["run", "publisher"], how="inner").where("level <= share_wanted")
    return by_topic.select("run", "key", "node").unionByName(by_stream.select("run", "key", "node"))


# What is measured of a run.


def measure(columns: Columns) -> list[Figure]:
    import numpy as np

    series = {name: np.zeros(SPANS) for name in SERIES}
    for name, span, number in zip(columns["series"], columns["span"], columns["number"], strict=True):
        series[name][int(span)] = number
    system, rate = variant_of(columns), float(parameter_of(columns, "slowdown")) / SPAN
    over_time = [
        (f"{name}, {system}", f"{round(place * SPAN)} s", value * rate)
        for name, values in {**series, "lost": series["wanted"] - series["reached"]}.items()
        for place, value in enumerate(values)
    ]
    until = int(190 / SPAN)
    follows = series["reached"][:until].sum() / series["wanted"][:until].sum()
    special = at_limit(series, rate) if system == BEST_EFFORT else at_standstill(series, rate)
    return [*over_time, ("follows", system, follows), *((name, system, value) for name, value in special.items())]


def between(values: Any, begin: float, end: float) -> Any:
    """The values of the spans from one time to another."""
    return values[int(begin / SPAN) : int(end / SPAN)]


def at_limit(series: dict[str, Any], rate: float) -> dict[str, float]:
    """Of the best-effort network."""
    import numpy as np

    delivered, violations = series["delivered"], series["violations"]
    lost = (series["wanted"] - series["reached"]) / np.maximum(series["wanted"], 1)
    shares = [
        between(violations, *times).sum() / between(delivered, *times).sum() for times in ((100, 190), (200, 300))
    ]
    return {
        "limit": between(delivered, 210, 300).mean() * rate,
        "flat": between(delivered, 260, 300).mean() / between(delivered, 210, 250).mean(),
        "losses begin": first(lost > LOST_MIN),
        "losses grow": between(lost, 250, 300).mean() - between(lost, 200, 250).mean(),
        "violations follow": float(np.corrcoef(delivered, violations)[0, 1]),
        "violations, later": shares[1] / shares[0],
        "violations": violations.sum() * rate * SPAN,
        "violations, share": violations.sum() / delivered.sum(),
    }


def at_standstill(series: dict[str, Any], rate: float) -> dict[str, float]:
    """Of the store-and-forward network."""
    delivered, published = series["delivered"], series["published"]
    peak = int(delivered.argmax())
    fallen = first((delivered < delivered[peak] / 2) & (range(SPANS) > delivered.argmax()))
    return {
        "peak": delivered[peak] * rate,
        "falls": fallen,
        "blocked after": first(series["withheld"] > published / 2) - fallen,
        "left": between(delivered, 280, 300).mean() / delivered[peak],
        "withheld": between(series["withheld"], 280, 300).sum() / between(published, 280, 300).sum(),
        "violations": series["violations"].sum() * rate * SPAN,
    }


def first(spans: Any) -> float:
    """The beginning of the first span of which this is true."""
    return float(spans.argmax()) * SPAN if spans.any() else float("nan")


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return measured_by_run(results, counts(traces), measure)


# The picture.


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    above, below = canvas.subplots(2, 2)
    systems = (BEST_EFFORT, STORING)
    for axes, system in zip(above, systems, strict=True):
        names = {"wanted": "wanted", "delivered": "delivered", "never delivered": "lost"}
        lines(axes, measured, {label: f"{name}, {system}" for label, name in names.items()})
        axes.set(title=system, ylim=(0, 40), ylabel="thousand a second")
    lines(below[0], measured, {name: f"violations, {name}" for name in systems})
    below[0].set(title="out of order", ylabel="thousand a second")
    lines(below[1], measured, {name: f"delivered, {name}" for name in (*systems, ONE_SIDE)})
    below[1].set(title="delivered", ylim=(0, 40))
    for axes in (*above, *below):
        axes.set_xlabel("seconds")


def lines(axes: Axes, measured: Sequence[Measured], figures: dict[str, str]) -> None:
    for colour, (label, figure) in zip(COLOURS, figures.items(), strict=False):
        axes.plot(*points(measured, figure, 0.001, SPAN / 2), color=colour, label=label)
    axes.legend()


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(
        Variant(BEST_EFFORT, {"system": "best effort", "streams": "both sides"}),
        Variant(STORING, {"system": "store and forward", "streams": "both sides"}),
        Variant(ONE_SIDE, {"system": "store and forward", "streams": "one side"}),
    ),
    figures=figures,
    plot=plot,
)
