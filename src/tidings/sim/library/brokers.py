"""A network of brokers and their clients: whoever has a receipt misses nothing, and gets nothing twice.

The bar is the race that subscribers usually lose: subscribe, wait for the receipt, and in the same moment somebody at
another broker publishes. *Rounds* of this are played by a conductor, who sees what every application sees and lets the
next one act without delay; so nothing but the receipt stands between the subscription and the publication.

Each broker has one client, which subscribes in some rounds and publishes in others. Subscriptions stay for a while, so
that those of later rounds are covered by them, or cover them, and end while others spread.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tidings.machine.inputs import Input
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.nodes.broker import BrokerParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.pubsub.client import (
    Arrived,
    Begun,
    CloseSubscription,
    Confirmed,
    Failed,
    Missed,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    Took,
)
from tidings.pubsub.publications import encode_head, event_of
from tidings.sim.cast import ClientRole, cast_all
from tidings.sim.checkers import Checker, Problem
from tidings.sim.fault_schedule import FaultMix, draw_faults
from tidings.sim.faults import FaultPlan
from tidings.sim.network.latency import Constant, Jittered
from tidings.sim.network.rule import Rule
from tidings.sim.node import Make, SimulatedNode
from tidings.sim.scenario import Scenario
from tidings.sim.simulator import Simulator
from tidings.sim.topologies import Topology
from tidings.sim.topologies.shapes import make_topology
from tidings.workloads.plain import Round, round_at, rounds_of

BEGIN = 5.0
"""When brokers are linked and clients attached, in seconds."""

STAY_ROUNDS = 40
"""For so many rounds a subscription stays."""

CALM_PATIENCE, TROUBLED_PATIENCE = 3.0, 40.0
"""A subscription that ends sooner after a publication need not have got it. Where nodes fail without a word, their
neighbours notice it after 20 s."""

SETTLING = 60.0


def brokers(
    nodes: int = 6,
    topology: str = "random_tree",
    rounds: int = 40,
    latency: float = 0.02,
    spacing: float = 0.25,
    late: bool = False,
    crashes: int = 0,
    pauses: int = 0,
    partitions: int = 0,
    moving: bool = False,
    workload: str = "",
) -> Scenario:
    """Subscribe, wait for the receipt, publish elsewhere: nothing is lost and nothing comes twice."""
    if rounds < 1 or not spacing > 0:
        raise UsageError(f"rounds: {rounds} rounds, one every {spacing} s; give at least 1, and a span above 0")
    played = draw_rounds(workload, rounds)
    is_calm = not (crashes or pauses or partitions)
    patience = CALM_PATIENCE if is_calm else TROUBLED_PATIENCE
    duration = BEGIN + rounds * spacing + 2 * patience
    mix = FaultMix(
        begin=BEGIN,
        end=max(BEGIN + 1.0, BEGIN + rounds * spacing),
        length_max=5.0,
        crashes_forgetting=crashes,
        pauses=pauses,
        partitions=partitions,
    )

    def faults(made: Topology, until: float, seed: int) -> FaultPlan:
        return draw_faults(mix, broker_names(made), seed)

    def network(made: Topology, until: float, seed: int) -> Rule:
        return Jittered(Constant(latency), latency / 10) if latency else Constant(0.0)

    return Scenario(
        name="brokers",
        topology=lambda seed: with_clients(make_topology(topology, nodes, seed)),
        roles=lambda made: cast_brokers(made, is_moving=moving),
        workload=lambda made, seed: [],
        network=network,
        faults=faults,
        checkers=lambda made: [ReceiptsHold(patience), Conductor(made, played, spacing, late, patience)],
        duration=duration,
        settling=SETTLING,
    )


def draw_rounds(workload: str, count: int) -> list[Round]:
    """What is asked for and published in each round: of a workload, if one is named."""
    if not workload:
        return [round_at(count, number) for number in range(count)]
    from tidings.workloads.registry import make

    return list(rounds_of(make(workload), count))


def client_of(broker: NodeId) -> NodeId:
    return f"{broker}.client"


def broker_names(topology: Topology) -> tuple[NodeId, ...]:
    return tuple(node for node in topology.nodes if not node.endswith(".client"))


def with_clients(topology: Topology) -> Topology:
    """Each broker with a client. Clients have links of their own; the edges are those between brokers."""
    clients = tuple(client_of(broker) for broker in topology.nodes)
    return Topology(topology.name, topology.nodes + clients, topology.edges)


def cast_brokers(
    topology: Topology,
    params: BrokerParams = BrokerParams(delivery=EdgeParams(is_durable=True)),  # noqa: B008 - a frozen value
    is_moving: bool = False,
) -> Mapping[NodeId, Make]:
    """A broker on every node, each with a client. What brokers accept is saved, so a crash loses none of it. Clients
    that move go to the next broker when theirs is gone, and come back to it when that one is."""
    roles: dict[NodeId, tuple[str, Any]] = {}
    names = broker_names(topology)
    for place, broker in enumerate(names):
        known = (broker, names[(place + 1) % len(names)]) if is_moving else (broker,)
        roles[broker] = "broker", params
        roles[client_of(broker)] = "client", ClientRole(brokers=known)
    return cast_all(roles, topology)


class Conductor(Checker):
    """Plays the applications: in each round one client subscribes, and when it has its receipt another one publishes,
    under an advertisement that was made at the beginning or, if `late`, one that is made at this very moment."""

    name = "conductor"

    def __init__(
        self, topology: Topology, rounds: Sequence[Round], spacing: float, late: bool, patience: float
    ) -> None:
        self.clients = [client_of(broker) for broker in broker_names(topology)]
        self.rounds, self.spacing, self.late, self.patience = rounds, spacing, late, patience
        self.draw = random_stream(len(rounds), "conductor", topology.name)
        self.publisher_of: dict[int, NodeId] = {}
        self.subscription_of: dict[int, tuple[NodeId, int]] = {}
        self.done: dict[int, str] = {}
        """Rounds that are over, and how they ended."""
        self.begun = False

    def requested(self, now: float, node: SimulatedNode, input: Input) -> None:
        if not self.begun:
            self.begun = True
            self.begin(node.world)

    def begin(self, world: Simulator) -> None:
        if not self.late:
            for client in self.clients:
                world.inject(BEGIN - 2.0, client, OpenAdvertisement("first", self.rounds[0].advertised_by_all))
        for number, each in enumerate(self.rounds):
            subscriber, publisher = self.draw.sample(self.clients, 2)
            self.publisher_of[number] = publisher
            at = BEGIN + number * self.spacing
            world.inject(at, subscriber, OpenSubscription(("round", number), each.wanted))
            stay = STAY_ROUNDS * self.spacing + 2 * self.patience * self.draw.random()
            world.call_at(at + stay, partial(self.close, world, number))

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        match item:
            case Begun(("round", int(number)), subscription):
                self.subscription_of[number] = (node.id, subscription)
            case Confirmed(("round", int(number)), receipt) if receipt is not None:
                self.publish(now, node.world, number)
            case Failed(("round", int(number)), reason):
                self.done.setdefault(number, reason)
            case Begun(("late", int(number)), advertisement):
                node.world.inject(now, node.id, self.publication(advertisement, number))
            case Arrived(subscription, numbers=numbers):
                node.world.inject(now, node.id, Took(subscription, len(numbers)))

    def publish(self, now: float, world: Simulator, number: int) -> None:
        publisher = self.publisher_of[number]
        self.done[number] = "published"
        if self.late:
            world.inject(now, publisher, OpenAdvertisement(("late", number), self.rounds[number].advertised))
        else:
            world.inject(now, publisher, self.publication(1, number))

    def publication(self, advertisement: int, number: int) -> PublishBatch:
        head = encode_head({**self.rounds[number].attributes, "id": f"{number}", "round": number})
        return PublishBatch(advertisement, (head,), (b"%d" % number,))

    def close(self, world: Simulator, number: int) -> None:
        if number in self.subscription_of:
            client, subscription = self.subscription_of[number]
            world.inject(world.now, client, CloseSubscription(("close", number), subscription))

    def at_end(self, world: Simulator) -> list[Problem]:
        silent = [number for number in range(len(self.rounds)) if number not in self.done]
        return [
            Problem(self.name, f"the subscription of round {number} got no receipt", "", world.now) for number in silent
        ]


class Watched(msgspec.Struct):
    """A subscription as its application sees it."""

    filter: Filter
    confirmed_at: float | None = None
    closed_at: float | None = None
    arrived: dict[bytes, None] = {}
    missed: dict[NodeId, float] = {}
    """Publishers of whom something older was not stored any more, as the client was told, and when."""


class ReceiptsHold(Checker):
    """What is published after a subscription was confirmed, and matches, arrives once, unless the client was told that
    something is missing; nothing arrives that does not match, nothing twice, and nothing before the receipt."""

    name = "receipts hold"

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.waiting: dict[tuple[NodeId, Any], Filter] = {}
        self.watched: dict[tuple[NodeId, int], Watched] = {}
        self.tickets: dict[tuple[NodeId, Any], int] = {}
        self.published: dict[bytes, tuple[float, NodeId, Event]] = {}
        """Heads, each unique, with the time at which an application published, which, and the event."""

    def requested(self, now: float, node: SimulatedNode, input: Input) -> None:
        match input:
            case OpenSubscription(ticket, filter):
                self.waiting[node.id, ticket] = parse(filter)
            case CloseSubscription(_, number) if (node.id, number) in self.watched:
                self.watched[node.id, number].closed_at = now
            case PublishBatch(_, heads):
                self.published |= {head: (now, node.id, event_of(head, b"")) for head in heads}

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        match item:
            case Begun(ticket, number) if (node.id, ticket) in self.waiting:
                self.tickets[node.id, ticket] = number
                self.watched[node.id, number] = Watched(self.waiting.pop((node.id, ticket)))
            case Confirmed(ticket, receipt) if receipt is not None and (node.id, ticket) in self.tickets:
                self.watched[node.id, self.tickets[node.id, ticket]].confirmed_at = now
            case Arrived(number, heads=heads):
                for head in heads:
                    self.judge(now, node.id, self.watched[node.id, number], head)

            case Missed(number, publisher) if (node.id, number) in self.watched:
                self.watched[node.id, number].missed[publisher] = now

    def judge(self, now: float, node: NodeId, watched: Watched, head: bytes) -> None:
        if head not in self.published:
            raise self.fail(now, node, f"{event_of(head, b'').attributes} arrives, which nobody published")
        event = self.published[head][2]
        if not watched.filter.matches(event):
            raise self.fail(now, node, f"{event.attributes} arrives, which {watched.filter.text()} does not match")
        if watched.confirmed_at is None:
            raise self.fail(now, node, f"{event.attributes} arrives before the receipt")
        if head in watched.arrived:
            raise self.fail(now, node, f"{event.attributes} arrives a second time")
        watched.arrived[head] = None

    def at_end(self, world: Simulator) -> list[Problem]:
        return [
            Problem(self.name, f"{event.attributes} is missing: published at {at:.3f}", node, world.now)
            for (node, _), watched in self.watched.items()
            for head, (at, publisher, event) in self.published.items()
            if head not in watched.arrived and self.is_owed(watched, at, publisher) and watched.filter.matches(event)
        ]

    def is_owed(self, watched: Watched, at: float, publisher: NodeId) -> bool:
        """Whether what was published then was promised, if it matches."""
        if watched.confirmed_at is None or at < watched.confirmed_at:
            return False
        if watched.closed_at is not None and watched.closed_at < at + self.patience:
            return False
        return at >= watched.missed.get(publisher, 0.0)
