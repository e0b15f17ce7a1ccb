"""How long a plan takes, how late it makes events, and what it has brokers say: before it is carried out.

Carrying a plan out is talk between few brokers (`protocols/coordination`, `protocols/routing/repairs/shift.py`), so its
time is a number of ways between them. These numbers were counted in the simulator, where a message takes exactly its
latency, and stand below. What a program itself takes to compute is not in them, nor is waiting in queues: on a fast
network and a busy machine that is all there is.

    all brokers engage      6 ways between the deployer and the farthest broker
    a shift                 2 ways between deployer and brokers, 3 between mover and old neighbour, 4 between old and
                            new, 14 between mover and new, who have no link at first; 9 where they have one, since one
                            of them is the deployer
    events that are held    4 ways between mover and new, 2 between old and new, 2 between mover and old

A step takes as long as its rows of actions that cannot be done at once (`concurrency.py`).

What is said beside that: each broker is engaged and let go, each action has its words, and the new link is told the
tables of both its ends, and taken back what comes from there anyway. So messages grow with the filters and
advertisements that a broker knows, `entries`; they are packed into few packets, of which that is no count.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

import msgspec

from tidings.model.identity import NodeId
from tidings.planning.concurrency import TreeSides
from tidings.planning.operations import SHIFT, Action, links_in
from tidings.planning.plan import PlanStep, TopologyPlan
from tidings.planning.traffic import Traffic
from tidings.planning.tree import Link, link

LOOK_AFTER = 0.005
"""Seconds: a broker looks so often whether a shift can go on."""

ENGAGE_WAYS = 6
ORDER_WAYS = 2
MOVER_OLD_WAYS, OLD_NEW_WAYS, MOVER_NEW_WAYS, LINKED_WAYS = 3, 4, 14, 9
LEAF_WAYS, LEAF_GONE_WAYS = 9, 4
HELD_WAYS = (2, 2, 4)
"""Between mover and old, old and new, mover and new."""

MESSAGES_OF_BROKER, MESSAGES_OF_ACTION = 9, 45


class PlanEstimate(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    """From the order to the end."""
    delay: float
    """Seconds for which an event may be held where a link is shifted, at most."""
    messages: int
    """Of all brokers together."""
    has_latencies: bool
    """Whether any latency is known; else all are taken to be the same small one."""


def estimate(plan: TopologyPlan, traffic: Traffic, deployer: NodeId, entries: int = 0) -> PlanEstimate:
    ways = Ways(traffic, deployer)
    everybody = sorted({*plan.initial.brokers, *plan.goal.brokers})
    seconds = ENGAGE_WAYS * ways.farthest(everybody)
    for step, state in zip(plan.steps, plan.states(), strict=False):
        seconds += ways.time_of(step, links_in(state))
    shifts = [each for each in plan.actions if each.operation == SHIFT]
    return PlanEstimate(
        seconds=seconds,
        delay=max((ways.held(each) for each in shifts), default=0.0),
        messages=MESSAGES_OF_BROKER * (len(everybody) - 1) + len(plan.actions) * (MESSAGES_OF_ACTION + entries),
        has_latencies=bool(traffic.latencies),
    )


class Ways:
    def __init__(self, traffic: Traffic, deployer: NodeId) -> None:
        self.latencies, self.otherwise, self.deployer = traffic.latencies, traffic.latency_otherwise, deployer

    def between(self, a: NodeId, b: NodeId) -> float:
        return 0.0 if a == b else self.latencies.get(link(a, b), self.otherwise)

    def farthest(self, brokers: Iterable[NodeId]) -> float:
        return max(self.between(self.deployer, each) for each in brokers)

    def held(self, action: Action) -> float:
        mover, old, new = action.brokers
        pairs = (mover, old), (old, new), (mover, new)
        return sum(count * self.between(*pair) for count, pair in zip(HELD_WAYS, pairs, strict=True))

    def duration(self, action: Action) -> float:
        ordered = ORDER_WAYS * self.farthest(action.brokers)
        first, second, *more = action.brokers
        if action.operation != SHIFT:
            ways = LEAF_WAYS if action.operation == "append" else LEAF_GONE_WAYS
            return ordered + ways * self.between(first, second)
        (new,) = more
        across = LINKED_WAYS if self.deployer in (first, new) else MOVER_NEW_WAYS
        talk = (first, second, MOVER_OLD_WAYS), (second, new, OLD_NEW_WAYS), (first, new, across)
        return ordered + LOOK_AFTER + sum(count * self.between(a, b) for a, b, count in talk)

    def time_of(self, step: PlanStep, links: Iterable[Link]) -> float:
        """Actions begin as soon as what they cannot be done beside is over."""
        sides, waiting, now = TreeSides(sorted(links)), list[Action](step), 0.0
        under_way: list[tuple[float, int, Action]] = []
        places = {action: place for place, action in enumerate(step)}
        while waiting or under_way:
            for action in list(sides.next_of(waiting, [each for _, _, each in under_way])):
                waiting.remove(action)
                heappush(under_way, (now + self.duration(action), places[action], action))
            now, _, _ = heappop(under_way)
        return now
