"""E11: the tree of 25 readers who stand on a plane follows it.

The source draws a tree of 25 hosts of PlanetLab on a map and looks at it: with three children each, ways from the
publisher are nearly straight. Here 25 readers and the landmarks are drawn on a square with a diagonal of 100 ms, and
the time between two is their distance and 2 ms; how straight ways are is the coordinate stretch.

Measured in the run.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.peer_to_peer.feeds.readers import LANDMARKS, PUBLISHER, Readers, ReaderSetting, middle, setting_of
from tidings.lab.plots import bars
from tidings.machine.streams import random_stream
from tidings.sim.network.latency import Matrix
from tidings.trace.writer import Writer

SIDE = 0.1 / math.sqrt(2)
LEAST = 0.002


def plane(names: Sequence[str], seed: int) -> Matrix:
    rng = random_stream(seed, "plane")
    at = {name: (rng.uniform(0, SIDE), rng.uniform(0, SIDE)) for name in names}
    return Matrix({(a, b): LEAST + math.dist(at[a], at[b]) for a in names for b in names if a != b})


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: those of `ReaderSetting`."""
    setting = setting_of(parameters)
    names = (*LANDMARKS, PUBLISHER, *(f"r{number}" for number in range(setting.readers)))
    readers = Readers(setting, seed, plane(names, seed))
    readers.world.run(setting.seconds)
    stretches = [stretch for _, stretch in readers.stretches()]
    return {
        "stretch|mean": sum(stretches) / len(stretches),
        "stretch|median": middle(stretches),
        "in the tree|": len(stretches) / setting.readers,
        "noise|": float(readers.noise()),
    }


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, [it for it in measured if it.figure == "stretch"], {"stretch": "coordinate stretch"})
    axes.set(title="25 readers on a plane", ylabel="way by direct distance")


EXPERIMENT = define(
    __file__, run=run, variants=(Variant("plane"),), figures=measured_in_runs, plot=plot, setting=ReaderSetting
)
