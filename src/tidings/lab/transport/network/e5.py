"""E5: whether delays vary more when queues are long.

One pair of E1 with an intense stream through brokers that become congested. Pairs of consecutive messages are split by
their delay, at 1500 ms, into those that passed short queues and those that passed long ones. A queue makes both of a
pair late; if it does not change how much they differ, a receiver may go on using what it has measured.

Queues are as long in a slowed-down run, in seconds, so the split is the published one. Consecutive differences share a
delay and so are not independent; the rank-sum test takes them for it, which here makes it find a difference too rarely
rather than too often. That is why the sizes of the differences are compared as well.

Measured here, of the delays in the trace: no metric compares consecutive events.
"""

from collections.abc import Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.plots import COLOURS, points
from tidings.lab.transport.network.rising_load import FIRST, LISTENERS, run
from tidings.lab.transport.samples import (
    Columns,
    Figure,
    arrivals,
    by_subscriber,
    measured_by_run,
    parameter_of,
    subscriber_name,
    with_previous,
)

SPLIT = 1.5
SHORT, LONG = "up to 1500 ms", "more than 1500 ms"

SUBSCRIBER = subscriber_name(FIRST.listeners_at, LISTENERS[0])

HISTOGRAM_MS = range(-40, 41, 2)
"""In time before slowing down."""

SCATTER_BINS, SCATTER_MAX = 50, 5.0
"""Delays of pairs are drawn as numbers in bins, up to so many seconds."""


def measure(columns: Columns) -> list[Figure]:
    """Pairs of one run: the delay of each message and that of the one before."""
    import numpy as np
    from scipy.stats import ranksums

    delay, previous = columns["delay"], columns["previous"]
    slowdown = float(parameter_of(columns, "slowdown"))
    short = (delay - previous)[(delay <= SPLIT) & (previous <= SPLIT)]
    long = (delay - previous)[(delay > SPLIT) & (previous > SPLIT)]
    made: list[Figure] = [
        ("correlation", "", float(np.corrcoef(delay, previous)[0, 1])),
        ("range", "", float(np.quantile(delay, 0.99) / np.quantile(delay, 0.01))),
        ("pairs", SHORT, float(len(short))),
        ("pairs", LONG, float(len(long))),
    ]
    if len(short) and len(long):
        made += [
            ("chance", "", float(ranksums(short, long).pvalue)),
            ("spread", "", float(np.mean(np.abs(long)) / np.mean(np.abs(short)))),
        ]
        made += histogram(SHORT, short / slowdown) + histogram(LONG, long / slowdown)
    return made + scatter(previous, delay)


def histogram(name: str, differences: Any) -> list[Figure]:
    import numpy as np

    numbers, _ = np.histogram(differences * 1000, [*HISTOGRAM_MS, HISTOGRAM_MS[-1] + HISTOGRAM_MS.step])
    shares = numbers / len(differences)
    return [(f"differences, {name}", f"{at} ms", share) for at, share in zip(HISTOGRAM_MS, shares, strict=False)]


def scatter(previous: Any, delay: Any) -> list[Figure]:
    import numpy as np

    edges = np.linspace(0, SCATTER_MAX, SCATTER_BINS + 1)
    numbers, _, _ = np.histogram2d(previous, delay, bins=(edges, edges))
    places = zip(*np.nonzero(numbers), strict=True)
    return [("pairs of delays", f"{row} {column}", float(numbers[row, column])) for row, column in places]


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    of_pair = (F.col("publisher") == FIRST.publisher) & (F.col("node") == SUBSCRIBER)
    pairs = with_previous(arrivals(by_subscriber(traces)).where(of_pair)).select("run", "delay", "previous")
    return measured_by_run(results, pairs, measure)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    width = SCATTER_MAX / SCATTER_BINS
    cells = [each for each in measured if each.figure == "pairs of delays"]
    places = [[(int(part) + 0.5) * width for part in each.group.split()] for each in cells]
    left.scatter(
        [x for x, _ in places], [y for _, y in places], [3 + 3 * each.value**0.5 for each in cells], color=COLOURS[1]
    )
    for line in (left.axvline, left.axhline):
        line(SPLIT, color=COLOURS[5], linestyle=":", linewidth=1)
    left.set(title="delays of consecutive messages", xlabel="seconds, first", ylabel="seconds, second")
    for name, colour in zip((SHORT, LONG), COLOURS, strict=False):
        right.step(*points(measured, f"differences, {name}", 100), where="post", color=colour, label=name)
    right.set(title="their difference", xlabel="milliseconds, without the slowdown", ylabel="% of pairs")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, title="delays of both")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(Variant("best effort", {"system": "best effort", "streams": "both sides"}),),
    figures=figures,
    plot=plot,
)
