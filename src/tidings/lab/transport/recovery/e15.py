"""E15: how much later events come that were not lost, since headers are longer and some events wait for others.

Median and mean are those of the metric `latency`, over deliveries that are no repairs. It has no 90th percentile and no
curve; these are taken from the same rows.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import over_seeds
from tidings.lab.plots import COLOURS
from tidings.lab.transport.recovery.lossy_tree import LARGE, NOT_RECOVERED, SMALL, SWEEP, run, variant, way_of
from tidings.lab.transport.recovery.misses import compared, side
from tidings.lab.transport.samples import arrivals
from tidings.spark.metrics.delivery import latency

STEPS = 20
FULL = way_of(10)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    direct = traces.where("NOT (kind = 'deliver' AND contains(detail, 'repaired'))")
    steps = {f"step_{step}": step / STEPS for step in range(STEPS)}
    curve = (
        arrivals(direct)
        .groupBy("run")
        .agg(*(F.expr(f"percentile(delay, {share})").alias(name) for name, share in steps.items()))
    )
    metrics = latency(direct).select("run", "latency_p50", "latency_mean")
    pairs = compared(results, curve.join(metrics, on="run", how="inner"), "latency_p50", "latency_mean", *steps)
    made = {
        "shift of the median": side(FULL, "latency_p50") - side(NOT_RECOVERED, "latency_p50"),
        "shift of the mean": side(FULL, "latency_mean") - side(NOT_RECOVERED, "latency_mean"),
        "shift at 90 %": side(FULL, f"step_{STEPS * 9 // 10}") - side(NOT_RECOVERED, f"step_{STEPS * 9 // 10}"),
        "median delay": side(NOT_RECOVERED, "latency_p50"),
    }
    for name, way in (("none", NOT_RECOVERED), ("R = 10", FULL)):
        made |= {f"{name}, step {step}": side(way, f"step_{step}") for step in range(STEPS)}
    return over_seeds(pairs, made)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    values = {(each.figure, each.group): 1000 * each.value for each in measured}
    for axes, group in zip(canvas.subplots(1, 2), (SMALL, LARGE), strict=True):
        for colour, name in zip(COLOURS, ("none", "R = 10"), strict=False):
            delays = [values.get((f"{name}, step {step}", group)) for step in range(STEPS)]
            axes.plot(delays, [100 * step / STEPS for step in range(STEPS)], color=colour, label=name)
        axes.set(title=group, xlabel="milliseconds from publication", ylabel="% delivered by then, of those not lost")
        axes.legend(loc="lower right")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(variant(brokers, record) for brokers in (12, 46) for record in (0, 10)),
    figures=figures,
    plot=plot,
    sweep=SWEEP,
)
