"""E13: who pays for the tree: readers near the publisher, or far ones?

Readers join one tree and stay; at the end each has a coordinate stretch. The nearest quarter is compared with the
farthest. A way that is twice as long is nothing where the direct one is 5 ms.

Measured in the run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.peer_to_peer.feeds.readers import Readers, ReaderSetting, setting_of
from tidings.lab.plots import bars
from tidings.trace.writer import Writer


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: those of `ReaderSetting`."""
    setting = setting_of(parameters)
    readers = Readers(setting, seed)
    readers.world.run(setting.seconds)
    found = [stretch for _, stretch in readers.stretches()]
    quarter = max(1, len(found) // 4)
    near, far = sum(found[:quarter]) / quarter, sum(found[-quarter:]) / quarter
    return {
        "stretch|nearest quarter": near,
        "stretch|farthest quarter": far,
        "far by near|": far / near,
        "noise|": float(readers.noise()),
    }


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, [it for it in measured if it.figure == "stretch"], {"stretch": "coordinate stretch"})
    axes.set(title="stretch by distance", ylabel="way by direct distance")


EXPERIMENT = define(
    __file__, run=run, variants=(Variant("one feed"),), figures=measured_in_runs, plot=plot, setting=ReaderSetting
)
