"""Planning against brute force: shifts keep trees, plans are sound in every order, and none is better."""

from collections.abc import Iterator
from itertools import permutations
from random import Random

import pytest

from tests.worlds.planned import random_tree, with_changes
from tidings.planning.action_sets import actions_in
from tidings.planning.best_first import search
from tidings.planning.checker import problem_in
from tidings.planning.compact import CompactProgram, LinkWindows, changes_of
from tidings.planning.deadline import plan_by, size
from tidings.planning.descent import Descent
from tidings.planning.literal import LiteralProgram
from tidings.planning.operations import Action, OverlayState, applies, apply, effects_of, links_in, shift, state_of
from tidings.planning.plan import Limits, TopologyPlan
from tidings.planning.planner import PlanOrder, make_plan
from tidings.planning.program import SolverOutcome, solve
from tidings.planning.quick import quick_plan
from tidings.planning.reduction import solve_reduced
from tidings.planning.tree import Link, OverlayTree, is_tree, link, neighbours_of, tree_of
from tidings.workloads.topology_changes import TopologyChange


def drawn(seed: int, count: int, brokers_min: int, brokers_max: int) -> Iterator[tuple[OverlayTree, OverlayTree]]:
    rng = Random(seed)
    for _ in range(count):
        initial = random_tree(rng, rng.randint(brokers_min, brokers_max))
        yield initial, with_changes(rng, initial, rng.randint(1, len(initial.links)))


@pytest.mark.spec("S-75")
def test_every_shift_that_applies_leaves_a_tree(examples: int) -> None:
    applied = 0
    for initial, goal in drawn(1, examples, 3, 7):
        target = frozenset(goal.links)
        state = state_of(initial, target)
        for three in permutations(initial.brokers, 3):
            effects = effects_of(shift(*three), target)
            if applies(effects, state):
                applied += 1
                after = links_in(apply(effects, state))
                assert is_tree(after, initial.brokers), (initial, goal, three)
                assert len(after) == len(initial.links) and target.intersection(initial.links) <= after
    assert applied > examples


@pytest.mark.spec("S-79")
def test_plans_end_with_the_goal_and_every_order_within_a_step_is_a_tree_throughout(examples: int) -> None:
    parallel = 0
    for initial, goal in drawn(2, examples, 3, 12):
        plan = make_plan(initial, goal).plan
        target = frozenset(goal.links)
        state = state_of(initial, target)
        for step in plan.steps:
            parallel += len(step) > 1
            ends = {after_order(state, order, target, initial) for order in some_orders(step)}
            assert len(ends) == 1
            [state] = ends
        assert links_in(state) == target


def some_orders(step: tuple[Action, ...]) -> Iterator[tuple[Action, ...]]:
    """All of them up to four actions; of more, each action comes first once, and last once."""
    if len(step) <= 4:
        yield from permutations(step)
    else:
        for place in range(len(step)):
            turned = (*step[place:], *step[:place])
            yield from (turned, turned[::-1])


def after_order(
    state: OverlayState, order: tuple[Action, ...], target: frozenset[Link], initial: OverlayTree
) -> OverlayState:
    for action in order:
        effects = effects_of(action, target)
        assert applies(effects, state), (action, order)
        state = apply(effects, state)
        assert is_tree(links_in(state), initial.brokers)
    return state


def best_by_search(initial: OverlayTree, goal: OverlayTree, actions: list[Action]) -> tuple[int, int]:
    """Fewest steps, and fewest actions with so many, by trying everything."""
    target = frozenset(goal.links)
    effects = [(action, effects_of(action, target)) for action in actions]
    following: dict[OverlayState, dict[OverlayState, int]] = {}

    def after_one_step(state: OverlayState) -> dict[OverlayState, int]:
        """Every state that one step leads to, and the fewest actions for it."""
        if state not in following:
            able = [each for each in effects if applies(each[1], state)]
            steps: list[tuple[Action, ...]] = [()]
            reached = {state: 0}
            for action, _ in able:
                for step in list(steps):
                    wider = (*step, action)
                    if all(is_independent(action, other, target) for other in step):
                        steps.append(wider)
                        end = state
                        for each in wider:
                            end = apply(effects_of(each, target), end)
                        reached[end] = min(reached.get(end, len(wider)), len(wider))
            following[state] = reached
        return following[state]

    known, steps = {state_of(initial, target): 0}, 0
    end = state_of(goal, target)
    while end not in known:
        steps += 1
        new: dict[OverlayState, int] = {}
        for state, count in known.items():
            for other, more in after_one_step(state).items():
                new[other] = min(new.get(other, count + more), count + more)
        known = new
    return steps, known[end]


def is_independent(one: Action, other: Action, target: frozenset[Link]) -> bool:
    a, b = effects_of(one, target), effects_of(other, target)
    a_changes, b_changes = {*a.adds, *a.deletes}, {*b.adds, *b.deletes}
    return not a_changes & {*b.needs, *b_changes} and not b_changes & {*a.needs, *a_changes}


@pytest.mark.spec("S-82")
def test_no_plan_is_better_than_that_of_the_planner(examples: int) -> None:
    for initial, goal in drawn(3, max(12, examples // 5), 3, 6):
        for name in "NE":
            found = make_plan(initial, goal, PlanOrder(action_set=name))
            actions = actions_in(found.proof.action_set, initial, goal)
            steps, count = best_by_search(initial, goal, actions)
            assert (len(found.plan.steps), len(found.plan.actions)) == (steps, count), (initial, goal, name)
            assert (found.proof.steps_min, found.proof.cost_min) == (steps, count)


@pytest.mark.spec("S-84")
def test_the_compact_program_and_that_of_the_source_agree(examples: int) -> None:
    for initial, goal in drawn(4, max(15, examples // 3), 4, 8):
        found = make_plan(initial, goal)
        actions = actions_in(found.proof.action_set, initial, goal)
        steps = len(found.plan.steps)
        fewer = solve(LiteralProgram(initial, goal, actions, steps - 1).program)
        literal = LiteralProgram(initial, goal, actions, steps)
        same = solve(literal.program)
        assert fewer.outcome is SolverOutcome.IMPOSSIBLE
        assert same.cost == found.proof.cost
        plan = TopologyPlan(initial, goal, tuple(literal.actions_at(same.values)))
        assert problem_in(plan) == ""


def test_plans_within_limits_keep_to_them_and_are_no_better(examples: int) -> None:
    bound = 0
    for initial, goal in drawn(5, max(10, examples // 6), 4, 7):
        limits = Limits(degree_max=1 + max(degrees(goal).values()), is_apart=True)
        free, kept = make_plan(initial, goal), make_plan(initial, goal, PlanOrder(limits=limits))
        assert problem_in(kept.plan, limits) == ""
        if kept.proof.action_set == free.proof.action_set:
            assert len(kept.plan.steps) >= len(free.plan.steps)
        bound += len(kept.plan.steps) > len(free.plan.steps)
    assert bound


def degrees(tree: OverlayTree) -> dict[str, int]:
    return {broker: len(near) for broker, near in tree.neighbours().items()}


def test_a_plan_with_one_action_changed_is_told_from_a_sound_one_by_trying_all_orders(examples: int) -> None:
    """The checker against brute force, on plans that somebody spoilt."""
    rng, wrong = Random(6), 0
    for initial, goal in drawn(7, examples, 4, 6):
        steps = [list(step) for step in make_plan(initial, goal).plan.steps]
        place = rng.randrange(len(steps))
        steps[place][rng.randrange(len(steps[place]))] = shift(*rng.sample(initial.brokers, 3))
        plan = TopologyPlan(initial, goal, tuple(map(tuple, steps)))
        assert (problem_in(plan) == "") == is_sound(plan), plan
        wrong += not is_sound(plan)
    assert wrong > examples / 4


def is_sound(plan: TopologyPlan) -> bool:
    target = frozenset(plan.goal.links)
    state = state_of(plan.initial, target)
    for step in plan.steps:
        ends = set()
        for order in permutations(step):
            end = state
            for action in order:
                effects = effects_of(action, target)
                if not applies(effects, end):
                    return False
                end = apply(effects, end)
            ends.add(end)
        if len(ends) > 1:
            return False
        [state] = ends
    return links_in(state) == target


def test_parts_that_do_not_touch_are_planned_as_the_whole_is() -> None:
    """Two copies of a tree at a common broker: twice the actions, the same steps."""
    for initial, goal in drawn(8, 10, 4, 6):
        both = [doubled(initial), doubled(goal)]
        one, two = make_plan(initial, goal), make_plan(both[0], both[1])
        if one.proof.action_set == "E":
            assert len(two.plan.steps) == len(one.plan.steps)
            assert two.proof.cost == 2 * one.proof.cost


def doubled(tree: OverlayTree) -> OverlayTree:
    def other(broker: str) -> str:
        return broker if broker == "0" else f"x{broker}"

    return tree_of([*tree.links, *((other(a), other(b)) for a, b in tree.links)])


def fewest_shifts(initial: OverlayTree, goal: OverlayTree) -> int:
    """By breadth-first search over all trees, one shift at a time."""
    target, seen, steps = frozenset(goal.links), {frozenset(initial.links)}, 0
    front = list(seen)
    while target not in seen:
        steps, following = steps + 1, []
        for links in front:
            around = neighbours_of(sorted(links), initial.brokers)
            for a, b in sorted(links - target):
                for i, j in ((a, b), (b, a)):
                    for k in around[j]:
                        if k != i and (after := (links - {(a, b)}) | {link(i, k)}) not in seen:
                            seen.add(after)
                            following.append(after)
        front = following
    return steps


@pytest.mark.spec("S-93")
def test_a_best_first_plan_has_one_action_a_step_and_never_fewer_than_are_possible(examples: int) -> None:
    missed = 0
    for number, (initial, goal) in enumerate(drawn(9, max(20, examples // 2), 3, 6)):
        plan = search(initial, goal, Random(number), states_max=50).plan
        assert plan is not None
        assert all(len(step) == 1 for step in plan.steps)
        fewest = fewest_shifts(initial, goal)
        assert len(plan.actions) >= fewest
        missed += len(plan.actions) > fewest
    assert missed < examples / 4


def test_quick_plans_are_sound_and_lie_between_their_bounds_and_the_best(examples: int) -> None:
    for number, (initial, goal) in enumerate(drawn(10, max(20, examples // 2), 3, 6)):
        quick = quick_plan(initial, goal, Random(number))
        assert quick is not None and problem_in(quick.plan) == ""
        fewest = fewest_shifts(initial, goal)
        steps, _ = best_by_search(initial, goal, actions_in("N", initial, goal))
        assert quick.proof.cost_min <= fewest <= quick.proof.cost, (initial, goal)
        assert quick.proof.steps_min <= steps <= len(quick.plan.steps), (initial, goal)


def test_quick_plans_keep_to_limits(examples: int) -> None:
    for number, (initial, goal) in enumerate(drawn(11, max(20, examples // 2), 4, 12)):
        for limits in (
            Limits(is_apart=True, actions_max=2),
            Limits(degree_max=1 + max(*degrees(initial).values(), *degrees(goal).values())),
        ):
            quick = quick_plan(initial, goal, Random(number), limits=limits)
            assert quick is None or problem_in(quick.plan, limits) == ""


def test_what_a_shift_does_to_the_distance_is_known_before(examples: int) -> None:
    rng = Random(12)
    for initial, goal in drawn(13, examples, 4, 14):
        state = Descent(initial, goal)
        for _ in range(6):
            turns = state.turns()
            if not turns:
                break
            before, turn = state.distance, rng.choice(sorted(turns))
            state.shift(*turn)
            assert state.distance - before == turns[turn]
            assert state.paths == Descent(tree_of(state.links), goal).paths


def test_before_the_deadline_the_better_of_two_plans_is_taken_and_after_it_the_quick_one() -> None:
    for initial, goal in drawn(14, 10, 8, 14):
        best, quick = make_plan(initial, goal), quick_plan(initial, goal, Random(1))
        assert quick is not None
        taken = plan_by(initial, goal, Random(1))
        assert size(taken) == min(size(best), size(quick))
        assert plan_by(initial, goal, Random(1), seconds_left=lambda: 0.0).proof.method == "downhill"


def test_a_program_reduced_by_its_relaxation_has_the_same_outcome_and_cost(examples: int) -> None:
    impossible = 0
    for seed in range(1, 2 + examples // 10):
        trees = TopologyChange(brokers=10 + seed, is_balanced=seed % 2 == 0, change=0.3, seed=seed)
        initial, goal = trees.today(), trees.goal()
        steps = len(make_plan(initial, goal).plan.steps)
        windows = LinkWindows(initial, goal, changes_of(initial, goal, actions_in("E", initial, goal)))
        for count in (steps - 1, steps, steps + 1):
            program = CompactProgram(windows, count)
            if program.is_possible:
                whole = solve(program.program)
                smaller = solve_reduced(program.program, is_whole=True, variables_min=0)
                assert (smaller.outcome, smaller.cost) == (whole.outcome, whole.cost)
                impossible += whole.outcome is SolverOutcome.IMPOSSIBLE
    assert impossible


def test_more_to_choose_from_never_takes_more_steps(examples: int) -> None:
    """IT-4."""
    fewer = 0
    for initial, goal in drawn(15, max(12, examples // 4), 5, 8):
        steps = {name: len(make_plan(initial, goal, PlanOrder(action_set=name)).plan.steps) for name in "EAN"}
        assert steps["N"] <= steps["A"] <= steps["E"]
        fewer += steps["N"] < steps["E"]
    assert fewer
