"""E19: a load that grows far beyond the bottleneck, stays there, and falls; with and without congestion control.

One pair, 500 kbit/s, which are 219 events a second. Of 1000 events published a second 220 are wanted, so losses begin
there. The other lines of the comparison are our additions, each by itself: a window instead of the equation,
acknowledgements of the limiting receiver, slow start; and a longer record.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidings.lab.definition import define
from tidings.lab.experiment import Measured, Variant
from tidings.lab.transport.congestion.bottleneck import CONTROL, PLAIN, Flow, Mode, Plan, Points, paced, plain, play
from tidings.lab.transport.congestion.spans import all_series, draw_lines, over_time, spans
from tidings.lab.transport.samples import Columns, Figure, measured_by_run, parameter_of
from tidings.lab.transport.substrate import WIRE_BYTES
from tidings.protocols.transport.params import CongestionParams
from tidings.trace.gathering import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from pyspark.sql import DataFrame

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

WINDOW, ACKNOWLEDGED, SLOWLY, LONGER = "window", "acknowledged", "slow start", "record of 5"
COMPARED = (CONTROL, WINDOW, ACKNOWLEDGED, SLOWLY, LONGER)


def modes() -> tuple[Mode, ...]:
    return (
        plain(),
        paced(),
        paced(WINDOW, congestion=CongestionParams(control="window")),
        paced(ACKNOWLEDGED, congestion=CongestionParams(acknowledgements=True)),
        paced(SLOWLY, congestion=CongestionParams(slow_start=True)),
        paced(LONGER, record=5),
    )


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: stretch, how many times as long everything takes; and whether additions run too."""
    stretch = parameters["stretch"]
    plan = Plan(
        flows=(Flow(1, tuple((at * stretch, rate) for at, rate in LOAD), SHARE),),
        capacity=((0.0, CAPACITY_BPS),),
        seconds=LENGTH * stretch,
    )
    for mode in modes() if parameters["additions"] else modes()[:2]:
        play(plan.for_record(mode.params.record), mode, seed, trace)
    return {}


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    return measured_by_run(results, spans(traces), measure)


def measure(columns: Columns) -> list[Figure]:
    stretch = parameter_of(columns, "stretch")
    length = int(LENGTH * stretch)
    without = all_series(columns, PLAIN, ["s1"], length)
    begin, end = (int(at * stretch) for at in PERSISTENT)
    made: list[Figure] = [
        ("missed", PLAIN, without["missed"].sum()),
        ("received", PLAIN, without["delivered"].sum()),
        *over_time("missed over time, plain", without["missed"], 1.0),
        *over_time("wanted over time", without["wanted"], 1.0),
    ]
    for mode in COMPARED:
        ours = all_series(columns, mode, ["s1"], length)
        if not ours["wanted"].sum():
            continue
        delivered = ours["delivered"].sum()
        made += [
            ("reduced", mode, without["missed"].sum() / max(1.0, ours["missed"].sum())),
            ("received share", mode, delivered / without["delivered"].sum()),
            ("used", mode, ours["delivered"][begin:end].mean() * EVENT_BITS / CAPACITY_BPS),
            ("missed", mode, ours["missed"].sum()),
            ("received", mode, delivered),
            ("travel", mode, ours["travel"].sum() / delivered),
            ("feedback", mode, ours["feedback"].sum() / length),
            *over_time(f"missed over time, {mode}", ours["missed"], 1.0),
            *over_time(f"received over time, {mode}", ours["delivered"], 1.0),
        ]
    return made


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
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


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(Variant("side by side"),),
    figures=figures,
    plot=plot,
)
