"""The workload of E1 and E4 to E7: an intense stream to a few subscribers, and a steady, slower flow to all others.

Eight brokers, two hubs with three leaves each, so that the longest way passes four brokers (transport specification,
4.4). Each has 50 clients, and all 400 subscribe. Six clients of each broker publish slowly: from 1.5 events a second at
the beginning up to 25 after 300 s. Two more publish 1200 events a second each, one from 90 s on and the other from
190 s on. Each has its few subscribers at a leaf of the other hub, so that its events pass four brokers.

The source does not say what is published and wanted. We chose what gives the rates that it reports:

- a slow event has one of 33 topics, and each client wants one, both drawn: 12 deliveries for each event, so that about
  250 000 are made in the first 90 s;
- 11 clients want more than 80 % of an intense stream: 10 deliveries for each event, so that the hubs, which every event
  passes, are at their limit at 30 000 deliveries a second;
- the two intense streams run against each other, or both from one side to the other.

So the rates are no evidence of anything; what happens at the limit is.

A `Layout` says where brokers and clients are. E7 has one of its own (`e7.py`); all else is as above.

**Trace.** Besides what the network writes, a `note` "interest" for each client says what it wants, in the fields topic,
and for some stream and level. An event is wanted that has this topic, or is of this stream and below this level.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tidings.lab.transport.network.store_and_forward import StoreAndForwardNetwork
from tidings.lab.transport.substrate import WARM_UP, Substrate, SubstrateParams, named
from tidings.machine.streams import Stream, random_stream
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.model.values import Value
from tidings.sim.topologies.topology import Edge, Topology
from tidings.trace.gathering import Writer
from tidings.trace.record import Record

LENGTH = 300.0
"""Seconds over which slow publishers become faster."""

HUBS = Topology(
    "hubs",
    ("A", "B", "a1", "a2", "a3", "b1", "b2", "b3"),
    (Edge("A", "B"), *(Edge(hub, f"{hub.lower()}{leaf}") for hub in "AB" for leaf in (1, 2, 3))),
)

CLIENTS = 50
"""At each broker."""
SLOW_PUBLISHERS = 6
SLOW_RATE_MIN, SLOW_RATE_MAX = 1.5, 25.0
TOPICS = 33

LEVELS = 1000
"""Events of a stream have a level below this; who wants a share of them wants those below a share of it."""
SHARE_MIN, SHARE_MAX = 0.82, 0.95
LISTENERS = range(20, 31)
"""The places of the clients that want a stream."""

SETTLE = 10.0
"""Seconds after the last publication in which everything arrives that will."""


class Layout(msgspec.Struct, frozen=True):
    """Who is where: at each broker so many clients, called after it; slow publishers by name; at the broker that a
    stream goes to, the places of the clients that want it."""

    topology: Topology
    clients: int
    slow: tuple[NodeId, ...]
    listeners: range


class Intense(msgspec.Struct, frozen=True):
    """A stream of 1200 events a second."""

    name: str
    publisher: NodeId
    listeners_at: NodeId
    begins_at: float
    rate: float = 1200.0
    grades: int = 0
    """Where set, an event has one of so many grades instead of a level, and who wants a share wants some of the grades.
    A Bloom row tells whether two values are equal, and not which is less."""


FIRST = Intense("s1", "a1.c10", "b1", 90.0)
STREAMS = {
    "both sides": (FIRST, Intense("s2", "b2.c10", "a2", 190.0)),
    "one side": (FIRST, Intense("s2", "a2.c10", "b2", 190.0)),
}


class Interest(msgspec.Struct, frozen=True, omit_defaults=True):
    topic: int
    stream: str = ""
    level: int = 0
    grades: int = 0

    def text(self) -> str:
        of_stream = f" OR stream = '{self.stream}' AND level < {self.level}" if self.level else ""
        graded = [f" OR stream = '{self.stream}' AND grade = {grade}" for grade in range(self.grades)]
        return f"topic = {self.topic}{of_stream}{''.join(graded)}"


def client_name(broker: NodeId, place: int) -> NodeId:
    return f"{broker}.c{place:02}"


EIGHT = Layout(
    HUBS,
    CLIENTS,
    tuple(client_name(broker, place) for broker in HUBS.nodes for place in range(SLOW_PUBLISHERS)),
    LISTENERS,
)


def clients(layout: Layout = EIGHT) -> dict[NodeId, NodeId]:
    nodes = layout.topology.nodes
    return {client_name(broker, place): broker for broker in nodes for place in range(layout.clients)}


def interests(seed: int, streams: Sequence[Intense], layout: Layout = EIGHT) -> dict[NodeId, Interest]:
    rng = random_stream(seed, "interests")
    drawn = {client: Interest(rng.below(TOPICS)) for client in clients(layout)}
    for stream in streams:
        for place in layout.listeners:
            client, share = client_name(stream.listeners_at, place), rng.uniform(SHARE_MIN, SHARE_MAX)
            level = 0 if stream.grades else round(share * LEVELS)
            drawn[client] = Interest(drawn[client].topic, stream.name, level, math.ceil(share * stream.grades))
    return drawn


def note_interests(trace: Writer, interests: Mapping[NodeId, Interest]) -> None:
    for client, interest in interests.items():
        detail = msgspec.json.encode(interest).decode()
        trace.write(Record(time=0.0, node=client, kind="note", message="interest", detail=detail))


class Source:
    """One publisher: when it publishes next, and what."""

    def __init__(self, publisher: NodeId, rng: Stream, next_at: Callable[[float, Stream], float]) -> None:
        self.publisher, self.rng, self.next_at = publisher, rng, next_at

    def content(self) -> dict[str, Value]:
        return {"topic": self.rng.below(TOPICS)}

    def events(self, begins_at: float, ends_at: float) -> Iterator[tuple[float, Event]]:
        at, number = begins_at, 0
        while (at := self.next_at(at, self.rng)) < ends_at:
            yield at, named(self.publisher, number, self.content())
            number += 1


class StreamSource(Source):
    def __init__(self, stream: Intense, rng: Stream, slowdown: float) -> None:
        super().__init__(stream.publisher, rng, lambda at, rng: at + rng.expovariate(stream.rate / slowdown))
        self.stream = stream

    def content(self) -> dict[str, Value]:
        if self.stream.grades:
            return {"stream": self.stream.name, "grade": self.rng.below(self.stream.grades)}
        return {"stream": self.stream.name, "level": self.rng.below(LEVELS)}


def next_slow_at(slowdown: float, at: float, rng: Stream) -> float:
    """Events come at random, at a rate that grows linearly: the expected number of them until a time is a square, and
    grows by an exponentially distributed amount from one event to the next."""
    growth = (SLOW_RATE_MAX - SLOW_RATE_MIN) / LENGTH / 2
    expected = SLOW_RATE_MIN * at + growth * at * at + slowdown * rng.expovariate()
    return (math.sqrt(SLOW_RATE_MIN**2 + 4 * growth * expected) - SLOW_RATE_MIN) / (2 * growth)


def play(network: Substrate, seed: int, seconds: float, streams: Sequence[Intense], layout: Layout = EIGHT) -> None:
    """Run the workload from its beginning up to so many seconds, and a while longer until everything has arrived."""
    slowdown = network.params.slowdown
    for name in layout.slow:
        slow = Source(name, random_stream(seed, "slow", name), partial(next_slow_at, slowdown))
        feed(network, slow.events(0.0, seconds))
    for stream in streams:
        intense = StreamSource(stream, random_stream(seed, "intense", stream.name), slowdown)
        feed(network, intense.events(stream.begins_at, seconds))
    network.simulator.run(WARM_UP + seconds + SETTLE)


def feed(network: Substrate, events: Iterator[tuple[float, Event]]) -> None:
    """Publish the next event at its time, and so on; only one waits in the simulator."""
    for at, event in events:
        network.simulator.call_at(WARM_UP + at, partial(advance, network, event, events))
        return


def advance(network: Substrate, event: Event, events: Iterator[tuple[float, Event]]) -> None:
    network.publish(event)
    feed(network, events)


SYSTEMS: dict[str, type[Substrate]] = {"best effort": Substrate, "store and forward": StoreAndForwardNetwork}


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: system, streams, slowdown, and the seconds to be played."""
    streams = STREAMS[parameters["streams"]]
    wanted = interests(seed, streams)
    note_interests(trace, wanted)
    params = SubstrateParams(slowdown=parameters["slowdown"])
    filters = {client: interest.text() for client, interest in wanted.items()}
    network = SYSTEMS[parameters["system"]](seed, trace, HUBS, params, clients(), filters)
    play(network, seed, parameters["seconds"], streams)
    counted = network.simulator.counters()
    return {
        "delivered": counted.delivered,
        "lost": sum(counted.lost.values()),
        "withheld": sum(counted.given_up.values()),
    }
