"""A tree of dispatchers whose nodes come and go, and what is measured of it: the runs of E16 to E21.

Two scenarios. In a *catastrophe* all nodes join one after the other, and when the tree is at rest a quarter of them
crash at once. Under *churn* nodes come for sessions as those of a file-sharing network, whose number swings with the
time of day (`workloads/churn.py`; the recorded trace of the source is not to be had). Delays are 20 to 80 ms one way. A
crash is noticed 150 to 200 ms later; the times to repair are from there on. A node begins with three that are there.

The times of the protocol are those of the source and of dynamic-topologies.md 3.9.10. Links are asked for before each
request, which costs a round trip that the source does not count.

What the trace shows (`Reattached`) is measured by metrics. The rest is about the tree as a whole, of which no single
node knows, and is taken inside the run: trees, degrees, areas of repairs, messages by second.

The *area* of a repair (E18): of a node that failed, with a parent G, the links of the new tree on the ways from each of
its former children to G, each link once, for each child. It is taken 30 s after the failure if all are still there.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from tidings.lab.experiment import DataFrame, Variant
from tidings.lab.figures import over_seeds
from tidings.machine.effects import Effect, Send
from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.delivery.local import LocalParams
from tidings.protocols.overlay.lstree.lstree import LsTree
from tidings.protocols.overlay.lstree.messages import (
    ContactPing,
    ContactPong,
    GlobalUpdate,
)
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.routing.params import RoutingParams
from tidings.sim.network.latency import Constant, Jittered
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.observers import EndsTrace, Observer
from tidings.sim.simulator import Simulator, SimulatorParams
from tidings.trace.writer import Writer
from tidings.workloads.churn import mass_failure, peer_sessions

SPACING = 0.02
"""Seconds between two joins."""

BOOTSTRAP = 3
REST = 60.0
"""Seconds from the last join to the catastrophe."""

AFTER = 300.0
AREA_AFTER = 30.0
PEAK_SPAN = 5.0
"""Seconds over which messages are counted for a peak."""

MEDIAN_SESSION, SIGMA = 3600.0, 1.29
DETECTION = 0.15, 0.2
"""Seconds after which a crash is noticed."""

ROUTING = RoutingParams(engine="plain", repair="strawman")
COUNTING = LocalParams(is_counting=True)

GOSSIP = (ContactPing, ContactPong, GlobalUpdate)


PUBLISHED = ("RMG", "RDGM", "DRGM", "RUmDGM", "DUmRGM")
"""The instances that the source evaluates."""

CHURN, CATASTROPHE = "churn", "catastrophe"

TREES = "dynamic-topologies/trees"
"""E16 to E21 look at the same runs."""


def variants(scenario: str, *instances: str, integer: bool = False) -> tuple[Variant, ...]:
    """`RDGM, churn` and so on, with whole numbers as depths where that is asked for."""
    depths = ", whole numbers" if integer else ""
    return tuple(
        Variant(f"{name}, {scenario}{depths}", {"instance": name, "scenario": scenario, "integer": integer})
        for name in instances
    )


def overlay_params(parameters: Mapping[str, Any]) -> LsTreeParams:
    return LsTreeParams(
        instance=parameters["instance"],
        is_integer=parameters.get("integer", False),
        request_timeout=0.5,
        patience_min=0.5,
        ahead_after=0,
        busy_wait=0.3,
        merge_first=30.0,
        merge_soon=30.0,
        nearer_period=0.0,
        children_max=100_000,
        pings=parameters.get("pings", 10),
    )


class Survey(Observer):
    """Messages of the overlay by second, and areas of repairs."""

    def __init__(self) -> None:
        self.messages: Counter[int] = Counter()
        self.gossip = 0
        self.areas: list[float] = []

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Send and type(effect.message) in LsTree.messages:
                self.messages[int(now)] += 1
                self.gossip += type(effect.message) in GOSSIP

    def sent(self, begin: float, end: float) -> int:
        return sum(count for second, count in self.messages.items() if begin <= second < end)


class ChurnedTree:
    def __init__(
        self,
        parameters: Mapping[str, Any],
        seed: int,
        trace: Writer,
        survey: Survey | None = None,
        routing: RoutingParams = ROUTING,
    ) -> None:
        self.params, self.survey, self.routing = overlay_params(parameters), survey or Survey(), routing
        network = Jittered(Constant(0.02), 0.06)
        self.simulator = Simulator(
            seed, network, params=SimulatorParams(jitter=1e-6), observers=[EndsTrace(trace), self.survey]
        )
        self.draws = random_stream(seed, "churned tree")
        self.living: dict[NodeId, None] = {}

    def join(self, name: NodeId) -> None:
        contacts = tuple(sorted(self.draws.sample(self.alive(), BOOTSTRAP)))
        overlay = replace(self.params, contacts=contacts)
        params = DispatcherParams(overlay=overlay, routing=self.routing, delivery=COUNTING)
        self.simulator.add(name, partial(make, name, params))
        self.living[name] = None

    def alive(self) -> list[NodeId]:
        return list(self.living)

    def tree(self, name: NodeId) -> LsTree:
        machine = self.simulator.nodes[name].machine
        assert isinstance(machine, Dispatcher) and isinstance(machine.overlay, LsTree)
        return machine.overlay

    def crash(self, name: NodeId) -> None:
        """Its neighbours notice when their beacons would have: the world tells them after a while."""
        node = self.simulator.nodes.get(name)
        if node is None or node.process is None:
            return
        kin = self.tree(name).kin
        children, above = list(kin.below), kin.above
        for other in self.tree(name).neighbours:
            self.simulator.break_link(name, other, "crash", self.draws.uniform(*DETECTION))
        self.simulator.crash(name)
        del self.living[name]
        if children and above is not None:
            at = self.simulator.now + AREA_AFTER
            self.simulator.call_at(at, partial(self.take_area, above.contact.node, children))

    def take_area(self, grandparent: NodeId, children: list[NodeId]) -> None:
        ways = [self.way_up(name) for name in (grandparent, *children)]
        if any(way is None for way in ways):
            return
        root_way, *others = [way for way in ways if way is not None]
        links: set[tuple[NodeId, NodeId]] = set()
        for way in others:
            links |= links_between(way, root_way)
        self.survey.areas.append(len(links) / len(children))

    def way_up(self, name: NodeId) -> list[NodeId] | None:
        """From a node to its root; None where it is gone, or one on the way is looking for its place."""
        way = [name]
        while True:
            node = self.simulator.nodes[way[-1]]
            if node.process is None or len(way) > len(self.simulator.nodes):
                return None
            above = self.tree(way[-1]).kin.above
            if above is None:
                return way
            way.append(above.contact.node)

    def measures(self) -> dict[str, float]:
        names = self.alive()
        degrees = [len(self.tree(name).neighbours) for name in names]
        ways = [self.way_up(name) for name in names]
        areas = self.survey.areas
        return {
            "nodes": len(names),
            "trees": len({way[-1] for way in ways if way is not None}),
            "broken ways": sum(way is None for way in ways),
            "top degree": max(degrees),
            "degree two": sum(degree == 2 for degree in degrees) / len(degrees),
            "leaves": sum(degree == 1 for degree in degrees) / len(degrees),
            **{
                f"area below {bound}": sum(area < bound for area in areas) / len(areas)
                for bound in (1.5, 2, 3)
                if areas
            },
            **({"area one": sum(area <= 1 for area in areas) / len(areas)} if areas else {}),
        }


def links_between(way: list[NodeId], other: list[NodeId]) -> set[tuple[NodeId, NodeId]]:
    """The links on the way from the first node of one to that of the other, each as child and parent."""
    one_links, other_links = set(pairwise(way)), set(pairwise(other))
    return one_links ^ other_links


def make(name: NodeId, params: DispatcherParams, draws: Draws) -> Dispatcher:
    return Dispatcher(name, params, draws("links"))


def run_catastrophe(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: nodes, the instance, whether depths are integers."""
    tree = ChurnedTree(parameters, seed, trace)
    nodes, names = int(parameters["nodes"]), [f"n{number}" for number in range(int(parameters["nodes"]))]
    for number, name in enumerate(names):
        tree.simulator.call_at(number * SPACING, partial(tree.join, name))
    at = nodes * SPACING + REST
    tree.simulator.run(at)
    for absence in mass_failure(names, 0.25, at, seed):
        tree.crash(absence.node)
    tree.simulator.run(at + AFTER)
    left = len(tree.alive())
    rest, peak = tree.survey.sent(at - REST + 10, at), tree.survey.sent(at, at + PEAK_SPAN)
    late = tree.survey.sent(at + AFTER - REST, at + AFTER)
    return {
        **tree.measures(),
        "messages at rest": rest / (REST - 10) / nodes,
        "messages at the peak": peak / PEAK_SPAN / left,
        "messages at the end": late / REST / left,
    }


def run_churn(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: how many are there at least and at most, hours, the instance, whether depths are integers."""
    tree, until = ChurnedTree(parameters, seed, trace), 3600.0 * parameters["hours"]
    sessions = peer_sessions(
        parameters["least"], parameters["most"], median=MEDIAN_SESSION, sigma=SIGMA, until=until, seed=seed
    )
    present = [session for session in sessions if session.begin == 0]
    shift = len(present) * SPACING + REST
    for number, session in enumerate(present):
        tree.simulator.call_at(number * SPACING, partial(tree.join, session.node))
    for session in sessions:
        if session.begin > 0:
            tree.simulator.call_at(shift + session.begin, partial(tree.join, session.node))
        if session.end < until:
            tree.simulator.call_at(shift + session.end, partial(tree.crash, session.node))
    tree.simulator.run(shift + until)
    begun = tree.survey.sent(shift, shift + until)
    mean = (parameters["least"] + parameters["most"]) / 2
    return {**tree.measures(), "messages": begun / until / mean}


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """`scenario` says which of the two."""
    chosen = run_churn if parameters["scenario"] == CHURN else run_catastrophe
    return chosen(variant, parameters, seed, trace)


def measured_figures(results: DataFrame, *names: str) -> DataFrame:
    """What a run measured of itself, a group for each variant."""
    from pyspark.sql import functions as F

    runs = results.withColumn("group", F.col("variant"))
    return over_seeds(runs, {name: F.col("measures")[name] for name in names})
