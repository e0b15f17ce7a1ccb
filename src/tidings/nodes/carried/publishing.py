"""The application's publications on their way through the transport to the session.

A batch goes into the transport event by event. Most come out in the same step, marked and with a header, and go on to
the session as one batch again, under the same advertisement and with the same ticket. Events that are paced come out
later, some of them perhaps never; then a batch reaches the session in pieces. Its ticket is answered when all pieces
are: `Confirmed` if all have reached everybody, `Failed` if one has not.

Headers make events longer than the application reckoned, so the session's window may be full when they come out. They
wait in `backlog` until the broker has accepted some; `has_room` says no meanwhile. Whoever publishes all the same has
at most `BACKLOG_MAX` events wait.

To the outside this is what the session's window of publications is to a plain client: `has_room`, and `next` and
`through`, which here count batches, so that it can be told when everything that was published so far is accepted.
"""

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from tidings.protocols.delivery.session.publishing import Publishing
from tidings.protocols.transport.signals import Emit
from tidings.pubsub.client import PublishBatch, Ticket

BACKLOG_MAX = 16_384
"""Events with a header that wait for the session's window: as many as that window holds by default."""

WITHHELD = "withheld: its receivers can take no more of its flow, and the queue of the flow is full"


class Sending(msgspec.Struct):
    """A batch of the application."""

    advertisement: int
    ticket: Ticket | None
    count: int
    left: int
    """Events that are still in the transport, or in the backlog."""
    last: int = 0
    """The session's number of the last of them that it has."""
    pieces: int = 0
    """Pieces that reached the session under tickets of their own, and have no answer yet."""
    made: int = 0
    has_failed: bool = False


class Piece(msgspec.Struct, frozen=True):
    """Events that go to the session together, all of one batch."""

    number: int
    emits: tuple[Emit, ...]

    def request(self, sending: Sending, ticket: Ticket | None) -> PublishBatch:
        heads, payloads = tuple([emit.head for emit in self.emits]), tuple([emit.payload for emit in self.emits])
        return PublishBatch(sending.advertisement, heads, payloads, ticket)


class Sendings:
    """`window` is the session's; `overhead_bytes` about what the transport adds to an event."""

    def __init__(self, window: Publishing, overhead_bytes: int) -> None:
        self.window, self.overhead_bytes = window, overhead_bytes
        self.open: dict[int, Sending] = {}
        self.made = 0
        self.backlog: deque[Emit] = deque()

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
        return next(iter(self.open)) - 1 if self.open else self.made

    def has_room(self, count: int, size_bytes: int) -> bool:
        return not self.backlog and self.window.has_room(count, size_bytes + count * self.overhead_bytes)

    # What becomes of them.

    def begin(self, request: PublishBatch) -> int:
        self.made += 1
        count = len(request.heads)
        self.open[self.made] = Sending(request.advertisement, request.ticket, count, count)
        return self.made

    def put(self, emits: Iterable[Emit]) -> Sequence[Emit]:
        """They have left the transport; answers with those for which there is no room at all."""
        self.backlog.extend(emits)
        surplus = []
        while len(self.backlog) > BACKLOG_MAX:
            surplus.append(self.backlog.pop())
        return surplus

    def take(self) -> Piece | None:
        """What goes to the session next; None while there is nothing, or its window is full."""
        backlog = self.backlog
        if not backlog:
            return None
        number = self.number_of(backlog[0])
        taken: list[Emit] = []
        size_bytes = 0
        while backlog and self.number_of(backlog[0]) == number:
            grown = size_bytes + len(backlog[0].head) + len(backlog[0].payload)
            if not self.window.has_room(len(taken) + 1, grown):
                break
            size_bytes = grown
            taken.append(backlog.popleft())
        return Piece(number, tuple(taken)) if taken else None

    def number_of(self, emit: Emit) -> int:
        assert isinstance(emit.ticket, int)
        return emit.ticket

    def gone(self, number: int, count: int, last: int | None) -> None:
        """So many of a batch are in the session's hands up to its number `last`, or (None) given up."""
        sending = self.open[number]
        sending.left -= count
        if last is not None:
            sending.last = last

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
