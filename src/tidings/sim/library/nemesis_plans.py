"""Plans in a run of the nemesis: the tree of the brokers changes while everything else goes wrong.

Some links of the tree are to be others, and a broker is asked to carry that out; later another one, of the tree that
there is if the first plan was done, or of one that there is not, which has to be refused. Some plans are aborted, and
gone on with. Brokers crash meanwhile, those that carry plans out too; what they know of plans is on their disks.

Judged, beside all that clients were promised: when the faults are over for a while, no plan is under way any more, and
the links are a tree that reaches everybody. Nobody does anything by hand.
"""

from collections.abc import Sequence
from random import Random

from tidings.machine.streams import RandomStream, random_stream
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerNode
from tidings.planning.plan import TopologyPlan
from tidings.planning.quick import quick_plan
from tidings.planning.tree import OverlayTree, is_tree, link, neighbours_of, reached_from, tree_of
from tidings.protocols.coordination.deployer import UNDER_WAY
from tidings.protocols.coordination.messages import AbortPlan, CarryOut, ResumePlan
from tidings.protocols.coordination.params import CoordinationParams
from tidings.sim.cast import TimedInput
from tidings.sim.checkers import Checker, Problem
from tidings.sim.simulator import Simulator
from tidings.workloads.nemesis.campaign import BEGIN
from tidings.workloads.substitutions import Pair

PLANS_MAX = 3
TRIES = 2
"""Of the planner: how good plans are does not matter here."""

COORDINATION = CoordinationParams(is_durable=True)


def draw_plans(names: Sequence[NodeId], links: Sequence[Pair], until: float, seed: int) -> list[TimedInput]:
    """What is asked of whom; `links` form a tree."""
    rng = random_stream(seed, "nemesis plans")
    count = rng.below(PLANS_MAX + 1)
    times = sorted(round(rng.uniform(BEGIN, max(until, BEGIN)), 3) for _ in range(count))
    today, script = tree_of([link(*each) for each in links], names), list[TimedInput]()
    for number, at in enumerate(times):
        goal = drawn_goal(rng, today)
        found = quick_plan(today, goal, Random(seed), tries=TRIES)
        if found is None or not found.plan.actions:
            continue
        deployer = rng.choice(list(names))
        script.append(TimedInput(at, deployer, CarryOut(found.plan, name=f"nemesis-{number}")))
        if rng.random() < 0.3:
            aborted_at = round(at + rng.uniform(0.0, 3.0), 3)
            script.append(TimedInput(aborted_at, deployer, AbortPlan("drawn")))
            script.append(TimedInput(round(aborted_at + rng.uniform(0.5, 5.0), 3), deployer, ResumePlan()))
        today = found.plan.goal if rng.random() < 0.9 else today
    return script


def drawn_goal(rng: RandomStream, today: OverlayTree) -> OverlayTree:
    """With some links less, and others that join the parts again."""
    links = set(today.links)
    for gone in [each for each in today.links if rng.random() < 0.3]:
        beside = reached_from(neighbours_of(sorted(links - {gone}), today.brokers), gone[0])
        a = rng.choice([name for name in today.brokers if name in beside])
        b = rng.choice([name for name in today.brokers if name not in beside])
        links = (links - {gone}) | {link(a, b)}
    return tree_of(sorted(links), today.brokers)


class PlansOver(Checker):
    """No plan is left half done, and the brokers are a tree."""

    name = "plans"

    def __init__(self, brokers: Sequence[NodeId], plans: Sequence[TopologyPlan]) -> None:
        self.brokers, self.plans = list(brokers), list(plans)
        self.done = self.actions = 0

    def at_end(self, world: Simulator) -> list[Problem]:
        problems: list[Problem] = []
        near: dict[NodeId, set[NodeId]] = {}
        for name in self.brokers:
            node = world.node(name)
            assert isinstance(node.machine, BrokerNode)
            near[name] = set(node.machine.overlay.neighbours)
            for row in node.machine.coordination.deployer.plan_rows(world.now):
                self.done += row.state == "done"
                self.actions += row.actions_done
                if row.state in UNDER_WAY:
                    text = f"plan {row.plan} is still {row.state}, step {row.step} of {row.steps} ({row.problem})"
                    problems.append(Problem(self.name, text, name, world.now))
            if (action := node.machine.coordination.agent.action) is not None:
                problems.append(Problem(self.name, f"action {action.number} is still under way", name, world.now))
        links = [(a, b) for a in self.brokers for b in sorted(near[a]) if a < b and a in near[b]]
        loose = [(a, b) for a in self.brokers for b in sorted(near[a]) if a not in near[b]]
        if loose:
            problems.append(Problem(self.name, f"only one end has the link: {loose[:3]}", loose[0][0], world.now))
        elif not is_tree(links, self.brokers):
            problems.append(Problem(self.name, f"the links are no tree: {links}", self.brokers[0], world.now))
        return problems

    def figures(self) -> dict[str, int]:
        return {"plans": len(self.plans), "plans done": self.done, "actions done": self.actions}
