"""Plans that come at once: for networks that are too large for a program, and to begin with for all others.

Shift by shift downhill (`descent.py`): of all shifts the one is done that brings the goal nearest, ties at random;
where none does, one missing link is made all the way, after which fewer are missing. So there always is a plan. It is
tried many times, in two ways:

    one after the other   the best shift each time; then every shift is moved to the first step that it can be done in
    step by step          a step takes good shifts for as long as one is independent of all others in it

The first has fewer actions, the second fewer steps. Ways are followed as they are now, not as they were in the first
tree, so these plans may be shorter than the best of the action sets A and E.

**How good is it?** Nobody knows by how much it misses the best, only bounds. In one step a way becomes at best half as
long: a shift leaves out one broker of the way and needs the link beside the one that it moves. So way lengths bound
the steps. And links that both trees have never change, so shifts along one of them are needed where all ends of
changing links have to leave one side of it, or the first has to get there; besides, each link that joins other
*pieces* (what is left if all changing links are cut) than any of today's has to be made. These bounds are proven, and
far below the plans.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import ceil, log2
from random import Random

from tidings.planning.checker import checked, degrees_of, problem_in
from tidings.planning.descent import Descent, Turn
from tidings.planning.ends import in_turn, widen
from tidings.planning.operations import SHIFT, Action, shift
from tidings.planning.plan import NO_LIMITS, Limits, PlannedChange, PlanProof, PlanStep, TopologyPlan
from tidings.planning.tree import Link, OverlayTree, link, neighbours_of, parts_of, reached_from

TRIES = 20
"""Of each way."""


def quick_plan(
    initial: OverlayTree,
    goal: OverlayTree,
    random: Random,
    *,
    limits: Limits = NO_LIMITS,
    tries: int = TRIES,
    is_over: Callable[[], bool] = lambda: False,
) -> PlannedChange | None:
    """The plan with the fewest steps of all that were tried, and of these the one with the fewest actions.

    None if limits forbid all of them: then others may still exist.
    """
    wide = widen(initial, goal)
    appends, detaches = in_turn(wide.appends, limits), in_turn(wide.detaches, limits)
    best: tuple[int, int, TopologyPlan] | None = None
    for steps in attempts(wide.initial, wide.goal, random, limits, tries):
        plan = TopologyPlan(initial, goal, (*appends, *steps, *detaches))
        size = len(plan.steps), len(plan.actions)
        if (best is None or size < best[:2]) and not (limits != NO_LIMITS and problem_in(plan, limits)):
            best = *size, plan
        if is_over():
            break
    if best is None:
        return None
    around, ends = len(appends) + len(detaches), sum(map(len, (*appends, *detaches)))
    proof = PlanProof(
        method="downhill",
        action_set="N",
        steps_min=around + steps_bound(wide.initial, wide.goal),
        cost=float(best[1]),
        cost_min=float(ends + actions_bound(wide.initial, wide.goal)),
    )
    return PlannedChange(checked(best[2], limits), proof)


def attempts(
    initial: OverlayTree, goal: OverlayTree, random: Random, limits: Limits, tries: int
) -> Iterator[tuple[PlanStep, ...]]:
    start = Descent(initial, goal)
    allowed = None if limits.degree_max is None else room(initial, limits.degree_max)
    for _ in range(tries):
        yield scheduled(one_by_one(start.copy(), random, allowed), limits)
        if limits == NO_LIMITS:
            yield step_by_step(start.copy(), random)


def room(initial: OverlayTree, degree_max: int) -> Counter[str]:
    """Links that each broker may still get."""
    return Counter({broker: max(0, degree_max - count) for broker, count in degrees_of(initial.links).items()})


def one_by_one(state: Descent, random: Random, free: Counter[str] | None) -> list[Turn]:
    done: list[Turn] = []
    left = None if free is None else Counter(free)
    while state.paths:
        turns = {turn: change for turn, change in state.turns().items() if left is None or left[turn[2]] > 0}
        best = min(turns.values(), default=0)
        if best < 0:
            turn = random.choice([each for each, change in turns.items() if change == best])
            state.shift(*turn)
            new = [turn]
        else:
            new = state.slide()
        for _, j, k in new:
            if left is not None:
                left[j] += 1
                left[k] -= 1
        done += new
    return done


def scheduled(turns: Sequence[Turn], limits: Limits) -> tuple[PlanStep, ...]:
    """Each shift in the first step behind all that it depends on. With a limit of links each has a step to itself."""
    if limits.degree_max is not None:
        return tuple((shift(*turn),) for turn in turns)
    changed: Counter[Link] = Counter()
    needed: Counter[Link] = Counter()
    steps: defaultdict[int, list[Action]] = defaultdict(list)
    busy: defaultdict[int, set[str]] = defaultdict(set)
    for i, j, k in turns:
        old, new, beside = link(i, j), link(i, k), link(j, k)
        at = 1 + max(changed[old], changed[new], changed[beside], needed[old], needed[new])
        while (limits.actions_max is not None and len(steps[at]) >= limits.actions_max) or (
            limits.is_apart and busy[at].intersection((i, j, k))
        ):
            at += 1
        steps[at].append(Action(SHIFT, (i, j, k)))
        busy[at].update((i, j, k))
        changed[old] = changed[new] = needed[old] = at
        needed[beside] = max(needed[beside], at)
    return tuple(tuple(sorted(steps[at])) for at in range(1, max(steps, default=0) + 1))


def step_by_step(state: Descent, random: Random) -> tuple[PlanStep, ...]:
    steps: list[PlanStep] = []
    while state.paths:
        at_first = set(state.links)
        changed, needed, step = set[Link](), set[Link](), list[Action]()
        while True:
            able = [
                (change, random.random(), (i, j, k))
                for (i, j, k), change in state.turns().items()
                if change < 0
                and {link(i, j), link(j, k)} <= at_first
                and changed.isdisjoint((link(i, j), link(i, k), link(j, k)))
                and link(i, j) not in needed
            ]
            if not able:
                break
            i, j, k = min(able)[2]
            state.shift(i, j, k)
            step.append(shift(i, j, k))
            changed.update((link(i, j), link(i, k)))
            needed.add(link(j, k))
        if step:
            steps.append(tuple(sorted(step)))
        else:
            steps += [(shift(*turn),) for turn in state.slide()]
    return tuple(steps)


def steps_bound(initial: OverlayTree, goal: OverlayTree) -> int:
    """Ways become at best half as long in a step, and are to be one link long."""
    longest = max((len(path) - 1 for path in Descent(initial, goal).paths.values()), default=1)
    return ceil(log2(longest))


def actions_bound(initial: OverlayTree, goal: OverlayTree) -> int:
    kept = set(initial.links).intersection(goal.links)
    before, after = set(initial.links) - kept, set(goal.links) - kept
    around = neighbours_of(sorted(kept), initial.brokers)
    piece = {broker: number for number, each in enumerate(parts_of(around)) for broker in each}

    def joined(links: set[Link]) -> Counter[tuple[int, int]]:
        return Counter((min(ends), max(ends)) for ends in ((piece[a], piece[b]) for a, b in links))

    made = sum((joined(after) - joined(before)).values())
    return max(len(after), made + sum(must_be_crossed(each, around, before, after) for each in sorted(kept)))


def must_be_crossed(each: Link, around: dict[str, list[str]], before: set[Link], after: set[Link]) -> bool:
    """Whether some end of a changing link has to pass this one, which stays.

    So it is if one side has such ends today and none in the goal, or the other way round: the last that leaves, or the
    first that comes, has no other link to move along.
    """
    a, b = each
    whole = set(reached_from(around, a))
    side = side_of(a, b, around)
    for brokers in (side, whole - side):
        has, will_have = (any(end in brokers for other in links for end in other) for links in (before, after))
        if has != will_have:
            return True
    return False


def side_of(a: str, b: str, around: dict[str, list[str]]) -> set[str]:
    """What is left with a if the link to b is cut."""
    met, waiting = {a}, [a]
    while waiting:
        broker = waiting.pop()
        for near in around[broker]:
            if near not in met and {broker, near} != {a, b}:
                met.add(near)
                waiting.append(near)
    return met
