"""E33: How much sooner does a collection end when it is planned again as it goes?

Measured in the run: when a collection ends no metric of a trace says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.peer_to_peer.collect.gathered import seconds_of
from tidings.lab.plots import bars
from tidings.trace.writer import Writer


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: those of `CollectionSetting`, and sinks."""
    ratios = []
    for sink in range(parameters["sinks"]):
        once = seconds_of(seed, sink, parameters, period=0.0)
        ratios.append(seconds_of(seed, sink, parameters, period=15.0) / once)
    return {"not worse|": sum(ratio <= 1.02 for ratio in ratios) / len(ratios), "best gain|": 1 - min(ratios)}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"not worse": "not worse", "best gain": "best gain"})
    axes.set(title="planning again", ylabel="share")


EXPERIMENT = define(__file__, run=run, variants=(Variant("collections"),), figures=measured_in_runs, plot=plot)
