"""E29: what repairs save on a radio in networks of different size. Costs are a metric, `reconfiguration_cost`."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.savings import curves, savings, sides, variants
from tidings.lab.dynamic_topologies.witree.sweeps import OPTIMISED, TREES, measures_of
from tidings.lab.dynamic_topologies.witree.walkers import SWEEP, WalkSetting, run
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import between, over_seeds

SIZES = (10, 30, 50, 80)
COST = "cost_per_reconfiguration"


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    pairs, of = sides(results, traces, "dispatchers"), measures_of(TREES)
    saved = {name: 1 - of[name][COST] / of["strawman"][COST] for name in OPTIMISED}
    gain = over_seeds(pairs, {"saved more, informed": saved["informed"] - saved["timed"]})
    growth = between(pairs, "30", "80", {f"growth, {name}": of[name][COST] for name in TREES})
    rise = between(pairs, "30", "80", {f"rise, {name}": saved[name] for name in OPTIMISED}, ratio=False)
    return savings(pairs, TREES).union(gain).union(growth).union(rise)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    curves(canvas, measured, "dispatchers")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=WalkSetting,
    variants=variants("dispatchers", SIZES, TREES),
    figures=figures,
    plot=plot,
    sweep=SWEEP,
)
