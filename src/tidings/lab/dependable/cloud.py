"""The world of the experiments on guarantees: brokers in cloud regions, publishers, and subscribers that join.

Brokers stand in 3, 6 or 10 cloud regions and form a tree. 10 publishers at us-e, de-c and ch-e publish
10 events a second each; an event has one of 5 classes and two numbers from 0 to 1000. 20 subscribers are there when
publishing begins, others join a while later, so many a second; each is at a broker drawn evenly, wants one class (the
first class most often) and a range of both numbers.

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
from tidings.trace.gathering import Writer

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
PUBLISHERS, RATE, CLASSES = 10, 10, 5
INITIAL, JOIN_AT = 20, 10.0
BEGIN = 3.0
"""When publishing begins."""
RECEIPT_SHARE = 0.1
"""Of publications."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
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


class Joined(msgspec.Struct):
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


class Outcome(msgspec.Struct):
    setting: Setting
    subscribers: list[Joined]
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


class World:
    def __init__(self, setting: Setting, trace: Writer | None = None) -> None:
        self.setting, self.trace = setting, trace
        self.regions = REGIONS[: setting.brokers]
        self.draw = random_stream(setting.seed, "guarantees", str(setting.brokers))
        self.delays: dict[tuple[str, str], float] = {}
        for (one, other), milliseconds in ROUND_TRIPS_MS.items():
            self.delays[one, other] = self.delays[other, one] = milliseconds / 2000
        self.sends = BrokerSends()
        network = Matrix(self.delays, CLIENT_LATENCY)
        self.simulator = Simulator(setting.seed, network, trace=trace, observers=[self.sends])
        self.subscribers: list[Joined] = []
        self.published: dict[tuple[str, int], tuple[float, bytes]] = {}
        self.counts: Counter[str] = Counter()

    def run(self) -> Outcome:
        self.add_brokers()
        self.add_publishers()
        self.add_subscribers()
        end = BEGIN + self.setting.seconds
        now = 0.0
        while now < end:
            # Publications are scheduled second by second, or the queue of the simulator would hold all of them.
            self.schedule_publications(now, now + 1.0, end)
            now += 1.0
            self.simulator.run(now)
        self.simulator.run(end + 5.0)
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
        for number in range(PUBLISHERS):
            name = f"p{number}"
            self.add_client(name, HOMES[number % len(HOMES)], 0.0)
            self.simulator.inject(BEGIN - 1.5, name, OpenAdvertisement("advertise", f"class = {number % CLASSES}"))

    def add_subscribers(self) -> None:
        count = INITIAL + int(self.setting.joins * self.setting.joining)
        weights = [1 / rank for rank in range(1, CLASSES + 1)]
        for number in range(count):
            at = BEGIN - 1.0 if number < INITIAL else BEGIN + JOIN_AT + (number - INITIAL) / self.setting.joins
            [chosen] = self.draw.choices(range(CLASSES), weights)
            bounds = [sorted(self.draw.sample(range(1001), 2)) for _ in range(2)]
            (a, b), (c, d) = bounds
            filter = f"class = {chosen} AND a >= {a} AND a <= {b} AND b >= {c} AND b <= {d}"
            guarantee, since, after, group = self.reference(number, at)
            twins = 2 if self.setting.kind == "reference" else 1
            for twin in range(twins):
                name = f"s{number}.{twin}"
                self.join(name, at, filter, guarantee, since, after, group)
                if twins > 1 and not group and self.trace is not None:
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
        last = max(0, int((at - BEGIN) * RATE))
        return "reference", None, tuple((f"p{each}", last) for each in range(PUBLISHERS)), ""

    def join(
        self,
        name: str,
        at: float,
        filter: str,
        guarantee: str,
        since: float | None,
        after: tuple[tuple[str, int], ...],
        group: str,
    ) -> None:
        broker = self.draw.choice(self.regions)
        self.add_client(name, broker, max(0.0, at - 1.0))
        self.subscribers.append(Joined(name, at, filter, guarantee, since, after, group))
        asked: Any = (guarantee, since, after, group, "wait", 100_000, 60_000)
        self.simulator.inject(at, name, OpenSubscription("subscribe", filter, *asked))

    # What happens.

    def schedule_publications(self, begin: float, end: float, until: float) -> None:
        for number in range(PUBLISHERS):
            for tick in range(RATE):
                at = begin + (tick + number / PUBLISHERS) / RATE
                if BEGIN <= at < until:
                    self.publish(f"p{number}", number % CLASSES, at)

    def publish(self, publisher: str, kind: int, at: float) -> None:
        self.counts[publisher] += 1
        number = self.counts[publisher]
        head = encode_head({"class": kind, "a": self.draw.randrange(1001), "b": self.draw.randrange(1001)})
        self.published[publisher, number] = at, head
        ticket = ("receipt", number) if self.draw.random() < RECEIPT_SHARE else None
        self.simulator.inject(at, publisher, PublishBatch(1, (head,), (b"",), ticket))

    # What came of it.

    def outcome(self) -> Outcome:
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
        return Outcome(
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
        for number in range(PUBLISHERS):
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


def make_client(name: NodeId, access: GuestParams, setting: Setting, draws: Draws) -> Machine:
    return ClientNode(name, access, SessionParams(), draws("access"))


def make_plain_client(name: NodeId, access: GuestParams, setting: Setting, draws: Draws) -> Machine:
    plain = PlainSession(PlainParams(setting.timeout))
    return Node({"access": Guest(name, access, draws("access")), "delivery": plain})
