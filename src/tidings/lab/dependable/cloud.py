"""The world of the experiments on guarantees: brokers in cloud regions, publishers, and subscribers that join.

Brokers stand in 3, 6 or 10 cloud regions and form a tree. What is published and asked for, by whom and when, is the
workload `w-psdg` (`workloads/dependable.py`): 10 publishers at us-e, de-c and ch-e, 10 events a second each; 20
subscribers when publishing begins, others that join a while later, so many a second, anywhere. With twins, the second
of two is at a broker of its own.

     3 brokers (ov1 in the source)    us-e - de-c - ch-e
     6 brokers (ov2)                  besides, us-w and br-s at us-e; jp-e at ch-e
    10 brokers (ov3)                  besides, uk-s and in-c at de-c; au-e at jp-e; ca-c at us-e

The published round-trip times are lost with their figure; ours are those that the specification proposes (G-58).

A world is run with one of two systems. With `guarantees`, clients are ours. With `plain`, they do what a client can do
by itself (`protocols/delivery/baselines.py`): wait for a fixed time instead of a receipt, and throw away what comes too
early. The brokers are the same in both cases; acknowledgements, which a plain broker would not send, are not counted
for the plain system.

Source: the evaluation of PSDG (7.5.1), specification 4.1 W-PSDG and 4.5.
"""

from collections import Counter
from functools import partial
from typing import Any, Literal

import msgspec

from tidings.machine.effects import Effect, Send
from tidings.machine.machine import Machine
from tidings.machine.node import Node
from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.protocols.access.guest import Guest
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.delivery.baselines import PlainParams, PlainSession
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.pubsub.client import Arrived, Begun, Confirmed, OpenAdvertisement, OpenSubscription, PublishBatch, Receipt
from tidings.pubsub.notes import Twin
from tidings.pubsub.publications import encode_head
from tidings.sim.network.latency import Matrix
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator
from tidings.trace.writer import Writer
from tidings.workloads.dependable import Psdg
from tidings.workloads.workload import PlannedEvent

System = Literal["guarantees", "plain"]

REGIONS = ("us-e", "de-c", "ch-e", "us-w", "br-s", "jp-e", "uk-s", "in-c", "au-e", "ca-c")
ROUND_TRIPS_MS = {
    ("us-e", "de-c"): 90,
    ("de-c", "ch-e"): 220,
    ("us-e", "us-w"): 65,
    ("us-e", "br-s"): 120,
    ("ch-e", "jp-e"): 45,
    ("de-c", "uk-s"): 15,
    ("de-c", "in-c"): 110,
    ("jp-e", "au-e"): 105,
    ("us-e", "ca-c"): 20,
}
"""The links between brokers: an overlay is a tree of the first so many regions."""
SIZES = (3, 6, 10)
HOMES = ("us-e", "de-c", "ch-e")
"""Where the publishers are."""

CLIENT_LATENCY = 0.001
JOIN_AT = 10.0
"""Seconds from the beginning of publishing after which others join."""
BEGIN = 3.0
"""When publishing begins."""
RECEIPT_SHARE = 0.1
"""Of publications."""


class CloudSetting(msgspec.Struct, frozen=True, kw_only=True):
    brokers: Literal[3, 6, 10]
    system: System
    kind: Literal["installed", "reference", "mixed"]
    seconds: float = 300.0
    joining: float = 30.0
    """Seconds for which subscribers join."""
    joins: int = 5
    """Subscribers that join in a second."""
    timeout: float = 1.0
    """After which a plain client takes a request for carried out."""
    history: float = 120.0
    seed: int = 1


class JoinedClient(msgspec.Struct):
    """A subscriber, and everything that it saw."""

    client: NodeId
    at: float
    filter: str
    guarantee: str
    since: float | None
    after: tuple[tuple[str, int], ...]
    group: str
    installed_at: float | None = None
    """When its broker knew it to be in place."""
    arrived: list[tuple[float, Arrived]] = []


class CloudOutcome(msgspec.Struct):
    setting: CloudSetting
    subscribers: list[JoinedClient]
    published: dict[tuple[str, int], tuple[float, bytes]]
    """When each publication was published, and its head."""
    ack_times: list[float]
    in_memory: list[int]
    """Publications per publisher that are not acknowledged, each second."""
    sent: Counter[str]
    """Messages that brokers sent, by kind."""


class BrokerSends(Observer):
    """Counts what brokers send, by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        if node.id in REGIONS:
            self.counts.update(type(effect.message).__name__ for effect in effects if type(effect) is Send)


class CloudWorld:
    def __init__(self, setting: CloudSetting, trace: Writer | None = None) -> None:
        self.setting, self.trace = setting, trace
        self.regions = REGIONS[: setting.brokers]
        self.draw = random_stream(setting.seed, "guarantees", str(setting.brokers))
        self.workload = Psdg(
            seed=setting.seed,
            brokers=setting.brokers,
            publisher_brokers=len(HOMES),
            join_rate=setting.joins,
            join_duration=setting.joining,
            duration=setting.seconds,
        )
        self.planned = self.workload.planned_events()
        self.delays: dict[tuple[str, str], float] = {}
        for (one, other), milliseconds in ROUND_TRIPS_MS.items():
            self.delays[one, other] = self.delays[other, one] = milliseconds / 2000
        self.sends = BrokerSends()
        network = Matrix(self.delays, CLIENT_LATENCY)
        self.simulator = Simulator(setting.seed, network, trace=trace, observers=[self.sends])
        self.subscribers: list[JoinedClient] = []
        self.published: dict[tuple[str, int], tuple[float, bytes]] = {}

    def run(self) -> CloudOutcome:
        self.add_brokers()
        self.add_publishers()
        self.add_subscribers()
        self.await_publication()
        self.simulator.run(BEGIN + self.setting.seconds + 5.0)
        return self.outcome()

    # Who there is.

    def add_brokers(self) -> None:
        for region in self.regions:
            links = [two if one == region else "" for one, two in ROUND_TRIPS_MS if two in self.regions]
            params = BrokerParams(
                access=AccessParams(links=tuple(link for link in links if link)),
                delivery=EdgeParams(history_age=self.setting.history),
            )
            self.simulator.add(region, partial(make_broker, region, params))

    def add_client(self, name: NodeId, broker: NodeId, at: float) -> None:
        make = make_plain_client if self.setting.system == "plain" else make_client
        self.simulator.add(name, partial(make, name, GuestParams(brokers=(broker,)), self.setting), at)

    def add_publishers(self) -> None:
        for row in self.workload.advertisements().rows():
            self.add_client(row["publisher"], HOMES[row["place"]], 0.0)
            self.simulator.inject(BEGIN - 1.5, row["publisher"], OpenAdvertisement("advertise", row["filter"]))

    def add_subscribers(self) -> None:
        for number, row in enumerate(self.workload.subscriptions().rows()):
            at = BEGIN + JOIN_AT + row["joins_at"] if row["joins_at"] else BEGIN - 1.0
            asked = self.reference(number, at)
            homes = [self.regions[row["place"]]]
            if self.setting.kind == "reference":
                homes.append(self.draw.choice(self.regions))
            for twin, broker in enumerate(homes):
                name, group = f"s{number}.{twin}", asked[-1]
                self.join(name, broker, at, row["filter"], *asked)
                if len(homes) > 1 and not group and self.trace is not None:
                    # Members of a group say so themselves.
                    note = partial(self.trace.record, at, name, Twin(1, f"s{number}"))
                    self.simulator.call_at(at, note)

    def reference(self, number: int, at: float) -> tuple[str, float | None, tuple[tuple[str, int], ...], str]:
        kind = self.setting.kind
        if kind == "mixed":
            kind = "installed" if self.draw.random() < 1 / 3 else "reference"
            at += self.draw.uniform(-10, 10)
        if kind == "installed":
            return "installed", None, (), ""
        if self.draw.random() < 0.5:
            since = None if self.setting.kind == "reference" else at
            return "reference", since, (), f"group{number}" if self.setting.kind == "reference" else ""
        last = max(0, int((at - BEGIN) * self.workload.rate))
        return "reference", None, tuple((f"p{each}", last) for each in range(self.workload.publishers)), ""

    def join(
        self,
        name: str,
        broker: NodeId,
        at: float,
        filter: str,
        guarantee: str,
        since: float | None,
        after: tuple[tuple[str, int], ...],
        group: str,
    ) -> None:
        self.add_client(name, broker, max(0.0, at - 1.0))
        self.subscribers.append(JoinedClient(name, at, filter, guarantee, since, after, group))
        asked: Any = (guarantee, since, after, group, "wait", 100_000, 60_000)
        self.simulator.inject(at, name, OpenSubscription("subscribe", filter, *asked))

    # What happens.

    def await_publication(self) -> None:
        """Only the next one waits in the simulator."""
        for each in self.planned:
            assert each.at is not None
            self.simulator.call_at(BEGIN + each.at, partial(self.publish, each))
            return

    def publish(self, each: PlannedEvent) -> None:
        now, number, head = self.simulator.now, each.number + 1, encode_head(each.attributes)
        self.published[each.publisher, number] = now, head
        ticket = ("receipt", number) if self.draw.random() < RECEIPT_SHARE else None
        self.simulator.inject(now, each.publisher, PublishBatch(1, (head,), (b"",), ticket))
        self.await_publication()

    # What came of it.

    def outcome(self) -> CloudOutcome:
        for subscriber in self.subscribers:
            for at, item in self.simulator.delivered(subscriber.client):
                match item:
                    case Arrived():
                        subscriber.arrived.append((at, item))
                    case Receipt("subscribe") | Confirmed("subscribe", Receipt()):
                        receipt = item if isinstance(item, Receipt) else item.receipt
                        assert receipt is not None
                        subscriber.installed_at = receipt.at
        spans = self.unacknowledged()
        seconds = [BEGIN + 1.5 + second for second in range(int(self.setting.seconds) - 2)]
        return CloudOutcome(
            setting=self.setting,
            subscribers=self.subscribers,
            published=self.published,
            ack_times=[until - begun for mine in spans for begun, until in mine],
            in_memory=[sum(begun <= at < until for begun, until in mine) for mine in spans for at in seconds],
            sent=self.sends.counts,
        )

    def unacknowledged(self) -> list[list[tuple[float, float]]]:
        """For each publisher from when to when each publication with a receipt was outstanding."""
        spans = []
        for number in range(self.workload.publishers):
            begun: dict[Any, float] = {}
            mine = []
            for at, item in self.simulator.delivered(f"p{number}"):
                match item:
                    case Begun(("receipt", _) as ticket):
                        begun[ticket] = at
                    case Confirmed(("receipt", _) as ticket):
                        mine.append((begun[ticket], at))
            spans.append(mine)
        return spans


def make_broker(name: NodeId, params: BrokerParams, draws: Draws) -> Machine:
    return BrokerNode(name, params, draws("access"))


def make_client(name: NodeId, access: GuestParams, setting: CloudSetting, draws: Draws) -> Machine:
    return ClientNode(name, access, SessionParams(), draws("access"))


def make_plain_client(name: NodeId, access: GuestParams, setting: CloudSetting, draws: Draws) -> Machine:
    plain = PlainSession(PlainParams(setting.timeout))
    return Node({"access": Guest(name, access, draws("access")), "delivery": plain})
