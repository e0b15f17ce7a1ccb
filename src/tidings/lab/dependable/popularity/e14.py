"""E14: what a batch costs a broker beside its publications one by one.

Measured in the run, in processor time of one broker (`net/broker/capacity.py`, as `tidings bench --batches`): there is
no simulation, and the seed changes nothing but the moment. The source has two brokers on machines of their own, and
the wall clock.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import COLOURS, points
from tidings.net.broker.capacity import batch_costs, cost_slope
from tidings.trace.writer import Writer


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameter: seconds for each size."""
    costs = batch_costs(parameters["seconds"])
    single = costs[0].publications_per_second
    measures = {f"gain|{cost.size}": cost.publications_per_second / single for cost in costs}
    return {**measures, "single|1": single, "slope|all": cost_slope(costs)}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    axes.plot(*points(measured, "gain"), ".-", color=COLOURS[0])
    axes.set(title="publications a second, times those of single ones", xlabel="publications in a batch", xscale="log")


EXPERIMENT = define(__file__, run=run, variants=(Variant("sizes 1 to 256"),), figures=measured_in_runs, plot=plot)
