"""E4: delays of the first 90 s of E1 form clusters, one for each number of links on the way.

Nothing is slowed down here: slowing down makes handling longer than links are, and the clusters run together.

Measured here, of the delays in the trace: no metric has a histogram.
"""

from collections.abc import Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Column, DataFrame, Measured, Variant
from tidings.lab.plots import COLOURS, GRID, points
from tidings.lab.transport.network.rising_load import HUBS, run
from tidings.lab.transport.samples import Columns, Figure, arrivals, by_subscriber, measured_by_run

BIN_MS, BINS = 2, 110
"""Delays are counted in bins of 2 ms, up to 220 ms."""

LINK_MS = 50
LINKS_MAX = 3

PEAK_SHARE = 0.1
"""A peak of the histogram counts as a cluster if it stands out by so much of the highest one."""

EDGE_SHARE = 0.05
"""The lower edge of a cluster: so many of its delays are smaller."""


def links_between(one: str, other: str) -> int:
    """On the way from one broker of the workload to another: leaves hang on hubs, and the hubs are linked."""
    if one == other:
        return 0
    hubs = one[0].lower() != other[0].lower()
    return hubs + sum(broker not in ("A", "B") for broker in (one, other))


def links(publisher: Column, subscriber: Column) -> Column:
    from pyspark.sql import functions as F

    ways = [(F.lit(f"{one} {other}"), F.lit(links_between(one, other))) for one in HUBS.nodes for other in HUBS.nodes]
    brokers = [F.substring_index(client, ".", 1) for client in (publisher, subscriber)]
    return F.create_map(*[cell for way in ways for cell in way])[F.concat_ws(" ", *brokers)]


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    bins = (
        arrivals(by_subscriber(traces))
        .withColumn("links", links(F.col("publisher"), F.col("node")))
        .withColumn("bin", F.least(F.floor(F.col("delay") * 1000 / BIN_MS), F.lit(BINS - 1)))
    )
    counted = bins.groupBy("run", "links", "bin").agg(F.count("*").alias("number"))
    return measured_by_run(results, counted, measure)


def measure(columns: Columns) -> list[Figure]:
    import numpy as np

    numbers = np.zeros((LINKS_MAX + 1, BINS))
    for way, place, number in zip(columns["links"], columns["bin"], columns["number"], strict=True):
        numbers[int(way), int(place)] = number
    every = numbers.sum(axis=0)
    made: list[Figure] = [("delivered", "", every.sum()), ("clusters", "", float(len(peaks(every))))]
    made += [("lower edge", name_of(way), lower_edge(numbers[way])) for way in range(LINKS_MAX + 1)]
    made += [("delays", f"{place * BIN_MS} ms", share) for place, share in enumerate(every / every.sum())]
    return made


def peaks(numbers: Any) -> list[int]:
    """Where a histogram has peaks, as places of bins."""
    import numpy as np
    from scipy.signal import find_peaks

    # A peak at either end counts too.
    padded = np.concatenate([[0.0], numbers, [0.0]])
    found, _ = find_peaks(padded, prominence=PEAK_SHARE * numbers.max())
    return [int(place) - 1 for place in found]


def lower_edge(numbers: Any) -> float:
    """In seconds, to the beginning of a bin."""
    import numpy as np

    return int(np.searchsorted(np.cumsum(numbers), EDGE_SHARE * numbers.sum())) * BIN_MS / 1000


def name_of(links: int) -> str:
    return f"{links + 1} broker{'s' * (links > 0)}"


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    for way in range(LINKS_MAX + 1):
        axes.axvline(way * LINK_MS, color=GRID, linestyle=":", linewidth=1)
    axes.bar(*points(measured, "delays", 100, BIN_MS / 2), BIN_MS * 0.9, color=COLOURS[1])
    axes.set(title="delay of all deliveries in the first 90 s", xlabel="milliseconds", ylabel="% of deliveries")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(Variant("best effort", {"system": "best effort", "streams": "both sides"}),),
    figures=figures,
    plot=plot,
)
