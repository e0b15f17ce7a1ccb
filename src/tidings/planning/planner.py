"""From two trees to a plan: the fewest steps first, then the least cost (Salehi thesis 6.3.2, algorithm 7).

The number of steps T is part of the program, so programs are solved for T, T + 1, ... until one has a solution. Each T
that has none is proven to have none, mostly by the relaxation, in a fraction of the time that the solution takes; the
first T is what windows say (`compact.py`). So the number of steps is least, and among plans with so many the cost is.

**Parts.** Changes in different corners of a network have nothing to do with each other. Two actions belong to the same
part if they touch the same link, directly or by way of others; a program falls apart into its parts, exactly, for
every set of actions, and each is solved by itself. The steps of the whole are those of the part that needs most, and
every other part may use as many. Limits bind parts together: a broker that is part of two must not have too many
links, so with limits there is one part.

**Sets of actions.** The planner begins with the set that is asked for (E unless it is said) and takes the next larger
one if there is no plan in it: E, A, N. In N there always is one, unless limits forbid it. Where no plan can have more
steps is known: each missing link can be made by itself, in as many shifts as its path has links, less one (G-31).

**Time** is somebody else's: `seconds_left` is asked before each program, and if it runs out, `NoPlan` says so.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import inf

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.planning.action_sets import ACTION_SETS, actions_in, transformation_paths
from tidings.planning.checker import checked, degrees_of
from tidings.planning.compact import CompactProgram, LinkChange, LinkWindows, changes_of
from tidings.planning.ends import Widened, in_turn, widen
from tidings.planning.operations import OPERATIONS, SHIFT, Action, Operation
from tidings.planning.plan import Limits, PlannedChange, PlanProof, PlanStep, TopologyPlan
from tidings.planning.program import Solution, SolverOutcome, whole_bound
from tidings.planning.reduction import solve_reduced
from tidings.planning.tree import Link, OverlayTree, named

STEPS_SPARE = 2
"""Steps tried beyond the number that handling the links one after the other takes."""

Cost = Callable[[Action], float]


class NoPlan(UsageError):
    """There is none, or none was found in time; the message says which, and what to do."""


class PlanOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How to plan."""

    action_set: str = "E"
    """The smallest set of actions that is tried: E, A or N."""
    operations: tuple[str, ...] = (SHIFT,)
    limits: Limits = Limits()
    steps_start: int = 1
    """The first number of steps that is tried. Anything but 1 is a guess from similar plans (the source has a table of
    them): if there is a plan with so many steps at once, nothing says that fewer do not suffice."""
    gap_max: float = 0.0
    """Plans that cost at most this share more than the least are good enough."""


FEWEST_STEPS = PlanOrder()


def forever() -> float:
    return inf


def make_plan(
    initial: OverlayTree,
    goal: OverlayTree,
    order: PlanOrder = FEWEST_STEPS,
    *,
    cost: Cost | None = None,
    seconds_left: Callable[[], float] = forever,
    operations: Mapping[str, Operation] = OPERATIONS,
) -> PlannedChange:
    """`cost` of an action; without it each costs 1."""
    require_degrees(goal, order.limits)
    wide = widen(initial, goal)
    names = list(ACTION_SETS)
    if order.action_set not in names:
        raise UsageError(f"there is no action set {order.action_set!r}; choose from {', '.join(names)}")
    for name in names[names.index(order.action_set) :]:
        search = PlanSearch(wide, name, order, cost, seconds_left, operations)
        found = search.run()
        if found is not None:
            steps, proof = found
            return finished(initial, goal, wide, steps, proof, order.limits, operations)
    raise NoPlan(
        f"there is no plan within the limits ({limits_text(order.limits)}); allow more links, more actions at once, "
        "or larger operations (move, exchange)"
    )


def finished(
    initial: OverlayTree,
    goal: OverlayTree,
    wide: Widened,
    steps: Sequence[PlanStep],
    proof: PlanProof,
    limits: Limits,
    operations: Mapping[str, Operation],
) -> PlannedChange:
    """With appends before and detaches behind, and looked at by the checker."""
    appends, detaches = (in_turn(each, limits) for each in (wide.appends, wide.detaches))
    plan = TopologyPlan(initial, goal, (*appends, *steps, *detaches))
    around = len(appends) + len(detaches)
    ends = sum(map(len, (*appends, *detaches)))
    whole = msgspec.structs.replace(
        proof, steps_min=proof.steps_min + around, cost=proof.cost + ends, cost_min=proof.cost_min + ends
    )
    return PlannedChange(checked(plan, limits, operations), whole)


def require_degrees(goal: OverlayTree, limits: Limits) -> None:
    if limits.degree_max is not None:
        over = [
            f"{broker} ({count})"
            for broker, count in sorted(degrees_of(goal.links).items())
            if count > limits.degree_max
        ]
        if over:
            raise UsageError(
                f"degree_max {limits.degree_max}: in the goal {named(over)} have more; change the goal or allow more"
            )


def limits_text(limits: Limits) -> str:
    said = []
    if limits.degree_max is not None:
        said.append(f"at most {limits.degree_max} links a broker")
    if limits.is_apart:
        said.append("no broker twice in a step")
    if limits.actions_max is not None:
        said.append(f"at most {limits.actions_max} actions a step")
    return ", ".join(said) or "none"


class PlanSearch:
    """For one set of actions."""

    def __init__(
        self,
        wide: Widened,
        name: str,
        order: PlanOrder,
        cost: Cost | None,
        seconds_left: Callable[[], float],
        operations: Mapping[str, Operation],
    ) -> None:
        self.initial, self.goal, self.name, self.order = wide.initial, wide.goal, name, order
        self.seconds_left = seconds_left
        actions = actions_in(name, self.initial, self.goal, order.operations)
        costs = None if cost is None else {action: cost(action) for action in actions}
        self.is_whole = costs is None or all(float(each).is_integer() for each in costs.values())
        self.windows = LinkWindows(
            self.initial, self.goal, changes_of(self.initial, self.goal, actions, costs, operations)
        )
        is_bound = order.limits != Limits()
        self.parts = [self.windows] if is_bound else parts_of(self.windows)
        self.allowed = allowed_degrees(self.initial, self.goal, order.limits)

    def steps_max(self) -> int:
        return STEPS_SPARE + sum(len(path) - 2 for path in transformation_paths(self.initial, self.goal))

    def run(self) -> tuple[tuple[PlanStep, ...], PlanProof] | None:
        if self.initial.links == self.goal.links:
            return (), self.proof(0, [])
        if self.windows.steps_min is None:
            return None
        steps, last = max(self.order.steps_start, self.windows.steps_min), self.steps_max()
        steps_min = self.windows.steps_min
        solutions: list[tuple[CompactProgram, Solution]] = []
        # The part that needs most steps decides; the others are solved again if it needs more than they were given.
        waiting = list(self.parts)
        while waiting and steps <= last:
            program, solution = self.solve(waiting[0], steps)
            if solution.outcome is SolverOutcome.IMPOSSIBLE:
                steps, steps_min = steps + 1, max(steps_min, steps + 1)
                waiting, solutions = [waiting[0], *(each for each in self.parts if each is not waiting[0])], []
            else:
                solutions.append((program, solution))
                waiting.pop(0)
        if waiting:
            return None
        merged = [
            [action for program, solution in solutions for action in program.steps_in(solution.values)[at]]
            for at in range(steps)
        ]
        return tuple(tuple(sorted(step)) for step in merged), self.proof(steps_min, [each for _, each in solutions])

    def solve(self, part: LinkWindows, steps: int) -> tuple[CompactProgram, Solution]:
        left = self.seconds_left()
        program = CompactProgram(part, steps, self.order.limits, self.allowed)
        if not program.is_possible:
            return program, Solution(SolverOutcome.IMPOSSIBLE)
        if left <= 0:
            raise self.late(steps)
        solution = solve_reduced(
            program.program,
            is_whole=self.is_whole,
            gap_max=self.order.gap_max,
            seconds_left=self.seconds_left,
        )
        if solution.outcome is SolverOutcome.UNFINISHED and not solution.values:
            raise self.late(steps)
        return program, solution

    def late(self, steps: int) -> NoPlan:
        return NoPlan(
            f"the time is over, and no plan of {steps} steps was found or ruled out in the action set {self.name}; "
            "give more time, change fewer links at once, or ask for a plan that need not be the best"
        )

    def proof(self, steps_min: int, solutions: Sequence[Solution]) -> PlanProof:
        return PlanProof(
            method="integer program",
            action_set=self.name,
            steps_min=steps_min,
            cost=sum(each.cost for each in solutions),
            cost_min=sum(whole_bound(each.bound, self.is_whole) for each in solutions),
        )


def allowed_degrees(initial: OverlayTree, goal: OverlayTree, limits: Limits) -> dict[NodeId, int]:
    if limits.degree_max is None:
        return {}
    today = degrees_of(initial.links)
    return {broker: max(limits.degree_max, today[broker]) for broker in goal.brokers}


def parts_of(windows: LinkWindows) -> list[LinkWindows]:
    """Each with the actions that touch the same links, directly or by way of others."""
    leader: dict[Link, Link] = {}

    def find(each: Link) -> Link:
        while leader.setdefault(each, each) != each:
            leader[each] = each = leader[leader[each]]
        return each

    for change in windows.changes:
        first, *others = touched(change)
        for other in others:
            leader[find(other)] = find(first)
    changes: defaultdict[Link, list[LinkChange]] = defaultdict(list)
    for change in windows.changes:
        changes[find(touched(change)[0])].append(change)
    return sorted((windows.part(each) for each in changes.values()), key=lambda part: -len(part.changes))


def touched(change: LinkChange) -> tuple[Link, ...]:
    return (*change.removes, *change.adds, *change.keeps)
