"""E34: Does it matter how often a collection is planned again?

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
    found = {}
    for is_modulated, name in ((False, "steady"), (True, "wandering")):
        medians = {
            period: median_of(
                [
                    seconds_of(seed, sink, parameters, period=period, is_modulated=is_modulated)
                    for sink in range(parameters["sinks"])
                ]
            )
            for period in (10.0, 15.0, 60.0)
        }
        found[f"ten|{name}"] = medians[10.0] / medians[15.0]
        found[f"sixty|{name}"] = medians[60.0] / medians[15.0]
    return found


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"ten": "10 s", "sixty": "60 s"})
    axes.set(title="time, to that with 15 s", ylabel="times")


EXPERIMENT = define(__file__, run=run, variants=(Variant("collections"),), figures=measured_in_runs, plot=plot)
