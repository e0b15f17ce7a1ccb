"""The application's batches, through the transport and on to the session.

`publish` feeds a batch to the transport; what comes out of it, at once or later, is `left`, and goes on to the session
in as large pieces as there are (`publishing.py`). A piece that is the whole batch has the batch's ticket, and the
session answers it; other pieces have tickets of their own, and the batch is answered here: when all have reached
everybody, or as soon as one has not.
"""

from collections.abc import Sequence
from typing import Any, cast

from tidings.machine.effects import Deliver, Drop, Effect
from tidings.nodes.carried.items import Hear, Own, RoomMade
from tidings.nodes.carried.publishing import WITHHELD, Sending, Sendings
from tidings.nodes.client import ClientNode
from tidings.protocols.delivery.session.session import WINDOW_FULL
from tidings.protocols.transport.marking import Kind
from tidings.protocols.transport.signals import Emit, Outgoing, PublishEvent
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.client import Confirmed, Failed, PublishBatch, Receipt
from tidings.pubsub.publications import BadPublication


class Posting:
    """`from_session` and `from_transport` carry out what the two sides answer."""

    def __init__(
        self, sendings: Sendings, client: ClientNode, transport: TransportNode, from_session: Hear, from_transport: Hear
    ) -> None:
        self.sendings, self.client, self.transport = sendings, client, transport
        self.from_session, self.from_transport = from_session, from_transport
        self.is_publishing = False

    def publish(self, now: float, request: PublishBatch) -> list[Effect]:
        size_bytes = sum(map(len, request.heads)) + sum(map(len, request.payloads))
        session = self.client.session
        is_open = session.advertisements.is_open(request.advertisement)
        if not is_open or not request.heads or not session.publishing.has_room(len(request.heads), size_bytes):
            return self.from_session(now, self.client.handle(now, request))
        number = self.sendings.begin(request)
        effects: list[Effect] = []
        handle = self.transport.handle
        for head, payload in zip(request.heads, request.payloads, strict=True):
            effects += handle(now, PublishEvent(head, payload, number))
        self.is_publishing = True
        performed = self.from_transport(now, effects)
        self.is_publishing = False
        return performed

    def left(self, now: float, emits: Sequence[Emit]) -> list[Effect]:
        """These have come out of the transport."""
        effects: list[Effect] = []
        for emit in self.sendings.put(emits):
            effects += [Drop(emit, WINDOW_FULL), *self.lost(emit.ticket)]
        effects += self.send_on(now)
        # Whoever waits for a place in a queue may have one now.
        return effects if self.is_publishing else [*effects, Deliver(RoomMade())]

    def send_on(self, now: float) -> list[Effect]:
        """To the session, as far as its window allows."""
        effects: list[Effect] = []
        while (piece := self.sendings.take()) is not None:
            sending = self.sendings.open[piece.number]
            ticket = sending.ticket
            if ticket is not None and len(piece.emits) < sending.count:
                sending.made += 1
                sending.pieces += 1
                ticket = Own("piece", (piece.number, sending.made))
            told = self.client.handle(now, piece.request(sending, ticket))
            self.sendings.gone(piece.number, len(piece.emits), self.client.session.publishing.next - 1)
            effects += self.from_session(now, told)
        return effects

    def lost(self, number: Any) -> list[Effect]:
        """An event of this batch will never leave."""
        sending = self.sendings.open.get(number)
        if sending is None:
            return []
        self.sendings.gone(number, 1, None)
        return [*self.fail(sending, WITHHELD), Deliver(RoomMade())]

    def piece_done(self, ticket: Own, receipt: Receipt | None, problem: str) -> list[Effect]:
        number, _ = cast(tuple[int, int], ticket.key)
        sending = self.sendings.open.get(number)
        if sending is None:
            return []
        sending.pieces -= 1
        if problem:
            return self.fail(sending, problem)
        is_done = not sending.left and not sending.pieces and not sending.has_failed
        return [Deliver(Confirmed(sending.ticket, receipt))] if is_done else []

    def fail(self, sending: Sending, reason: str) -> list[Effect]:
        if sending.ticket is None or sending.has_failed:
            return []
        sending.has_failed = True
        return [Deliver(Failed(sending.ticket, reason))]

    # Under congestion control.

    @property
    def is_limiting(self) -> bool:
        """Whether receivers limit any of our flows."""
        return bool(self.transport.sender.table.rows)

    def may_leave(self, head: bytes, payload: bytes) -> bool:
        """Whether an event of these bytes would leave, or have a place in the queue of each of its flows."""
        sender, shim = self.transport.sender, self.transport.shim
        if not sender.table.rows or not shim.params.is_ordered:
            return True
        try:
            bits = shim.publishing.bits_of(head)
        except BadPublication:
            return True
        queue_max = sender.params.congestion.queue_max
        rows = sender.table.matching(Outgoing(Kind.DATA, head, payload, bits))
        return all(row.queue is None or len(row.queue) < queue_max for row in rows)
