"""What a session has published: what is not accepted yet, and what waits for its receipt.

Publications are numbered in the order in which the application gave them. They are kept until the broker says that it
has them (`Accepted`, which is cumulative), and sent again under the same numbers when the link broke before. So none is
lost with a link, and the broker recognises those it had already. This is also the credit of the publisher: no more than
`publications_max` of them, and no more than `bytes_max` bytes, are kept. A single publication always has room when
nothing else is kept, however large it is. Those that the broker cannot read are voided: what is sent in their place has
their numbers, no contents, and no advertisement, so that it is declined.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from operator import add

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect, Send
from tidings.model.bounds import PUBLICATIONS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.delivery.messages import PublishMessage, Refusal
from tidings.protocols.delivery.session.standings import NOT_ASKED
from tidings.pubsub.client import Accepted, Confirmed, Declined, Failed, Receipt, Ticket
from tidings.pubsub.notes import Acknowledged, ReceiptAsked, Released
from tidings.pubsub.publications import encode_head, pieces

NO_ADVERTISEMENT = 0
"""Advertisements are numbered from 1 on."""

NO_ATTRIBUTES = encode_head({})

UNREAD = "the broker cannot read it"
NUMBERS_USED = (
    "another process has published under the same name and numbers; publish under another name, or give numbers_from= "
    "if these are the same publications"
)


class Sent(msgspec.Struct, frozen=True):
    """One message's worth of publications."""

    message: PublishMessage
    last: int
    """The number of the last of them."""
    size_bytes: int
    ticket: Ticket | None


class Outbound:
    """`first` is the number of the first publication."""

    def __init__(self, publications_max: int, bytes_max: int, first: int) -> None:
        self.publications_max, self.bytes_max = publications_max, bytes_max
        self.next = first
        self.through = first - 1
        """Everything up to this number is accepted."""
        self.kept: deque[Sent] = deque()
        self.accepted_by: dict[NodeId, int] = {}
        """The last number that each broker has accepted: as many brokers as serve us in turn."""
        self.size_bytes = 0
        self.voided: set[int] = set()
        """Numbers among those that are kept, of what the broker could not read."""

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
            self.next += len(message.heads)
            made.append(Sent(message, self.next - 1, sum(sizes[piece]), ticket))
        self.kept.extend(made)
        self.size_bytes += sum(sizes)
        return made

    def has_under(self, advertisement: int) -> bool:
        return any(sent.message.advertisement == advertisement for sent in self.kept)

    def elsewhere(self, broker: NodeId | None) -> int:
        """What this broker cannot have: the last number that another one has accepted."""
        return max((number for other, number in self.accepted_by.items() if other != broker), default=0)

    def accept(self, through: int, broker: NodeId | None = None) -> list[Sent]:
        """Answers with what is not kept here any longer."""
        if broker is not None:
            self.accepted_by[broker] = through
        accepted = []
        while self.kept and self.kept[0].last <= through:
            accepted.append(self.kept.popleft())
            self.size_bytes -= accepted[-1].size_bytes
        if self.kept and self.kept[0].message.first <= through:
            self.kept[0] = self.cut(self.kept[0], through)
        self.through = max(self.through, through)
        if self.voided:
            self.voided = {number for number in self.voided if number > self.through}
        return accepted

    def void(self, first: int) -> Sent | None:
        """Give up the contents of a message; answers with what it was."""
        for place, sent in enumerate(self.kept):
            if sent.message.first == first and first not in self.voided:
                count = len(sent.message.heads)
                empty = PublishMessage(NO_ADVERTISEMENT, first, False, (NO_ATTRIBUTES,) * count, (b"",) * count)
                self.kept[place] = Sent(empty, sent.last, count * len(NO_ATTRIBUTES), None)
                self.size_bytes += count * len(NO_ATTRIBUTES)
                self.size_bytes -= sent.size_bytes
                self.voided.update(range(first, sent.last + 1))
                return sent
        return None

    def cut(self, sent: Sent, through: int) -> Sent:
        whole = sent.message
        gone = through + 1 - whole.first
        rest = PublishMessage(
            whole.advertisement, through + 1, whole.receipt, whole.heads[gone:], whole.payloads[gone:]
        )
        size_bytes = sum(map(len, rest.heads)) + sum(map(len, rest.payloads))
        self.size_bytes -= sent.size_bytes - size_bytes
        return Sent(rest, sent.last, size_bytes, sent.ticket)

    def check(self) -> None:
        assert self.size_bytes == sum(sent.size_bytes for sent in self.kept), "bytes are counted wrongly"
        expected = self.through + 1
        for sent in self.kept:
            assert sent.message.first == expected, "a number is missing among those that are kept"
            expected = sent.last + 1
        assert expected == self.next, "the last numbers are not kept"
        assert all(number > self.through for number in self.voided), "what was voided is accepted"
        assert self.count <= max(1, self.publications_max), "more is kept than the window allows"


class Receipts:
    """Who waits for receipts of publications. A request that took several messages has as many receipts to wait for.

    A receipt may be lost with a link when its publications were accepted long ago. So these are kept here until it is
    there, up to `bytes_max`, and said again over the next link: whoever has them recognises their numbers, and the
    broker finds out once more whether they have arrived."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max, self.size_bytes = bytes_max, 0
        self.kept: dict[int, Sent] = {}
        """What was accepted, by the number of the last of each message."""
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

    def came(self, receipt: Receipt) -> list[Effect]:
        """The application hears of the last one of its request."""
        ticket = self.awaited.pop(receipt.number, None)
        if ticket is None:
            return [Drop(receipt, NOT_ASKED)]
        self.release(receipt.number)
        self.parts[ticket] -= 1
        if self.parts[ticket]:
            return []
        del self.parts[ticket]
        return [Acknowledged(self.firsts.pop(ticket)), Deliver(Confirmed(ticket, receipt))]

    def refused(self, refusal: Refusal) -> list[Effect]:
        ticket = self.awaited.get(refusal.number)
        if ticket is None:
            return [Drop(refusal, NOT_ASKED)]
        return [*self.give_up((ticket,)), Deliver(Failed(ticket, refusal.reason, refusal.may_retry))]

    def keep(self, accepted: Iterable[Sent]) -> None:
        for sent in accepted:
            if sent.last in self.awaited and self.size_bytes + sent.size_bytes <= self.bytes_max:
                self.kept[sent.last] = sent
                self.size_bytes += sent.size_bytes

    def release(self, number: int) -> None:
        sent = self.kept.pop(number, None)
        if sent is not None:
            self.size_bytes -= sent.size_bytes

    def behind(self, through: int) -> dict[Ticket, None]:
        """Requests of which some publications, up to this number, have been accepted."""
        return dict.fromkeys(ticket for number, ticket in self.awaited.items() if number <= through)

    def lost(self, through: int, advertisements: Collection[int]) -> dict[Ticket, None]:
        """Those of them that cannot be said again: there was no room, or their advertisement is gone."""
        again = {last for last, sent in self.kept.items() if sent.message.advertisement in advertisements}
        accepted = [(number, ticket) for number, ticket in self.awaited.items() if number <= through]
        return dict.fromkeys(ticket for number, ticket in accepted if number not in again)

    def give_up(self, tickets: Collection[Ticket]) -> list[Released]:
        for number in [number for number, ticket in self.awaited.items() if ticket in tickets]:
            self.release(number)
        self.awaited = {number: ticket for number, ticket in self.awaited.items() if ticket not in tickets}
        self.parts = {ticket: count for ticket, count in self.parts.items() if ticket not in tickets}
        return [Released(self.firsts.pop(ticket)) for ticket in tickets]

    def check(self, next: int) -> None:
        assert all(number < next for number in self.awaited), "a receipt is awaited for nothing"
        assert Counter(self.awaited.values()) == self.parts, "receipts are counted wrongly"
        assert self.firsts.keys() == self.parts.keys(), "requests are remembered wrongly"
        assert self.kept.keys() <= self.awaited.keys(), "kept for nobody"
        assert self.size_bytes == sum(sent.size_bytes for sent in self.kept.values()) <= self.bytes_max


def accept(
    publishing: Outbound, receipts: Receipts, message: Accepted, broker: NodeId | None, is_repeating: bool
) -> list[Effect]:
    sent = publishing.next - 1
    # An earlier process has published these, and perhaps more.
    through = min(message.through, sent)
    if publishing.through >= through:
        return [Drop(message, NOT_ASKED)]
    if message.through > sent and not is_repeating:
        # The broker takes what we publish for what somebody else published: none of it arrives.
        return [Drop(message, NUMBERS_USED), *refuse_all(publishing, receipts, NUMBERS_USED)]
    accepted = publishing.accept(through, broker)
    if receipts.awaited:
        receipts.keep(accepted)
    return [Deliver(Accepted(through))]


def refuse_all(publishing: Outbound, receipts: Receipts, reason: str) -> list[Effect]:
    """Nothing of what is kept will be accepted."""
    numbers = tuple(range(publishing.through + 1, publishing.next))
    parts = [numbers[at : at + PUBLICATIONS_MAX] for at in range(0, len(numbers), PUBLICATIONS_MAX)]
    lost = receipts.behind(numbers[-1])
    effects: list[Effect] = [Deliver(Declined(part, reason)) for part in parts]
    effects += [*receipts.give_up(lost), *(Deliver(Failed(ticket, reason)) for ticket in lost)]
    publishing.accept(numbers[-1])
    return [*effects, Deliver(Accepted(numbers[-1]))]


def refuse_unread(
    publishing: Outbound, receipts: Receipts, message: PublishMessage, reason: str, broker: NodeId | None
) -> list[Effect]:
    """The broker cannot read this message. If the link stays it is told at once that the numbers are used up, so that
    it does not look for them elsewhere."""
    sent = publishing.void(message.first)
    if sent is None:
        return []
    numbers = tuple(range(sent.message.first, sent.last + 1))
    effects: list[Effect] = [Drop(message, UNREAD), Deliver(Declined(numbers, reason))]
    if sent.ticket is not None and sent.last in receipts.awaited:
        effects += receipts.give_up((sent.ticket,))
        effects.append(Deliver(Failed(sent.ticket, reason)))
    if broker is not None:
        effects += [Send(broker, kept.message) for kept in publishing.kept if kept.message.first == message.first]
    return effects
