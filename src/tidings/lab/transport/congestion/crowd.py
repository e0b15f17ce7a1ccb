"""Several brokers, many subscribers, few publishers: the world of the larger congestion experiments (E23, E25).

Who wants what and where the narrow links are is said by a `Crowd`; the rest is as in `bottleneck.py`, its trace too.
Beside the ends, each narrow link is counted: the bytes that it carried in each span, as `delivered` of "link 1",
"link 2", ...
"""

from collections.abc import Callable, Mapping

import msgspec

from tidings.lab.transport.congestion.bottleneck import (
    ENTRY_BYTES,
    RECORD,
    SETTLE,
    Drawn,
    Mode,
    Publishing,
    SparingNetwork,
    Tally,
    watch,
)
from tidings.lab.transport.substrate import WARM_UP, WIRE_BYTES, SubstrateParams
from tidings.machine.streams import Stream, random_stream
from tidings.model.identity import NodeId
from tidings.sim.topologies.topology import Topology
from tidings.trace.gathering import Writer


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    topology: Topology
    publishers: Mapping[NodeId, NodeId]
    """And the broker of each."""
    subscribers: Mapping[NodeId, NodeId]
    wants: Mapping[NodeId, str]
    rate: float
    """Events a second, of each publisher."""
    draw: Callable[[NodeId, Stream], Drawn]
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
    crowd: Crowd, mode: Mode, seed: int, trace: Writer, network_type: type[SparingNetwork] = SparingNetwork
) -> Tally:
    tally = Tally(trace, mode.label)
    params = SubstrateParams(
        handling=0.00025,
        link_delay=crowd.link_delay,
        wander=0.0,
        link_queue_messages=crowd.queue,
        counts_payload_only=True,
    )
    network = network_type(
        seed,
        tally,
        crowd.topology,
        params,
        {**crowd.publishers, **crowd.subscribers},
        crowd.wants,
        rates_bps=crowd.narrow,
        transports=mode.params,
        modes=mode.modes,
    )
    for publisher in crowd.publishers:
        rng = random_stream(seed, "publications", publisher)

        def draw(rng: Stream, publisher: NodeId = publisher) -> Drawn:
            return crowd.draw(publisher, rng)

        Publishing(network, tally, publisher, ((0.0, crowd.rate),), draw, rng, crowd.seconds).begin()
    for place, (sender, to) in enumerate(crowd.narrow, 1):
        link = network.link(sender, to)
        watch(network, tally, f"link {place}", lambda link=link: link.accepted_bytes, crowd.seconds)  # type: ignore[misc]
    network.simulator.run(WARM_UP + crowd.seconds + SETTLE)
    network.simulator.check()
    tally.write_down()
    return tally
