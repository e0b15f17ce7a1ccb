"""E32: To how many hosts have paths to be measured?

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
    times: dict[int, list[float]] = {}
    for peers in (2, 10, 15):
        times[peers] = [seconds_of(seed, sink, parameters, peers=peers) for sink in range(parameters["sinks"])]
    usual = median_of(times[10])
    return {"two|": median_of(times[2]) / usual, "fifteen|": median_of(times[15]) / usual}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"two": "2 peers", "fifteen": "15 peers"})
    axes.set(title="time, to that with 10 peers", ylabel="times")


EXPERIMENT = define(__file__, run=run, variants=(Variant("collections"),), figures=measured_in_runs, plot=plot)
