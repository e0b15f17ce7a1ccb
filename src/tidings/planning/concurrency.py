"""Which actions of a step are carried out at once.

The source has those at once that share no broker (dependable.md G-32). That is one condition too few. While a link is
shifted there are three links between three brokers, and what its mover tells comes back to it: by the other two, over
both of its links. It passes that on, since it cannot know an echo from what somebody there wants too. One such mirror
does no harm, for an echo goes away from it. Two that *face* each other, each mover on the other's own side, throw a
change to and fro: what is withdrawn runs round behind what was told, and does not catch up with it. Both shifts wait
for tables that come to rest, and these do not.

So two shifts are done at once if they share no broker and do not face each other. Which side a broker is on does not
change while others are shifted, so it is asked of the tree at the beginning of the step.

`waves` says what that makes of a plan when every action takes the same time.
"""

from collections.abc import Iterable, Iterator, Sequence

from tidings.model.identity import NodeId
from tidings.planning.operations import SHIFT, Action, links_in
from tidings.planning.plan import TopologyPlan
from tidings.planning.tree import Link, neighbours_of


class TreeSides:
    """Who is on which side of a link, of a tree or of several: numbers of a walk, from which that is read."""

    def __init__(self, links: Iterable[Link]) -> None:
        around = neighbours_of(links)
        self.begins: dict[NodeId, int] = {}
        self.ends: dict[NodeId, int] = {}
        count = 0
        for root in around:
            waiting: list[tuple[NodeId, bool]] = [(root, False)]
            while waiting:
                broker, is_left = waiting.pop()
                if is_left:
                    self.ends[broker] = count
                elif broker not in self.begins:
                    self.begins[broker] = count = count + 1
                    waiting.append((broker, True))
                    waiting += [(other, False) for other in around[broker] if other not in self.begins]

    def is_below(self, broker: NodeId, top: NodeId) -> bool:
        return self.begins[top] <= self.begins[broker] <= self.ends[top]

    def is_beside(self, broker: NodeId, near: NodeId, far: NodeId) -> bool:
        """Whether it is on the side of `near` of the link near - far."""
        if not {broker, near, far} <= self.begins.keys():
            return True
        if self.begins[near] > self.begins[far]:
            return self.is_below(broker, near)
        return not self.is_below(broker, far)

    def are_facing(self, first: Action, second: Action) -> bool:
        """Whether each mover is on the other's own side."""
        if first.operation != SHIFT or second.operation != SHIFT:
            return False
        (one, old), (other, others_old) = first.brokers[:2], second.brokers[:2]
        return self.is_beside(other, one, old) and self.is_beside(one, other, others_old)

    def do_fit(self, first: Action, second: Action) -> bool:
        """Whether both may be under way at the same time."""
        return set(first.brokers).isdisjoint(second.brokers) and not self.are_facing(first, second)

    def next_of(self, waiting: Iterable[Action], under_way: Iterable[Action]) -> Iterator[Action]:
        """Those that may begin now, the first to wait going first."""
        begun = list(under_way)
        for action in waiting:
            if all(self.do_fit(action, other) for other in begun):
                begun.append(action)
                yield action


def waves(plan: TopologyPlan) -> list[list[Action]]:
    """What is under way at once, one after the other, if all take equally long."""
    found: list[list[Action]] = []
    for step, state in zip(plan.steps, plan.states(), strict=False):
        sides, waiting = TreeSides(links_in(state)), list[Action](step)
        while waiting:
            found.append(list(sides.next_of(waiting, ())))
            waiting = without(waiting, found[-1])
    return found


def without(actions: Sequence[Action], gone: Sequence[Action]) -> list[Action]:
    return [each for each in actions if each not in gone]
