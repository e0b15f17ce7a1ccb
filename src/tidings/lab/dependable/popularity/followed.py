"""The world of the experiments on popularity: few publishers, many followers, and a tree cut out of measured latencies.

The workload is W-POP (`workloads/dependable.py`): publishers at the root and its children, in 20 classes; subscriptions
anywhere, spread over publishers as followers over accounts of a social network. The follower graph of the source could
not be had, so followers follow a law of the same shape: of 81,306 accounts the r-th has 81,306 / r of them (G-65).

The tree is that of `LatencyTree`: PlanetLab hosts instead of the King data set of the source. What leaves the tree
takes the latency that was measured between its two ends.

Publishers of a broker are clients of their own: nothing of one waits for another, and batches are by publisher.

Brokers are dispatchers, each with a bounded number of forwards in a second (`sim/throughput.py`); what comes beyond
that waits. `capacity` is that number, calibrated as the specification says (3.7): the busiest broker of the plain
system of E9 uses four fifths of it. Subscriptions are cut by ten, as is proposed there, and the capacity with them.

The plain system is the same broker with a share that is large enough for everything to be popular.

**Trace.** `forwarded` for each message with publications, `gossip_taken`, `queued`, and a deliver row for each delivery
with the time at which the event was accepted and the way on which it came here.

Source: the evaluation of PopSub (5.5.1, 5.5.2), specification 4.1 W-POP and 4.3.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import msgspec

from tidings.lab.experiment import Variant
from tidings.machine.effects import Deliver, Effect, Note, note_name
from tidings.machine.inputs import Input, Received
from tidings.machine.node import Machine
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.delivery.local import LocalParams
from tidings.protocols.gossip.lpbcast import GroupGossip, GroupPush, LpbcastParams
from tidings.protocols.overlay.scripted import ScriptedParams
from tidings.protocols.routing.carriage.direct import DirectPublications
from tidings.protocols.routing.params import GroupName, PopularityName, RoutingParams
from tidings.pubsub.client import Arrived, OpenAdvertisement, OpenSubscription, PublishBatch
from tidings.pubsub.gathered import GatheredPublications
from tidings.pubsub.notes import Forwarded, GossipTaken, Queued
from tidings.pubsub.publications import encode_head
from tidings.sim.network.latency import Matrix
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator, SimulatorParams
from tidings.sim.throughput import ThroughputMachine
from tidings.trace.record import Record
from tidings.trace.writer import Writer
from tidings.workloads.dependable import PopSub
from tidings.workloads.latencies import LatencyTree, MeasuredTree

System = Literal["plain", "batching", "direct", "gossip"]
SYSTEMS: tuple[System, ...] = ("plain", "batching", "direct", "gossip")
TREES = 5
"""Different ones: as many topologies as the source has."""

SUBSCRIBE_AT, PUBLISH_AT = 2.0, 30.0
DRAINING = 90.0
"""Seconds after the last event: for gossip, and for queues to empty."""

GOSSIP_INTERVAL = 10.0
ROOM_BYTES = 1 << 40
"""Windows never close: what waits is to wait in the queue that is measured."""


class PopularSetting(msgspec.Struct, frozen=True, kw_only=True):
    system: System = "plain"
    brokers: int = 200
    subscriptions: int = 2200
    publishers: int = 200
    rate: float = 2.0
    """Events a second of each."""
    seconds: float = 40.0
    phi: float = 0.05
    capacity: float = 1000.0
    """Forwards a second of each broker."""
    zipf: float = 0.0
    """If above 0, publishers have Zipf shares of the subscriptions with this exponent, instead of followers."""
    batch_cost: float = 0.15
    group_of: GroupName = "wanting"

    def routing(self) -> RoutingParams:
        is_plain = self.system == "plain"
        way: PopularityName = "batching" if self.system == "plain" else self.system
        return RoutingParams(
            engine="plain",
            acknowledges=False,
            repair="strawman",
            popularity=way,
            phi=1.0 if is_plain else self.phi,
            capacity=1e12 if is_plain else self.capacity,
            notes_forwards=True,
            group_of=self.group_of,
            aside_max=100_000,
            publications_window_bytes=ROOM_BYTES,
            parcels_bytes_max=ROOM_BYTES,
            turn_entries=100_000,
        )


WAYS: dict[type, str] = {
    GatheredPublications: "batch",
    DirectPublications: "direct",
    GroupGossip: "gossip",
    GroupPush: "gossip",
}
NOTED = (Forwarded, GossipTaken, Queued)


class PopularRows(Observer):
    def __init__(self, trace: Writer) -> None:
        self.trace = trace
        self.way = "tree"
        self.delivered = 0

    def on_input(self, now: float, node: SimulatedNode, input: Input) -> None:
        self.way = WAYS.get(type(input.message), "tree") if type(input) is Received else "tree"

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, NOTED):
                self.note(now, node.id, effect)
            elif type(effect) is Deliver and type(effect.item) is Arrived:
                detail = msgspec.json.encode({"accepted_at": effect.item.accepted_at, "via": self.way}).decode()
                for _ in effect.item.numbers:
                    self.delivered += 1
                    self.trace.write(Record(time=now, node=node.id, kind="deliver", message="Event", detail=detail))

    def note(self, now: float, node: NodeId, note: Note) -> None:
        detail = msgspec.json.encode(msgspec.structs.asdict(note)).decode()
        self.trace.write(Record(time=now, node=node, kind="note", message=note_name(type(note)), detail=detail))


def name_of(place: int) -> NodeId:
    return f"b{place:03}"


def make_broker(name: NodeId, params: DispatcherParams, setting: PopularSetting, draws: Draws) -> Machine:
    return ThroughputMachine(Dispatcher(name, params, draws("links")), setting.capacity, setting.batch_cost)


class PopularWorld:
    def __init__(self, setting: PopularSetting, seed: int, trace: Writer) -> None:
        self.setting, self.rows = setting, PopularRows(trace)
        tree = LatencyTree(seed=1 + seed % TREES, brokers=setting.brokers).measured()
        self.workload = PopSub(
            seed=seed,
            publishers=setting.publishers,
            subscription_count=setting.subscriptions,
            brokers=setting.brokers,
            rate=setting.rate,
            duration=setting.seconds,
            zipf_exponent=setting.zipf or None,
        )
        params = SimulatorParams(delivered_max=1)
        self.simulator = Simulator(seed, latencies_of(tree), params=params, observers=(self.rows,))
        self.homes = homes_of(tree)
        self.add_brokers(tree)
        self.numbers: dict[str, int] = {}
        """Which advertisement of its broker each publisher has."""
        self.speak()

    def add_brokers(self, tree: MeasuredTree) -> None:
        near: dict[NodeId, list[NodeId]] = {name_of(place): [] for place in range(self.setting.brokers)}
        for child, parent in enumerate(tree.parents, 1):
            near[name_of(parent)].append(name_of(child))
            near[name_of(child)].append(name_of(parent))
        routing, groups = self.setting.routing(), LpbcastParams(interval=GOSSIP_INTERVAL)
        for name, others in near.items():
            overlay, delivery = ScriptedParams(neighbours=tuple(others)), LocalParams(is_many=True)
            params = DispatcherParams(overlay=overlay, routing=routing, groups=groups, delivery=delivery)
            self.simulator.add(name, partial(make_broker, name, params, self.setting))

    def speak(self) -> None:
        """What applications do."""
        inject, given = self.simulator.inject, dict[NodeId, int]()
        homes: dict[str, NodeId] = {}
        for row in self.workload.advertisements().rows():
            home = homes[row["publisher"]] = self.homes[row["place"] % len(self.homes)]
            given[home] = self.numbers[row["publisher"]] = given.get(home, 0) + 1
            inject(SUBSCRIBE_AT / 2, home, OpenAdvertisement(None, row["filter"]))
        for row in self.workload.subscriptions().rows():
            inject(SUBSCRIBE_AT, name_of(row["place"]), OpenSubscription(None, row["filter"]))
        for event in self.workload.planned_events():
            assert event.at is not None
            head = encode_head({**event.attributes, "publisher": event.publisher})
            batch = PublishBatch(self.numbers[event.publisher], (head,), (b"",))
            inject(PUBLISH_AT + event.at, homes[event.publisher], batch)

    def run(self) -> None:
        self.simulator.run(PUBLISH_AT + self.setting.seconds + DRAINING)


def latencies_of(tree: MeasuredTree) -> Matrix:
    hosts = range(len(tree.hosts))
    pairs = ((a, b) for a in hosts for b in hosts if a != b)
    return Matrix({(name_of(a), name_of(b)): float(tree.latencies[a, b]) for a, b in pairs})


def homes_of(tree: MeasuredTree) -> list[NodeId]:
    """The root and its children."""
    return [name_of(0), *(name_of(child) for child, parent in enumerate(tree.parents, 1) if parent == 0)][:5]


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> Mapping[str, float]:
    """Parameters: those of `PopularSetting`."""
    world = PopularWorld(msgspec.convert({**parameters}, PopularSetting), seed, trace)
    world.run()
    return {"deliveries": float(world.rows.delivered)}


def variants(name: str, values: tuple[float, ...], systems: tuple[System, ...] = SYSTEMS) -> tuple[Variant, ...]:
    return tuple(
        Variant(f"{system}, {name} {value:g}", {"system": system, name: value})
        for value in values
        for system in systems
    )
