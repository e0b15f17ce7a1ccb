"""The plain carriage: every parcel leaves at once, over the link to its neighbour.

The baseline beside every cleverer one. Over streams nothing is lost or overtaken while a link lives. As datagrams
(`RoutingParams(transport=...)`) parcels may be; what is larger than a datagram does not leave at all.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import TimerKey
from tidings.machine.message import Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.tables import LiveHop
from tidings.pubsub.publications import Publications

if TYPE_CHECKING:
    from tidings.protocols.routing.carriage.carrier import BatchCarrier


class PlainCarriage:
    messages: ClassVar[tuple[type[Message], ...]] = ()

    def __init__(self, carrier: "BatchCarrier") -> None:
        self.transport = carrier.params.transport

    def pass_on(self, now: float, source: LiveHop, parcels: Sequence[tuple[NodeId, Publications]]) -> list[Effect]:
        transport = self.transport
        return [Send(neighbour, parcel, transport) for neighbour, parcel in parcels]

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        return []

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        return []

    def check(self) -> None:
        pass
