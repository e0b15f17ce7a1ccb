"""The world of E10 to E16: a network that loses messages on every link, and receivers that repair each other's losses.

Trees of 12 brokers (5 links from end to end) or 46 (11 links), five clients at each, of which 6 or 10 publish. A link
takes 25 to 75 ms, drawn for each, and drifts by 5 ms to either side; it loses 1 % of the messages, or 0.1 %, and is
wide enough (100 Mbit/s) to lose no others. Publishers send 20 to 40 events a second, and now and then, for 4 s, up to
500 (250 among 46 brokers). All rates are the published ones: a small run is shorter, and not slowed down, since how
long it takes to notice a loss, and how much a cache must hold, depend on rates and round trips together.

What is published and wanted. An event has ten attributes: its publisher; a topic, and a desk that goes with it; a
place, and an area that goes with it; five numbers that nobody asks for. A receiver asks each publisher for one topic at
its desk, or, half of them, for one place in its area. Topics and places are drawn by the law of the workload
`transport-e10` (`workloads/transport.py`), so that the match probabilities of pairs are the published ones, and
receivers are as many. The source does not say what its filters were; of these choices two matter:

- Two receivers of one event want other things besides, as where the source computes how likely a shared loss is seen.
  With topics alone all of them would want the same events, and see the same losses.
- One more condition than is needed (desk, area) makes false positives of Bloom rows rare. Without it 0.7 % of all
  events of a publisher would seem to be for a receiver that wants 2 % of them; they never come, and seem lost.

What runs. With `record` 0 it is the plain network, where nobody orders or recovers anything. With R > 0 headers have
records of R events, and a loss is asked for six times; who may answer is told by `answers`:

    receivers     those that have the event in their cache
    everybody     and its publisher. All nodes are volunteers in the source, which does not say what a publisher keeps
    additions     all that we have besides (`FULL`): digests, more rounds, and what came before a receiver's first event

**Trace.** A note `interest` for each pair of publisher and receiver says for which attribute and value it is, and which
share of the publisher's events have it. A note `caches` each second says the mean and the largest K over all rings, and
how many events were published in that second.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.lab.experiment import Parameter, Variant
from tidings.lab.transport.broker_trees import low_degree
from tidings.lab.transport.network.rising_load import feed
from tidings.lab.transport.networks import BrokerNetwork
from tidings.lab.transport.substrate import WARM_UP, SubstrateParams, named
from tidings.machine.streams import random_stream
from tidings.matching.bloom import BloomProfile
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.model.values import Value
from tidings.protocols.transport.carrier import Modes
from tidings.protocols.transport.params import OrderingParams, RecoveryParams, TransportParams
from tidings.sim.topologies.topology import Topology
from tidings.trace.record import Record
from tidings.trace.writer import Writer

if TYPE_CHECKING:
    from tidings.workloads.transport import RareMatches


SWEEP = "transport/recovery"
"""E10 to E16 measure the same runs."""

OTHERS = tuple(f"a{place}" for place in range(1, 6))
OTHERS_BELOW = 1000
PROFILE = BloomProfile(bits=256)

SETTLE = 30.0
"""Seconds after the last publication in which everything is repaired that will be."""

RECEIVERS, EVERYBODY, ADDITIONS = "receivers", "everybody", "additions"

encode = msgspec.json.Encoder().encode


class LossyTree(msgspec.Struct, frozen=True):
    brokers: int
    diameter: int
    publishers: int
    subscribers: int
    rate_max: float
    few_share: float
    """For the workload: of the events, how many would have at most two receivers if all asked for topics. With places
    beside them it becomes a half."""

    def workload(self, seed: int, seconds: float) -> "RareMatches":
        from tidings.workloads.transport import RareMatches

        return RareMatches(
            seed=seed,
            publishers=self.publishers,
            subscribers=self.subscribers,
            brokers=self.brokers,
            rate_max=self.rate_max,
            few_share=self.few_share,
            duration=seconds,
        )

    def clients(self, topology: Topology) -> dict[NodeId, NodeId]:
        """Five at each broker: receivers by turns, publishers where a place is left."""
        names = [f"s{place}" for place in range(self.subscribers)] + [f"p{place}" for place in range(self.publishers)]
        return {name: topology.nodes[place % self.brokers] for place, name in enumerate(names)}


WORLDS = {12: LossyTree(12, 5, 6, 54, 500.0, 0.5), 46: LossyTree(46, 11, 10, 220, 250.0, 0.6)}


@cache
def tree(world: LossyTree) -> Topology:
    return low_degree(world.brokers, world.diameter)


PUBLISHED = RecoveryParams(rounds_max=6, uses_history=False)
FULL = RecoveryParams(uses_history=False)


def transport_of(record: int, answers: str, node: NodeId) -> TransportParams:
    if not record:
        return TransportParams(is_ordered=False)
    if answers == ADDITIONS:
        ordering = OrderingParams(joins="listening")
        return TransportParams(
            is_reliable=True, record=record, profile=PROFILE, tells_ranges=False, ordering=ordering, recovery=FULL
        )
    answering = answers == EVERYBODY or node.startswith("s")
    return TransportParams(
        is_reliable=answering, record=record, profile=PROFILE, tells_ranges=False, digest_period=0.0, recovery=PUBLISHED
    )


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: brokers, loss, record, answers, and the seconds to be played with 12 brokers and with 46."""
    world, record = WORLDS[parameters["brokers"]], parameters["record"]
    seconds = parameters["seconds" if world is WORLDS[12] else "seconds_large"]
    workload, topology = world.workload(seed, seconds), tree(world)
    params = SubstrateParams(
        link_delay=0.05,
        link_delay_spread=0.025,
        link_loss=parameters["loss"],
        link_rate_bps=100e6,
        link_queue_messages=1000,
    )
    network = BrokerNetwork(
        seed,
        trace,
        topology,
        params,
        world.clients(topology),
        note_interests(trace, workload),
        transports=partial(transport_of, record, parameters["answers"]),
        modes=Modes(is_ordered=record > 0, is_reliable=record > 0),
    )
    published: Counter[int] = Counter()
    for events in streams(workload):
        feed(network, counted(events, published))
    for second in range(int(seconds)):
        network.simulator.call_at(WARM_UP + second + 1, partial(note_caches, network, trace, workload, published))
    network.simulator.run(WARM_UP + seconds + SETTLE)
    return totals(network, workload)


# What is published and wanted.


def note_interests(trace: Writer, workload: "RareMatches") -> dict[NodeId, str]:
    """The filter of each receiver."""
    from tidings.workloads.content import all_of, equals
    from tidings.workloads.transport import topic_shares

    shares = topic_shares().tolist()
    wanted: dict[NodeId, list[str]] = {}
    for publisher in range(workload.publishers):
        drawn = random_stream(workload.seed, "asks for a place", publisher)
        for place, value in enumerate(workload.asked(publisher).tolist()):
            name = "place" if drawn.random() < 0.5 else "topic"
            attributes = {"publisher": f"p{publisher}", **VALUES[name](value)}
            wanted.setdefault(f"s{place}", []).append(all_of([equals(*each) for each in attributes.items()]))
            said = {"publisher": f"p{publisher}", "name": name, "value": attributes[name], "share": shares[value]}
            trace.write(note(0.0, f"s{place}", "interest", said))
    return {receiver: " OR ".join(f"({each})" for each in filters) for receiver, filters in wanted.items()}


VALUES: dict[str, Callable[[int], dict[str, str]]] = {
    "topic": lambda value: {"topic": f"t{value}", "desk": f"d{value}"},
    "place": lambda value: {"place": f"l{value}", "area": f"r{value}"},
}


def streams(workload: "RareMatches") -> Iterator[Iterator[tuple[float, Event]]]:
    """The events of each publisher, with their times from the beginning of the workload."""
    from tidings.workloads.schedule import cumulative, places
    from tidings.workloads.table import stream
    from tidings.workloads.transport import topic_shares

    schedule, sums = workload.schedule(), cumulative(topic_shares())
    for publisher, (first, end) in enumerate(pairwise(schedule.begins.tolist())):
        drawn, count = stream(workload.seed, "events of", publisher), end - first
        _, _, times = schedule.rows(first, count)
        columns = [places(sums, drawn.random(count)) for _ in VALUES]
        columns += [drawn.integers(OTHERS_BELOW, size=count) for _ in OTHERS]
        yield events_of(f"p{publisher}", times.tolist(), [column.tolist() for column in columns])


def events_of(publisher: NodeId, times: list[float], columns: list[list[int]]) -> Iterator[tuple[float, Event]]:
    for number, (at, topic, place, *others) in enumerate(zip(times, *columns, strict=True)):
        content: dict[str, Value] = {"publisher": publisher, **VALUES["topic"](topic), **VALUES["place"](place)}
        yield at, named(publisher, number, {**content, **dict(zip(OTHERS, others, strict=True))})


def counted(events: Iterator[tuple[float, Event]], published: Counter[int]) -> Iterator[tuple[float, Event]]:
    for at, event in events:
        published[int(at)] += 1
        yield at, event


# What is measured on the way.


def note(at: float, node: NodeId, name: str, said: Mapping[str, Any]) -> Record:
    return Record(time=at, node=node, kind="note", message=name, detail=encode(said).decode())


def note_caches(network: BrokerNetwork, trace: Writer, workload: "RareMatches", published: Counter[int]) -> None:
    now = network.simulator.now
    sizes = [
        one.ring.capacity
        for receiver in range(workload.subscribers)
        for one in network.transport(f"s{receiver}").recovery.streams.values()
        if one.stream[0]
    ]
    if sizes:
        rate = published[int(now - WARM_UP) - 1]
        said = {"mean": sum(sizes) / len(sizes), "largest": max(sizes), "rings": len(sizes), "rate": rate}
        trace.write(note(now, "", "caches", said))


def totals(network: BrokerNetwork, workload: "RareMatches") -> dict[str, float]:
    receivers = [network.transport(f"s{place}").recovery for place in range(workload.subscribers)]
    publishers = [network.transport(f"p{place}").recovery for place in range(workload.publishers)]
    return {
        "requests": sum(one.losses.requester.sent for one in receivers),
        "repairs": sum(one.repairer.sent for one in receivers),
        "repairs_by_publishers": sum(one.repairer.sent for one in publishers),
        "recovered": sum(one.recovered_count for one in receivers),
        "given_up": sum(one.losses.given_up for one in receivers),
        "mistaken": sum(one.mistaken for one in receivers),
    }


# Which runs there are.

NOT_RECOVERED = "nothing recovered"


def way_of(record: int, answers: str = EVERYBODY) -> str:
    if not record:
        return NOT_RECOVERED
    return f"R = {record}" if answers == EVERYBODY else f"R = {record}, {answers}"


def variant(brokers: int, record: int, loss: float = 0.01, answers: str = EVERYBODY) -> Variant:
    parameters: dict[str, Parameter] = {"brokers": brokers, "record": record, "loss": loss, "answers": answers}
    return Variant(f"{group_of(brokers, loss)}, {way_of(record, answers)}", parameters)


def group_of(brokers: int, loss: float = 0.01) -> str:
    return f"{brokers} brokers" if loss == 0.01 else f"{brokers} brokers, loss {loss:g}"


SMALL, LARGE = group_of(12), group_of(46)

RUNS = (
    *(variant(12, record) for record in (0, 1, 2, 5, 10)),
    variant(12, 10, answers=RECEIVERS),
    variant(12, 10, answers=ADDITIONS),
    *(variant(46, record) for record in (0, 1, 10)),
    variant(46, 10, answers=ADDITIONS),
    *(variant(46, record, 0.001) for record in (0, 10)),
)
