"""Brokers that come and brokers that go, so that the rest of a plan is about one set of brokers (6.3.2; G-35).

Only leaves can be appended and detached. So brokers that are new are first added to today's tree as leaves, each at a
neighbour that it has in the goal, if that one is there already: then no shift is needed for it. Brokers that go are
added to the goal as leaves, each at a neighbour that it has today: then all its other links are shifted away. Between
the two trees `widen` gives, the planner knows shifts only.

A new broker whose neighbours are all new waits for one of them, so appends come in steps, nearest first; detaches in
the reverse order. Where a broker may have only so many links, the neighbour with the most room is taken.
"""

from collections.abc import Sequence

import msgspec

from tidings.model.identity import NodeId
from tidings.planning.operations import APPEND, DETACH, Action
from tidings.planning.plan import Limits, PlanStep
from tidings.planning.tree import Link, OverlayTree, tree_of


class Widened(msgspec.Struct, frozen=True):
    appends: tuple[PlanStep, ...]
    initial: OverlayTree
    goal: OverlayTree
    detaches: tuple[PlanStep, ...]


def widen(initial: OverlayTree, goal: OverlayTree) -> Widened:
    wider_initial, came = with_leaves(initial, goal)
    wider_goal, gone = with_leaves(goal, initial)
    return Widened(
        tuple(tuple(Action(APPEND, pair) for pair in level) for level in came),
        wider_initial,
        wider_goal,
        tuple(tuple(Action(DETACH, pair) for pair in level) for level in reversed(gone)),
    )


def with_leaves(tree: OverlayTree, other: OverlayTree) -> tuple[OverlayTree, list[list[tuple[NodeId, NodeId]]]]:
    """The tree with what only the other one has as leaves; and who was added where, level by level."""
    links: list[Link] = list(tree.links)
    around, degrees = other.neighbours(), {broker: len(near) for broker, near in tree.neighbours().items()}
    missing = [broker for broker in other.brokers if broker not in degrees]
    levels: list[list[tuple[NodeId, NodeId]]] = []
    while missing:
        there = set(degrees)
        level = []
        for broker in missing:
            places = [near for near in around[broker] if near in there]
            if places:
                place = min(places, key=lambda near: (degrees[near], near))
                degrees[place] += 1
                degrees[broker] = 1
                links.append((broker, place))
                level.append((broker, place))
        if not level:
            # Not one broker is in both trees: whichever comes first has to be somewhere.
            level = [(missing[0], tree.brokers[0])]
            links.append(level[0])
            degrees[missing[0]] = 1
            degrees[tree.brokers[0]] += 1
        missing = [broker for broker in missing if broker not in degrees]
        levels.append(level)
    return tree_of(links, tree.brokers), levels


def in_turn(levels: Sequence[PlanStep], limits: Limits) -> list[PlanStep]:
    """Appends or detaches, in more steps where limits allow fewer at once."""
    steps: list[list[Action]] = []
    for level in levels:
        waiting = list(level)
        while waiting:
            step: list[Action] = []
            busy: set[NodeId] = set()
            for action in list(waiting):
                is_full = limits.actions_max is not None and len(step) >= limits.actions_max
                if not is_full and not (limits.is_apart and busy.intersection(action.brokers)):
                    step.append(action)
                    busy.update(action.brokers)
                    waiting.remove(action)
            steps.append(step)
    return [tuple(step) for step in steps]
