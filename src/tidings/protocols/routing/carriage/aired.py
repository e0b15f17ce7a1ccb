"""Publications on the air: one transmission serves every neighbour that hears it.

The problem. On a radio, what is sent to one neighbour is heard by all who are near, and takes the air from all of them.
A broker that passes an event on to three neighbours over three links takes it three times.

The idea. It says it once, and names those it is for (`AiredPublications`); whoever hears it and is not named forgets
it. Neighbours that want different parts of a batch are told each part once.

Nothing is repeated: whoever did not hear it has lost it, and is not told. So this is for networks in which that is no
harm, or in which what is missing is asked for later (history, receipts). What is too large for a datagram, and what is
said about tables and marks, goes over the links. An event that comes over a link behind a later one that was on the air
counts as passed, and is dropped, unless `rescue_window` lets numbers come out of order.

Source: dynamic-topologies.md 3.14 (14.3 of its source), G-44; D-119.
"""

from collections.abc import Sequence
from typing import ClassVar

from tidings.machine.effects import BROADCAST, Effect, Send, Transport
from tidings.machine.message import BrokerNames, Message
from tidings.model.bounds import AIRED_BYTES_MAX, BROKERS_NAMED_MAX
from tidings.model.identity import NodeId
from tidings.protocols.routing.carriage.carriage import Parcel
from tidings.protocols.routing.carriage.plain import PlainCarriage
from tidings.protocols.routing.carrier import BatchCarrier
from tidings.protocols.routing.tables import LiveHop
from tidings.pubsub.publications import Publications


class AiredPublications(Message, frozen=True):
    """For these of you who hear it."""

    receivers: BrokerNames
    batch: Publications


class AiredCarriage(PlainCarriage):
    messages: ClassVar[tuple[type[Message], ...]] = (AiredPublications,)

    def __init__(self, carrier: BatchCarrier) -> None:
        super().__init__(carrier)
        self.carrier = carrier

    def pass_on(self, now: float, source: LiveHop, parcels: Sequence[Parcel]) -> list[Effect]:
        receivers: dict[int, list[NodeId]] = {}
        batches: dict[int, Publications] = {}
        linked: list[Parcel] = []
        for neighbour, batch in parcels:
            named = receivers.setdefault(id(batch), [])
            if is_small(batch) and len(named) < BROKERS_NAMED_MAX:
                named.append(neighbour)
                batches[id(batch)] = batch
            else:
                linked.append((neighbour, batch))
        aired: list[Effect] = [
            Send(BROADCAST, AiredPublications(tuple(receivers[key]), batch), Transport.DATAGRAM)
            for key, batch in batches.items()
        ]
        return [*aired, *super().pass_on(now, source, linked)] if linked else aired

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        """Most of what is heard is for others."""
        link = self.carrier.links.get(sender)
        is_ours = isinstance(message, AiredPublications) and self.carrier.node_id in message.receivers
        if not is_ours or link is None or not link.is_heard:
            return []
        assert isinstance(message, AiredPublications)
        return self.carrier.take(now, link, message.batch)


def is_small(batch: Publications) -> bool:
    return sum(map(len, batch.heads)) + sum(map(len, batch.payloads)) <= AIRED_BYTES_MAX
