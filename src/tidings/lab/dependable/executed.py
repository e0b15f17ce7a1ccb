"""What E19 to E22 have in common: a plan carried out by brokers while events flow.

The tree and its goal are those of E15 (`planners.py`), the latencies those of W-ITT: 10 to 50 ms for each link, also
for those that come. At the root `publishers` clients publish `rate` events a second each, in ten classes with two
attributes; subscribers are clients at random leaves, with a class by Zipf's law (a = 1.1) and a range of one attribute.
When `begin` seconds have passed the root is asked to carry the plan out, of set E or of best-first search.

The source has 1,000 subscribers and lets publishers run for ten minutes; here both are parameters of the scale. Between
brokers without a link the deployer's orders take as long as the slowest link.

**Trace.** Deliveries, and the notes `PlanExecuted` and `Shifted`; the metrics read no others.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from tidings.lab.dependable.planners import SEARCH, program_planner, search_planner, workload
from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.planning.plan import TopologyPlan
from tidings.planning.tree import OverlayTree
from tidings.protocols.access.params import GuestParams
from tidings.protocols.coordination.messages import CarryOut
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.overlay.scripted import ScriptedParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import Arrived, OpenAdvertisement, OpenSubscription, PublishBatch, Took
from tidings.pubsub.publications import encode_head
from tidings.sim.checkers import Checker, Judges
from tidings.sim.network.latency import Matrix
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.simulator import Simulator
from tidings.trace.writer import Writer
from tidings.workloads.topology_changes import TopologyChange

ROOT = "b0"
CLASSES, ZIPF = 10, 1.1
VALUES = 1000
SETTLED_AT = 5.0
"""When publishing begins: all is installed."""

LAST = 5.0
"""Seconds of events behind the end of the plan."""

PLAN_TIME_MAX = 600.0


class Taking(Checker):
    """Applications take what they are given."""

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        if isinstance(item, Arrived):
            node.world.inject(now, node.id, Took(item.subscription, len(item.numbers)))


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: brokers, change, planner, publishers, rate, subscribers, begin, seconds_max, states_max."""
    trees = workload(parameters["brokers"], parameters["change"], seed)
    plan = plan_of(parameters, trees.today(), trees.goal(), seed)
    if plan is None:
        return {}
    simulator = Simulator(seed, network_of(trees, parameters), trace=trace, observers=[Judges([Taking()])])
    for name in trees.today().brokers:
        simulator.add(name, partial(broker, trees.today(), name))
    begin = SETTLED_AT + parameters["begin"]
    add_clients(simulator, trees.today(), parameters, seed)
    simulator.inject(begin, ROOT, CarryOut(plan))
    until = begin
    while not is_over(simulator) and until < begin + PLAN_TIME_MAX:
        publish(simulator, parameters, until, until + LAST, seed)
        until += LAST
        simulator.run(until)
    publish(simulator, parameters, until, until + LAST, seed)
    simulator.run(until + LAST)
    return {"done": float(is_over(simulator)), "actions": float(len(plan.actions)), "steps": float(len(plan.steps))}


def plan_of(parameters: Mapping[str, Any], initial: OverlayTree, goal: OverlayTree, seed: int) -> TopologyPlan | None:
    if parameters["planner"] == SEARCH:
        planner = search_planner(seed, parameters["states_max"], parameters["seconds_max"])
    else:
        planner = program_planner(parameters["planner"], parameters["seconds_max"])
    return planner(initial, goal)[0]


def network_of(trees: TopologyChange, parameters: Mapping[str, Any]) -> Matrix:
    delays: dict[tuple[NodeId, NodeId], float] = {}
    for row in trees.link_rows():
        delays[row["a"], row["b"]] = delays[row["b"], row["a"]] = row["latency"]
    return Matrix(delays, default=0.050)


def broker(tree: OverlayTree, name: NodeId, draws: Draws) -> BrokerNode:
    params = BrokerParams(
        overlay=ScriptedParams(neighbours=tuple(tree.neighbours()[name])),
        routing=RoutingParams(engine="plain", repair="shift"),
    )
    return BrokerNode(name, params, draws("access"))


def client(at: NodeId, name: NodeId, draws: Draws) -> ClientNode:
    return ClientNode(name, GuestParams(brokers=(at,)), SessionParams(), draws("access"))


def add_clients(simulator: Simulator, tree: OverlayTree, parameters: Mapping[str, Any], seed: int) -> None:
    rng = random_stream(seed, "executed subscribers")
    leaves = [name for name, others in tree.neighbours().items() if len(others) == 1 and name != ROOT]
    weights = [1.0 / (rank + 1) ** ZIPF for rank in range(CLASSES)]
    for number in range(parameters["publishers"]):
        simulator.add(f"p{number}", partial(client, ROOT, f"p{number}"))
        simulator.inject(1.0, f"p{number}", OpenAdvertisement("offer", f"class = {number % CLASSES}"))
    for number in range(parameters["subscribers"]):
        kind = rng.choices(range(CLASSES), weights)[0]
        low, high = sorted((rng.randrange(VALUES), rng.randrange(VALUES)))
        name = f"s{number}"
        simulator.add(name, partial(client, rng.choice(leaves), name))
        wanted = f"class = {kind} AND x >= {low} AND x <= {high}"
        simulator.inject(2.0, name, OpenSubscription("want", wanted))
    publish(simulator, parameters, SETTLED_AT, SETTLED_AT + parameters["begin"], seed)


def publish(simulator: Simulator, parameters: Mapping[str, Any], begin: float, end: float, seed: int) -> None:
    rng = random_stream(seed, "executed events", begin)
    for number in range(parameters["publishers"]):
        at = begin + rng.random() / parameters["rate"]
        while at < end:
            head = encode_head({"class": number % CLASSES, "x": rng.randrange(VALUES), "y": rng.randrange(VALUES)})
            simulator.inject(at, f"p{number}", PublishBatch(1, (head,), (b"",)))
            at += 1.0 / parameters["rate"]


def is_over(simulator: Simulator) -> bool:
    root = simulator.node(ROOT).machine
    return isinstance(root, BrokerNode) and any(
        row.state in ("done", "aborted") for row in root.coordination.deployer.plan_rows(simulator.now)
    )
