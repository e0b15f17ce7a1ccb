"""The world of the congestion experiments: two brokers, and between them one link that cannot carry everything.

    publishers p1, p2, p3 -- n0 ==== bottleneck ==== n1 -- subscribers s1, s2, s3

Publisher i and subscriber i are a pair. Of the events of a publisher its subscriber wants a share; all others stay at
n0, since nobody wants them, but they take numbers, so publication records must tell what is missing and what is not
wanted. (That the broker finds nobody for them is known beforehand, so they end at the client; `SparingClient`.)

An event is 285 bytes on the link: 205 of payload and a header with a record of two. Events without congestion control
have the same size, because they have the same header. The link takes 20 ms one way, and before it is a queue that drops
its tail (transport specification 4.3, G-30, G-31). Brokers take a quarter of a millisecond, so that they are not the
bottleneck at 4000 events a second. TCP flows may use the link too.

    plan = Plan(flows=(Flow(1, ((0.0, 400.0), (60.0, 4000.0)), share=0.22),), capacity=((0.0, 500e3),), seconds=120.0)
    play(plan, Mode("control", paced()), seed, trace)

Rates of publishers go in straight lines from point to point, and publications are a Poisson process; the capacity
changes in steps. One run plays the same publications under several modes, one after the other.

**Trace.** A publication with all that becomes of it is some ten rows, and there are half a million publications. So
what happens is counted as it happens (`Tally`), and the trace has for each mode, each span of time and each end one
note "span" (`spans.py` reads them): of a subscriber

    wanted      events published in this span that are for it
    withheld    those of them that the publisher did not send
    reached     those of them that it got; the rest is missed
    delivered   events that it got in this span, whenever they were published
    delay       seconds from publication to delivery, of all `delivered` together
    travel      the same from when the event left the publisher: without its waiting there
    repaired    those of `delivered` that came as repairs

and of "tcp" the packets acknowledged, as `delivered`. Ticks, loss events and what changes in flow tables stay rows of
their own ("tick", "loss_event", "flow_row"), the name of the mode in front of the node ("control:s1"); feedback,
requests and repairs are counted as such, of who sends them.
"""

from collections.abc import Callable, Iterable
from functools import partial
from math import floor
from typing import Any

import msgspec

from tidings.lab.transport.as_published import AS_PUBLISHED
from tidings.lab.transport.carried import STAMP, CarriedClient, CarriedNetwork, Modes, Taken
from tidings.lab.transport.substrate import PAYLOAD, WARM_UP, WIRE_BYTES, SubstrateParams
from tidings.machine.effects import Deliver, Drop, Effect, Note
from tidings.machine.machine import Machine
from tidings.machine.streams import Stream, random_stream
from tidings.model.identity import NodeId
from tidings.protocols.transport.congestion.sender import WITHHELD
from tidings.protocols.transport.params import CongestionParams, TransportParams
from tidings.protocols.transport.signals import Emit, PublishEvent
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.notes import FeedbackSent, FlowChanged, LossEvent, RateAssessed, RepairRequested, RepairSent
from tidings.pubsub.publications import encode_head
from tidings.sim.network.tcp import TcpFlow, TcpParams, Variant
from tidings.sim.node import Draws, Make
from tidings.sim.topologies.shapes import chain
from tidings.trace.gathering import Writer
from tidings.trace.record import Record

NEAR, FAR = "n0", "n1"
ONE_WAY = 0.02
SETTLE = 10.0
"""Seconds for what is on its way at the end, or waits at a publisher."""

RECORD = 2
ENTRY_BYTES = 20
"""Of a publication record: a time and a Bloom row of 128 bits."""
NOBODY = "nobody"
"""The ticket of events that nobody wants."""

PLAIN, CONTROL = "plain", "control"
NOTED: frozenset[type[Note]] = frozenset({RateAssessed, LossEvent, FlowChanged})
TALLIED: dict[type[Note], str] = {FeedbackSent: "feedback", RepairRequested: "requests", RepairSent: "repairs"}

Points = tuple[tuple[float, float], ...]
"""Times, and what holds from then on."""

encode = msgspec.json.Encoder().encode


class Flow(msgspec.Struct, frozen=True):
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


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    flows: tuple[Flow, ...]
    capacity: Points
    """Bits a second."""
    seconds: float
    queue: int = 50
    tcp_from: float | None = None
    tcp: str = "cubic"
    """Its variant. Packets have the size of an event."""
    event_bytes: int = WIRE_BYTES
    span: float = 1.0
    """Seconds that are counted together."""

    def for_record(self, record: int) -> "Plan":
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
    return Mode(label, msgspec.structs.replace(AS_PUBLISHED, record=record), Modes())


def paced(label: str = CONTROL, record: int = RECORD, congestion: CongestionParams | None = None) -> Mode:
    return Mode(
        label,
        msgspec.structs.replace(
            AS_PUBLISHED, is_paced=True, record=record, congestion=congestion or CongestionParams()
        ),
    )


# What is counted.


class Tally(Writer):
    """Counts what happens to events, by spans of time, and lets through to `trace` what is in NOTED."""

    def __init__(self, trace: Writer, mode: str, span: float = 1.0) -> None:
        super().__init__(trace.run, trace.seed, trace.rows_max)
        self.trace, self.mode, self.span = trace, mode, span
        self.counts: dict[tuple[NodeId, int], dict[str, float]] = {}
        self.readers: dict[tuple[NodeId, int], tuple[NodeId, ...]] = {}
        """Who wants an event."""

    def add(self, at: float, node: NodeId, **numbers: float) -> None:
        counted = self.counts.setdefault((node, floor((at - WARM_UP) / self.span)), {})
        for name, number in numbers.items():
            counted[name] = counted.get(name, 0) + number

    def expect(self, now: float, publisher: NodeId, number: int, readers: tuple[NodeId, ...]) -> None:
        if readers:
            self.readers[publisher, number] = readers
        for reader in readers:
            self.add(now, reader, wanted=1)

    def record(self, now: float, node: NodeId, thing: Any) -> None:
        kind = type(thing)
        if kind is Deliver and type(thing.item) is Taken:
            self.delivered(now, node, thing.item)
        elif kind is Drop and thing.reason == WITHHELD:
            self.withheld(node, thing.item.payload)
        elif kind in TALLIED:
            self.add(now, node, **{TALLIED[kind]: 1})
        elif kind in NOTED:
            self.trace.record(now, f"{self.mode}:{node}", thing)

    def delivered(self, now: float, node: NodeId, taken: Taken) -> None:
        travel = now - taken.handed.content.accepted_at
        is_repaired = taken.handed.way == "repaired"
        self.add(now, node, delivered=1, delay=now - taken.published_at, travel=travel, repaired=is_repaired)
        self.add(taken.published_at, node, reached=1)

    def withheld(self, publisher: NodeId, payload: bytes) -> None:
        number, published_at = STAMP.unpack_from(payload)
        for reader in self.readers.get((publisher, number), ()):
            self.add(published_at, reader, withheld=1)

    def write_down(self) -> None:
        for (node, place), counted in self.counts.items():
            detail = encode({"mode": self.mode, "place": place, **counted}).decode()
            at = WARM_UP + place * self.span
            self.trace.write(Record(time=at, node=node, kind="note", message="span", detail=detail))

    def total(self, name: str, nodes: Iterable[NodeId] | None = None) -> float:
        wanted = None if nodes is None else frozenset(nodes)
        return sum(
            counted.get(name, 0) for (node, _), counted in self.counts.items() if wanted is None or node in wanted
        )


# What happens.


def between(points: Points, at: float) -> float:
    """On straight lines from point to point."""
    before, after = points[0], points[-1]
    for point in points:
        if point[0] <= at:
            before = point
        else:
            after = point
            break
    if after[0] <= before[0]:
        return before[1]
    return before[1] + (after[1] - before[1]) * (at - before[0]) / (after[0] - before[0])


class SparingClient(CarriedClient):
    """Does not bother its broker with events that nobody wants: most of them, and matching is most of the work."""

    def emit(self, now: float, emit: Emit) -> list[Effect]:
        return [] if emit.ticket == NOBODY else super().emit(now, emit)


class SparingNetwork(CarriedNetwork):
    def client(self, node_id: NodeId, home: NodeId) -> Make:
        params = self.transports if isinstance(self.transports, TransportParams) else self.transports(node_id)

        def make(draws: Draws) -> Machine:
            transport_id = draws("transport id").below(2**32)
            return SparingClient(node_id, home, TransportNode(transport_id, params, draws("transport")))

        return make

    def send(self, publisher: NodeId, number: int, head: bytes, is_wanted: bool) -> None:
        payload = STAMP.pack(number, self.simulator.now) + PAYLOAD[STAMP.size :]
        self.tell(publisher, PublishEvent(head, payload, None if is_wanted else NOBODY))


Drawn = tuple[bytes, tuple[NodeId, ...]]
"""The head of an event, and who wants it."""


class Publishing:
    """A publisher at work: a Poisson process of a rate that changes, of events that `draw` draws."""

    def __init__(
        self,
        network: SparingNetwork,
        tally: Tally,
        publisher: NodeId,
        rate: Points,
        draw: Callable[[Stream], Drawn],
        rng: Stream,
        until: float,
    ) -> None:
        self.network, self.tally, self.publisher, self.rate = network, tally, publisher, rate
        self.draw, self.rng, self.until = draw, rng, until
        self.number = 0

    def begin(self) -> None:
        self.wait(0.0)

    def wait(self, at: float) -> None:
        at += self.rng.expovariate(between(self.rate, at))
        if at < self.until:
            self.network.simulator.call_at(WARM_UP + at, partial(self.publish, at))

    def publish(self, at: float) -> None:
        head, readers = self.draw(self.rng)
        self.tally.expect(WARM_UP + at, self.publisher, self.number, readers)
        self.network.send(self.publisher, self.number, head, bool(readers))
        self.number += 1
        self.wait(at)


def drawing(flow: Flow) -> Callable[[Stream], Drawn]:
    unwanted, wanted = (encode_head({"pair": flow.pair, "wanted": number}) for number in (0, 1))
    nobody, one = (unwanted, ()), (wanted, (flow.subscriber,))
    return lambda rng: one if rng.random() < flow.share else nobody


def play(plan: Plan, mode: Mode, seed: int, trace: Writer) -> Tally:
    tally = Tally(trace, mode.label, plan.span)
    network = build(plan, mode, seed, tally)
    for flow in plan.flows:
        rng = random_stream(seed, "publications", flow.pair)
        Publishing(network, tally, flow.publisher, flow.rate, drawing(flow), rng, plan.seconds).begin()
    for at, rate_bps in plan.capacity:
        network.simulator.call_at(WARM_UP + at, partial(network.set_rate, NEAR, FAR, rate_bps))
    if plan.tcp_from is not None:
        compete(network, plan, seed, tally)
    network.simulator.run(WARM_UP + plan.seconds + SETTLE)
    network.simulator.check()
    tally.write_down()
    return tally


def build(plan: Plan, mode: Mode, seed: int, tally: Tally) -> SparingNetwork:
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
    return SparingNetwork(seed, tally, chain(2), params, clients, wants, transports=mode.params, modes=mode.modes)


def compete(network: SparingNetwork, plan: Plan, seed: int, tally: Tally) -> None:
    """A TCP flow beside."""
    link, params = network.link(NEAR, FAR), TcpParams(2 * ONE_WAY, Variant(plan.tcp), plan.event_bytes)
    tcp = TcpFlow(network.simulator.queue, link, params, random_stream(seed, "tcp"))
    assert plan.tcp_from is not None
    network.simulator.call_at(WARM_UP + plan.tcp_from, lambda: tcp.start(network.simulator.now))
    watch(network, tally, "tcp", lambda: tcp.acknowledged, plan.seconds)


def watch(network: SparingNetwork, tally: Tally, name: NodeId, total: Callable[[], float], until: float) -> None:
    """Counts by how much `total` grows in each span, as `delivered` of this name."""
    simulator, counted = network.simulator, 0.0

    def count() -> None:
        nonlocal counted
        before, counted = counted, total()
        tally.add(simulator.now - tally.span / 2, name, delivered=counted - before)

    for place in range(int(until / tally.span) + 1):
        simulator.call_at(WARM_UP + place * tally.span, count)
