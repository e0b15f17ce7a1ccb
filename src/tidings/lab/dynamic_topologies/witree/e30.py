"""E30: what repairs save on a radio as nodes walk faster. Costs are a metric, `reconfiguration_cost`."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.savings import curves, savings, sides, variants
from tidings.lab.dynamic_topologies.witree.sweeps import OPTIMISED, TREES, measures_of
from tidings.lab.dynamic_topologies.witree.walkers import SWEEP, WalkSetting, run
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import between, over_seeds

SPEEDS = (0.2, 0.6, 1.0, 1.4, 2.0)
COST = "cost_per_reconfiguration"


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    pairs, of = sides(results, traces, "speed"), measures_of(TREES)
    saved = {name: 1 - of[name][COST] / of["strawman"][COST] for name in OPTIMISED}
    gain = over_seeds(pairs, {"saved more, informed": saved["informed"] - saved["timed"]})
    growth = between(pairs, "0.2", "2.0", {f"growth, {name}": of[name][COST] for name in TREES})
    change = between(pairs, "0.6", "2.0", {f"change, {name}": saved[name] for name in OPTIMISED}, ratio=False)
    return savings(pairs, TREES).union(gain).union(growth).union(change)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    curves(canvas, measured, "metres a second")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=WalkSetting,
    variants=variants("speed", SPEEDS, TREES),
    figures=figures,
    plot=plot,
    sweep=SWEEP,
)
