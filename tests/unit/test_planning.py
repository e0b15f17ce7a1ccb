"""Planning by the examples of the source (Salehi thesis 6.1 to 6.5): states, sets of actions, programs, plans."""

from functools import partial
from itertools import permutations, product

import pytest

from tests.worlds.planned import tree
from tidings.model.errors import UsageError
from tidings.planning.action_sets import actions_in, transformation_paths
from tidings.planning.checker import UnsoundPlan, checked, problem_in
from tidings.planning.literal import LiteralProgram, size_for, size_of
from tidings.planning.operations import (
    APPEND,
    DETACH,
    EXCHANGE,
    MOVE,
    OPERATIONS,
    SHIFT,
    SWAP,
    Action,
    Connected,
    Effects,
    Operation,
    Present,
    Removable,
    applies,
    apply,
    effects_of,
    links_in,
    shift,
    state_of,
)
from tidings.planning.plan import Limits, TopologyPlan
from tidings.planning.planner import NoPlan, PlanOrder, make_plan
from tidings.planning.program import SolverOutcome, solve
from tidings.planning.tree import BROKERS_MAX, OverlayTree, is_tree, tree_of

TODAY, GOAL = tree("1-2 1-3 2-4"), tree("1-2 1-3 3-4")
"""X-10, figure 6.1.1 of the source."""


@pytest.mark.spec("S-74")
def test_shift_needs_adds_and_deletes_what_the_source_says() -> None:
    goal = frozenset(GOAL.links)
    effects = effects_of(shift("4", "2", "1"), goal)
    assert set(effects.needs) == {Connected(("2", "4")), Connected(("1", "2")), Removable(("2", "4"))}
    assert set(effects.adds) == {Connected(("1", "4")), Removable(("1", "4"))}
    assert set(effects.deletes) == {Connected(("2", "4")), Removable(("2", "4"))}

    first = state_of(TODAY, goal)
    second = apply(effects, first)
    assert links_in(second) == {("1", "2"), ("1", "3"), ("1", "4")}
    assert [each for each in second if isinstance(each, Removable)] == [Removable(("1", "4"))]
    last = apply(effects_of(shift("4", "1", "3"), goal), second)
    assert links_in(last) == goal and not any(isinstance(each, Removable) for each in last)


@pytest.mark.spec("S-74")
@pytest.mark.parametrize(
    "brokers", [("4", "1", "2"), ("1", "2", "4"), ("3", "1", "2")], ids=["no link", "goal link", "kept link"]
)
def test_a_shift_whose_needs_do_not_hold_does_not_apply(brokers: tuple[str, str, str]) -> None:
    goal = frozenset(GOAL.links)
    assert not applies(effects_of(shift(*brokers), goal), state_of(TODAY, goal))


def test_append_and_detach_work_on_leaves_only() -> None:
    goal = frozenset(GOAL.links)
    state = state_of(TODAY, goal)
    appended = apply(effects_of(Action(APPEND, ("5", "4")), goal), state)
    assert Present("5") in appended and ("4", "5") in links_in(appended)
    assert not applies(effects_of(Action(DETACH, ("4", "2")), goal), appended)
    assert apply(effects_of(Action(DETACH, ("5", "4")), goal), appended) == state
    assert not applies(effects_of(Action(APPEND, ("4", "1")), goal), state)
    assert not applies(effects_of(Action(APPEND, ("6", "7")), goal), state)


def test_an_action_of_unknown_name_or_with_wrong_brokers_is_refused() -> None:
    with pytest.raises(UsageError, match="no operation 'turn'"):
        effects_of(Action("turn", ("1", "2")), frozenset())
    with pytest.raises(UsageError, match=r"shift\(1, 2, 1\): shift is of 3 different brokers"):
        effects_of(shift("1", "2", "1"), frozenset())
    with pytest.raises(UsageError, match="place 3"):
        effects_of(Action(EXCHANGE, ("1", "2", "3"), 3), frozenset())


@pytest.mark.spec("S-76")
def test_the_program_of_the_source_finds_its_example_in_two_steps_and_none_in_one() -> None:
    actions = actions_in("N", TODAY, GOAL)
    assert solve(LiteralProgram(TODAY, GOAL, actions, 1).program).outcome is SolverOutcome.IMPOSSIBLE
    program = LiteralProgram(TODAY, GOAL, actions, 2)
    solution = solve(program.program)
    assert program.actions_at(solution.values) == [(shift("4", "2", "1"),), (shift("4", "1", "3"),)]


@pytest.mark.spec("S-77", "S-78")
def test_sizes_follow_the_published_law() -> None:
    naive, a, e = size_of(60, 6, 205_320, 59 * 2 * 58), size_of(60, 7, 35_904, 33 * 2 * 32), size_of(60, 7, 1_860, 0)
    assert (naive.variables, a.variables, e.variables) == (1_355_820, 392_928, 154_620)
    assert (naive.rows, a.rows) == (3_810_515, 919_799)


@pytest.mark.spec("S-77", "S-78")
@pytest.mark.parametrize(("name", "steps"), product("NAE", (1, 3)))
def test_the_law_of_sizes_is_that_of_the_program_which_is_written_down(name: str, steps: int) -> None:
    initial, goal = tree("1-2 2-3 3-4 4-5 5-6"), tree("1-2 2-3 2-6 4-5 4-6")
    actions = actions_in(name, initial, goal)
    written = LiteralProgram(initial, goal, actions, steps)
    law = size_for(initial, goal, actions, steps)
    assert (law.variables, law.rows) == (written.program.variables, len(written.rows))


@pytest.mark.spec("S-81")
def test_the_naive_set_has_every_triple() -> None:
    initial = tree(" ".join(f"{n}-{n + 1}" for n in range(10, 70)))
    brokers = len(initial.brokers)
    assert len(actions_in("N", initial, initial)) == brokers * (brokers - 1) * (brokers - 2)


REGIONS = tree("3-4 1-3 1-7 1-2 2-5 5-6 6-8 6-9"), tree("3-4 4-7 1-7 1-2 2-5 5-6 6-8 8-9")
"""X-11: 1-3 and 6-9 go, 4-7 and 8-9 come, in two regions apart."""


@pytest.mark.spec("S-80")
def test_the_set_of_each_path_has_no_action_across_paths_and_the_set_of_all_paths_has() -> None:
    initial, goal = REGIONS
    paths = transformation_paths(initial, goal)
    assert sorted(map(sorted, paths)) == [["1", "3", "4", "7"], ["6", "8", "9"]]
    each, every = set(actions_in("E", initial, goal)), set(actions_in("A", initial, goal))
    assert each == {shift(*three) for path in paths for three in permutations(path, 3)}
    assert every == {shift(*three) for three in permutations("1346789", 3)}
    assert each < every < set(actions_in("N", initial, goal))
    across = {shift(*three) for three in permutations("467")}
    assert across <= every and not across & each


def test_the_example_of_the_source_is_planned() -> None:
    found = make_plan(TODAY, GOAL)
    assert found.plan.steps == ((shift("4", "2", "1"),), (shift("4", "1", "3"),))
    assert (found.proof.steps_min, found.proof.cost, found.proof.cost_min, found.proof.gap) == (2, 2.0, 2.0, 0.0)


def test_nothing_to_change_is_a_plan_without_steps() -> None:
    found = make_plan(TODAY, TODAY)
    assert found.plan.steps == () and found.proof.gap == 0.0


@pytest.mark.spec("S-83")
def test_where_the_small_set_has_no_plan_the_next_one_is_taken() -> None:
    initial, goal = tree("0-3 1-5 2-3 3-5 4-5"), tree("0-2 0-4 1-3 1-4 2-5")
    found = make_plan(initial, goal, PlanOrder(action_set="E"))
    assert found.proof.action_set == "A"
    assert problem_in(found.plan) == ""
    # The specification counts six shifts where steps do not matter.
    assert make_plan(initial, goal, PlanOrder(limits=Limits(actions_max=1))).proof.cost == 6


@pytest.mark.spec("S-85")
def test_new_brokers_are_appended_first_and_old_ones_detached_last() -> None:
    initial, goal = tree("a-b b-c c-d d-e"), tree("a-b b-f f-g c-g")
    plan = make_plan(initial, goal).plan
    kinds = [{action.operation for action in step} for step in plan.steps]
    assert kinds[0] == {APPEND} and kinds[-1] == kinds[-2] == {DETACH}
    assert all(kind == {SHIFT} for kind in kinds[1:-2]) and len(kinds) > 3
    for state in plan.states():
        assert is_tree(links_in(state), [each.broker for each in state if isinstance(each, Present)])


@pytest.mark.spec("S-85")
def test_a_goal_without_a_single_broker_of_today_is_reached() -> None:
    found = make_plan(tree("a-b b-c"), tree("x-y"))
    assert problem_in(found.plan) == ""


CHAIN, CLOSED = tree("1-2 2-3 3-4 4-5"), tree("1-2 1-5 3-4 4-5")


@pytest.mark.spec("S-86")
def test_the_cheaper_way_is_taken_when_actions_have_costs() -> None:
    free = make_plan(CHAIN, CLOSED, PlanOrder(action_set="N"))
    dear = set(free.plan.actions)
    found = make_plan(CHAIN, CLOSED, PlanOrder(action_set="N"), cost=lambda action: 5.0 if action in dear else 1.0)
    assert found.proof.cost == sum(5.0 if action in dear else 1.0 for action in found.plan.actions)
    assert found.proof.cost < 5.0 * len(dear)
    assert len(found.plan.steps) == len(free.plan.steps)


@pytest.mark.spec("S-86")
def test_no_broker_has_more_links_than_it_may_in_any_order_of_a_step() -> None:
    # All leaves of one hub go to another one: without a limit the brokers between fill up.
    initial, goal = tree("a-b b-c c-d a-1 a-2 a-3"), tree("a-b b-c c-d 1-d 2-d 3-d")
    free = make_plan(initial, goal)
    limits = Limits(degree_max=4)
    assert "may have" in problem_in(free.plan, limits)
    bound = make_plan(initial, goal, PlanOrder(limits=limits))
    assert problem_in(bound.plan, limits) == ""
    assert len(bound.plan.steps) > len(free.plan.steps)
    with pytest.raises(UsageError, match=r"degree_max 3: in the goal d \(4\) have more"):
        make_plan(initial, goal, PlanOrder(limits=Limits(degree_max=3)))


def test_no_broker_takes_part_twice_in_a_step_if_so_asked() -> None:
    initial, goal = tree("a-b b-c b-1 b-2"), tree("a-b b-c a-1 2-c")
    assert len(make_plan(initial, goal).plan.steps) == 1
    apart = make_plan(initial, goal, PlanOrder(limits=Limits(is_apart=True)))
    assert len(apart.plan.steps) == 2 and problem_in(apart.plan, Limits(is_apart=True)) == ""


def test_larger_operations_replace_several_shifts() -> None:
    initial, goal = tree("1-2 2-3 3-4 4-5 5-6"), tree("1-6 2-3 3-4 4-5 5-6")
    assert len(make_plan(initial, goal).plan.actions) == 4
    moved = make_plan(initial, goal, PlanOrder(operations=(SHIFT, MOVE)))
    assert moved.plan.steps == ((Action(MOVE, ("1", "2", "3", "4", "5", "6")),),)
    inner = tree("1-2 2-3 4-5 5-6 1-6")
    exchanged = make_plan(initial, inner, PlanOrder(operations=(SHIFT, EXCHANGE)))
    assert exchanged.plan.steps == ((Action(EXCHANGE, ("1", "2", "3", "4", "5", "6"), 2),),)
    # Where a move costs more than the shifts that it replaces, shifts are made, if they may take more steps.
    dear = PlanOrder(operations=(SHIFT, MOVE), steps_start=4)
    cost = {SHIFT: 1.0, MOVE: 5.0}
    assert {
        action.operation for action in make_plan(initial, goal, dear, cost=partial(by_operation, cost)).plan.actions
    } == {SHIFT}


def by_operation(costs: dict[str, float], action: Action) -> float:
    return costs[action.operation]


def test_of_two_operations_with_the_same_effect_the_cheaper_is_taken() -> None:
    both = PlanOrder(operations=(SHIFT, SWAP))
    for cheap, costs in ((SHIFT, {SHIFT: 1.0, SWAP: 2.0}), (SWAP, {SHIFT: 2.0, SWAP: 1.0})):
        found = make_plan(TODAY, GOAL, both, cost=partial(by_operation, costs))
        assert {action.operation for action in found.plan.actions} == {cheap}


def test_an_operation_of_ones_own_is_planned_with_and_checked() -> None:
    def turning(action: Action, goal: frozenset[tuple[str, str]]) -> Effects:
        return OPERATIONS[SHIFT].effects(action, goal)

    own = {**OPERATIONS, SWAP: Operation(SWAP, turning, 3, 3)}
    found = make_plan(TODAY, GOAL, PlanOrder(operations=(SWAP,)), operations=own)
    assert problem_in(found.plan, operations=own) == "" and len(found.plan.steps) == 2


def test_without_time_there_is_no_plan_and_the_error_says_so() -> None:
    with pytest.raises(NoPlan, match="the time is over"):
        make_plan(TODAY, GOAL, seconds_left=lambda: 0.0)


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([], r"does not end with the goal: it differs in 2 - 4, 3 - 4"),
        ([["4", "1", "3"]], r"step 1: shift\(4, 1, 3\) cannot be done there: it needs .*a link 1 - 4"),
        (
            [["4", "2", "1"], ["3", "1", "2"]],
            r"step 2: shift\(3, 1, 2\) cannot be done there: it needs a link 1 - 3 that is",
        ),
        ([["4", "2", "1"], ["4", "1", "9"]], r"step 2: .* it needs a link 1 - 9"),
    ],
)
def test_a_plan_that_is_wrong_is_refused_with_the_step(steps: list[list[str]], problem: str) -> None:
    plan = TopologyPlan(TODAY, GOAL, tuple((Action(SHIFT, tuple(each)),) for each in steps))
    with pytest.raises(UnsoundPlan, match=problem):
        checked(plan)


def test_actions_of_a_step_that_rely_on_each_other_are_refused() -> None:
    one_step = TopologyPlan(TODAY, GOAL, ((shift("4", "2", "1"), shift("4", "1", "3")),))
    assert "step 1: shift(4, 1, 3) cannot be done there" in problem_in(one_step)
    # The link 2-3 carries the first and is moved by the second.
    initial, goal = tree("1-2 2-3 3-4"), tree("1-3 2-4 3-4")
    crossing = TopologyPlan(initial, goal, ((shift("1", "2", "3"), shift("2", "3", "4")),))
    assert "relies on a link 2 - 3, which another action of the step changes" in problem_in(crossing)


@pytest.mark.parametrize(
    ("links", "brokers", "problem"),
    [
        ([("a", "b"), ("c", "d")], (), "c, d cannot be reached from a; add a link"),
        (
            [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")],
            (),
            "the links a - b - c - a go round in a circle; leave one",
        ),
        ([("a", "a")], (), "leads from a broker to itself"),
        ([("a", "b"), ("b", "a")], (), "the link a - b is given twice"),
        ([], (), "it has no broker"),
        ([("a", "b")], ("z",), "z cannot be reached"),
    ],
)
def test_what_is_no_tree_is_refused_in_words_of_the_network(
    links: list[tuple[str, str]], brokers: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        tree_of(links, brokers)


def test_ten_thousand_brokers_are_refused_with_what_to_do() -> None:
    with pytest.raises(
        UsageError, match=f"10001 brokers: at most {BROKERS_MAX} are planned for at once; .* region by region"
    ):
        tree_of([("a", f"b{number}") for number in range(10_000)])
    with pytest.raises(UsageError, match=r"the link a - x names x, which is no broker here"):
        OverlayTree(("a", "b"), (("a", "x"),))
