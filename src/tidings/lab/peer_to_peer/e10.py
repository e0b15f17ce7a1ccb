"""E10: how much memory 10,000 nodes take, with latencies that are like those of the internet and fluctuate.

Each node pings two others now and then, which is as idle as a protocol is. Memory is what the process takes at most, so
it includes Python itself and whatever ran in the same process before.

Measured in the run: memory leaves no trace for a metric to read.
"""

import resource
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import bars
from tidings.protocols.teaching.ping import Ping, PingParams
from tidings.sim.network.internet import Internet
from tidings.sim.network.latency import Fluctuating
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator
from tidings.trace.writer import Writer

PERIOD = 30.0


def make_ping(neighbours: list[str], period: float, draws: Draws) -> Ping:
    return Ping(neighbours, PingParams(period=period), draws("ping"))


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: nodes, seconds."""
    nodes = parameters["nodes"]
    simulator = Simulator(seed, Fluctuating(Internet()))
    for number in range(nodes):
        neighbours = [f"n{(number + step) % nodes}" for step in (1, 100)]
        simulator.add(f"n{number}", partial(make_ping, neighbours, PERIOD))
    simulator.run(parameters["seconds"])
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return {"memory|": gigabytes, "received|": float(simulator.counters().received)}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"memory": "10,000 nodes"})
    axes.set(title="memory", ylabel="GB")


EXPERIMENT = define(__file__, run=run, variants=(Variant("10,000 nodes"),), figures=measured_in_runs, plot=plot)
