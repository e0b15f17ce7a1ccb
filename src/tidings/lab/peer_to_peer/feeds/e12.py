"""E12: 250 readers, half of which fail together and come back together.

One publisher says something every minute. At half of the time a random half of the readers fails at once, at three
quarters they come back, with what they knew. *Steady* is what lies between a tenth of the time and the failure.
*Recovery* is the time from an event until the median latency of updates is, and stays, below twice the steady one.

Measured in the run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.peer_to_peer.feeds.readers import Readers, ReaderSetting, middle, percentile, setting_of
from tidings.lab.plots import bars
from tidings.trace.writer import Writer
from tidings.workloads.churn import mass_failure

SHARE = 0.5
FAIL_AT, BACK_AT, STEADY_FROM = 0.5, 0.75, 0.1
"""Parts of the time."""


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: those of `ReaderSetting`."""
    setting = setting_of(parameters)
    readers = Readers(setting, seed)
    world, fails_at, back_at = readers.world, setting.seconds * FAIL_AT, setting.seconds * BACK_AT
    failing = [it.node for it in mass_failure(readers.names, SHARE, fails_at, seed, back_at=back_at)]
    world.run(fails_at)
    stretches = [stretch for _, stretch in readers.stretches()]
    copies = sum(readers.machine(name).forest.updates.received for name in readers.names)
    due = sum(world.node(name).delivered_count for name in readers.names)
    for name in failing:
        world.crash(name, is_silent=True)
    world.run(back_at)
    for name in failing:
        world.restart(name, keep_state=True)
    world.run(setting.seconds)
    found = readers.latencies()
    # Who was away has what it missed when it comes back: that is no latency of the network.
    away = set(failing)
    present = latencies_of(readers, away)
    steady = [at for at in found if setting.seconds * STEADY_FROM <= at < fails_at]
    middles = {at: middle(found[at] if at < fails_at or at >= back_at else present[at]) for at in found}
    typical = middle([middles[at] for at in steady])
    return {
        "latency|median": typical,
        "latency|95th percentile": middle([percentile(found[at], 0.95) for at in steady]),
        "stretch|median": middle(stretches),
        "stretch|95th percentile": percentile(stretches, 0.95),
        "recovery|after the failure": recovery(middles, fails_at, back_at, typical),
        "recovery|after the return": recovery(middles, back_at, setting.seconds, typical),
        "copies|": copies / max(1, due),
        "delivered|": sum(len(found[at]) for at in steady) / (len(steady) * setting.readers),
        "noise|": float(readers.noise()),
    }


def latencies_of(readers: Readers, away: set[str]) -> dict[float, list[float]]:
    there = Readers.__new__(Readers)
    there.__dict__.update(readers.__dict__)
    there.names = tuple(name for name in readers.names if name not in away)
    return there.latencies()


def recovery(middles: Mapping[float, float], begin: float, end: float, typical: float) -> float:
    """Until the first update from which on all are quick again; all of the time if there is none."""
    slow = [at for at, value in middles.items() if begin <= at < end and not value <= 2 * typical]
    return max(slow) + 1.0 - begin if slow else 0.0


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, [it for it in measured if it.figure == "latency"], {"latency": "latency of an update"})
    axes.set(title="steady", ylabel="seconds")


EXPERIMENT = define(
    __file__, run=run, variants=(Variant("half fails"),), figures=measured_in_runs, plot=plot, setting=ReaderSetting
)
