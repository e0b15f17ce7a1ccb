"""Clients with a transport, over the best-effort network of `substrate.py`.

The network below is the same: brokers that take their time, links that lose and delay. What is new is in the clients.
Each has a `TransportNode` (order, recovery, congestion control), and carries out what it asks for:

    Emit           a publication to the broker at home
    Ask, Unask     `Subscribe`, `Unsubscribe` to the broker; from then on the client is brought what matches
    Handed         a delivery
    Recall         an answer that there is no history: these brokers keep nothing

and hands it what the broker brings (`Brought`: a publication, and for which of the client's subscriptions it came).

How to use it:

    network = CarriedNetwork(
        seed, trace, topology, SubstrateParams(link_loss=0.01), clients={"p": "n0", "s": "n1"}, wants={"s": "a = 1"},
        transports=TransportParams(is_reliable=True), modes=Modes(is_reliable=True),
    )
    network.publish(named("p", 0, {"a": 1}))                     # numbers from 0, one by one
    network.simulator.run(WARM_UP + 60.0)
    network.transport("s").recovery                              # to look at its parts

`transports` may also be a function from the name of a client to its parameters. Each client has one subscription,
number 1, listened to as `modes` says; `network.listen("s", Listen(2, parse("b = 2")))` adds one at any time, and
`network.tell("s", Configure(...))` tells a transport anything else. A client that publishes only is in `clients` alone.

**Trace.** As in `substrate.py`: an event is known by "PUBLISHER NUMBER". The number is the application's own; it stands
in the payload with the time of publication, so it survives repairs, and events that congestion control withheld have
one too. A `deliver` row says besides `latch` and `hold` (seconds; left out where 0), `late` and `repaired` (where
true), and `way`; there is one for each subscription. Notes of the transport's parts are rows too. Ordering knows events
by "PUBLISHER SEQUENCE", which is the same as long as nothing is withheld; recovery by "ID SEQUENCE", where ID is that
of the publisher's transport (`network.transport("p").node_id`). What a broker or a link loses is a `drop` of the whole
message, as before.

Filters. A publication record tells equal from unequal, and nothing of less and more: to a subscriber that wants
`a < 8` every event with an `a` seems to be for it, and what it does not get seems lost. Workloads for recovery and for
congestion control ask for equality.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from tidings.lab.transport.substrate import DATAGRAM, PAYLOAD, UNHEARD, Counter, Local, Substrate, SubstrateParams
from tidings.machine.effects import Deliver, Effect, Send
from tidings.machine.inputs import Input, Received, Signal
from tidings.machine.machine import Machine
from tidings.machine.node import Node
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.destinations.router import DestinationRouter
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import (
    CarriedEvent,
    Caught,
    Emit,
    Handed,
    Listen,
    PublishEvent,
    Quality,
    Recall,
    Recalled,
    StopListening,
    Unwatch,
    Watch,
)
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.bundles import Bundle, BundledEvent
from tidings.pubsub.publications import Publications, encode_head, pick
from tidings.pubsub.requests import Publish
from tidings.pubsub.signals import Forward, Matched, Unwant, Want
from tidings.sim.node import Draws, Make
from tidings.sim.topologies.topology import Topology
from tidings.trace.gathering import Writer

ASKED_FROM = 1_000_000
"""Subscriptions of the transport itself have numbers from here on; those of applications are below."""

NO_HISTORY = "these brokers store nothing"

STAMP = struct.Struct(">Qd")
"""In front of a payload: the number of the event, and when it was published."""


class Subscribe(Local, frozen=True):
    number: int
    filter: Filter


class Unsubscribe(Local, frozen=True):
    number: int


class Brought(Local, frozen=True):
    """A publication for these subscriptions of the client."""

    batch: Publications
    numbers: tuple[int, ...]


class Taken(Bundle, frozen=True):
    """A delivery as it is traced: once for each subscription."""

    handed: Handed
    number: int
    published_at: float

    def publications(self) -> Iterator[BundledEvent]:
        handed = self.handed
        publisher = handed.stream[0] or handed.content.source
        about: dict[str, Any] = {
            "accepted_at": self.published_at,
            "publisher": publisher,
            "number": self.number,
            "way": handed.way,
        }
        if handed.latch:
            about["latch"] = handed.latch
        if handed.held:
            about["hold"] = handed.held
        if handed.way == "late":
            about["late"] = True
        elif handed.way != "direct":
            about["repaired"] = True
        content, key = handed.content, f"{publisher} {self.number}"
        for subscription in content.subscriptions:
            yield BundledEvent(content.head, content.payload, key, {**about, "subscription": subscription})


class Modes(msgspec.Struct, frozen=True):
    """What subscribers want of their subscription."""

    is_ordered: bool = True
    is_reliable: bool = False
    is_paced: bool = False


# At brokers.


class CarryingCounter(Counter):
    """Takes publications from clients, and what they want."""

    messages: tuple[type, ...] = (Publications, Subscribe, Unsubscribe)
    tells: tuple[type[Signal], ...] = (Forward, Want, Unwant)

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(client, Subscribe(number, filter)):
                return [Want((client, number), filter)]
            case Received(client, Unsubscribe(number)):
                return [Unwant((client, number))]
        return super().handle(now, input)


class CarryingDesk:
    """Brings each client what it wants, and says for which of its subscriptions it is."""

    messages: tuple[type, ...] = ()
    hears: tuple[type, ...] = (Matched,)
    tells: tuple[type[Signal], ...] = ()

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        if type(input) is not Matched:
            return []
        effects: list[Effect] = []
        for place, keys in enumerate(input.wanted):
            by_client: dict[NodeId, list[int]] = {}
            for client, number in keys:
                by_client.setdefault(client, []).append(number)
            one = pick(input.batch, (place,), input.batch.receipt)
            effects += [Send(client, Brought(one, tuple(sorted(of))), DATAGRAM) for client, of in by_client.items()]
        return effects

    def check(self) -> None:
        pass


def carrying_broker(node_id: NodeId, draws: Draws) -> Node:
    router = DestinationRouter(node_id, DestinationParams(transport=DATAGRAM))
    return Node({"counter": CarryingCounter(), "routing": router, "desk": CarryingDesk()}, tells=UNHEARD)


# At clients.


class CarriedClient:
    """`transport` on the machine of the broker `home`."""

    def __init__(self, node_id: NodeId, home: NodeId, transport: TransportNode) -> None:
        self.node_id, self.home, self.transport = node_id, home, transport
        self.asked: dict[Any, int] = {}
        """Numbers of the transport's own subscriptions, by its keys."""
        self.asked_next = ASKED_FROM
        self.outward: dict[type, Callable[[float, Any], list[Effect]]] = {
            Emit: self.emit,
            Watch: self.ask,
            Unwatch: self.unask,
            Deliver: self.deliver,
            Recall: self.recall,
        }

    def start(self, now: float) -> list[Effect]:
        return self.carry_out(now, self.transport.start(now))

    def handle(self, now: float, input: Input) -> list[Effect]:
        effects: list[Effect] = []
        if type(input) is Received:
            assert isinstance(input.message, Brought)
            input = self.caught(input.message)
        elif type(input) is Publish:
            input = self.publication(now, input.event)
        elif type(input) is Listen:
            effects.append(Send(self.home, Subscribe(input.subscription, input.filter), DATAGRAM))
        elif type(input) is StopListening:
            effects.append(Send(self.home, Unsubscribe(input.subscription), DATAGRAM))
        return effects + self.carry_out(now, self.transport.handle(now, input))

    def caught(self, brought: Brought) -> Caught:
        batch = brought.batch
        ours = tuple([number for number in brought.numbers if number < ASKED_FROM])
        content = CarriedEvent(batch.heads[0], batch.payloads[0], batch.publisher, 0, batch.accepted_at, ours)
        return Caught(content)

    def publication(self, now: float, event: Event) -> PublishEvent:
        content = {name: value for name, value in event.attributes.items() if name not in ("source", "id")}
        stamp = STAMP.pack(int(str(event.attributes["id"])), now)
        return PublishEvent(encode_head(content), stamp + PAYLOAD[STAMP.size :])

    def carry_out(self, now: float, effects: list[Effect]) -> list[Effect]:
        outgoing: list[Effect] = []
        for effect in effects:
            carry = self.outward.get(type(effect))
            if carry is None:
                outgoing.append(effect)
            else:
                outgoing += carry(now, effect)
        return outgoing

    def emit(self, now: float, emit: Emit) -> list[Effect]:
        batch = Publications(self.node_id, self.node_id, now, 0, (0,), (emit.head,), (emit.payload,))
        return [Send(self.home, batch, DATAGRAM)]

    def ask(self, now: float, ask: Watch) -> list[Effect]:
        number = self.asked.get(ask.key)
        if number is None:
            number = self.asked[ask.key] = self.asked_next
            self.asked_next += 1
        return [Send(self.home, Subscribe(number, parse(ask.filter)), DATAGRAM)]

    def unask(self, now: float, unask: Unwatch) -> list[Effect]:
        number = self.asked.pop(unask.key, None)
        return [] if number is None else [Send(self.home, Unsubscribe(number), DATAGRAM)]

    def deliver(self, now: float, deliver: Deliver) -> list[Effect]:
        item = deliver.item
        if type(item) is Quality:
            return []
        number, published_at = STAMP.unpack_from(item.content.payload)
        return [Deliver(Taken(item, number, published_at))]

    def recall(self, now: float, recall: Recall) -> list[Effect]:
        answer = Recalled(recall.stream, recall.sequence, problem=NO_HISTORY)
        return self.carry_out(now, self.transport.handle(now, answer))

    def check(self) -> None:
        self.transport.check()


# All together.


class CarriedNetwork(Substrate):
    """Like `Substrate`, and all clients have a transport. Theirs are in `transport(client)`."""

    def __init__(
        self,
        seed: int,
        trace: Writer | None,
        topology: Topology,
        params: SubstrateParams,
        clients: Mapping[NodeId, NodeId],
        wants: Mapping[NodeId, str],
        factors: Mapping[NodeId, float] | None = None,
        rates_bps: Mapping[tuple[NodeId, NodeId], float] | None = None,
        transports: TransportParams | Callable[[NodeId], TransportParams] = TransportParams(),  # noqa: B008 - frozen
        modes: Modes = Modes(),  # noqa: B008 - frozen
    ) -> None:
        self.transports, self.modes = transports, modes
        super().__init__(seed, trace, topology, params, clients, wants, factors, rates_bps)

    def broker(self, node_id: NodeId) -> Make:
        return partial(carrying_broker, node_id)

    def client(self, node_id: NodeId, home: NodeId) -> Make:
        params = self.transports if isinstance(self.transports, TransportParams) else self.transports(node_id)

        def make(draws: Draws) -> Machine:
            transport_id = draws("transport id").below(2**32)
            return CarriedClient(node_id, home, TransportNode(transport_id, params, draws("transport")))

        return make

    def subscribe(self, client: NodeId, home: NodeId, text: str) -> None:
        modes = self.modes
        listen = Listen(1, parse(text), modes.is_ordered, modes.is_reliable, modes.is_paced)
        self.simulator.inject(0.0, client, listen)

    def listen(self, client: NodeId, listen: Listen) -> None:
        """One more subscription, or another mode for one that is there; from now on."""
        self.tell(client, listen)

    def tell(self, client: NodeId, input: Input) -> None:
        self.simulator.nodes[client].inject(self.simulator.now, input)

    def transport(self, client: NodeId) -> TransportNode:
        machine = self.simulator.nodes[client].machine
        assert isinstance(machine, CarriedClient)
        return machine.transport
