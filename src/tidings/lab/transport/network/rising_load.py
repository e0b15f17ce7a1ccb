"""The load of E1 and E4 to E7: an intense stream to a few subscribers, and a steady, slower flow to all others.

Eight brokers, two hubs with three leaves each, so that the longest way passes four brokers (transport specification,
4.4). Each has 50 clients, and all 400 subscribe. Six clients of each broker publish slowly: from 1.5 events a second at
the beginning up to 25 after 300 s. Two more publish 1200 events a second each, one from 90 s on and the other from
190 s on. Each has its few subscribers at a leaf of the other hub, so that its events pass four brokers.

What is published and wanted is the workload `transport-e1` (`workloads/transport.py`), at random times. The source does
not say what it was. We chose what gives the rates that it reports:

- a slow event has one of 33 topics, and each client wants one, both drawn: 11.5 deliveries for each event, so that
  about 250 000 are made in the first 90 s;
- 11 clients want more than 80 % of an intense stream: 10 deliveries for each event, so that the hubs, which every event
  passes, are at their limit at 30 000 deliveries a second;
- the two intense streams run against each other, or both from one side to the other.

So the rates are no evidence of anything; what happens at the limit is.

A `LoadLayout` says where brokers and clients are. E7 has one of its own (`ordering/e7.py`); all else is as above.

**Trace.** Besides what the network writes, a `note` "interest" for each client says what it wants: everything that has
the topic, or of the publisher's events those with a level up to the share.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

import msgspec

from tidings.lab.transport.network.store_and_forward import StoreAndForwardNetwork
from tidings.lab.transport.networks import BrokerNetwork, DispatcherNetwork
from tidings.lab.transport.samples import subscriber_name
from tidings.lab.transport.substrate import WARM_UP, SubstrateParams, named
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.sim.topologies.topology import Topology, TopologyEdge
from tidings.trace.record import Record
from tidings.trace.writer import Writer
from tidings.workloads.table import Row
from tidings.workloads.transport import RisingLoad
from tidings.workloads.workload import Workload

LENGTH = 300.0
"""Seconds over which slow publishers become faster."""

HUBS = Topology(
    "hubs",
    ("A", "B", "a1", "a2", "a3", "b1", "b2", "b3"),
    (TopologyEdge("A", "B"), *(TopologyEdge(hub, f"{hub.lower()}{leaf}") for hub in "AB" for leaf in (1, 2, 3))),
)

CLIENTS = 50
"""At each broker."""
SLOW_PUBLISHERS = 6
SHARE, SHARE_SPREAD = 0.885, 0.065
"""Of a stream, that is wanted by who wants it."""
LISTENERS = range(20, 31)
"""The places of the clients that want a stream."""

SETTLE = 10.0
"""Seconds after the last publication in which everything arrives that will."""


class LoadLayout(msgspec.Struct, frozen=True):
    """Who is where: at each broker so many clients, numbered from 1 on and called after it; slow publishers by name; at
    the broker that a stream goes to, the places of the clients that want it."""

    topology: Topology
    clients: int
    slow: tuple[NodeId, ...]
    listeners: range


class Intense(msgspec.Struct, frozen=True):
    """A stream of 1200 events a second."""

    publisher: NodeId
    listeners_at: NodeId
    begins_at: float


FIRST = Intense("a1.c10", "b1", 90.0)
STREAMS = {
    "both sides": (FIRST, Intense("b2.c10", "a2", 190.0)),
    "one side": (FIRST, Intense("a2.c10", "b2", 190.0)),
}


EIGHT = LoadLayout(
    HUBS,
    CLIENTS,
    tuple(subscriber_name(broker, place) for broker in HUBS.nodes for place in range(1, SLOW_PUBLISHERS + 1)),
    LISTENERS,
)


class OfferedLoad:
    """The workload on a layout: which client is which publisher and which subscriber of it."""

    def __init__(
        self, seed: int, streams: Sequence[Intense], layout: LoadLayout = EIGHT, slowdown: float = 1.0, grades: int = 0
    ) -> None:
        nodes = layout.topology.nodes
        self.homes = {
            subscriber_name(broker, place): broker for broker in nodes for place in range(1, layout.clients + 1)
        }
        """The broker of each client."""
        self.workload = RisingLoad(
            seed=seed,
            subscribers=len(self.homes),
            brokers=len(nodes),
            ramping=len(layout.slow),
            intense_at=tuple(stream.begins_at for stream in streams),
            intense_subscribers=len(layout.listeners),
            intense_match=SHARE,
            match_spread=SHARE_SPREAD,
            grades=grades,
            duration=LENGTH,
            slower=slowdown,
            arrivals="poisson",
        )
        self.publishers = (*layout.slow, *(stream.publisher for stream in streams))
        self.publisher_homes = {name: self.homes[name] for name in self.publishers}
        # The workload has its listeners first, by turns for one stream and the next.
        ordered = [subscriber_name(stream.listeners_at, place) for place in layout.listeners for stream in streams]
        ordered += [client for client in self.homes if client not in ordered]
        self.interests: dict[NodeId, Row] = dict(zip(ordered, self.workload.subscriptions().rows(), strict=True))

    @property
    def wants(self) -> dict[NodeId, list[str]]:
        """At each broker, what its clients want, in the order of their places."""
        wanted: dict[NodeId, list[str]] = {}
        for client, home in self.homes.items():
            wanted.setdefault(home, []).append(self.interests[client]["filter"])
        return wanted

    def note_interests(self, trace: Writer) -> None:
        for client, interest in self.interests.items():
            said = {name: interest[name] for name in ("topic", "publisher", "share") if interest[name] is not None}
            detail = msgspec.json.encode(said).decode()
            trace.write(Record(time=0.0, node=client, kind="note", message="interest", detail=detail))

    def events(self) -> Iterator[tuple[float, Event]]:
        return timed_events(self.workload, {f"p{place}": name for place, name in enumerate(self.publishers)})

    def play(self, network: DispatcherNetwork, seconds: float) -> None:
        """From its beginning up to so many seconds, and a while longer until everything has arrived."""
        feed(network, takewhile(lambda timed: timed[0] < seconds, self.events()))
        network.simulator.run(WARM_UP + seconds + SETTLE)


def timed_events(workload: Workload, names: Mapping[str, NodeId] | None = None) -> Iterator[tuple[float, Event]]:
    """Events of a workload with their times; publishers are called as they are there, or otherwise."""
    for each in workload.planned_events():
        assert each.at is not None, "a workload without a schedule"
        publisher = each.publisher if names is None else names[each.publisher]
        yield each.at, named(publisher, each.number, each.attributes)


def feed(network: DispatcherNetwork | BrokerNetwork, events: Iterator[tuple[float, Event]]) -> None:
    """Publish the next event at its time, and so on; only one waits in the simulator."""
    for at, event in events:
        network.simulator.call_at(WARM_UP + at, partial(advance, network, event, events))
        return


def advance(network: DispatcherNetwork | BrokerNetwork, event: Event, events: Iterator[tuple[float, Event]]) -> None:
    network.publish(event)
    feed(network, events)


SYSTEMS: dict[str, type[DispatcherNetwork]] = {
    "best effort": DispatcherNetwork,
    "store and forward": StoreAndForwardNetwork,
}


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: system, streams, slowdown, and the seconds to be played."""
    load = OfferedLoad(seed, STREAMS[parameters["streams"]], slowdown=parameters["slowdown"])
    load.note_interests(trace)
    params = SubstrateParams(slowdown=parameters["slowdown"])
    network = SYSTEMS[parameters["system"]](seed, trace, HUBS, params, load.publisher_homes, load.wants)
    load.play(network, parameters["seconds"])
    counted = network.simulator.counters()
    return {
        "delivered": counted.delivered,
        "lost": sum(counted.lost.values()),
        "withheld": sum(counted.given_up.values()),
    }
