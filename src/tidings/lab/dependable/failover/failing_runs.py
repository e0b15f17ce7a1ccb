"""Brokers of a tree of which some fail: the common setting of E1 to E8 (dependable.md 4.1 and 4.2, W-GEPS).

Nodes are the dispatchers that ship, on a scripted tree, since the source's overlay does not mend itself while brokers
are down: they are back after 20 s. Each leaf of the tree has a client, which publishes under one advertisement and has
two subscriptions (`workloads/dependable.py`); the tree and its failures are those of `workloads/failing_trees.py`. The
same seed has the same tree, clients, events and failures, whatever is varied but the tree.

Time. Until `begin` brokers link, subscribe and fill their views; then events are published for `duration`, and brokers
are down in the middle third of it. A link takes `HOP`, so the hops of an event are its latency divided by that. A
broker hears at once that a neighbour is gone (G-18), and messages on their way to it are lost.

What is counted. `due` notes say which events each client is owed by the workload, whoever is down (4.1): the delivery
ratio has them below the line. The overhead is publications and gossip, as messages sent from `begin` on. Where views
are compared (E3), an observer writes which of the best possible siblings each broker knows.

`failover` says what brings events around: "tree" (nothing), "gossip" (GEPS), "random" (RGEPS), "neighbourhood"
(deltaFT)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tidings.lab.experiment import DataFrame
from tidings.lab.figures import measured
from tidings.machine.effects import Deliver, Effect, Note, Send
from tidings.machine.inputs import Input
from tidings.machine.message import Contact
from tidings.machine.node import Machine
from tidings.machine.streams import random_stream
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.nodes.choices import AnyRoutingParams
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.nodes.failovers import AnyFailover
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.gossip.failover.failover import GossipFailover
from tidings.protocols.gossip.failover.introduction import Introduce
from tidings.protocols.gossip.failover.levels import group_of
from tidings.protocols.gossip.failover.messages import GossipPublications
from tidings.protocols.gossip.failover.neighbourhood import Neighbourhood, PublicationsBeyond
from tidings.protocols.gossip.failover.params import (
    AnyFailoverParams,
    FailoverParams,
    NeighbourhoodParams,
    RandomViewsParams,
)
from tidings.protocols.gossip.failover.random_views import RandomGossip
from tidings.protocols.gossip.failover.similarity import similarity
from tidings.protocols.overlay.scripted import ScriptedParams
from tidings.protocols.routing.guess import GuessedPublications, GuessedRoutingParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import Arrived, OpenAdvertisement, OpenSubscription, PublishBatch
from tidings.pubsub.notes import CycleEnded, ViewCompared
from tidings.pubsub.publications import Publications, encode_head, read_head
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator, SimulatorParams
from tidings.trace.record import Record
from tidings.trace.things import of_effect
from tidings.trace.writer import Writer
from tidings.workloads.dependable import Geps
from tidings.workloads.failing_trees import FailingTree

HOP = 0.001
"""Seconds from one broker to another."""

ADVERTISE_AT, SUBSCRIBE_AT, INTRODUCE_AT = 1.0, 2.0, 4.0
SETTLING = 5.0
"""Seconds behind the last event."""

INTRODUCED = 10
"""Siblings, drawn at random, that a broker knows at first."""

TREE, GOSSIP, RANDOM, NEIGHBOURHOOD = SYSTEMS = ("tree", "gossip", "random", "neighbourhood")

GUESSED = "guessed"
"""Semi-probabilistic routing, which stands apart: it is a routing, and no way around failures."""

TREES = tuple((degree, is_balanced) for is_balanced in (True, False) for degree in (4, 7, 5, 6))
"""Largest degree, and whether it is balanced: the eight kinds of the source, which has four trees of each; the first
seed has the first kind, and so on."""

SWEEP = "dependable/failing-trees"
"""E5 to E8 share their runs."""


class TreeSetting(msgspec.Struct, frozen=True, kw_only=True):
    failover: str = GOSSIP
    brokers: int = 400
    share: float = 1.0
    """How many of them there are, where the size of the overlay is varied."""
    degree: int = 0
    """0: the trees of the source by turns (`TREES`)."""
    is_balanced: bool = True
    failures: str = "uniform"
    rate: float = 0.1
    event_rate: float = 4.0
    """Events a second of each client."""
    begin: float = 14.0
    duration: float = 60.0
    siblings: int = 10
    level_members: int = 6
    levels: int = 6
    delta: int = 3
    horizon: int = 3
    """Hops that subscriptions travel, where the rest is guessed."""
    skip: str = "any"
    measure: str = "minima"
    literal_seen: bool = False
    kept_for: float = 0.0
    """Seconds for which is kept what a failed neighbour misses (FW-1); the source keeps nothing."""
    rescue_window: int = 0
    """Numbers of each publisher that are remembered; 0 is what brokers take."""
    compares_views: bool = False
    """Whether it is views that are looked at, from the first cycle on."""

    def law(self, seed: int) -> FailingTree:
        chosen: dict[str, Any] = {"failures": self.failures}
        degree, is_balanced = (self.degree, self.is_balanced) if self.degree else TREES[(seed - 1) % len(TREES)]
        return FailingTree(
            brokers=round(self.brokers * self.share),
            degree=degree,
            is_balanced=is_balanced,
            rate=self.rate,
            down_at=self.begin + self.duration / 3,
            up_at=self.begin + 2 * self.duration / 3,
            duration=self.duration,
            seed=seed,
            **chosen,
        )

    def failover_params(self) -> AnyFailoverParams | None:
        chosen: dict[str, Any] = {"skip": self.skip, "measure": self.measure, "literal_seen": self.literal_seen}
        match self.failover:
            case "gossip":
                return FailoverParams(
                    siblings=self.siblings,
                    siblings_max=max(self.siblings, 20),
                    level_members=self.level_members,
                    levels=self.levels,
                    answer_within=10 * HOP,
                    kept_for=self.kept_for,
                    **chosen,
                )
            case "random":
                return RandomViewsParams()
            case "neighbourhood":
                return NeighbourhoodParams(delta=self.delta)
        return None

    def params(self, neighbours: tuple[NodeId, ...], above: NodeId | None, depth: int) -> DispatcherParams:
        routing: AnyRoutingParams = RoutingParams(
            acknowledges=False, engine="plain", turn_entries=100_000, rest_for=1000.0, rescue_window=self.rescue_window
        )
        if self.failover == GUESSED:
            routing = GuessedRoutingParams(horizon=self.horizon, engine="plain")
        return DispatcherParams(
            links=OpenDoorParams(retry_first=0.05, retry_max=0.5),
            overlay=ScriptedParams(neighbours=neighbours, above=above, depth=depth),
            routing=routing,
            failover=self.failover_params(),
        )


def make_broker(name: NodeId, params: DispatcherParams, draws: Draws) -> Machine:
    return Dispatcher(name, params, draws("links"))


class FailingRun:
    """A run up to the point where it can begin."""

    def __init__(self, setting: TreeSetting, seed: int, observers: Sequence[Observer] = ()) -> None:
        self.setting, self.seed, law = setting, seed, setting.law(seed)
        self.parents = law.parents()
        self.names = [f"b{place:04}" for place in range(len(self.parents))]
        self.depths = [0] * len(self.parents)
        near: dict[int, list[int]] = {place: [] for place in range(len(self.parents))}
        for place, above in enumerate(self.parents):
            if above >= 0:
                self.depths[place] = self.depths[above] + 1
                near[above].append(place)
                near[place].append(above)
        self.leaves = [place for place, others in near.items() if len(others) == 1 and place]
        self.simulator = Simulator(
            seed, Constant(HOP), params=SimulatorParams(delivered_max=1), observers=tuple(observers)
        )
        for place, name in enumerate(self.names):
            above = self.parents[place]
            params = setting.params(
                tuple(self.names[other] for other in near[place]),
                self.names[above] if above >= 0 else None,
                self.depths[place],
            )
            self.simulator.add(name, partial(make_broker, name, params))
        self.absences = [] if not setting.rate else law.absences(self.parents, self.names)
        if setting.failures == "machines":
            self.absences = [
                msgspec.structs.replace(each, begin=each.begin + setting.begin, end=each.end + setting.begin)
                for each in self.absences
            ]
        self.workload = Geps(leaves=len(self.leaves), rate=setting.event_rate, duration=setting.duration, seed=seed)
        self.due: list[tuple[str, NodeId]] = []
        self.ways: list[tuple[float, NodeId, NodeId]] = []
        """When each of these is published, by whom, and to whom it is due."""
        self.subscribe()
        self.introduce()
        self.fail()

    @property
    def until(self) -> float:
        return self.setting.begin + self.setting.duration + SETTLING

    def leaf(self, place: int) -> NodeId:
        return self.names[self.leaves[place]]

    def subscribe(self) -> None:
        for row in self.workload.advertisements().rows():
            self.simulator.inject(ADVERTISE_AT, self.leaf(row["place"]), OpenAdvertisement(None, row["filter"]))
        for row in self.workload.subscriptions().rows():
            subscribe_at = SUBSCRIBE_AT + 0.5 * random_stream(self.seed, row["subscription"]).random()
            self.simulator.inject(subscribe_at, self.leaf(row["place"]), OpenSubscription(None, row["filter"]))

    def publish(self) -> None:
        """What each client publishes, and to whom it is owed."""
        wanted: dict[str, list[tuple[NodeId, Any]]] = {}
        for row in self.workload.subscriptions().rows():
            wanted.setdefault(str(row["class"]), []).append((self.leaf(row["place"]), parse(row["filter"])))
        numbers: dict[NodeId, int] = {}
        for row in self.workload.events().rows():
            name = self.leaf(int(row["publisher"][1:]))
            numbers[name] = numbers.get(name, 0) + 1
            values = {
                key: value for key, value in row.items() if (key == "class" or key[0] == "x") and value is not None
            }
            event = Event({"id": str(numbers[name]), "source": name, **values})
            at = self.setting.begin + row["published_at"]
            for client in dict.fromkeys(
                client for client, filter in wanted.get(str(row["class"]), ()) if filter.matches(event)
            ):
                self.due.append((f"{name} {numbers[name]}", client))
                self.ways.append((at, name, client))
            request = PublishBatch(1, (encode_head(event.attributes),), (b"",))
            self.simulator.inject(at, name, request)

    def introduce(self) -> None:
        """The part of whoever knows the whole topology: some siblings, at random (4.2)."""
        if self.setting.failover not in (GOSSIP, RANDOM):
            return
        rng = random_stream(self.seed, "introductions")
        merged = FailoverParams().merged_levels
        groups: dict[int, list[NodeId]] = {}
        for place, name in enumerate(self.names):
            group = group_of(self.depths[place], merged) if self.setting.failover == GOSSIP else 0
            groups.setdefault(group, []).append(name)
        for members in groups.values():
            for name in members:
                others = [other for other in members if other != name]
                chosen = rng.sample(others, min(INTRODUCED, len(others)))
                self.simulator.inject(INTRODUCE_AT, name, Introduce(tuple(map(Contact, chosen))))

    def fail(self) -> None:
        for absence in self.absences:
            self.simulator.call_at(absence.begin, partial(self.simulator.crash, absence.node))
            if absence.end < self.until:
                self.simulator.call_at(absence.end, partial(self.simulator.restart, absence.node, True))

    def possible(self) -> dict[str, float]:
        """What could be delivered at best of what is due, as the tree and its failures are: while both ends live; while
        besides nobody on the way failed; and while nowhere more than `delta` did, one behind the other."""
        away: dict[NodeId, list[tuple[float, float]]] = {}
        for absence in self.absences:
            away.setdefault(absence.node, []).append((absence.begin, absence.end))
        counts = dict.fromkeys(POSSIBLE, 0)
        for at, publisher, client in self.ways:
            dead = [any(begin <= at < end for begin, end in away.get(node, ())) for node in self.way(publisher, client)]
            if not (dead[0] or dead[-1]):
                row = max(map(len, "".join("x" if each else " " for each in dead).split()), default=0)
                counts["alive"] += 1
                counts["connected"] += not row
                counts["within delta"] += row <= self.setting.delta
        return {name: count / max(1, len(self.ways)) for name, count in counts.items()}

    def way(self, publisher: NodeId, client: NodeId) -> list[NodeId]:
        """The brokers from one to the other."""
        sides: list[list[int]] = [[int(publisher[1:])], [int(client[1:])]]
        while sides[0][-1] != sides[1][-1]:
            deeper = sides[0] if self.depths[sides[0][-1]] > self.depths[sides[1][-1]] else sides[1]
            deeper.append(self.parents[deeper[-1]])
        return [self.names[place] for place in (*sides[0], *reversed(sides[1][:-1]))]


class OverheadRows(Observer):
    """Writes what is counted, and leaves out the rest of the trace: publications and gossip as messages, what is
    published and delivered, cycles; and views compared with the best there are."""

    def __init__(self, trace: Writer, setting: TreeSetting) -> None:
        self.trace, self.setting = trace, setting
        self.period = FailoverParams().period if setting.compares_views else 0.0
        self.run: FailingRun | None = None
        self.best: dict[NodeId, dict[NodeId, None]] = {}
        self.cycles = 0

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Send:
                if now >= self.setting.begin and isinstance(effect.message, COUNTED):
                    kind = type(effect.message).__name__
                    self.trace.write(Record(time=now, node=node.id, kind="send", peer=effect.to, message=kind))
            elif type(effect) is CycleEnded:
                self.note(now, node.id, effect)
            elif type(effect) is Deliver and isinstance(effect.item, Arrived):
                self.delivered(now, node.id, effect.item)

    def on_input(self, now: float, node: SimulatedNode, input: Input) -> None:
        if type(input) is PublishBatch:
            for head in input.heads:
                self.trace.write(Record(time=now, node=node.id, kind="publish", key=key_of(head)))

    def delivered(self, now: float, node: NodeId, item: Arrived) -> None:
        detail = msgspec.json.encode({"subscription": item.subscription}).decode()
        for head in item.heads:
            key = key_of(head)
            self.trace.write(Record(time=now, node=node, kind="deliver", key=key, detail=detail))

    def note(self, now: float, node: NodeId, said: Note) -> None:
        if (row := of_effect(now, node, said)) is not None:
            self.trace.write(row)

    def on_period(self, now: float, simulator: Simulator) -> None:
        """Which of the best siblings is in the view of each broker: all with which it has anything in common."""
        assert self.run is not None
        if now < INTRODUCE_AT:
            return
        if not self.best:
            self.best = best_siblings(self.run)
        self.cycles += 1
        for name, best in self.best.items():
            failover = failover_of(simulator, name)
            if best and failover is not None:
                common = sum(sibling in best for sibling in failover.views.members)
                optimal = min(len(best), self.setting.siblings)
                self.note(now, name, ViewCompared(self.cycles, min(common, optimal), optimal))


POSSIBLE = ("alive", "connected", "within delta")

COUNTED = (Publications, GossipPublications, RandomGossip, PublicationsBeyond, GuessedPublications)


def key_of(head: bytes) -> str:
    said = read_head(head).attributes
    return f"{said['source']} {said['id']}"


def part_of(simulator: Simulator, name: NodeId) -> AnyFailover | None:
    machine = simulator.node(name).machine
    return machine.failover if isinstance(machine, Dispatcher) else None


def failover_of(simulator: Simulator, name: NodeId) -> GossipFailover | None:
    part = part_of(simulator, name)
    return part if isinstance(part, GossipFailover) else None


def best_siblings(run: FailingRun) -> dict[NodeId, dict[NodeId, None]]:
    parts = {name: failover_of(run.simulator, name) for name in run.names}
    vectors = {name: part.scale.vector for name, part in parts.items() if part is not None}
    merged = FailoverParams().merged_levels
    groups: dict[int, list[NodeId]] = {}
    for place, name in enumerate(run.names):
        groups.setdefault(group_of(run.depths[place], merged), []).append(name)
    best: dict[NodeId, dict[NodeId, None]] = {}
    for members in groups.values():
        for name in members:
            others = {other: similarity(vectors[name], vectors[other]) for other in members if other != name}
            ranked = sorted((other for other in others if others[other]), key=lambda other: (-others[other], other))
            best[name] = dict.fromkeys(ranked)
    return best


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> Mapping[str, float]:
    setting = msgspec.convert({**parameters}, TreeSetting)
    rows = OverheadRows(trace, setting)
    made = FailingRun(setting, seed, (rows,))
    rows.run = made
    made.publish()
    for key, client in made.due:
        trace.write(Record(time=0.0, node=client, kind="note", message="due", key=key))
    made.simulator.run(made.until)
    known = [
        part.known for part in map(partial(part_of, made.simulator), made.names) if isinstance(part, Neighbourhood)
    ]
    return {
        "brokers": float(len(made.names)),
        "failed": float(len(made.absences)),
        "known": sum(known) / max(1, len(known)),
        "most known": float(max(known, default=0)),
        **made.possible(),
    }


def due(traces: DataFrame) -> DataFrame:
    return traces.where("kind = 'note' AND message = 'due'").select("run", "key", "node")


def outcomes(results: DataFrame, traces: DataFrame) -> DataFrame:
    """The runs with what is measured of each: delivered, messages, gossip, hops, view_messages; and what could be
    delivered at best (`FailingRun.possible`)."""
    from pyspark.sql import functions as F

    from tidings.spark.metrics.delivery import latency
    from tidings.spark.metrics.gossip import view_cost

    # Of messages the trace has these alone; no metric tells kinds of messages apart.
    is_gossip = F.col("message").isin([kind.__name__ for kind in COUNTED[1:]])
    overhead = (
        traces.where("kind = 'send'")
        .groupBy("run")
        .agg(F.count(F.lit(1)).alias("messages"), F.count(F.when(is_gossip, 1)).alias("gossip"))
    )
    late = latency(traces).select("run", (F.col("latency_p99") / HOP).alias("hops"))
    views = view_cost(traces).select("run", "view_messages_mean", "view_messages_max")
    # Every delivery is one that is owed here, so that counting both is enough.
    came = traces.where("kind = 'deliver'").select("run", "key", "node").distinct().withColumn("came", F.lit(1))
    owed = due(traces).distinct().join(came, on=["run", "key", "node"], how="left")
    table = (
        owed.groupBy("run")
        .agg((F.count("came") / F.count(F.lit(1))).alias("delivered"))
        .join(overhead, on="run", how="left")
        .join(late, on="run", how="left")
        .join(views, on="run", how="left")
        .join(results.select("run", *(F.col("measures")[name].alias(name) for name in POSSIBLE)), on="run", how="left")
    )
    columns = "delivered", "messages", "gossip", "hops", "view_messages_mean", "view_messages_max", *POSSIBLE
    return measured(results, table, *columns)
