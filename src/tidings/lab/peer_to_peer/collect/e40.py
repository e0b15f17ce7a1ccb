"""E40: Which holds the plan better where capacities wander: rates that are capped, or plans that are made again?

Measured in the run: when a collection ends no metric of a trace says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.peer_to_peer.collect.gathered import median_of, seconds_of
from tidings.lab.plots import bars
from tidings.trace.writer import Writer


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: those of `CollectionSetting`, and sinks."""
    ratios = []
    for sink in range(parameters["sinks"]):
        capped = seconds_of(seed, sink, parameters, is_modulated=True, is_paced=True, period=0.0)
        ratios.append(seconds_of(seed, sink, parameters, is_modulated=True) / capped)
    return {"planned to capped|": median_of(ratios)}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"planned to capped": "planned again, to capped"})
    axes.set(title="wandering capacities", ylabel="times")


EXPERIMENT = define(__file__, run=run, variants=(Variant("collections"),), figures=measured_in_runs, plot=plot)
