"""What E19 to E22 have in common: a plan carried out by brokers while events flow.

The tree and its goal are those of E15 (`planners.py`), the latencies those of W-ITT: 10 to 50 ms for each link, also
for those that come. At the root `publishers` clients publish `rate` events a second each, in ten classes with two
attributes; subscribers are clients at random leaves, with a class by Zipf's law (a = 1.1) and a range of one attribute.
When `begin` seconds have passed the root is asked to carry the plan out, of set E or of best-first search.

The source has 1,000 subscribers and lets publishers run for ten minutes; here both are parameters of the scale. Between
brokers without a link the deployer's orders take as long as the slowest link.

`compared` sets both planners side by side, tree by tree, for whatever a group is: a size, a share, some subscribers.

**Trace.** Deliveries, and the notes `PlanExecuted` and `Shifted`; the metrics read no others.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tidings.lab.dependable.planners import SEARCH, program_planner, search_planner, workload
from tidings.lab.experiment import Canvas, Column, DataFrame, Measured, Variant
from tidings.lab.figures import measured, over_seeds, parameter, side_by_side
from tidings.lab.plots import bars
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
from tidings.spark.metrics.changes import plan_execution_time, transformation_latency
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

BOTH = ("E", SEARCH)

COLUMNS = ("execution_seconds_max", "affected", "affected_latency_p99", "unaffected_latency_p99")


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


def variants_of(name: str, values: Mapping[str, Any]) -> tuple[Variant, ...]:
    """Each value of a parameter, with both planners."""
    return tuple(
        Variant(f"{group}, {planner}", {name: value, "planner": planner})
        for group, value in values.items()
        for planner in BOTH
    )


def pairs_of(results: DataFrame, traces: DataFrame, group: Column) -> DataFrame:
    table = plan_execution_time(traces).join(transformation_latency(traces), on="run", how="inner")
    return side_by_side(measured(results, table, *COLUMNS), group=group, side=parameter("planner"))


def compared(pairs: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    ours, searched = F.col("sides")["E"], F.col("sides")[SEARCH]
    time = ours["execution_seconds_max"] / searched["execution_seconds_max"]
    return over_seeds(
        pairs,
        {
            "time": time - 1,
            "seconds, E": ours["execution_seconds_max"],
            "seconds, search": searched["execution_seconds_max"],
            "later, E": later(ours),
            "later, search": later(searched),
            "affected to time": ours["affected"] / searched["affected"] / time,
        },
    )


def later(side: Column) -> Column:
    return side["affected_latency_p99"] - side["unaffected_latency_p99"]


def ends_of(pairs: DataFrame, size: Column) -> DataFrame:
    """What the last group has, in multiples of the first, planner by planner; a row of a seed has both `sides`."""
    from pyspark.sql import functions as F

    both = (
        pairs.withColumn("size", size)
        .groupBy("seed")
        .agg(F.min_by("sides", "size").alias("first"), F.max_by("sides", "size").alias("last"))
    )
    figures = {}
    for name in BOTH:
        first, last = F.col("first")[name], F.col("last")[name]
        figures[f"time grows, {name}"] = last["execution_seconds_max"] / first["execution_seconds_max"]
        figures[f"affected grows, {name}"] = last["affected_latency_p99"] / first["affected_latency_p99"]
    return over_seeds(both.withColumn("group", F.lit("largest to smallest")), figures)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    bars(left, measured, {"seconds, E": "E", "seconds, search": "search"})
    left.set(title="carrying a plan out", ylabel="seconds")
    bars(right, measured, {"later, E": "E", "later, search": "search"}, scale=1000)
    right.set(title="99th percentile of events meanwhile, above others", ylabel="ms")
