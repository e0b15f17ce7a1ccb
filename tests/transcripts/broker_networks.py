"""Small networks of whole brokers and their clients, told by what they say to each other.

Set-up is left out: a transcript begins when brokers are linked and clients attached, and shows what is sent, delivered,
dropped and noted from then on. What is received can be read off what was sent.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tidings.lab.transport.networks import Takers
from tidings.lab.transport.networks import make_broker as make_plain_broker
from tidings.lab.transport.networks import make_client as make_transport_client
from tidings.machine.node import Machine
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.overlay.scripted import ScriptedParams, rewiring
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.transport.carrier import Modes, OpenCarried
from tidings.protocols.transport.params import TransportParams
from tidings.pubsub.client import CloseSubscription, OpenAdvertisement, OpenSubscription, PublishBatch
from tidings.pubsub.publications import encode_head
from tidings.sim.network.bandwidth import Bandwidth
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer

LATENCY = 0.01
BEGIN = 2.0
"""By then the brokers are one tree."""

SHOWN = ("send", "deliver", "drop", "note", "stop", "start")
RECORDS_MAX = 10_000


def make_broker(name: NodeId, links: tuple[NodeId, ...], draws: Draws) -> Machine:
    return BrokerNode(name, BrokerParams(access=AccessParams(links=links)), draws("access"))


def make_client(name: NodeId, broker: NodeId, draws: Draws) -> Machine:
    return ClientNode(name, GuestParams(brokers=(broker,)), SessionParams(), draws("access"))


class BrokerNetwork:
    """`links` names for each broker those it links itself to, `clients` for each client its broker."""

    def __init__(self, links: Mapping[NodeId, Sequence[NodeId]], clients: Mapping[NodeId, NodeId]) -> None:
        self.trace = RingBuffer(RECORDS_MAX)
        self.simulator = Simulator(7, Constant(LATENCY), checking=True, trace=self.trace)
        for number, (name, others) in enumerate(links.items()):
            # One after the other, so that the first is the oldest, and the root.
            self.simulator.add(name, partial(make_broker, name, tuple(others)), at=number / 10)
        for name, broker in clients.items():
            self.simulator.add(name, partial(make_client, name, broker), at=1.0)

    def told(self, begin: float, until: float, *without: str) -> list[Record]:
        """What happened between two times, but for messages of these types."""
        self.simulator.run(until)
        return shown(self.trace, begin, *without)


def shown(trace: RingBuffer, begin: float, *without: str) -> list[Record]:
    return [
        msgspec.structs.replace(record, time=record.time - begin)
        for record in trace.records()
        if record.time >= begin and record.kind in SHOWN and record.message not in without
    ]


def receipt_across_three_brokers() -> list[Record]:
    """a - b - c in a row; pete at a has advertised. ann at c subscribes, and gets her receipt when all on the way to
    pete have installed the filter; then pete publishes."""
    network = BrokerNetwork({"a": (), "b": ("a",), "c": ("b",)}, {"pete": "a", "ann": "c"})
    inject = network.simulator.inject
    inject(BEGIN, "pete", OpenAdvertisement("offer", "price > 0"))
    inject(BEGIN + 1.0, "ann", OpenSubscription("want", "price > 100"))
    inject(BEGIN + 1.5, "pete", PublishBatch(1, (encode_head({"price": 104.5}),), (b"payload",)))
    return network.told(BEGIN + 1.0, BEGIN + 2.0)


def wide_filter_covers_a_narrow_one() -> list[Record]:
    """a - b; pete at a has advertised, ann at b wants price > 100. bob's price > 200 is not told, since it is covered;
    when ann leaves it is told, and only then is hers taken back."""
    network = BrokerNetwork({"a": (), "b": ("a",)}, {"pete": "a", "ann": "b", "bob": "b"})
    inject = network.simulator.inject
    inject(BEGIN, "pete", OpenAdvertisement("offer", "price > 0"))
    inject(BEGIN + 0.5, "ann", OpenSubscription("wide", "price > 100"))
    inject(BEGIN + 1.0, "bob", OpenSubscription("narrow", "price > 200"))
    inject(BEGIN + 1.5, "ann", CloseSubscription("leave", 1))
    return network.told(BEGIN + 1.0, BEGIN + 2.0)


def tree_finds_another_root() -> list[Record]:
    """a, b and c are linked with each other, and a, the oldest, is the root. It dies: b is the root from now on, c goes
    below it, and the subscription of ann at c is told anew on the new way to pete at b."""
    network = BrokerNetwork({"a": (), "b": ("a",), "c": ("a", "b")}, {"pete": "b", "ann": "c"})
    inject = network.simulator.inject
    inject(BEGIN, "pete", OpenAdvertisement("offer", "price > 0"))
    inject(BEGIN + 0.5, "ann", OpenSubscription("want", "price > 100"))
    network.simulator.call_at(BEGIN + 1.0, lambda: network.simulator.crash("a"))
    return network.told(BEGIN + 1.0, BEGIN + 1.5)


def history_fills_what_a_break_lost() -> list[Record]:
    """a - b; ann at b wants what pete at a publishes. The link breaks, pete publishes two events, the link comes back:
    b asks a for what was stored behind the last event it has."""
    network = BrokerNetwork({"a": (), "b": ("a",)}, {"pete": "a", "ann": "b"})
    simulator = network.simulator
    simulator.inject(BEGIN, "pete", OpenAdvertisement("offer", "price > 0"))
    simulator.inject(BEGIN + 0.5, "ann", OpenSubscription("want", "price > 100"))
    simulator.inject(BEGIN + 0.8, "pete", PublishBatch(1, (encode_head({"price": 101}),), (b"before",)))
    simulator.call_at(BEGIN + 1.0, lambda: simulator.break_link("a", "b", "cable cut"))
    for number, payload in enumerate((b"first", b"second")):
        head = encode_head({"price": 102 + number})
        simulator.inject(BEGIN + 1.01 + number / 100, "pete", PublishBatch(1, (head,), (payload,)))
    return network.told(BEGIN + 1.0, BEGIN + 1.5)


def make_dispatcher(name: NodeId, neighbours: tuple[NodeId, ...], draws: Draws) -> Machine:
    routing = RoutingParams(strategy="subscription", reduction="plain", repair="strawman", acknowledges=False)
    return Dispatcher(
        name, DispatcherParams(overlay=ScriptedParams(neighbours=neighbours), routing=routing), draws("links")
    )


def lost_link_is_replaced() -> list[Record]:
    """a - b - c - d in a row, as dispatchers without acknowledgements; d wants something. The link b - c is replaced by
    a - d: STRAWMAN takes back what was wanted behind the lost link, and tells it anew over the new one."""
    trace = RingBuffer(RECORDS_MAX)
    simulator = Simulator(7, Constant(LATENCY), checking=True, trace=trace)
    row = {"a": ("b",), "b": ("a", "c"), "c": ("b", "d"), "d": ("c",)}
    for name, neighbours in row.items():
        simulator.add(name, partial(make_dispatcher, name, neighbours))
    simulator.inject(BEGIN, "d", OpenSubscription("want", "price > 100"))
    broken, linked, told = rewiring("r1", head=("b", "a"), tail=("d", "c"))
    for at, steps in ((BEGIN + 1.0, broken), (BEGIN + 1.2, linked), (BEGIN + 1.25, told)):
        for name, request in steps:
            simulator.inject(at, name, request)
    simulator.run(BEGIN + 2.0)
    return shown(trace, BEGIN + 1.0)


TOLD_OF_FLOWS = ("loss_event", "rate_assessed", "flow_changed")


def tree_mends_itself() -> list[Record]:
    """left and right are below mid, and mid below root: each was told one contact. mid dies without a word. Both that
    were below it ask for another place, root or each other, over links that they ask for, and each is below somebody
    again with one new link. Their depths stay what they were."""
    trace = RingBuffer(RECORDS_MAX)
    simulator = Simulator(7, Constant(LATENCY), checking=True, trace=trace)
    for number, (name, contact) in enumerate({"root": "", "mid": "root", "left": "mid", "right": "mid"}.items()):
        overlay = LsTreeParams(contacts=(contact,) if contact else ())
        simulator.add(name, partial(make_seeking_dispatcher, name, overlay), at=number / 10)
    simulator.call_at(BEGIN, lambda: simulator.crash("mid"))
    simulator.run(BEGIN + 0.5)
    return shown(trace, BEGIN)


def make_seeking_dispatcher(name: NodeId, overlay: LsTreeParams, draws: Draws) -> Machine:
    routing = RoutingParams(strategy="subscription", reduction="plain", repair="strawman", acknowledges=False)
    return Dispatcher(name, DispatcherParams(overlay=overlay, routing=routing), draws("links"))


def two_flows() -> list[Record]:
    """a - b, whose link carries 57 events a second, takes 50 ms, and drops what its queue cannot hold. pete and paul
    at a publish 32 and 35 a second, ann and bob at b want them: after two seconds, when this begins, the queue is full.
    From its losses (p) and its round trip each receiver works out the rate that TCP would have (allowed), and reports
    back over b what it can take (quotas; rate is what comes). The publisher keeps to that (flow_changed, told when it
    is another by a tenth). Both are cut, nothing is dropped any more, and they grow to what the link carries, each to
    half of it."""
    trace = RingBuffer(RECORDS_MAX)
    network = Bandwidth(Constant(0.05), rate_bps=1e9, queue_bytes_max=9_000)
    simulator = Simulator(7, network, checking=True, trace=trace, observers=(Takers(),))
    network.link(("a", "b")).rate_bps = 200_000
    simulator.add("a", partial(make_plain_broker, "a", ("b",)))
    simulator.add("b", partial(make_plain_broker, "b", ()))
    for name, home in {"pete": "a", "paul": "a", "ann": "b", "bob": "b"}.items():
        client = partial(make_transport_client, name, home, TransportParams(is_paced=True))
        simulator.add(name, client, at=0.1)
    for publisher, subscriber, rate in (("pete", "ann", 32.0), ("paul", "bob", 35.0)):
        want = OpenSubscription("want", f"from = '{publisher}'", "none", policy="drop oldest", queue_max=1000)
        simulator.inject(1.0, subscriber, OpenCarried(want, Modes(is_paced=True)))
        simulator.inject(1.0, publisher, OpenAdvertisement("offer", "TRUE"))
        event = PublishBatch(1, (encode_head({"from": publisher}),), (bytes(100),))
        for number in range(int(8.0 * rate)):
            simulator.inject(BEGIN + number / rate, publisher, event)
    simulator.run(BEGIN + 7.5)
    return [in_short(record) for record in shown(trace, BEGIN + 2.0) if is_about_flows(record)]


def is_about_flows(record: Record) -> bool:
    """What a's queue drops, what receivers send back, and what either side notes of rates."""
    return record.message in TOLD_OF_FLOWS or (
        record.message == "Directed" and (record.kind, record.node) != ("send", "a")
    )


def in_short(record: Record) -> Record:
    """Three digits of each number; of a batch only whose it is."""
    fields: dict[str, Any] = msgspec.json.decode(record.detail or "{}")
    if "batch" in fields:
        fields = {"advertisement": fields["batch"]["advertisement"]}
    short = {name: rounded(value) for name, value in fields.items()}
    return msgspec.structs.replace(record, detail=msgspec.json.encode(short).decode())


def rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.3g}") if isinstance(value, float) else value
