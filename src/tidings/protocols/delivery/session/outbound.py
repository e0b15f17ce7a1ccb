"""What a client published and its broker has not accepted yet.

Publications are numbered in the order in which the application gave them. They are kept here until the broker says that
it has them (`Accepted`, which is cumulative), and sent again under the same numbers when the link broke before. So none
is lost with a link, and the broker recognises those it had already.

This is also the credit of the publisher: no more than `publications_max` of them, and no more than `bytes_max` bytes,
are kept. A single publication always has room when nothing else is kept, however large it is.
"""

from collections import Counter, deque
from collections.abc import Collection, Sequence
from operator import add

import msgspec

from tidings.protocols.delivery.messages import PublishMessage
from tidings.pubsub.client import Ticket
from tidings.pubsub.notes import Acknowledged, ReceiptAsked, Released
from tidings.pubsub.publications import pieces


class Sent(msgspec.Struct, frozen=True):
    """One message's worth of publications."""

    message: PublishMessage
    size_bytes: int
    ticket: Ticket | None

    @property
    def last(self) -> int:
        return self.message.first + len(self.message.heads) - 1


class Outbound:
    """`first` is the number of the first publication."""

    def __init__(self, publications_max: int, bytes_max: int, first: int) -> None:
        self.publications_max, self.bytes_max = publications_max, bytes_max
        self.next = first
        self.through = first - 1
        """Everything up to this number is accepted."""
        self.kept: deque[Sent] = deque()
        self.size_bytes = 0

    @property
    def count(self) -> int:
        """Publications that are not accepted yet."""
        return self.next - 1 - self.through

    def has_room(self, count: int, size_bytes: int) -> bool:
        kept = self.next - 1 - self.through
        fits = kept + count <= self.publications_max and self.size_bytes + size_bytes <= self.bytes_max
        return fits or not (kept or count > 1)

    def add(
        self, advertisement: int, heads: tuple[bytes, ...], payloads: tuple[bytes, ...], ticket: Ticket | None
    ) -> list[Sent]:
        """Number them, and cut them into as few messages as the bounds allow."""
        sizes = list(map(add, map(len, heads), map(len, payloads)))
        made = []
        for piece in pieces(sizes):
            message = PublishMessage(advertisement, self.next, ticket is not None, heads[piece], payloads[piece])
            made.append(Sent(message, sum(sizes[piece]), ticket))
            self.next += len(message.heads)
        self.kept.extend(made)
        self.size_bytes += sum(sizes)
        return made

    def accept(self, through: int) -> None:
        while self.kept and self.kept[0].last <= through:
            self.size_bytes -= self.kept.popleft().size_bytes
        if self.kept and self.kept[0].message.first <= through:
            self.kept[0] = self.cut(self.kept[0], through)
        self.through = max(self.through, through)

    def cut(self, sent: Sent, through: int) -> Sent:
        whole = sent.message
        gone = through + 1 - whole.first
        rest = PublishMessage(
            whole.advertisement, through + 1, whole.receipt, whole.heads[gone:], whole.payloads[gone:]
        )
        size_bytes = sum(map(len, rest.heads)) + sum(map(len, rest.payloads))
        self.size_bytes -= sent.size_bytes - size_bytes
        return Sent(rest, size_bytes, sent.ticket)

    def check(self) -> None:
        assert self.size_bytes == sum(sent.size_bytes for sent in self.kept), "bytes are counted wrongly"
        expected = self.through + 1
        for sent in self.kept:
            assert sent.message.first == expected, "a number is missing among those that are kept"
            expected = sent.last + 1
        assert expected == self.next, "the last numbers are not kept"
        assert self.count <= max(1, self.publications_max), "more is kept than the window allows"


class Receipts:
    """Who waits for receipts of publications. A request that took several messages has as many receipts to wait for."""

    def __init__(self) -> None:
        self.awaited: dict[int, Ticket] = {}
        """By the number of the last publication that a receipt is for."""
        self.parts: dict[Ticket, int] = {}
        self.firsts: dict[Ticket, int] = {}
        """The first publication of each request."""

    def wait_for(self, ticket: Ticket, made: Sequence[Sent]) -> ReceiptAsked:
        self.awaited |= {sent.last: ticket for sent in made}
        self.parts[ticket] = len(made)
        self.firsts[ticket] = made[0].message.first
        return ReceiptAsked(self.firsts[ticket], made[-1].last)

    def came(self, number: int) -> Acknowledged | None:
        """A receipt is here; what is to be noted if it is the last one of its request."""
        ticket = self.awaited.pop(number)
        self.parts[ticket] -= 1
        if self.parts[ticket]:
            return None
        del self.parts[ticket]
        return Acknowledged(self.firsts.pop(ticket))

    def behind(self, through: int) -> dict[Ticket, None]:
        """Requests of which some publications, up to this number, have been accepted."""
        return dict.fromkeys(ticket for number, ticket in self.awaited.items() if number <= through)

    def give_up(self, tickets: Collection[Ticket]) -> list[Released]:
        self.awaited = {number: ticket for number, ticket in self.awaited.items() if ticket not in tickets}
        self.parts = {ticket: count for ticket, count in self.parts.items() if ticket not in tickets}
        return [Released(self.firsts.pop(ticket)) for ticket in tickets]

    def check(self, next: int) -> None:
        assert all(number < next for number in self.awaited), "a receipt is awaited for nothing"
        assert Counter(self.awaited.values()) == self.parts, "receipts are counted wrongly"
        assert self.firsts.keys() == self.parts.keys(), "requests are remembered wrongly"
