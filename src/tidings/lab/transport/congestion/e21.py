"""E21: three flows of different size through one bottleneck that shrinks twice.

Without control every flow loses the same share, so whoever sends most gets most. With it the flow that takes most must
give way first, until all have the same. Fairness is Jain's index: (sum of x) squared over n times the sum of x squared;
1 if all have the same, 1/3 if one of three has everything. Our additions run beside: a window instead of the equation,
acknowledgements, slow start.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidings.lab.definition import define
from tidings.lab.experiment import Measured, Variant
from tidings.lab.transport.congestion.bottleneck import CONTROL, PLAIN, Flow, Mode, Plan, Points, paced, plain, play
from tidings.lab.transport.congestion.spans import all_series, draw_lines, over_time, series, spans
from tidings.lab.transport.samples import Columns, Figure, measured_by_run, parameter_of
from tidings.lab.transport.substrate import WIRE_BYTES
from tidings.protocols.transport.params import CongestionParams
from tidings.trace.gathering import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from pyspark.sql import DataFrame

LENGTH = 300.0
RATE = 1000.0
SHARES = 0.40, 0.16, 0.14
CAPACITY: Points = ((0.0, 2e6), (100.0, 1e6), (200.0, 500e3))
PHASES = {"2 Mbit/s": (10.0, 100.0), "1 Mbit/s": (110.0, 200.0), "500 kbit/s": (210.0, 300.0)}
SUBSCRIBERS = [f"s{pair}" for pair in (1, 2, 3)]

WINDOW, ACKNOWLEDGED, SLOWLY = "window", "acknowledged", "slow start"
COMPARED = (CONTROL, WINDOW, ACKNOWLEDGED, SLOWLY)


def modes() -> tuple[Mode, ...]:
    return (
        plain(),
        paced(),
        paced(WINDOW, congestion=CongestionParams(control="window")),
        paced(ACKNOWLEDGED, congestion=CongestionParams(acknowledgements=True)),
        paced(SLOWLY, congestion=CongestionParams(slow_start=True)),
    )


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: stretch, how many times as long everything takes; and whether additions run too."""
    stretch = parameters["stretch"]
    plan = Plan(
        flows=tuple(Flow(pair, ((0.0, RATE),), share) for pair, share in enumerate(SHARES, 1)),
        capacity=tuple((at * stretch, rate_bps) for at, rate_bps in CAPACITY),
        seconds=LENGTH * stretch,
    )
    for mode in modes() if parameters["additions"] else modes()[:2]:
        play(plan, mode, seed, trace)
    return {}


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    return measured_by_run(results, spans(traces), measure)


def jain(values: Sequence[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def measure(columns: Columns) -> list[Figure]:
    stretch = parameter_of(columns, "stretch")
    length = int(LENGTH * stretch)
    made: list[Figure] = []
    for mode in (PLAIN, *COMPARED):
        flows = [series(columns, mode, node, "delivered", length) for node in SUBSCRIBERS]
        if not flows[0].sum():
            continue
        together = all_series(columns, mode, SUBSCRIBERS, length)
        for (phase, (begin, end)), (_, capacity_bps) in zip(PHASES.items(), CAPACITY, strict=True):
            first, last = int(begin * stretch), int(end * stretch)
            rates = [float(flow[first:last].mean()) for flow in flows]
            made += [(f"rate, {mode}, {phase}", node, rate) for node, rate in zip(SUBSCRIBERS, rates, strict=True)]
            if phase != "2 Mbit/s":
                used = sum(rates) * 8 * WIRE_BYTES / capacity_bps
                made += [(f"fairness, {phase}", mode, jain(rates)), (f"used, {phase}", mode, used)]
        sent = (together["wanted"] - together["withheld"]).sum()
        made.append(("missed", mode, together["missed"].sum() / sent))
        for node, flow in zip(SUBSCRIBERS, flows, strict=True):
            made += over_time(f"received over time, {mode}, {node}", flow, 1.0)
    return made


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    panels = canvas.subplots(1, 2, sharey=True)
    for axes, mode, title in zip(panels, (PLAIN, CONTROL), ("without control", "with control"), strict=True):
        lines = {
            f"received over time, {mode}, {node}": f"{RATE * share:g} wanted"
            for node, share in zip(SUBSCRIBERS, SHARES, strict=True)
        }
        draw_lines(axes, measured, lines)
        axes.set_title(f"events received a second, {title}")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(Variant("side by side"),),
    figures=figures,
    plot=plot,
)
