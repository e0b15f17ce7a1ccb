"""The world of the congestion experiments: two brokers, and between them one link that cannot carry everything.

    publishers p1, p2, p3 -- n0 ==== bottleneck ==== n1 -- subscribers s1, s2, s3

Publisher i and subscriber i are a pair. Of the events of a publisher its subscriber wants a share; all others stay at
n0, since nobody wants them, but they take numbers, so publication records must tell what is missing and what is not
wanted.

An event is 285 bytes on the link: 205 of payload and a header with a record of two. Events without congestion control
have the same size, because they have the same header. The link takes 20 ms one way, and before it is a queue that drops
its tail (transport specification 4.3, G-30, G-31). Brokers take a quarter of a millisecond, so that they are not the
bottleneck at 4000 events a second. TCP flows may use the link too.

    plan = Plan(flows=(Flow(1, ((0.0, 400.0), (60.0, 4000.0)), share=0.22),), capacity=((0.0, 500e3),), seconds=120.0)
    play(plan, paced(), seed, trace)

Rates of publishers go in straight lines from point to point, and publications are a Poisson process; the capacity
changes in steps. A mode says what transport there is. Each is a variant of its own: runs of the same seed have the same
publications.

**Trace.** Every publication is a row, also of what nobody wants, and every delivery; an event that its publisher did
not send is a `drop` there, with the reason `WITHHELD`. What is no node, a TCP flow or a link, has a note "carried" for
each second: what it carried in the second before (`series.py` reads it).
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import msgspec

from tidings.lab.transport.network.rising_load import feed
from tidings.lab.transport.networks import BrokerNetwork
from tidings.lab.transport.substrate import PUBLISHED_ROWS, WARM_UP, WIRE_BYTES, SubstrateParams, named
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.model.values import Value
from tidings.protocols.transport.carrier import Modes
from tidings.protocols.transport.params import CongestionParams, TransportParams
from tidings.sim.network.bandwidth import TcpFlow, TcpParams, TcpVariant
from tidings.sim.topologies.shapes import chain
from tidings.trace.record import Record
from tidings.trace.writer import Writer
from tidings.workloads.plain import Points, along, random_times

NEAR, FAR = "n0", "n1"
ONE_WAY = 0.02
SETTLE = 10.0
"""Seconds for what is on its way at the end, or waits at a publisher."""

RECORD = 2
ENTRY_BYTES = 20
"""Of a publication record: a time and a Bloom row of 128 bits."""
PLAIN, CONTROL = "plain", "control"

encode = msgspec.json.Encoder().encode


class BottleneckFlow(msgspec.Struct, frozen=True):
    pair: int
    rate: Points
    share: float
    """Of its events, that the subscriber wants."""

    @property
    def publisher(self) -> NodeId:
        return f"p{self.pair}"

    @property
    def subscriber(self) -> NodeId:
        return f"s{self.pair}"


class BottleneckPlan(msgspec.Struct, frozen=True, kw_only=True):
    flows: tuple[BottleneckFlow, ...]
    capacity: Points
    """Bits a second."""
    seconds: float
    queue: int = 50
    tcp_from: float | None = None
    tcp: str = "cubic"
    """Its variant. Packets have the size of an event."""
    event_bytes: int = WIRE_BYTES

    def for_record(self, record: int) -> "BottleneckPlan":
        """Headers with another record have another size. The link and its queue, and a TCP beside, have as many events
        as before."""
        size = WIRE_BYTES + (record - RECORD) * ENTRY_BYTES
        factor = size / WIRE_BYTES
        capacity = tuple((at, rate_bps * factor) for at, rate_bps in self.capacity)
        queue = round(self.queue * factor)
        return msgspec.structs.replace(self, capacity=capacity, queue=queue, event_bytes=size)


class Mode(msgspec.Struct, frozen=True):
    label: str
    params: TransportParams
    """Of all clients."""
    modes: Modes = Modes(is_paced=True)


def plain(record: int = RECORD, label: str = PLAIN) -> Mode:
    return Mode(label, msgspec.structs.replace(PUBLISHED_ROWS, record=record), Modes())


def paced(label: str = CONTROL, record: int = RECORD, congestion: CongestionParams | None = None) -> Mode:
    return Mode(
        label,
        msgspec.structs.replace(
            PUBLISHED_ROWS, is_paced=True, record=record, congestion=congestion or CongestionParams()
        ),
    )


ADDITIONS = (
    paced("window", congestion=CongestionParams(control="window")),
    paced("acknowledged", congestion=CongestionParams(acknowledgements=True)),
    paced("slow start", congestion=CongestionParams(slow_start=True)),
)
"""What we have besides, each by itself: a window instead of the equation, acknowledgements of the limiting receiver,
slow start."""


def by_label(*modes: Mode) -> dict[str, Mode]:
    return {mode.label: mode for mode in modes}


# What happens.


Content = Mapping[str, Value]


def flow_events(
    publisher: NodeId, rate: Points, draw: Callable[[RandomStream], Content], rng: RandomStream, until: float
) -> Iterator[tuple[float, Event]]:
    """A Poisson process of a rate that changes, of events that `draw` draws."""
    for number, at in enumerate(random_times(rng, partial(along, rate), end=until)):
        yield at, named(publisher, number, draw(rng))


def drawing(flow: BottleneckFlow) -> Callable[[RandomStream], Content]:
    unwanted, wanted = ({"pair": flow.pair, "wanted": number} for number in (0, 1))
    return lambda rng: wanted if rng.random() < flow.share else unwanted


def play(plan: BottleneckPlan, mode: Mode, seed: int, trace: Writer) -> BrokerNetwork:
    network = build(plan, mode, seed, trace)
    for flow in plan.flows:
        rng = random_stream(seed, "publications", flow.pair)
        feed(network, flow_events(flow.publisher, flow.rate, drawing(flow), rng, plan.seconds))
    for at, rate_bps in plan.capacity:
        network.simulator.call_at(WARM_UP + at, partial(network.set_rate, NEAR, FAR, rate_bps))
    if plan.tcp_from is not None:
        compete(network, plan, seed, trace)
    network.simulator.run(WARM_UP + plan.seconds + SETTLE)
    network.simulator.check()
    return network


def build(plan: BottleneckPlan, mode: Mode, seed: int, trace: Writer) -> BrokerNetwork:
    params = SubstrateParams(
        handling=0.00025,
        link_delay=ONE_WAY,
        wander=0.0,
        link_rate_bps=plan.capacity[0][1],
        link_queue_messages=plan.queue,
        counts_payload_only=True,
    )
    clients = {flow.publisher: NEAR for flow in plan.flows} | {flow.subscriber: FAR for flow in plan.flows}
    wants = {flow.subscriber: f"pair = {flow.pair} AND wanted = 1" for flow in plan.flows}
    return BrokerNetwork(seed, trace, chain(2), params, clients, wants, transports=mode.params, modes=mode.modes)


def compete(network: BrokerNetwork, plan: BottleneckPlan, seed: int, trace: Writer) -> None:
    """A TCP flow beside."""
    link, params = network.link(NEAR, FAR), TcpParams(2 * ONE_WAY, TcpVariant(plan.tcp), plan.event_bytes)
    tcp = TcpFlow(network.simulator.queue, link, params, random_stream(seed, "tcp"))
    assert plan.tcp_from is not None
    network.simulator.call_at(WARM_UP + plan.tcp_from, lambda: tcp.start(network.simulator.now))
    watch(network, trace, "tcp", lambda: tcp.acknowledged, plan.seconds)


def watch(network: BrokerNetwork, trace: Writer, name: NodeId, total: Callable[[], float], until: float) -> None:
    """Notes by how much `total` grows in each second."""
    simulator, counted = network.simulator, 0.0

    def note() -> None:
        nonlocal counted
        before, counted = counted, total()
        detail = encode({"amount": counted - before}).decode()
        trace.write(Record(time=simulator.now - 1.0, node=name, kind="note", message="carried", detail=detail))

    for second in range(1, int(until) + 1):
        simulator.call_at(WARM_UP + second, note)
