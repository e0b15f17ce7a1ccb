"""E1: How much sooner does a collection end with a detour?

Measured in the run: when a collection ends no metric of a trace says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.peer_to_peer.collect.gathered import CollectionSetting, seconds_on
from tidings.lab.plots import bars
from tidings.planning.flows.graph import graph_of
from tidings.planning.flows.quickest import quickest
from tidings.trace.writer import Writer
from tidings.workloads.bandwidths import BandwidthTable

RATES = {("x", "t"): 1.0, ("t", "x"): 1.0, ("y", "t"): 5.0, ("t", "y"): 5.0, ("x", "y"): 2.0, ("y", "x"): 2.0}
EXAMPLE = graph_of({"x": 1000, "y": 1000}, RATES)


def table() -> BandwidthTable:
    """Megabytes a second as bits; accesses that hold nothing back."""
    wide = dict.fromkeys("xyt", 1e9)
    return BandwidthTable(("x", "y", "t"), {pair: rate * 8e6 for pair, rate in RATES.items()}, wide, wide)


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """The example at its own size: 1000 MB with each of two sources, blocks of 1 MB."""
    found = quickest(EXAMPLE, "t").horizon
    planned = seconds_on(table(), 2, CollectionSetting(megabytes=1000.0, peers=10), seed)
    direct = seconds_on(table(), 2, CollectionSetting(megabytes=1000.0, strategy="direct"), seed)
    return {"horizon|": float(found), "seconds|planned": planned, "seconds|direct": direct}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"seconds": "seconds"})
    axes.set(title="two sources", ylabel="s")


EXPERIMENT = define(__file__, run=run, variants=(Variant("collections"),), figures=measured_in_runs, plot=plot)
