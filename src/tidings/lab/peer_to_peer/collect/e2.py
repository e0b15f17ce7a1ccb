"""E2: Why can the best second not be repeated?

Measured in the run: when a collection ends no metric of a trace says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.peer_to_peer.collect.e1 import EXAMPLE
from tidings.lab.plots import bars
from tidings.planning.flows.direct import direct_seconds
from tidings.trace.writer import Writer


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Whoever repeats the flow of one second sends from each source what its own path carries."""
    del parameters, seed, trace, variant
    rate = 1.0 + 5.0
    dry_at = 1000 / 5.0
    return {"suggested|": 2000 / rate, "dry|": dry_at, "taken|": direct_seconds(EXAMPLE, "t")}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"suggested": "suggested", "taken": "taken"})
    axes.set(title="one second, repeated", ylabel="s")


EXPERIMENT = define(__file__, run=run, variants=(Variant("collections"),), figures=measured_in_runs, plot=plot)
