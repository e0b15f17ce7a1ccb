"""E8: whether the latencies of the simulated internet are like measured ones.

The source compares the median latencies between its simulated hosts with those between 226 hosts of PlanetLab. Its
trace is not published, so what is compared here are the percentiles that the specification derived for a graph of a
tenth of the size (`sim/network/internet.py`): 25, 58, 93, 131 and 195 ms.

Measured in the run: latencies of pairs leave no trace for a metric to read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import COLOURS
from tidings.sim.network.internet import Internet
from tidings.trace.writer import Writer

SHARES = {"5 %": 0.05, "25 %": 0.25, "50 %": 0.5, "75 %": 0.75, "95 %": 0.95}


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: hosts."""
    internet = Internet()
    internet.begin(seed)
    hosts = [f"h{number}" for number in range(parameters["hosts"])]
    round_trips = sorted(2 * internet.latency(one, two) for place, one in enumerate(hosts) for two in hosts[:place])
    return {f"round trip|{name}": round_trips[int(share * len(round_trips))] for name, share in SHARES.items()}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    values = {each.group: 1000 * each.value for each in measured if each.figure == "round trip"}
    axes.plot([values.get(name, 0.0) for name in SHARES], [100 * share for share in SHARES.values()], color=COLOURS[0])
    axes.set_xlabel("round trip, ms")
    axes.set_ylabel("% of pairs")


EXPERIMENT = define(__file__, run=run, variants=(Variant("internet"),), figures=measured_in_runs, plot=plot)
