"""What E15, E17 and E18 have in common: one change of a tree, planned for by everybody.

Trees are those of W-ITT (`workloads/topology_changes.py`): the largest number of links of a broker is 5, 6, 7 by
turns, and every other tree is balanced, so twelve seeds are the twelve kinds of the source, each twice with another
seed.

Measured in the run: planning leaves no trace for a metric to read. Time is that of the processor, since several runs
share a machine; the time of best-first search is that until it found its best plan, as in the source (E18).
"""

import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tidings.planning.best_first import search
from tidings.planning.plan import TopologyPlan
from tidings.planning.planner import NoPlan, PlanOrder, make_plan
from tidings.planning.quick import quick_plan
from tidings.planning.tree import OverlayTree
from tidings.trace.writer import Writer
from tidings.workloads.topology_changes import TopologyChange

DEGREES = (5, 6, 7)

SETS = ("E", "A", "N")

DOWNHILL, SEARCH = "downhill", "search"


def workload(brokers: int, change: float, seed: int) -> TopologyChange:
    return TopologyChange(
        brokers=brokers,
        change=change,
        degree_max=DEGREES[seed // 2 % len(DEGREES)],
        is_balanced=seed % 2 == 0,
        seed=seed,
    )


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: brokers, brokers_max, change, naive_max, all_max, seconds_max, states_max."""
    brokers = parameters["brokers"]
    if brokers > parameters.get("brokers_max", brokers):
        return {}
    trees = workload(brokers, parameters["change"], seed)
    planners = {name: program_planner(name, parameters["seconds_max"]) for name in sets_for(brokers, parameters)}
    planners[SEARCH] = search_planner(seed, parameters["states_max"], parameters["seconds_max"])
    planners[DOWNHILL] = quick_planner(seed)
    measures: dict[str, float] = {}
    for name, planner in planners.items():
        plan, seconds = planner(trees.today(), trees.goal())
        measures[f"planned {name}"] = float(plan is not None)
        if plan is not None:
            measures[f"seconds {name}"] = seconds
            measures[f"actions {name}"] = float(len(plan.actions))
            measures[f"steps {name}"] = float(len(plan.steps))
    return measures


def sets_for(brokers: int, parameters: Mapping[str, Any]) -> list[str]:
    most = {"E": brokers, "A": parameters["all_max"], "N": parameters["naive_max"]}
    return [name for name in SETS if brokers <= most[name]]


Planner = Callable[[OverlayTree, OverlayTree], tuple[TopologyPlan | None, float]]
"""The plan, and the seconds it took."""


def program_planner(name: str, seconds_max: float) -> Planner:
    def plan(initial: OverlayTree, goal: OverlayTree) -> tuple[TopologyPlan | None, float]:
        begun, over_at = time.process_time(), time.monotonic() + seconds_max
        try:
            found = make_plan(
                initial, goal, PlanOrder(action_set=name), seconds_left=lambda: over_at - time.monotonic()
            )
        except NoPlan:
            return None, seconds_max
        return found.plan, time.process_time() - begun

    return plan


def search_planner(seed: int, states_max: int, seconds_max: float) -> Planner:
    def plan(initial: OverlayTree, goal: OverlayTree) -> tuple[TopologyPlan | None, float]:
        begun, over_at = time.process_time(), time.monotonic() + seconds_max
        found = search(initial, goal, Random(seed), states_max=states_max, is_over=lambda: time.monotonic() >= over_at)
        share = found.found_after / max(1, found.visited)
        return found.plan, (time.process_time() - begun) * share

    return plan


def quick_planner(seed: int) -> Planner:
    def plan(initial: OverlayTree, goal: OverlayTree) -> tuple[TopologyPlan | None, float]:
        begun = time.process_time()
        found = quick_plan(initial, goal, Random(seed))
        return None if found is None else found.plan, time.process_time() - begun

    return plan
