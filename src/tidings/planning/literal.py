"""The integer program of the source, row for row (Salehi thesis 6.2; spec dependable.md 3.5.2, (1) to (14)).

Time is steps 0 to T. For each action a and step t there is x[a,t]: it is done. For each proposition f and step t there
are five more, which say what happens to f there:

    maintain    it is carried over
    preadd      some action needs it and leaves it
    predel      some action needs it and deletes it
    add         some action adds it that does not need it
    del         some action deletes it that does not need it

Rows tie these to the actions, (4) to (10), forbid what cannot be at once, (11) and (12), and let a proposition be used
only if it held before, (13). That makes the actions of one step independent of each other.

It is large: |A| T + 5 |F| (T + 1) variables, where |F| = n (n - 1) propositions of n brokers, a link being there and a
link being removable for each pair. It is kept for the laws of its size, which are published, and as the plain twin of
`compact.py`, which is what plans are made with. Where the source is silent of step 0, all but `add` is 0 there (G-34):
one row for each proposition.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec

from tidings.model.identity import NodeId
from tidings.planning.operations import (
    OPERATIONS,
    Action,
    Connected,
    Effects,
    Goal,
    Operation,
    Proposition,
    Removable,
    effects_of,
    state_of,
)
from tidings.planning.program import Program, ProgramRows
from tidings.planning.tree import OverlayTree, link

MAINTAIN, PREADD, PREDEL, ADD, DEL = range(5)
CHANGES = 5


class ProgramSize(msgspec.Struct, frozen=True):
    """By the law, without writing the program down."""

    actions: int
    variables: int
    rows: int


def size_of(brokers: int, steps: int, actions: int, goal_actions: int) -> ProgramSize:
    """`goal_actions`: those that add a goal link."""
    propositions = brokers * (brokers - 1)
    return ProgramSize(
        actions,
        actions * steps + CHANGES * propositions * (steps + 1),
        steps * (3 * actions - goal_actions) + propositions * (7 * steps + 2) + brokers - 1,
    )


def size_for(initial: OverlayTree, goal: OverlayTree, actions: Sequence[Action], steps: int) -> ProgramSize:
    """Of a program of shifts."""
    wanted = set(goal.links)
    to_goal = sum(link(action.brokers[0], action.brokers[-1]) in wanted for action in actions)
    return size_of(len(initial.brokers), steps, len(actions), to_goal)


def propositions_of(brokers: Sequence[NodeId]) -> list[Proposition]:
    pairs = [link(a, b) for a, b in combinations(brokers, 2)]
    return [*map(Connected, pairs), *map(Removable, pairs)]


class LiteralProgram:
    """`program` for the solver, and `actions_at` to read its solution."""

    def __init__(
        self,
        initial: OverlayTree,
        goal: OverlayTree,
        actions: Sequence[Action],
        steps: int,
        costs: Mapping[Action, float] | None = None,
        operations: Mapping[str, Operation] = OPERATIONS,
    ) -> None:
        assert initial.brokers == goal.brokers, "append and detach are no part of the program"
        self.actions, self.steps = list(actions), steps
        self.facts = propositions_of(initial.brokers)
        self.number = {fact: place for place, fact in enumerate(self.facts)}
        target: Goal = frozenset(goal.links)
        effects = [effects_of(action, target, operations) for action in self.actions]
        count = len(self.actions) * steps
        weights = [1.0 if costs is None else costs.get(action, 1.0) for action in self.actions]
        self.rows = ProgramRows()
        self.program = Program(
            [weight for weight in weights for _ in range(steps)] + [0.0] * (CHANGES * len(self.facts) * (steps + 1)),
            self.rows,
        )
        self.first_change = count
        self.add_ends(frozenset(state_of(initial, target)), goal)
        self.add_steps(effects)

    def done(self, action: int, step: int) -> int:
        """The variable x[a,t]."""
        return action * self.steps + step - 1

    def change(self, kind: int, fact: int, step: int) -> int:
        return self.first_change + (fact * (self.steps + 1) + step) * CHANGES + kind

    def add_ends(self, initial: frozenset[Proposition], goal: OverlayTree) -> None:
        for number, fact in enumerate(self.facts):
            maintain, preadd, predel, add, delete = (self.change(kind, number, 0) for kind in range(CHANGES))
            if fact in initial:
                self.rows.equal([(add, 1)], 1)  # (1)
                self.rows.equal([(maintain, 1), (preadd, 1), (predel, 1), (delete, 1)], 0)
            else:
                self.rows.equal([(add, 1), (maintain, 1), (preadd, 1)], 0)  # (2)
                self.rows.equal([(predel, 1), (delete, 1)], 0)
        for each in goal.links:
            last = self.number[Connected(each)]
            self.rows.at_least([(self.change(kind, last, self.steps), 1) for kind in (ADD, MAINTAIN, PREADD)], 1)  # (3)

    def add_steps(self, effects: Sequence[Effects]) -> None:
        adders, deleters, keepers, takers = (self.by_fact(effects, kind) for kind in (ADD, DEL, PREADD, PREDEL))
        for step in range(1, self.steps + 1):
            for fact in range(len(self.facts)):
                at = [self.change(kind, fact, step) for kind in range(CHANGES)]
                before = [self.change(kind, fact, step - 1) for kind in range(CHANGES)]
                for kind, actions in ((ADD, adders), (DEL, deleters), (PREADD, keepers)):
                    done = [self.done(action, step) for action in actions[fact]]
                    self.rows.at_least([*((each, 1) for each in done), (at[kind], -1)], 0)  # (4) (6) (8)
                    for each in done:
                        self.rows.at_most([(each, 1), (at[kind], -1)], 0)  # (5) (7) (9)
                taken = [(self.done(action, step), 1) for action in takers[fact]]
                self.rows.equal([*taken, (at[PREDEL], -1)], 0)  # (10)
                self.rows.at_most([(at[kind], 1) for kind in (ADD, MAINTAIN, DEL, PREDEL)], 1)  # (11)
                self.rows.at_most([(at[kind], 1) for kind in (PREADD, MAINTAIN, DEL, PREDEL)], 1)  # (12)
                held = [(at[kind], 1) for kind in (PREADD, MAINTAIN, PREDEL)]
                self.rows.at_most([*held, *((before[kind], -1) for kind in (PREADD, ADD, MAINTAIN))], 0)  # (13)

    def by_fact(self, effects: Sequence[Effects], kind: int) -> list[list[int]]:
        """For each proposition the actions that do this to it."""
        found: list[list[int]] = [[] for _ in self.facts]
        for number, each in enumerate(effects):
            needs, adds, deletes = set(each.needs), set(each.adds), set(each.deletes)
            chosen = {
                ADD: adds - needs,
                DEL: deletes - needs,
                PREADD: needs - deletes,
                PREDEL: needs & deletes,
            }[kind]
            for fact in chosen:
                found[self.number[fact]].append(number)
        return found

    def actions_at(self, values: Sequence[float]) -> list[tuple[Action, ...]]:
        """The actions of each step."""
        return [
            tuple(action for number, action in enumerate(self.actions) if values[self.done(number, step)] > 0.5)
            for step in range(1, self.steps + 1)
        ]
