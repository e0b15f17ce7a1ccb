"""Whether a plan is sound. Nobody sees one before it was looked at here, whoever made it, a person included.

The checker knows nothing of how plans are made. It holds the links in a plain set, carries the plan out, and asks
after every action whether what is left is a tree. It asks of each step, moreover, whether its actions may be done in
any order. That is so if, and only if, each can be done when the step begins, and no other action of the step touches
what it relies on: adds or deletes a proposition that it needs, that it must not find, or that it changes itself. (If
each can be done first and none of the others matters to it, it can be done at any place; if another one does matter,
the order with that one before it fails.)

Limits are meant for every moment, so the most links that a broker may have within a step, in the worst order, is
counted.
"""

from collections import Counter
from collections.abc import Mapping

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.planning.operations import (
    OPERATIONS,
    Action,
    Connected,
    Effects,
    Operation,
    OverlayState,
    Present,
    Proposition,
    applies,
    effects_of,
    links_in,
    state_of,
)
from tidings.planning.plan import NO_LIMITS, Limits, PlanStep, TopologyPlan
from tidings.planning.tree import Link, is_tree, named


class UnsoundPlan(UsageError):
    """A plan that must not be carried out; the message says which step is wrong, and why."""


def checked(
    plan: TopologyPlan, limits: Limits = NO_LIMITS, operations: Mapping[str, Operation] = OPERATIONS
) -> TopologyPlan:
    """The plan itself, if it is sound."""
    problem = problem_in(plan, limits, operations)
    if problem:
        raise UnsoundPlan(f"the plan cannot be carried out: {problem}")
    return plan


def problem_in(plan: TopologyPlan, limits: Limits = NO_LIMITS, operations: Mapping[str, Operation] = OPERATIONS) -> str:
    """The first thing that is wrong with it; empty if nothing is."""
    goal = frozenset(plan.goal.links)
    state = state_of(plan.initial, goal)
    allowed = degrees_allowed(plan, limits)
    for number, step in enumerate(plan.steps, 1):
        try:
            effects = [effects_of(action, goal, operations) for action in step]
        except UsageError as problem:
            return f"step {number}: {problem}"
        if limits.actions_max is not None and len(step) > limits.actions_max:
            return f"step {number}: {len(step)} actions at once; at most {limits.actions_max} are allowed"
        problem_here = (
            problem_of_order(step, effects, state)
            or problem_of_degrees(effects, state, allowed)
            or (problem_of_sharing(step) if limits.is_apart else "")
        )
        if problem_here:
            return f"step {number}: {problem_here}"
        for action, each in zip(step, effects, strict=True):
            state = state.difference(each.deletes).union(each.adds)
            if not is_tree(links_in(state), brokers_in(state)):
                return f"step {number}: after {action} the network is no tree"
    if brokers_in(state) != frozenset(plan.goal.brokers):
        return f"it ends with other brokers than the goal: {named(sorted(brokers_in(state) ^ set(plan.goal.brokers)))}"
    if links_in(state) != goal:
        other = named([f"{a} - {b}" for a, b in sorted(links_in(state) ^ goal)])
        return f"it does not end with the goal: it differs in {other}"
    return ""


def brokers_in(state: OverlayState) -> frozenset[NodeId]:
    return frozenset(each.broker for each in state if isinstance(each, Present))


def problem_of_order(step: PlanStep, effects: list[Effects], state: OverlayState) -> str:
    changed: Counter[Proposition] = Counter(each for one in effects for each in (*one.adds, *one.deletes))
    for action, own in zip(step, effects, strict=True):
        if not applies(own, state):
            return f"{action} cannot be done there: {missing_for(own, state)}"
    for action, own in zip(step, effects, strict=True):
        by_itself = Counter((*own.adds, *own.deletes))
        for each in (*own.needs, *own.lacks, *own.adds, *own.deletes):
            if changed[each] > by_itself[each]:
                return f"{action} relies on {text_of(each)}, which another action of the step changes"
        if own.leaf is not None and touches(effects, own, own.leaf):
            return f"{action} needs {own.leaf} to be a leaf, and another action of the step links it"
    return ""


def touches(effects: list[Effects], own: Effects, broker: NodeId) -> bool:
    return any(
        isinstance(each, Connected) and broker in each.link
        for other in effects
        if other is not own
        for each in (*other.adds, *other.deletes)
    )


def missing_for(effects: Effects, state: OverlayState) -> str:
    missing = [text_of(each) for each in effects.needs if each not in state]
    in_the_way = [text_of(each) for each in effects.lacks if each in state]
    if missing:
        return f"it needs {' and '.join(missing)}"
    return f"{' and '.join(in_the_way)} must not be" if in_the_way else f"{effects.leaf} is no leaf"


def text_of(proposition: Proposition) -> str:
    if isinstance(proposition, Present):
        return f"the broker {proposition.broker}"
    a, b = proposition.link
    return f"a link {a} - {b}" if isinstance(proposition, Connected) else f"a link {a} - {b} that is not in the goal"


def degrees_allowed(plan: TopologyPlan, limits: Limits) -> dict[NodeId, int]:
    if limits.degree_max is None:
        return {}
    today = degrees_of(plan.initial.links)
    return {broker: max(limits.degree_max, count) for broker, count in today.items()} | {
        broker: limits.degree_max for broker in plan.goal.brokers if broker not in today
    }


def degrees_of(links: "frozenset[Link] | tuple[Link, ...]") -> Counter[NodeId]:
    return Counter(end for each in links for end in each)


def problem_of_degrees(effects: list[Effects], state: OverlayState, allowed: Mapping[NodeId, int]) -> str:
    if not allowed:
        return ""
    most = degrees_of(links_in(state))
    for each in effects:
        for broker, gained in gains_of(each).items():
            most[broker] += max(0, gained)
    for broker, count in sorted(most.items()):
        if count > allowed[broker]:
            return f"{broker} may have {count} links at once; at most {allowed[broker]} are allowed"
    return ""


def gains_of(effects: Effects) -> Counter[NodeId]:
    """Links more (or fewer) that each broker has after the action."""
    gained: Counter[NodeId] = Counter()
    for each in effects.adds:
        if isinstance(each, Connected):
            gained.update(each.link)
    for each in effects.deletes:
        if isinstance(each, Connected):
            gained.subtract(each.link)
    return gained


def problem_of_sharing(step: PlanStep) -> str:
    busy: dict[NodeId, Action] = {}
    for action in step:
        for broker in action.brokers:
            if broker in busy:
                return f"{broker} takes part in {busy[broker]} and in {action}"
            busy[broker] = action
    return ""
