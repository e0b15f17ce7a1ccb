"""What a client published and its broker has not accepted yet.

Publications are numbered in the order in which the application gave them. They are kept here until the broker says that
it has them (`Accepted`, which is cumulative), and sent again under the same numbers when the link broke before. So none
is lost with a link, and the broker recognises those it had already.

This is also the credit of the publisher: no more than `publications_max` of them, and no more than `bytes_max` bytes,
are kept. A single publication always has room when nothing else is kept, however large it is.
"""

from collections import deque

import msgspec

from tidings.machine.publications import pieces
from tidings.protocols.delivery.messages import Publish
from tidings.protocols.delivery.session_items import Ticket


class Sent(msgspec.Struct, frozen=True):
    """One message's worth of publications."""

    message: Publish
    size_bytes: int
    ticket: Ticket | None

    @property
    def last(self) -> int:
        return self.message.first + len(self.message.heads) - 1


class Publishing:
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
        fits = self.count + count <= self.publications_max and self.size_bytes + size_bytes <= self.bytes_max
        return fits or not (self.count or count > 1)

    def add(
        self, advertisement: int, heads: tuple[bytes, ...], payloads: tuple[bytes, ...], ticket: Ticket | None
    ) -> list[Sent]:
        """Number them, and cut them into as few messages as the bounds allow."""
        sizes = [len(head) + len(payload) for head, payload in zip(heads, payloads, strict=True)]
        made = []
        for piece in pieces(sizes):
            message = Publish(advertisement, self.next, ticket is not None, heads[piece], payloads[piece])
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
        rest = Publish(whole.advertisement, through + 1, whole.receipt, whole.heads[gone:], whole.payloads[gone:])
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
