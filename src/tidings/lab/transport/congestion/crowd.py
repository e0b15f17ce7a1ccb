"""Several brokers, many subscribers, few publishers: the world of the larger congestion experiments (E23, E25).

Who wants what and where the narrow links are is said by a `Crowd`; the rest is as in `bottleneck.py`, its trace too.
Beside the ends, each narrow link ("link 1", "link 2", ...) has its notes "carried", in bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from tidings.lab.transport.congestion.bottleneck import ENTRY_BYTES, RECORD, SETTLE, Content, Mode, flow_events, watch
from tidings.lab.transport.network.rising_load import feed
from tidings.lab.transport.networks import BrokerNetwork
from tidings.lab.transport.substrate import WARM_UP, WIRE_BYTES, SubstrateParams
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.sim.network.bandwidth import DropTail
from tidings.sim.topologies.topology import Topology
from tidings.trace.writer import Writer


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    topology: Topology
    publishers: Mapping[NodeId, NodeId]
    """And the broker of each."""
    subscribers: Mapping[NodeId, NodeId]
    wants: Mapping[NodeId, str]
    events: Sequence[Iterator[tuple[float, Event]]]
    """With their times; played once."""
    narrow: Mapping[tuple[NodeId, NodeId], float]
    """Links from, to, and the bits a second that they carry."""
    seconds: float
    link_delay: float = 0.02
    queue: int = 50

    def for_record(self, record: int) -> "Crowd":
        """As `Plan.for_record`: links that are as many events wide and long as with a record of two."""
        factor = (WIRE_BYTES + (record - RECORD) * ENTRY_BYTES) / WIRE_BYTES
        narrow = {link: rate_bps * factor for link, rate_bps in self.narrow.items()}
        return msgspec.structs.replace(self, narrow=narrow, queue=round(self.queue * factor))


def play_crowd(
    crowd: Crowd, mode: Mode, seed: int, trace: Writer, network_type: type[BrokerNetwork] = BrokerNetwork
) -> BrokerNetwork:
    params = SubstrateParams(
        handling=0.00025,
        link_delay=crowd.link_delay,
        wander=0.0,
        link_queue_messages=crowd.queue,
        counts_payload_only=True,
    )
    network = network_type(
        seed,
        trace,
        crowd.topology,
        params,
        {**crowd.publishers, **crowd.subscribers},
        crowd.wants,
        rates_bps=crowd.narrow,
        transports=mode.params,
        modes=mode.modes,
    )
    for events in crowd.events:
        feed(network, events)
    for place, (sender, to) in enumerate(crowd.narrow, 1):
        watch(network, trace, f"link {place}", partial(carried_bytes, network.link(sender, to)), crowd.seconds)
    network.simulator.run(WARM_UP + crowd.seconds + SETTLE)
    network.simulator.check()
    return network


def steady_events(
    publishers: Iterable[NodeId], rate: float, draw: Callable[[RandomStream], Content], seed: int, until: float
) -> list[Iterator[tuple[float, Event]]]:
    """Of each publisher, at the same rate."""
    streams = ((name, random_stream(seed, "publications", name)) for name in publishers)
    return [flow_events(name, ((0.0, rate),), draw, rng, until) for name, rng in streams]


def carried_bytes(link: DropTail) -> float:
    return link.accepted_bytes
