"""A plan as a value: where it begins, where it ends, and the steps between.

A step is a set of actions that may be done in any order, or at once: none needs what another one takes away. After
each step, and after each action within one, the network is a tree. A plan says nothing of how it was found; what is
known about that (which actions were to choose from, whether fewer steps are impossible) is a `PlanProof` beside it.

A machine that carries plans out takes them step by step: `steps[n]` begins when all of `steps[n - 1]` is done.
"""

from collections.abc import Iterator, Mapping

import msgspec

from tidings.planning.operations import (
    OPERATIONS,
    Action,
    Operation,
    OverlayState,
    apply,
    effects_of,
    links_in,
    state_of,
)
from tidings.planning.tree import Link, OverlayTree

PlanStep = tuple[Action, ...]


class Limits(msgspec.Struct, frozen=True):
    """What a plan must keep to besides."""

    degree_max: int | None = None
    """Links of a broker at any time; one that has more today may keep as many."""
    is_apart: bool = False
    """No broker takes part in two actions of a step. The source assumes this of its plans, and does not ask for it."""
    actions_max: int | None = None
    """Actions of a step."""


NO_LIMITS = Limits()


class TopologyPlan(msgspec.Struct, frozen=True):
    initial: OverlayTree
    goal: OverlayTree
    steps: tuple[PlanStep, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        return tuple(action for step in self.steps for action in step)

    def states(self, operations: Mapping[str, Operation] = OPERATIONS) -> Iterator[OverlayState]:
        """Today's, and the one after each step; only for a plan that is sound."""
        goal = frozenset(self.goal.links)
        state = state_of(self.initial, goal)
        yield state
        for step in self.steps:
            for action in step:
                state = apply(effects_of(action, goal, operations), state)
            yield state

    def links_after(self) -> list[frozenset[Link]]:
        """Links today, and after each step."""
        return [links_in(state) for state in self.states()]


class PlanProof(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about how good a plan is, among the plans of its action set."""

    method: str
    """How it was found."""
    action_set: str
    steps_min: int
    """Fewer steps are impossible."""
    cost: float
    """Of all its actions, by the costs that were given; 1 each where none were."""
    cost_min: float
    """No plan with as many steps costs less."""

    @property
    def gap(self) -> float:
        """How much more it costs than the least possible may be, as a share of the least possible."""
        return self.cost / self.cost_min - 1.0 if self.cost_min > 0 else 0.0


class PlannedChange(msgspec.Struct, frozen=True):
    plan: TopologyPlan
    proof: PlanProof
