"""The best plan that there is in the time that there is.

The quick plan (`quick.py`) is there at once. Then the program (`planner.py`) looks for the fewest steps and the least
cost in its set of actions. Whichever has fewer steps is taken, of two with as many the cheaper: the program is the
best of its set, and the quick plan may leave that set. If the time is over before the program is done, the quick plan
is what there is.

Costs and larger operations are the program's alone; with these nothing else is asked.
"""

from collections.abc import Callable
from random import Random

from tidings.planning.operations import SHIFT
from tidings.planning.plan import PlannedChange
from tidings.planning.planner import FEWEST_STEPS, Cost, NoPlan, PlanOrder, forever, make_plan
from tidings.planning.quick import quick_plan
from tidings.planning.tree import OverlayTree


def plan_by(
    initial: OverlayTree,
    goal: OverlayTree,
    random: Random,
    order: PlanOrder = FEWEST_STEPS,
    *,
    cost: Cost | None = None,
    seconds_left: Callable[[], float] = forever,
) -> PlannedChange:
    if cost is not None or order.operations != (SHIFT,):
        return make_plan(initial, goal, order, cost=cost, seconds_left=seconds_left)
    quick = quick_plan(initial, goal, random, limits=order.limits, is_over=lambda: seconds_left() <= 0)
    try:
        best = make_plan(initial, goal, order, seconds_left=seconds_left)
    except NoPlan:
        if quick is None:
            raise
        return quick
    return min((each for each in (best, quick) if each is not None), key=size)


def size(found: PlannedChange) -> tuple[int, float]:
    return len(found.plan.steps), found.proof.cost
