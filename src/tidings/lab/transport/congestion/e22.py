"""E22: a content flow and a TCP connection on one link.

From the 60th second on a TCP connection that always has something to send shares the link with the content flow. Its
packets have the size of an event, because both control packets, not bytes. TCP is that of the simulator
(`sim/network/bandwidth.py`); the same against a real kernel is measured by `bench/sharing.py`. It runs as CUBIC, which
the hosts of the source had (Linux 2.6.32) and most have today, and as Reno.

Half of the 1000 events a second are wanted: a match ratio of 0.5. The source does not tell its own, and the verdict
hangs on it; `friendliness.py` runs others. When the flow is slowed down to 219, two of three events between are not,
and a record of two tells of about half of the losses. So a record of five, which is our default, runs beside.

Losses and the rate of the content flow are metrics. The share of TCP is measured here: it is no node, and no metric
reads what it carried.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import by_variant
from tidings.lab.transport.congestion import bottleneck
from tidings.lab.transport.congestion.bottleneck import ADDITIONS, CONTROL, PLAIN, by_label, paced, plain, play
from tidings.lab.transport.congestion.series import carried, draw_lines, owed_to_pairs
from tidings.lab.transport.samples import Columns, Figure, measured_by_run, parameter_of, variant_of
from tidings.lab.transport.substrate import WARM_UP, WIRE_BYTES
from tidings.spark.metrics.delivery import false_negatives
from tidings.spark.metrics.traffic import rates
from tidings.trace.writer import Writer

WANTED, SHARE = 500.0, 0.5
"""Events a second for the subscriber, and their share of what is published."""
CAPACITY_BPS = 1e6
BEGINS = 60.0
SETTLES = 10
"""Seconds after the beginning that do not count."""
AVERAGED = 20
LONGER = "record of 5"
MODES = by_label(plain(), paced(), paced(LONGER, record=5), *ADDITIONS[:2])


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: seconds, the mode, the variant of TCP, and whether additions run too."""
    mode = MODES[parameters["mode"]]
    if parameters["additions"] or mode not in ADDITIONS:
        plan = beside_tcp(parameters["seconds"], SHARE, parameters["tcp"])
        play(plan.for_record(mode.params.record), mode, seed, trace)
    return {}


def beside_tcp(seconds: float, match_ratio: float, tcp: str) -> bottleneck.BottleneckPlan:
    """As much is wanted at any match ratio."""
    return bottleneck.BottleneckPlan(
        flows=(bottleneck.BottleneckFlow(1, ((0.0, WANTED / match_ratio),), match_ratio),),
        capacity=((0.0, CAPACITY_BPS),),
        seconds=seconds,
        tcp_from=BEGINS,
        tcp=tcp,
    )


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    missed = false_negatives(traces, owed_to_pairs(traces)).select("run", "false_negative_share")
    content = rates(traces).select("run", "second", F.lit("s1").alias("node"), F.col("delivered").alias("amount"))
    both = content.unionByName(carried(traces))
    return by_variant(results, missed, {"missed": "false_negative_share"}).unionByName(
        measured_by_run(results, both, measure)
    )


def measure(columns: Columns) -> list[Figure]:
    import numpy as np

    label, length = variant_of(columns), int(parameter_of(columns, "seconds"))
    first = int(BEGINS) + SETTLES
    capacity = CAPACITY_BPS / (8 * WIRE_BYTES)
    content, tcp = (amounts(columns, node, length) for node in ("s1", "tcp"))
    share = tcp[first:].sum() / (tcp[first:].sum() + content[first:].sum())
    spans_of = np.ones(AVERAGED) / AVERAGED
    ahead = np.convolve(content[first:], spans_of, "valid") - np.convolve(tcp[first:], spans_of, "valid")
    made: list[Figure] = [
        ("share of tcp", label, share),
        ("content, largest lead", label, float(ahead.max() / capacity)),
        ("content alone", label, content[SETTLES : int(BEGINS)].mean() / capacity),
        ("content beside tcp", label, content[first:].mean() / capacity),
        ("used", label, (content[first:] + tcp[first:]).mean() / capacity),
        ("time to give way", label, time_to_give_way(content[int(BEGINS) :], capacity)),
    ]
    for name, values in (("content", content), ("tcp", tcp)):
        line = values * 8 * WIRE_BYTES / 1000
        made += [(f"{name} over time, {label}", f"{place}", float(value)) for place, value in enumerate(line)]
    return made


def amounts(columns: Columns, node: str, length: int) -> Any:
    """Of each second of the workload."""
    import numpy as np

    found, places = np.zeros(length), columns["second"] - int(WARM_UP)
    chosen = (columns["node"] == node) & (places >= 0) & (places < length)
    found[places[chosen].astype(int)] = columns["amount"][chosen]
    return found


def time_to_give_way(content: Any, capacity: float) -> float:
    """Seconds until the content flow has left a third of the link to TCP."""
    gives = content < 2 / 3 * capacity
    return float(gives.argmax() + 1) if gives.any() else float(len(content))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    panels = canvas.subplots(1, 2, sharey=True)
    for axes, mode, title in zip(
        panels, (PLAIN, LONGER), ("without control", "with control, records of 5"), strict=True
    ):
        lines = {f"content over time, {mode}, cubic": "content flow", f"tcp over time, {mode}, cubic": "TCP"}
        draw_lines(axes, measured, lines)
        axes.set_title(f"kbit/s, {title}")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(
        *(Variant(f"{mode}, cubic", {"mode": mode, "tcp": "cubic"}) for mode in MODES),
        *(Variant(f"{mode}, reno", {"mode": mode, "tcp": "reno"}) for mode in (PLAIN, CONTROL, LONGER)),
    ),
    figures=figures,
    plot=plot,
)
