"""E4: For which share of links is the way by a third host faster?

Measured in the run: when a collection ends no metric of a trace says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import bars
from tidings.trace.writer import Writer
from tidings.workloads.bandwidths import drawn_bandwidths, indirection_share


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Of random triples of a drawn topology."""
    share = indirection_share(drawn_bandwidths(parameters["nodes"], seed), parameters["triples"], seed)
    return {"share|": share}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"share": "share"})
    axes.set(title="faster detours", ylabel="share")


EXPERIMENT = define(__file__, run=run, variants=(Variant("collections"),), figures=measured_in_runs, plot=plot)
