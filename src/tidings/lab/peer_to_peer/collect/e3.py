"""E3: How long does an optimal plan take at 100 and 500 hosts?

Measured in the run: when a collection ends no metric of a trace says.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import bars
from tidings.planning.flows.graph import graph_of
from tidings.planning.flows.quickest import quickest
from tidings.trace.writer import Writer
from tidings.workloads.bandwidths import drawn_bandwidths


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Processor seconds of the whole search, on complete graphs."""
    found = {}
    for hosts in (100, parameters["hosts"]):
        drawn = drawn_bandwidths(hosts, seed)
        access = {name: (drawn.down[name] / 8e6, drawn.up[name] / 8e6) for name in drawn.hosts}
        rates = {pair: rate / 8e6 for pair, rate in drawn.rates.items()}
        graph = graph_of(dict.fromkeys(drawn.hosts[1:], 100), rates, access)
        began = time.process_time()
        quickest(graph, drawn.hosts[0])
        found[f"seconds|{hosts} hosts"] = time.process_time() - began
    return found


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"seconds": "seconds"})
    axes.set(title="cost of a plan", ylabel="s")


EXPERIMENT = define(__file__, run=run, variants=(Variant("collections"),), figures=measured_in_runs, plot=plot)
