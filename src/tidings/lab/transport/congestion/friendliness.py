"""Who gives way to TCP, and how much: the study that the source names as future work (F-5).

A content flow beside TCP as in E22, and one thing at a time is varied: the record, the match ratio (as much is wanted
at each), how many loss intervals count and with which weights, and alpha, by which a flow may grow in a round trip. Our
defaults are a record of 5, 8 weighted intervals and an alpha of 0.5.

Figures are those of E22.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Parameter, Variant
from tidings.lab.plots import COLOURS
from tidings.lab.transport.congestion.bottleneck import paced, play
from tidings.lab.transport.congestion.e22 import beside_tcp, figures
from tidings.protocols.transport.params import CongestionParams
from tidings.trace.writer import Writer

DEFAULTS: dict[str, Parameter] = {
    "record": 5,
    "match_ratio": 0.5,
    "loss_events": 8,
    "intervals": "weighted",
    "alpha": 0.5,
}


def varied(name: str, **changes: Parameter) -> Variant:
    return Variant(name, {**DEFAULTS, **changes})


VARIANTS = (
    varied("our defaults"),
    *(varied(f"ratio {ratio:g}, record of 5", match_ratio=ratio) for ratio in (0.2, 1.0)),
    *(varied(f"ratio {ratio:g}, record of 2", match_ratio=ratio, record=2) for ratio in (0.2, 0.5, 1.0)),
    *(varied(f"{count} intervals", loss_events=count) for count in (4, 16)),
    varied("plain mean of intervals", intervals="plain"),
    *(varied(f"alpha {alpha:g}", alpha=alpha) for alpha in (0.25, 1.0, 2.0)),
)


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: seconds, and what is varied."""
    congestion = CongestionParams(
        alpha=parameters["alpha"], loss_events=parameters["loss_events"], intervals=parameters["intervals"]
    )
    mode = paced(record=parameters["record"], congestion=congestion)
    plan = beside_tcp(parameters["seconds"], parameters["match_ratio"], "cubic")
    play(plan.for_record(mode.params.record), mode, seed, trace)
    return {}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    shares = {each.group: each for each in measured if each.figure == "share of tcp"}
    names = [variant.name for variant in VARIANTS if variant.name in shares]
    axes.barh(range(len(names)), [100 * shares[name].value for name in names], 0.6, color=COLOURS[0])
    for place, name in enumerate(names):
        low, high = shares[name].low, shares[name].high
        if low is not None and high is not None:
            axes.plot([100 * low, 100 * high], [place, place], color="black", linewidth=1.2)
    axes.axvspan(45, 60, color=COLOURS[1], alpha=0.2)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("% of the link that TCP gets; T-117 asks for 45 to 60")


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot)
