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

from tidings.lab.experiment import Band, Claim, Experiment, Measured, Scale, Variant
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


UNSEEN = (
    "a record of two tells of about half of the losses: when a queue is full it drops several events of the flow in a "
    "row, and the next that arrives is more than two numbers later; with records of five the share is in the band"
)
PACED = (
    "a full queue drops a packet of a burst rather than one that comes alone, and events leave evenly spaced: of the "
    "same queue the content flow loses fewer than Reno, even where it knows of every loss; CUBIC grows faster"
)
UNEVEN = (
    "both lose something every two seconds or so, so 20 s hold some ten loss events of each, and what each has in such "
    "a span varies; over the whole run TCP has its half"
)


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    panels = canvas.subplots(1, 2, sharey=True)
    for axes, mode, title in zip(
        panels, (PLAIN, LONGER), ("without control", "with control, records of 5"), strict=True
    ):
        lines = {f"content over time, {mode}": "content flow", f"tcp over time, {mode}": "TCP"}
        draw_lines(axes, measured, lines)
        axes.set_title(f"kbit/s, {title}")


E22 = Experiment(
    id="transport/E22",
    title="Beside TCP",
    question=(
        "A content flow fills a link of 1 Mbit/s; then a TCP connection begins to use the same link. A flow that does "
        "not mind losses would keep nearly everything. One that asks for what TCP would have under the same "
        "conditions should leave it half, and never take more than TCP does for long. Does each get its half?"
    ),
    source="Transport for best-effort content-based networks, section 5.3.4; specification transport.md 4.3",
    run="tidings.lab.transport.congestion.e22:run",
    variants=(
        Variant("CUBIC", {"tcp": "cubic"}),
        Variant("Reno", {"tcp": "reno", "additions": False}),
    ),
    scales={
        "small": Scale({"seconds": 160.0, "additions": False}, seeds=2),
        "paper": Scale({"seconds": 360.0, "additions": True}, seeds=10),
    },
    figures=figures,
    claims=(
        Claim(
            figure="share of tcp",
            says="share of TCP, beside a content flow with control, records of 2 as in the source",
            published="52.5 %",
            unit="share",
            groups=(f"{CONTROL}, cubic",),
            band=Band(low=0.45, high=0.6),
            requirement="T-117",
            reason=UNSEEN,
        ),
        Claim(
            figure="content, largest lead",
            says="by how much of the link the content flow was ahead of TCP, over 20 s, at most",
            published="never ahead",
            unit="share",
            groups=(f"{CONTROL}, cubic",),
            band=Band(high=0.05),
            requirement="T-117",
            reason=UNSEEN,
        ),
        Claim(
            figure="share of tcp",
            says="share of TCP, records of 5 as is our default",
            published="not tried",
            unit="share",
            groups=(f"{LONGER}, cubic",),
            band=Band(low=0.45, high=0.6),
        ),
        Claim(
            figure="content, largest lead",
            says="by how much of the link the content flow was ahead, records of 5",
            published="not tried",
            unit="share",
            groups=(f"{LONGER}, cubic",),
            band=Band(high=0.05),
            reason=UNEVEN,
        ),
        Claim(
            figure="share of tcp",
            says="share of Reno",
            published="not tried",
            unit="share",
            groups=(f"{LONGER}, reno", f"{CONTROL}, reno"),
            band=Band(low=0.45, high=0.6),
            reason=PACED,
        ),
        Claim(
            figure="content beside tcp",
            says="share of the link that the content flow keeps without control",
            published="more than 90 %",
            unit="share",
            groups=(f"{PLAIN}, cubic",),
            band=Band(above=0.9),
        ),
        Claim(
            figure="time to give way",
            says="time until TCP was left a third of the link",
            published="less than 2 s",
            unit="seconds",
            groups=(f"{LONGER}, cubic", f"{CONTROL}, cubic"),
        ),
        Claim(
            figure="used",
            says="use of the bottleneck, both together",
            published="more than 90 %",
            unit="share",
            groups=(f"{LONGER}, cubic", f"{CONTROL}, cubic"),
            band=Band(above=0.9),
        ),
        Claim(
            figure="content alone",
            says="use of the bottleneck before TCP begins",
            published="more than 90 %",
            unit="share",
            groups=(f"{LONGER}, cubic", f"{CONTROL}, cubic"),
            band=Band(above=0.9),
        ),
        Claim(
            figure="share of tcp",
            says="share of TCP beside our additions",
            published="not tried",
            unit="share",
            groups=(f"{WINDOW}, cubic", f"{ACKNOWLEDGED}, cubic"),
        ),
        Claim(
            figure="missed",
            says="share of what was sent that was lost",
            published="not given",
            unit="share",
            groups=tuple(f"{mode}, cubic" for mode in (PLAIN, CONTROL, LONGER)),
        ),
    ),
    plot=plot,
)
