"""E35: How much do sinks gain over direct transfer, with bandwidths as around the world?

Measured in the run: when a collection ends no metric of a trace says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.peer_to_peer.collect.gathered import seconds_of, shares
from tidings.lab.plots import bars
from tidings.trace.writer import Writer


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: those of `CollectionSetting`, and sinks."""
    gains = []
    for sink in range(parameters["sinks"]):
        direct = seconds_of(seed, sink, parameters, strategy="direct")
        gains.append(1 - seconds_of(seed, sink, parameters) / direct)
    return {f"{name}|": value for name, value in shares(gains).items() if name != "gain a fifth"}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"gain": "gain", "best gain": "best", "worst loss": "worst loss"})
    axes.set(title="over direct transfer", ylabel="share")


EXPERIMENT = define(__file__, run=run, variants=(Variant("collections"),), figures=measured_in_runs, plot=plot)
