"""E39: Up to how many hosts does planning pay?

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
    found = {}
    for nodes in (25, parameters["most"]):
        gains = []
        for sink in range(parameters["sinks"]):
            direct = seconds_of(seed, sink, parameters, strategy="direct", nodes=nodes)
            gains.append(1 - seconds_of(seed, sink, parameters, nodes=nodes) / direct)
        found[nodes] = shares(gains)["gain a fifth"]
    return {"a fifth|25 hosts": found[25], "fall|": found[25] - found[parameters["most"]]}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"a fifth": "a fifth", "fall": "fall"})
    axes.set(title="sinks that gain", ylabel="share")


EXPERIMENT = define(__file__, run=run, variants=(Variant("collections"),), figures=measured_in_runs, plot=plot)
