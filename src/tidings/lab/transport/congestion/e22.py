"""E22: a content flow and a TCP connection on one link.

From the 60th second on a TCP connection that always has something to send shares the link with the content flow. Its
packets have the size of an event, because both control packets, not bytes. TCP is that of the simulator
(`sim/network/tcp.py`), which finds all its losses without time-outs; the same against a real kernel is measured by
`bench/sharing.py`. It runs as CUBIC, which the hosts of the source had (Linux 2.6.32) and most have today, and as Reno.

Half of the 1000 events a second are wanted. When the flow is slowed down to 219, two of three events between are not,
and a record of two tells of about half of the losses. So a record of five, which is our default, runs beside.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidings.lab.definition import define
from tidings.lab.experiment import Measured, Variant
from tidings.lab.transport.congestion.bottleneck import CONTROL, PLAIN, Flow, Mode, Plan, paced, plain, play
from tidings.lab.transport.congestion.spans import all_series, draw_lines, over_time, series, spans
from tidings.lab.transport.samples import Columns, Figure, measured_by_run, parameter_of
from tidings.lab.transport.substrate import WIRE_BYTES
from tidings.protocols.transport.params import CongestionParams
from tidings.trace.gathering import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from pyspark.sql import DataFrame

RATE, SHARE = 1000.0, 0.5
CAPACITY_BPS = 1e6
BEGINS = 60.0
SETTLES = 10
"""Seconds after the beginning that do not count."""
AVERAGED = 20
LONGER, WINDOW, ACKNOWLEDGED = "record of 5", "window", "acknowledged"
COMPARED = (CONTROL, LONGER, WINDOW, ACKNOWLEDGED)


def modes() -> tuple[Mode, ...]:
    return (
        plain(),
        paced(),
        paced(LONGER, record=5),
        paced(WINDOW, congestion=CongestionParams(control="window")),
        paced(ACKNOWLEDGED, congestion=CongestionParams(acknowledgements=True)),
    )


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: seconds, the variant of TCP, and whether additions run too."""
    plan = Plan(
        flows=(Flow(1, ((0.0, RATE),), SHARE),),
        capacity=((0.0, CAPACITY_BPS),),
        seconds=parameters["seconds"],
        tcp_from=BEGINS,
        tcp=parameters["tcp"],
    )
    for mode in modes() if parameters["additions"] else modes()[:3]:
        play(plan.for_record(mode.params.record), mode, seed, trace)
    return {}


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    return measured_by_run(results, spans(traces), measure)


def measure(columns: Columns) -> list[Figure]:
    import numpy as np

    length, tcp_name = int(parameter_of(columns, "seconds")), str(parameter_of(columns, "tcp"))
    first = int(BEGINS) + SETTLES
    capacity = CAPACITY_BPS / (8 * WIRE_BYTES)
    made: list[Figure] = []
    for mode in (PLAIN, *COMPARED):
        counted = all_series(columns, mode, ["s1"], length)
        content, tcp = counted["delivered"], series(columns, mode, "tcp", "delivered", length)
        if not content.sum():
            continue
        label = f"{mode}, {tcp_name}"
        share = tcp[first:].sum() / (tcp[first:].sum() + content[first:].sum())
        spans_of = np.ones(AVERAGED) / AVERAGED
        ahead = np.convolve(content[first:], spans_of, "valid") - np.convolve(tcp[first:], spans_of, "valid")
        made += [
            ("share of tcp", label, share),
            ("content, largest lead", label, float(ahead.max() / capacity)),
            ("content alone", label, content[SETTLES : int(BEGINS)].mean() / capacity),
            ("content beside tcp", label, content[first:].mean() / capacity),
            ("used", label, (content[first:] + tcp[first:]).mean() / capacity),
            ("missed", label, counted["missed"].sum() / (counted["wanted"] - counted["withheld"]).sum()),
            ("time to give way", label, time_to_give_way(content[int(BEGINS) :], capacity)),
        ]
        if tcp_name == "cubic":
            made += over_time(f"content over time, {mode}", content * 8 * WIRE_BYTES / 1000, 1.0)
            made += over_time(f"tcp over time, {mode}", tcp * 8 * WIRE_BYTES / 1000, 1.0)
    return made


def time_to_give_way(content: Any, capacity: float) -> float:
    """Seconds until the content flow has left a third of the link to TCP."""
    gives = content < 2 / 3 * capacity
    return float(gives.argmax() + 1) if gives.any() else float(len(content))


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    panels = canvas.subplots(1, 2, sharey=True)
    for axes, mode, title in zip(
        panels, (PLAIN, LONGER), ("without control", "with control, records of 5"), strict=True
    ):
        lines = {f"content over time, {mode}": "content flow", f"tcp over time, {mode}": "TCP"}
        draw_lines(axes, measured, lines)
        axes.set_title(f"kbit/s, {title}")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(
        Variant("CUBIC", {"tcp": "cubic"}),
        Variant("Reno", {"tcp": "reno", "additions": False}),
    ),
    figures=figures,
    plot=plot,
)
