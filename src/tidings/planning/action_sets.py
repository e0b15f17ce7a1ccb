"""Which shifts a planner chooses from: the fewer, the faster, and the less is promised.

A shift is an ordered triple of brokers. With n brokers there are n (n - 1) (n - 2) of them, most of which nobody would
want. The source (6.3.2) has three sets, each part of the one before:

    naive        N   all triples: what is best among these is best of all
    all paths    A   triples of brokers that lie on some transformation path
    each path    E   triples of brokers that lie on one transformation path together

A *transformation path* leads from one end of a missing goal link to the other in today's tree. E nearly always has a
plan, and mostly one as good as any; in rare trees it has none, and A may in principle have none either; N always has
(G-31 of the specification). Hence the order in which a planner tries them (`planner.py`).

Larger operations replace a link of a transformation path by the goal link at once. They are taken along these paths
only: otherwise there would be one for each two brokers and each link.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, permutations

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.planning.operations import EXCHANGE, MOVE, OPERATIONS, SHIFT, SWAP, Action
from tidings.planning.tree import OverlayTree, link, path_between

TRIPLES = (SHIFT, SWAP)
"""Operations of three brokers; all others are taken along transformation paths."""


def transformation_paths(initial: OverlayTree, goal: OverlayTree) -> list[list[NodeId]]:
    around, there = initial.neighbours(), set(initial.links)
    return [path_between(around, a, b) for a, b in goal.links if (a, b) not in there]


def triples(groups: Iterable[Iterable[NodeId]], operation: str = SHIFT) -> list[Action]:
    """Every three of a group in every order, each once."""
    found = {each for group in groups for each in permutations(group, 3)}
    return [Action(operation, brokers) for brokers in sorted(found)]


def naive(initial: OverlayTree, goal: OverlayTree) -> list[list[NodeId]]:
    return [list(initial.brokers)]


def all_paths(initial: OverlayTree, goal: OverlayTree) -> list[list[NodeId]]:
    return [sorted({broker for path in transformation_paths(initial, goal) for broker in path})]


def each_path(initial: OverlayTree, goal: OverlayTree) -> list[list[NodeId]]:
    return transformation_paths(initial, goal)


ACTION_SETS: dict[str, Callable[[OverlayTree, OverlayTree], list[list[NodeId]]]] = {
    "E": each_path,
    "A": all_paths,
    "N": naive,
}
"""The brokers that may act together, in groups; from the smallest set to the one that always has a plan."""


def actions_in(
    name: str, initial: OverlayTree, goal: OverlayTree, operations: Sequence[str] = (SHIFT,)
) -> list[Action]:
    if name not in ACTION_SETS:
        raise UsageError(f"there is no action set {name!r}; choose from {', '.join(ACTION_SETS)}")
    groups, found = ACTION_SETS[name](initial, goal), list[Action]()
    for operation in operations:
        if operation in TRIPLES:
            found += triples(groups, operation)
        elif operation in (MOVE, EXCHANGE):
            found += along_paths(initial, goal, operation)
        else:
            known = ", ".join(each for each in OPERATIONS if each in (*TRIPLES, MOVE, EXCHANGE))
            raise UsageError(f"a plan is not made of {operation!r}; choose from {known}")
    return found


def along_paths(initial: OverlayTree, goal: OverlayTree, operation: str) -> list[Action]:
    """One removable link of the path goes, and the goal link between its ends comes."""
    wanted, found = set(goal.links), list[Action]()
    for path in transformation_paths(initial, goal):
        for place, pair in enumerate(pairwise(path)):
            if link(*pair) in wanted:
                continue
            if operation == EXCHANGE:
                found.append(Action(EXCHANGE, tuple(path), place))
            elif place == 0:
                found.append(Action(MOVE, tuple(path)))
            elif place == len(path) - 2:
                found.append(Action(MOVE, tuple(reversed(path))))
    return found
