"""Best-first search, which plans are compared with (Salehi thesis 6.5, after Yoon and others; spec 3.5.6).

A state is a tree, and an edge leads from it to each tree that one shift makes of it. The search takes the state that
looks nearest to the goal, follows it, each time to the best successor, until it is at the goal or too deep, and begins
again with the second best that it has seen. Ties are broken at random. Only successors of states that it visits are
made. Whenever it arrives with fewer shifts than before, that is its plan; it ends when the time, or the number of
states, is over.

There is one action in a step: whatever could be done at once is done one after the other, so steps = actions. What the
source does not say is the estimate (`descent.py`) and how deep is too deep: twice the estimate at the beginning (G-39).
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random

import msgspec

from tidings.planning.checker import checked
from tidings.planning.descent import Descent, Turn
from tidings.planning.ends import widen
from tidings.planning.operations import shift
from tidings.planning.plan import TopologyPlan
from tidings.planning.tree import Link, OverlayTree

STATES_MAX = 20_000
"""States that are visited, unless it is said otherwise."""

DEPTH_FACTOR = 2


class SearchVisit(msgspec.Struct, frozen=True):
    """A state by the shift that leads to it, so that what waits takes no room."""

    before: "SearchVisit | None"
    turn: Turn | None
    depth: int


class SearchResult(msgspec.Struct, frozen=True):
    plan: TopologyPlan | None
    """None if it did not arrive."""
    visited: int
    """States visited in all."""
    found_after: int
    """States visited until the plan was found."""


def search(
    initial: OverlayTree,
    goal: OverlayTree,
    random: Random,
    *,
    states_max: int = STATES_MAX,
    is_over: Callable[[], bool] = lambda: False,
) -> SearchResult:
    """`is_over` is asked at each state, and ends the search."""
    wide = widen(initial, goal)
    start = Descent(wide.initial, wide.goal)
    depth_max, best, fewest = DEPTH_FACTOR * start.distance, None, inf
    numbers = count()
    waiting: list[tuple[int, float, int, SearchVisit]] = [
        (start.distance, 0.0, next(numbers), SearchVisit(None, None, 0))
    ]
    met: dict[frozenset[Link], int] = {}
    visited = found_after = 0
    while waiting and visited < states_max and not is_over():
        _, _, _, visit = heappop(waiting)
        state = replay(start, visit)
        while visited < states_max and not is_over():
            visited += 1
            if not state.paths:
                if visit.depth < fewest:
                    best, fewest, found_after = visit, visit.depth, visited
                break
            # Fewer shifts than it took last time are of interest only, to the goal as to any state on the way.
            known = frozenset(state.links)
            if visit.depth >= min(depth_max, fewest - 1, met.get(known, inf)):
                break
            met[known] = visit.depth
            ranked = sorted((change, random.random(), turn) for turn, change in state.turns().items())
            distance, (_, _, chosen), others = state.distance, ranked[0], ranked[1:]
            for change, draw, turn in others:
                heappush(waiting, (distance + change, draw, next(numbers), SearchVisit(visit, turn, visit.depth + 1)))
            state.shift(*chosen)
            visit = SearchVisit(visit, chosen, visit.depth + 1)
    if best is None:
        return SearchResult(None, visited, visited)
    steps = [(shift(*turn),) for turn in turns_to(best)]
    plan = TopologyPlan(
        initial,
        goal,
        (
            *((each,) for level in wide.appends for each in level),
            *steps,
            *((each,) for level in wide.detaches for each in level),
        ),
    )
    return SearchResult(checked(plan), visited, found_after)


def turns_to(visit: SearchVisit) -> list[Turn]:
    turns = []
    here: SearchVisit | None = visit
    while here is not None:
        if here.turn is not None:
            turns.append(here.turn)
        here = here.before
    return turns[::-1]


def replay(start: Descent, visit: SearchVisit) -> Descent:
    state = start.copy()
    for turn in turns_to(visit):
        state.shift(*turn)
    return state
