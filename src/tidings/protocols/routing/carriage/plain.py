"""The plain carriage: over the link, at once or when there is room."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from tidings.machine.effects import Effect, Send, Transport
from tidings.machine.inputs import Input, Signal, TimerKey
from tidings.machine.message import Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.carriage.carriage import Parcel
from tidings.protocols.routing.carrier import BatchCarrier
from tidings.protocols.routing.messages import PublicationsSkipped
from tidings.protocols.routing.parcels import LEFT_OUT, ParcelFlow
from tidings.protocols.routing.tables import LiveHop
from tidings.pubsub.client import Latency
from tidings.pubsub.rows import Gauge, View
from tidings.pubsub.signals import AdvertisementId


class PlainCarriage:
    """Every parcel leaves over the link to its neighbour, at once or when there is room. The baseline beside every
    cleverer one: over streams nothing is overtaken while a link lives, and what is left out is marked. As datagrams
    (`RoutingParams(transport=...)`) parcels may be lost or overtaken; what is larger than a datagram does not leave."""

    messages: ClassVar[tuple[type[Message], ...]] = ()
    hears: ClassVar[tuple[type, ...]] = ()
    tells: ClassVar[tuple[type[Signal], ...]] = ()

    def __init__(self, carrier: BatchCarrier) -> None:
        self.params, self.transport, self.ledger = carrier.params, carrier.params.transport, carrier.ledger
        self.flows: dict[NodeId, ParcelFlow] = {}

    def start(self) -> None:
        pass

    def pass_on(self, now: float, source: LiveHop, parcels: Sequence[Parcel]) -> list[Effect]:
        if self.transport is not Transport.STREAM:
            return [Send(neighbour, parcel, self.transport) for neighbour, parcel in parcels]
        effects: list[Effect] = []
        for neighbour, parcel in parcels:
            if not self.flows[neighbour].put(parcel, effects) and parcel.receipt:
                effects += self.ledger.fail(neighbour, parcel.receipt, LEFT_OUT)
        return effects

    def open(self, neighbour: NodeId) -> list[Effect]:
        effects = self.close(neighbour)
        window_bytes, waiting_bytes_max = self.params.publications_window_bytes, self.params.parcels_bytes_max
        self.flows[neighbour] = ParcelFlow(neighbour, window_bytes, waiting_bytes_max)
        return effects

    def close(self, neighbour: NodeId) -> list[Effect]:
        flow = self.flows.pop(neighbour, None)
        return [] if flow is None else flow.close()

    def skip(self, skipped: PublicationsSkipped, neighbours: Iterable[NodeId]) -> list[Effect]:
        effects: list[Effect] = []
        for neighbour in neighbours:
            self.flows[neighbour].put_mark(skipped, effects)
        return effects

    def taken(self, neighbour: NodeId, total_bytes: int) -> list[Effect]:
        effects: list[Effect] = []
        if neighbour in self.flows:
            self.flows[neighbour].hear(total_bytes, effects)
        return effects

    def drain(self, neighbour: NodeId) -> tuple[bool, list[Effect]]:
        flow = self.flows.get(neighbour)
        return flow is None or not (flow.waiting or flow.marks), []

    def count_waiting(self) -> int:
        return sum(len(flow.waiting) for flow in self.flows.values())

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        return []

    def hear(self, now: float, input: Input) -> list[Effect]:
        return []

    def offered(self, advertisement: AdvertisementId, latency: Latency) -> None:
        pass

    def withdrawn(self, now: float, advertisement: AdvertisementId) -> list[Effect]:
        return []

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        return []

    def gauges(self) -> Iterable[Gauge]:
        return ()

    def views(self) -> Mapping[str, View]:
        return {}

    def check(self) -> None:
        for flow in self.flows.values():
            flow.check()
