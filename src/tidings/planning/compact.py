"""The integer program that plans are made with: the same plans as `literal.py`, a fortieth of its size.

**Links instead of propositions.** Whether a link is removable follows from the goal, so it is no variable. What is
left is one variable for each link and step, `there`, and one for each action and step, `done`:

    there[e,t] = there[e,t-1] + those that add e - those that delete e
    those that delete e  <= there[e,t-1]                          it is there before
    those that add e     <= 1 - there[e,t-1]                      it is not there before
    a, and those that delete e  <= there[e,t-1]                   for each a that needs e and leaves it

Links of both trees never change and have no variable; an action that would touch one is left out.

**Windows.** A link that is neither here today nor in the goal comes into being at some step and has to be gone again.
How soon it can be there follows from today's tree (`soonest`): an action can be done one step after the last of the
links that it needs can be there. How late it can still be there follows from the goal (`to_go`): so many actions at
least lie between it and some goal link. Outside of these windows there is no variable. With the fewest steps for which
there is a plan windows are narrow; of fewer steps the relaxation mostly says at once that they do not suffice. This is
what makes the search for the fewest steps cheap.

**Sharper rows.** If two actions need the same link, and each undoes the other (i-j to i-k, i-k to i-j), then in no
tree can both be done, since the three links would be a circle; so they share a row. The same plans obey it, and fewer
fractions do.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from math import inf

import msgspec

from tidings.model.identity import NodeId
from tidings.planning.operations import OPERATIONS, Action, Connected, Goal, Operation, Removable, effects_of
from tidings.planning.plan import NO_LIMITS, Limits, PlanStep
from tidings.planning.program import Program, ProgramRows
from tidings.planning.tree import Link, OverlayTree


class LinkChange(msgspec.Struct, frozen=True):
    """An action, as far as links can change at all."""

    action: Action
    cost: float
    removes: tuple[Link, ...]
    adds: tuple[Link, ...]
    keeps: tuple[Link, ...]
    """Needed, and left; links of both trees are always there and do not count."""


def changes_of(
    initial: OverlayTree,
    goal: OverlayTree,
    actions: Sequence[Action],
    costs: Mapping[Action, float] | None = None,
    operations: Mapping[str, Operation] = OPERATIONS,
) -> list[LinkChange]:
    """Of actions that change the same links the cheapest, without those that can never be done."""
    target: Goal = frozenset(goal.links)
    fixed = target.intersection(initial.links)
    cheapest: dict[tuple[tuple[Link, ...], ...], LinkChange] = {}
    for action in actions:
        effects = effects_of(action, target, operations)
        needs = {each.link for each in effects.needs if isinstance(each, Connected)}
        removes = tuple(each.link for each in effects.deletes if isinstance(each, Connected))
        adds = tuple(each.link for each in effects.adds if isinstance(each, Connected))
        if any(isinstance(each, Removable) and each.link in target for each in effects.needs):
            continue
        if not fixed.isdisjoint(adds) or not fixed.isdisjoint(removes):
            continue
        cost = 1.0 if costs is None else costs.get(action, 1.0)
        keeps = tuple(sorted(needs.difference(removes, fixed)))
        known = cheapest.get((removes, adds, keeps))
        if known is None or cost < known.cost:
            cheapest[removes, adds, keeps] = LinkChange(action, cost, removes, adds, keeps)
    return list(cheapest.values())


class LinkWindows:
    """When each link can be there, and each action be done, whatever the number of steps."""

    def __init__(self, initial: OverlayTree, goal: OverlayTree, changes: Sequence[LinkChange]) -> None:
        self.initial, self.goal = frozenset(initial.links), frozenset(goal.links)
        self.soonest = self.count_from_today(changes)
        possible = [each for each in changes if all(one in self.soonest for one in (*each.removes, *each.keeps))]
        self.to_go = self.count_from_goal(possible)
        self.changes = [
            each for each in possible if all(one in self.to_go for one in (*each.removes, *each.adds, *each.keeps))
        ]
        self.steps_min = self.count_steps()

    def part(self, changes: Sequence[LinkChange]) -> "LinkWindows":
        """Only these actions, and the links that they touch."""
        links = {link for each in changes for link in (*each.removes, *each.adds, *each.keeps)}
        part = copy(self)
        part.initial, part.goal, part.changes = self.initial & links, self.goal & links, list(changes)
        part.steps_min = part.count_steps()
        return part

    def count_from_today(self, changes: Sequence[LinkChange]) -> dict[Link, int]:
        soonest = dict.fromkeys(self.initial, 0)
        waiting, step = list(changes), 0
        while True:
            step += 1
            can = [each for each in waiting if all(one in soonest for one in (*each.removes, *each.keeps))]
            if not can:
                return soonest
            done = set(map(id, can))
            waiting = [each for each in waiting if id(each) not in done]
            for each in can:
                for added in each.adds:
                    soonest.setdefault(added, step)

    def count_from_goal(self, changes: Sequence[LinkChange]) -> dict[Link, int]:
        to_go = dict.fromkeys(self.goal, 0)
        waiting, step = list(changes), 0
        while True:
            step += 1
            can = [each for each in waiting if all(one in to_go for one in each.adds)]
            if not can:
                return to_go
            done = set(map(id, can))
            waiting = [each for each in waiting if id(each) not in done]
            for each in can:
                for removed in each.removes:
                    to_go.setdefault(removed, step)

    def count_steps(self) -> int | None:
        """No plan has fewer steps; None if there is none at all with these actions."""
        missing, removable = self.goal - self.initial, self.initial - self.goal
        if any(each not in self.soonest for each in missing) or any(each not in self.to_go for each in removable):
            return None
        return max([*(self.soonest[each] for each in missing), *(self.to_go[each] for each in removable)], default=0)

    def first_step(self, change: LinkChange) -> int:
        return 1 + max((self.soonest[each] for each in (*change.removes, *change.keeps)), default=0)

    def last_step(self, change: LinkChange, steps: int) -> int:
        return steps - max((self.to_go[each] for each in (*change.adds, *change.keeps)), default=0)


class CompactProgram:
    """For one number of steps; `is_possible` is false where windows alone say that there is no plan."""

    def __init__(
        self,
        windows: LinkWindows,
        steps: int,
        limits: Limits = NO_LIMITS,
        degrees_allowed: Mapping[NodeId, int] | None = None,
        cost_max: float = inf,
    ) -> None:
        self.windows, self.steps = windows, steps
        self.rows = ProgramRows()
        self.costs: list[float] = []
        self.chosen: list[tuple[LinkChange, int]] = []
        """What each of the first variables stands for: this action, done in this step."""
        self.there: dict[tuple[Link, int], int] = {}
        self.adding: defaultdict[tuple[Link, int], list[int]] = defaultdict(list)
        self.removing: defaultdict[tuple[Link, int], list[int]] = defaultdict(list)
        self.keeping: defaultdict[tuple[Link, int], list[int]] = defaultdict(list)
        self.is_possible = windows.steps_min is not None and steps >= windows.steps_min
        if self.is_possible:
            self.add_variables()
            self.add_links()
            self.add_needs()
            self.add_limits(limits, degrees_allowed or {})
            if cost_max < inf:
                self.rows.at_most([(number, cost) for number, cost in enumerate(self.costs) if cost], cost_max)
        self.program = Program(self.costs, self.rows)

    def add_variables(self) -> None:
        for change in self.windows.changes:
            for step in range(self.windows.first_step(change), self.windows.last_step(change, self.steps) + 1):
                number = len(self.chosen)
                self.chosen.append((change, step))
                for links, index in (
                    (change.adds, self.adding),
                    (change.removes, self.removing),
                    (change.keeps, self.keeping),
                ):
                    for each in links:
                        index[each, step].append(number)
        self.costs = [change.cost for change, _ in self.chosen]
        changing = {each for change in self.windows.changes for each in (*change.removes, *change.adds)}
        self.changing = sorted(changing)
        for each in self.changing:
            first = max(1, self.windows.soonest[each])
            last = min(self.steps - 1, self.steps - self.windows.to_go[each])
            for step in range(first, last + 1):
                self.there[each, step] = len(self.costs)
                self.costs.append(0.0)

    def presence(self, each: Link, step: int) -> tuple[int, int | None]:
        """Whether the link is there after the step: a number, plus a variable."""
        if step == 0:
            return int(each in self.windows.initial), None
        if step == self.steps:
            return int(each in self.windows.goal), None
        return 0, self.there.get((each, step))

    def add_links(self) -> None:
        for each in self.changing:
            for step in range(1, self.steps + 1):
                adding = [(number, 1) for number in self.adding.get((each, step), ())]
                removing = [(number, 1) for number in self.removing.get((each, step), ())]
                before, variable_before = self.presence(each, step - 1)
                after, variable_after = self.presence(each, step)
                was = [] if variable_before is None else [(variable_before, 1)]
                is_now = [] if variable_after is None else [(variable_after, -1)]
                taken = [(number, -1) for number, _ in removing]
                if adding or taken or was or is_now or before != after:
                    self.rows.equal([*adding, *taken, *was, *is_now], after - before)
                if removing and (each, step) not in self.keeping:
                    self.rows.at_most([*removing, *((number, -1) for number, _ in was)], before)
                if adding:
                    self.rows.at_most([*adding, *was], 1 - before)

    def add_needs(self) -> None:
        for (each, step), needing in self.keeping.items():
            before, variable = self.presence(each, step - 1)
            was = [] if variable is None else [(variable, -1)]
            removing = [(number, 1) for number in self.removing.get((each, step), ())]
            rivals: defaultdict[frozenset[Link], list[tuple[int, int]]] = defaultdict(list)
            for number in needing:
                change = self.chosen[number][0]
                rivals[frozenset((*change.removes, *change.adds))].append((number, 1))
            for group in rivals.values():
                self.rows.at_most([*group, *removing, *was], before)

    def add_limits(self, limits: Limits, degrees_allowed: Mapping[NodeId, int]) -> None:
        if limits.actions_max is not None or limits.is_apart:
            at_once: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
            sharing: defaultdict[tuple[NodeId, int], list[tuple[int, int]]] = defaultdict(list)
            for number, (change, step) in enumerate(self.chosen):
                at_once[step].append((number, 1))
                for broker in change.action.brokers:
                    sharing[broker, step].append((number, 1))
            if limits.actions_max is not None:
                for numbers in at_once.values():
                    self.rows.at_most(numbers, limits.actions_max)
            if limits.is_apart:
                for numbers in sharing.values():
                    self.rows.at_most(numbers, 1)
        if degrees_allowed:
            self.add_degrees(degrees_allowed)

    def add_degrees(self, allowed: Mapping[NodeId, int]) -> None:
        """Links before the step and all that come in it: so many there are at once, if what goes goes last."""
        gaining: defaultdict[tuple[NodeId, int], list[tuple[int, int]]] = defaultdict(list)
        for number, (change, step) in enumerate(self.chosen):
            for broker, gained in gains(change).items():
                if gained > 0:
                    gaining[broker, step].append((number, gained))
        around: defaultdict[NodeId, list[Link]] = defaultdict(list)
        for each in self.changing:
            for broker in each:
                around[broker].append(each)
        fixed = Counter(broker for each in self.windows.initial & self.windows.goal for broker in each)
        for (broker, step), more in gaining.items():
            terms, count = list(more), fixed[broker]
            for each in around[broker]:
                before, variable = self.presence(each, step - 1)
                count += before
                if variable is not None:
                    terms.append((variable, 1))
            self.rows.at_most(terms, allowed[broker] - count)

    def steps_in(self, values: Sequence[float]) -> tuple[PlanStep, ...]:
        steps: list[list[Action]] = [[] for _ in range(self.steps)]
        for (change, step), value in zip(self.chosen, values, strict=False):
            if value > 0.5:
                steps[step - 1].append(change.action)
        return tuple(tuple(sorted(each)) for each in steps)


def gains(change: LinkChange) -> dict[NodeId, int]:
    gained: defaultdict[NodeId, int] = defaultdict(int)
    for links, sign in ((change.adds, 1), (change.removes, -1)):
        for each in links:
            for broker in each:
                gained[broker] += sign
    return gained
