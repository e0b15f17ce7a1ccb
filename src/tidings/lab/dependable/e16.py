"""E16: how large the programs are. Nothing is solved: sizes follow by the law (`planning/literal.py`), which tests hold
against programs that are written down. Of the compact program the size is that with as many steps, where they suffice.

Measured in the run: there is no simulation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.dependable.planners import workload
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import bars
from tidings.planning.action_sets import ACTION_SETS, actions_in
from tidings.planning.compact import CompactProgram, LinkWindows, changes_of
from tidings.planning.literal import size_for
from tidings.trace.writer import Writer

STEPS = {"N": 6, "A": 7, "E": 7}
"""Of the table of the source."""


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: brokers, change."""
    trees = workload(parameters["brokers"], parameters["change"], seed)
    today, goal = trees.today(), trees.goal()
    measures: dict[str, float] = {}
    for name in ACTION_SETS:
        size = size_for(today, goal, actions_in(name, today, goal), STEPS[name])
        measures |= {
            f"actions|{name}": float(size.actions),
            f"variables|{name}": float(size.variables),
            f"constraints|{name}": float(size.rows),
        }
    windows = LinkWindows(today, goal, changes_of(today, goal, actions_in("E", today, goal)))
    compact = CompactProgram(windows, STEPS["E"])
    if compact.is_possible:
        measures["variables, compact|E"] = float(compact.program.variables)
        measures["constraints, compact|E"] = float(len(compact.rows))
    return measures


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"actions": "actions", "variables": "variables", "constraints": "constraints"})
    axes.set(title="60 brokers, a fifth of the links changed", yscale="log")


EXPERIMENT = define(__file__, run=run, variants=(Variant("60 brokers"),), figures=measured_in_runs, plot=plot)
