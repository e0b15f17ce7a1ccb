"""E9: whether the same seed gives the same run, and another seed another one.

Nodes that ping each other over an internet whose latencies fluctuate; the whole trace is compared by its digest, within
one process. `tests/scenarios/test_determinism.py` compares it across processes with different hash seeds.

Measured in the run: it runs three simulations itself.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import xxhash

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.peer_to_peer.e10 import make_ping
from tidings.lab.plots import bars
from tidings.sim.network.internet import Internet
from tidings.sim.network.latency import Fluctuating
from tidings.sim.simulator import Simulator
from tidings.trace.record import Rows
from tidings.trace.writer import Writer

PERIOD = 0.5
ROWS_AT_ONCE = 10_000


class DigestWriter(Writer):
    """Keeps nothing of a trace but its digest."""

    def __init__(self) -> None:
        super().__init__("", 0, ROWS_AT_ONCE)
        self.digest = xxhash.xxh64()

    def store(self, rows: Rows) -> None:
        for row in rows:
            self.digest.update(repr(row).encode())


def digest(seed: int, nodes: int, seconds: float) -> int:
    trace = DigestWriter()
    simulator = Simulator(seed, Fluctuating(Internet()), trace=trace)
    names = [f"n{number}" for number in range(nodes)]
    for place, name in enumerate(names):
        simulator.add(name, partial(make_ping, [names[place - 1], names[place - 2]], PERIOD))
    simulator.run(seconds)
    trace.close()
    return trace.digest.intdigest()


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: nodes, seconds."""
    nodes, seconds = parameters["nodes"], parameters["seconds"]
    one, again, other = (digest(each, nodes, seconds) for each in (seed, seed, seed + 1000))
    return {"differs|same seed": float(one != again), "differs|other seed": float(one != other)}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"differs": "differs"}, scale=100)
    axes.set(title="runs that differ", ylabel="%")


EXPERIMENT = define(__file__, run=run, variants=(Variant("ping"),), figures=measured_in_runs, plot=plot)
