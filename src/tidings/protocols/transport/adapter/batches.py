"""The application's publications on their way through the transport to the carrier.

A batch goes into the transport event by event. Most come out in the same step, marked and with a header, and go on to
the carrier as one batch again, under the same advertisement and with the same ticket. Events that are paced come out
later, some of them perhaps never; then a batch reaches the carrier in pieces. A piece that is the whole batch has the
batch's ticket, and the carrier answers it; other pieces have tickets of their own, and the batch is answered here:
`Confirmed` when all have reached everybody, `Failed` as soon as one has not.

Headers make events longer than the application reckoned, so the carrier's window may be full when they come out. They
wait in `backlog` until the carrier has accepted some; `has_room` says no meanwhile. Whoever publishes all the same has
at most `BACKLOG_MAX` events wait.

To the outside this is what the carrier's window of publications is to a client without a transport: `has_room`, and
`next` and `through`, which here count batches, so that it can be told when everything that was published is accepted.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from typing import cast

import msgspec

from tidings.machine.effects import Deliver, Effect
from tidings.protocols.transport.carrier import Own, RoomMade
from tidings.protocols.transport.formats import HEADER_BYTES
from tidings.protocols.transport.marks import DATA_TAIL
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import Emit
from tidings.pubsub.client import Confirmed, Failed, PublishBatch, Receipt, Ticket, Window

BACKLOG_MAX = 16_384
"""Events with a header that wait for the carrier's window: as many as that of a session holds by default."""

BACKLOG_FULL = "more waits for the carrier than is allowed"
WITHHELD = "withheld: its receivers can take no more of its flow, and the queue of the flow is full"


class Sending(msgspec.Struct):
    """A batch of the application."""

    number: int
    advertisement: int
    ticket: Ticket | None
    count: int
    left: int
    """Events that are still in the transport, or in the backlog."""
    last: int = 0
    """The carrier's number of the last of them that it has."""
    pieces: int = 0
    """Pieces that reached the carrier under tickets of their own, and have no answer yet."""
    made: int = 0
    has_failed: bool = False


class Sendings:
    """`window` is the carrier's."""

    def __init__(self, window: Window, params: TransportParams) -> None:
        self.window = window
        self.open: dict[Hashable, Sending] = {}
        """By number."""
        self.made = 0
        self.backlog: deque[Emit] = deque()
        self.configure(params)

    def configure(self, params: TransportParams) -> None:
        self.overhead_bytes = overhead_of(params)

    # What a client asks.

    @property
    def publications_max(self) -> int:
        return self.window.publications_max

    @property
    def bytes_max(self) -> int:
        return self.window.bytes_max

    @property
    def count(self) -> int:
        """Events of the application that are not accepted yet, batch by batch."""
        self.forget_done()
        return sum(sending.count for sending in self.open.values())

    @property
    def next(self) -> int:
        return self.made + 1

    @property
    def through(self) -> int:
        """All batches up to this one are accepted, or given up."""
        self.forget_done()
        return next(iter(self.open.values())).number - 1 if self.open else self.made

    def has_room(self, count: int, size_bytes: int) -> bool:
        return not self.backlog and self.window.has_room(count, size_bytes + count * self.overhead_bytes)

    # What becomes of them.

    def begin(self, request: PublishBatch) -> int:
        self.made += 1
        count = len(request.heads)
        self.open[self.made] = Sending(self.made, request.advertisement, request.ticket, count, count)
        return self.made

    def put(self, emits: Sequence[Emit]) -> Sequence[Emit]:
        """They have left the transport; answers with those for which there is no room at all."""
        self.backlog.extend(emits)
        surplus = []
        while len(self.backlog) > BACKLOG_MAX:
            surplus.append(self.backlog.pop())
        return surplus

    def take(self) -> tuple[Sending, PublishBatch] | None:
        """What goes to the carrier next, and the batch it is of; None while there is no room for anything."""
        backlog = self.backlog
        number = backlog[0].ticket
        heads: list[bytes] = []
        payloads: list[bytes] = []
        size_bytes = 0
        while backlog and backlog[0].ticket == number:
            head, payload = backlog[0].head, backlog[0].payload
            size_bytes += len(head) + len(payload)
            if not self.window.has_room(len(heads) + 1, size_bytes):
                break
            backlog.popleft()
            heads.append(head)
            payloads.append(payload)
        if not heads:
            return None
        sending = self.open[number]
        ticket = sending.ticket
        if ticket is not None and len(heads) < sending.count:
            sending.made += 1
            sending.pieces += 1
            ticket = Own("piece", (number, sending.made))
        sending.left -= len(heads)
        return sending, PublishBatch(sending.advertisement, tuple(heads), tuple(payloads), ticket)

    def lost(self, number: Hashable) -> list[Effect]:
        """An event of this batch will never leave."""
        sending = self.open.get(number)
        if sending is None:
            return []
        sending.left -= 1
        return [*fail(sending, WITHHELD), Deliver(RoomMade())]

    def answered(self, ticket: Own, receipt: Receipt | None, problem: str) -> list[Effect]:
        """What became of the piece that has this ticket."""
        number, _ = cast(tuple[int, int], ticket.key)
        sending = self.open.get(number)
        if sending is None:
            return []
        sending.pieces -= 1
        if problem:
            return fail(sending, problem)
        is_done = not sending.left and not sending.pieces and not sending.has_failed
        return [Deliver(Confirmed(sending.ticket, receipt))] if is_done else []

    def forget_done(self) -> None:
        """Batches at the front of which nothing is to come."""
        while self.open:
            first = next(iter(self.open))
            sending = self.open[first]
            if sending.left or sending.last > self.window.through or sending.pieces:
                return
            del self.open[first]

    def check(self) -> None:
        assert len(self.backlog) <= BACKLOG_MAX, "more waits for the window than is allowed"
        for sending in self.open.values():
            assert 0 <= sending.left <= sending.count, "events of a batch are counted wrongly"
            assert sending.pieces >= 0, "a piece was answered twice"


def fail(sending: Sending, reason: str) -> list[Effect]:
    if sending.ticket is None or sending.has_failed:
        return []
    sending.has_failed = True
    return [Deliver(Failed(sending.ticket, reason))]


def overhead_of(params: TransportParams) -> int:
    """About the bytes that mark and header add to an event."""
    if not params.is_ordered:
        return 0
    return HEADER_BYTES + params.record * (4 + params.profile.size_bytes) + len(DATA_TAIL) + 2
