"""The world of the experiments on guarantees: brokers in cloud regions, publishers, and subscribers that join.

Brokers stand in 3, 6 or 10 cloud regions and form a tree. What is published and asked for, by whom and when, is the
workload `w-psdg` (`workloads/dependable.py`): 10 publishers at us-e, de-c and ch-e, 10 events a second each; 20
subscribers when publishing begins, others that join a while later, so many a second, anywhere. With twins, the second
of two is at a broker of its own.

     3 brokers (ov1 in the source)    us-e - de-c - ch-e
     6 brokers (ov2)                  besides, us-w and br-s at us-e; jp-e at ch-e
    10 brokers (ov3)                  besides, uk-s and in-c at de-c; au-e at jp-e; ca-c at us-e

The published round-trip times are lost with their figure; ours are those that the specification proposes (G-58). The
source does not tell which classes a publisher has; here each has one of the five. Half of the advertisements of its
mixed runs (E25) ask for an acknowledgement; ours always have one.

A world is run with one of two systems. With `guarantees`, clients are ours. With `plain`, they do what a client can do
by itself (`protocols/delivery/baselines.py`): wait for a fixed time instead of a receipt, and throw away what comes too
early. The brokers are the same in both cases.

**Trace.** Everything. Subscribers that join are called "s...", those that are there at first "first...". An event has a
source and an id, which are its key. A note `due` for each event and each subscriber that joins says that it is owed to
it: it matches, was published around the time of joining, and not before the reference.

Source: the evaluation of PSDG (7.5.1), specification 4.1 W-PSDG and 4.5.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from tidings.lab.experiment import DataFrame, Variant
from tidings.machine.node import Machine, Node
from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.protocols.access.guest import Guest
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.delivery.baselines import PlainParams, PlainSession
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import OpenAdvertisement, OpenSubscription, PublishBatch
from tidings.pubsub.notes import Twin
from tidings.pubsub.publications import encode_head, event_of
from tidings.sim.hardware import Processing
from tidings.sim.network.latency import Matrix
from tidings.sim.node import Draws
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator
from tidings.trace.record import Record
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
ACK_WAIT = 600.0
"""Seconds for which a broker waits for an acknowledgement."""
JOIN_AT = 10.0
"""Seconds from the beginning of publishing after which others join."""
BEGIN = 3.0
"""When publishing begins."""
RECEIPT_SHARE = 0.1
"""Of publications."""

PATIENT: Any = {"policy": "wait", "queue_max": 100_000, "window": 60_000}
"""Subscriptions lose nothing in a queue."""

LINKED_BEFORE = 1.0
"""Seconds before it subscribes in which a client goes to its broker."""

INSTALLATION_MAX = 3.0
"""Seconds from a subscription in which anything that has to do with its installation happens."""

OWED_AROUND = 10.0
"""Seconds before and after a subscription of which it is counted what is missed: longer than it takes to install it, by
brokers that take their time as well."""

MESSAGES_MAX = 1_000_000
"""Messages that wait for a broker that takes its time."""


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
    handling: float = 0.0
    """Seconds that a broker takes over a message, on average."""
    seed: int = 1


class JoinedClient(msgspec.Struct, frozen=True):
    """A subscriber, and from when on it wants everything."""

    client: NodeId
    at: float
    request: OpenSubscription

    def is_owed(self, publisher: str, number: int, at: float) -> bool:
        """Whether what was published then is behind the reference, and around the installation."""
        if not self.at - OWED_AROUND < at < self.at + OWED_AROUND:
            return False
        after, since = dict(self.request.after), self.request.since
        return number > after[publisher] if publisher in after else at >= (self.at if since is None else since)


class CloudWorld:
    def __init__(self, setting: CloudSetting, trace: Writer | None = None, observers: Sequence[Observer] = ()) -> None:
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
        network = Matrix(self.delays, CLIENT_LATENCY)
        self.simulator = Simulator(setting.seed, network, trace=trace, observers=observers)
        self.subscribers: list[JoinedClient] = []
        self.published: dict[tuple[str, int], tuple[float, bytes]] = {}

    def run(self) -> None:
        self.add_brokers()
        self.add_publishers()
        self.add_subscribers()
        self.await_publication()
        self.simulator.run(BEGIN + self.setting.seconds + 5.0)
        if self.trace is not None:
            self.note_due(self.trace)

    # Who there is.

    def add_brokers(self) -> None:
        for region in self.regions:
            links = [two if one == region else "" for one, two in ROUND_TRIPS_MS if two in self.regions]
            params = BrokerParams(
                access=AccessParams(links=tuple(link for link in links if link)),
                routing=RoutingParams(ack_timeout=ACK_WAIT),
                delivery=EdgeParams(history_age=self.setting.history),
            )
            self.simulator.add(region, partial(self.make_broker, region, params), processing=self.processing())

    def make_broker(self, name: NodeId, params: BrokerParams, draws: Draws) -> Machine:
        return BrokerNode(name, params, draws("access"))

    def processing(self) -> Processing | None:
        """One after the other, and none is given up."""
        return Processing(1, self.setting.handling, MESSAGES_MAX) if self.setting.handling else None

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
            request = self.request(number, at, row["filter"])
            homes = [self.regions[row["place"]]]
            if self.setting.kind == "reference":
                homes.append(self.draw.choice(self.regions))
            for twin, broker in enumerate(homes):
                name = f"{'s' if row['joins_at'] else 'first'}{number}.{twin}"
                self.add_client(name, broker, max(0.0, at - LINKED_BEFORE))
                self.subscribers.append(JoinedClient(name, at, request))
                self.simulator.inject(at, name, request)
                if len(homes) > 1 and not request.group and self.trace is not None:
                    # Members of a group say so themselves.
                    note = partial(self.trace.record, at, name, Twin(1, f"s{number}"))
                    self.simulator.call_at(at, note)

    def request(self, number: int, at: float, filter: str) -> OpenSubscription:
        kind, opened = self.setting.kind, partial(OpenSubscription, "subscribe", filter, **PATIENT)
        if kind == "mixed":
            kind = "installed" if self.draw.random() < 1 / 3 else "reference"
            at += self.draw.uniform(-10, 10)
        if kind == "installed":
            return opened(guarantee="installed")
        if self.draw.random() < 0.5:
            if self.setting.kind == "reference":
                return opened(guarantee="reference", group=f"group{number}", since=at)
            return opened(guarantee="reference", since=at)
        last = max(0, int((at - BEGIN) * self.workload.rate))
        after = tuple((f"p{each}", last) for each in range(self.workload.publishers))
        return opened(guarantee="reference", after=after)

    # What happens.

    def await_publication(self) -> None:
        """Only the next one waits in the simulator."""
        for each in self.planned:
            assert each.at is not None
            self.simulator.call_at(BEGIN + each.at, partial(self.publish, each))
            return

    def publish(self, each: PlannedEvent) -> None:
        now, number = self.simulator.now, each.number + 1
        head = encode_head({"source": each.publisher, "id": str(number), **each.attributes})
        self.published[each.publisher, number] = now, head
        ticket = ("receipt", number) if self.draw.random() < RECEIPT_SHARE else None
        self.simulator.inject(now, each.publisher, PublishBatch(1, (head,), (b"",), ticket))
        self.await_publication()

    def note_due(self, trace: Writer) -> None:
        """What is owed to those who joined."""
        events = [(*key, at, event_of(head, b"")) for key, (at, head) in self.published.items()]
        for joined in self.subscribers:
            if joined.at > BEGIN:
                filter = parse(joined.request.filter)
                for publisher, number, at, event in events:
                    if joined.is_owed(publisher, number, at) and filter.matches(event):
                        key = f"{publisher} {number}"
                        trace.write(Record(time=at, node=joined.client, kind="note", message="due", key=key))


def make_client(name: NodeId, access: GuestParams, setting: CloudSetting, draws: Draws) -> Machine:
    return ClientNode(name, access, SessionParams(), draws("access"))


def make_plain_client(name: NodeId, access: GuestParams, setting: CloudSetting, draws: Draws) -> Machine:
    plain = PlainSession(PlainParams(setting.timeout))
    return Node({"access": Guest(name, access, draws("access")), "delivery": plain})


# What the experiments have in common.


def variants(parameter: str, values: Sequence[int], **others: str) -> tuple[Variant, ...]:
    """Both systems for each value."""
    said = {"brokers": "brokers", "joins": "joins/s"}[parameter]
    return tuple(
        Variant(f"{value} {said} {system}", {parameter: value, "system": system, **others})
        for value in values
        for system in ("guarantees", "plain")
    )


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: those of `CloudSetting`."""
    CloudWorld(msgspec.convert({**parameters, "seed": seed}, CloudSetting), trace).run()
    return {}


def joined(traces: DataFrame) -> DataFrame:
    """Without those who were there at first."""
    return traces.where("NOT startswith(node, 'first')")
