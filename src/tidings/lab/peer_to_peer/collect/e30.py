"""E30: How many direct transfers at once are best?

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

POOLS = (10, 25)


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: those of `CollectionSetting`, and sinks."""
    took = {pool: seconds_of(seed, 0, parameters, strategy="direct", pool=pool) for pool in POOLS}
    everybody = seconds_of(seed, 0, parameters, strategy="direct")
    return {"all to 25|": everybody / took[25], "25 to 10|": took[25] / took[10]}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"all to 25": "all to 25", "25 to 10": "25 to 10"})
    axes.set(title="time of a larger pool", ylabel="times")


EXPERIMENT = define(__file__, run=run, variants=(Variant("collections"),), figures=measured_in_runs, plot=plot)
