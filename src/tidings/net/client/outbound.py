"""From attributes and payloads to batches: what a client does with events before its session has them; and what it has
said it is going to publish, to which each event belongs.

Events that are published in one turn of the loop leave as one batch, or as several when they are many. Attributes are
checked and encoded once: streams repeat themselves, so the encoded form of attributes that were published before is
remembered, by their bytes in the order in which the program wrote them (which, unlike the dict, tell 1, 1.0 and True
apart).

The session keeps what the broker has not accepted, up to its window; `has_room` says whether one more event fits, and
those that wait for room are woken in order when the broker has accepted some. A transport may have an event wait for
other reasons (`may_leave`): the receivers of its flow can take no more.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import repeat
from operator import add
from typing import NoReturn, Protocol

import msgspec

from tidings.model.bounds import ATTRIBUTES_MAX, PUBLICATION_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.net.errors import ClientError, Closed, Refused
from tidings.protocols.transport.carrier import RoomMade
from tidings.protocols.transport.marks import RESERVED
from tidings.pubsub.client import (
    LATENCIES,
    Accepted,
    CloseAdvertisement,
    Declined,
    Latency,
    OpenAdvertisement,
    Receipt,
    Window,
)
from tidings.pubsub.publications import encode_head
from tidings.pubsub.tenants import SET_BY_BROKERS, TENANT_ATTRIBUTE

BATCH_PUBLICATIONS = 256
"""So many events leave without waiting for the end of the turn."""

BATCH_BYTES = 64 * 1024
"""So many bytes, likewise."""

PORTION_PUBLICATIONS, PORTION_BYTES = 2048, 256 * 1024
"""What leaves at once of events that came encoded and many at a time."""

HEADS_MAX = 4096
"""Attributes whose encoded form is remembered; when there are more, all are forgotten."""

HEAD_BYTES_MAX = 1024
"""Longer ones are not remembered."""

EVERYTHING = "TRUE"

as_written = msgspec.msgpack.Encoder()


class HeadCache:
    """Encoded attributes, with what else was found out about them: the advertisement they belong to."""

    def __init__(self, advertisement_of: Callable[[Event], int]) -> None:
        self.advertisement_of = advertisement_of
        self.attributes_max = ATTRIBUTES_MAX
        self.known: dict[bytes, tuple[bytes, int]] = {}

    def find(self, attributes: dict[str, Value]) -> tuple[bytes, int]:
        """The head, and the number of the advertisement; UsageError for what is no event."""
        try:
            written = as_written.encode(attributes)
        except (TypeError, ValueError, OverflowError, RecursionError):
            written = b""
        found = self.known.get(written)
        if found is not None:
            return found
        event = Event(attributes)
        if TENANT_ATTRIBUTE in attributes:
            raise UsageError(SET_BY_BROKERS)
        if len(attributes) > self.attributes_max or any(map(str.startswith, attributes, repeat(RESERVED))):
            self.refuse(attributes)
        made = encode_head(attributes), self.advertisement_of(event)
        if written and len(written) <= HEAD_BYTES_MAX:
            if len(self.known) >= HEADS_MAX:
                self.known.clear()
            self.known[written] = made
        return made

    def refuse(self, attributes: dict[str, Value]) -> None:
        reserved = [name for name in attributes if name.startswith(RESERVED)]
        if reserved:
            raise UsageError(f"{reserved[0]}: names with {RESERVED} are those of the transport; choose another")
        raise UsageError(
            f"event with {len(attributes)} attributes, at most {self.attributes_max} can be published through a "
            "transport, which adds one; put some of them into the payload"
        )

    def forget(self) -> None:
        self.known.clear()


class AskClient(Protocol):
    """Makes a request of the session under a new ticket, and waits for the answer."""

    def __call__(
        self, what: str, request: Callable[[int], object], begun: Callable[[int], None] = ...
    ) -> Awaitable[Receipt | None]: ...


class Advertisement:
    """`receipt` is the broker's answer; `filter` what it lets be published, which may be less than what was asked."""

    def __init__(self, filter: Filter, close: Callable[["Advertisement"], Awaitable[None]]) -> None:
        self.filter, self.close = filter, close
        self.number = 0
        self.receipt: Receipt

    async def unadvertise(self) -> None:
        """No more of this is published; what was published before is still delivered."""
        await self.close(self)


class ClientAdvertisements:
    """`leave` hands over what was published and is still gathered."""

    def __init__(self, ask: AskClient, leave: Callable[[], None]) -> None:
        self.ask, self.leave = ask, leave
        self.open: dict[int, Advertisement] = {}
        self.heads = HeadCache(self.number_for)
        self.everything: asyncio.Task[Advertisement] | None = None
        self.bound = ""
        """The filter within which this client may publish; empty for no bound."""

    async def advertise(self, filter: str | Filter, latency: Latency = "any") -> Advertisement:
        asked = parse(filter) if isinstance(filter, str) else filter
        if latency not in LATENCIES:
            raise UsageError(f"latency: {latency!r:.80} cannot be asked for; give one of {', '.join(LATENCIES)}")
        advertisement = Advertisement(asked, self.unadvertise)

        def begun(number: int) -> None:
            advertisement.number = number

        receipt = await self.ask("advertise", lambda ticket: OpenAdvertisement(ticket, asked.text(), latency), begun)
        assert receipt is not None
        advertisement.receipt = receipt
        if receipt.filter:
            advertisement.filter = parse(receipt.filter)
        self.open[advertisement.number] = advertisement
        self.heads.forget()
        return advertisement

    async def unadvertise(self, advertisement: Advertisement) -> None:
        self.leave()
        if self.forget(advertisement.number) is None:
            raise Closed("unadvertise: this advertisement was withdrawn already")
        await self.ask("unadvertise", lambda ticket: CloseAdvertisement(ticket, advertisement.number))

    def forget(self, number: int) -> Advertisement | None:
        self.heads.forget()
        return self.open.pop(number, None)

    def begin_everything(self) -> "asyncio.Task[Advertisement]":
        """Advertise all that this client may publish, unless that is under way."""
        if self.everything is None or self.everything.done():
            self.everything = asyncio.ensure_future(self.advertise(self.bound or EVERYTHING))
            # Whoever asked may be gone when it fails; the next one who publishes tries again.
            self.everything.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self.everything

    def number_for(self, event: Event) -> int:
        for advertisement in self.open.values():
            if advertisement.filter.matches(event):
                return advertisement.number
        named = ", ".join(it.filter.text() for it in self.open.values())
        raise Refused(f"publish: the event is not within what was advertised ({named}); advertise() what it is before")


class OutgoingBatch:
    """Events that leave together, and, if somebody wants a receipt for any of them, what becomes of them."""

    def __init__(self, advertisement: int, heads: Sequence[bytes] = (), payloads: Sequence[bytes] = ()) -> None:
        self.advertisement = advertisement
        self.heads, self.payloads = list(heads), list(payloads)
        self.size_bytes = sum(map(len, heads)) + sum(map(len, payloads))
        self.first = 0
        self.receipt: asyncio.Future[None] | None = None
        self.declined: dict[int, str] = {}
        self.is_large = False
        """Whether it leaves without waiting for the end of the turn."""

    def answer(self, answer: asyncio.Future[Receipt | None]) -> None:
        """What becomes of the batch as a whole becomes known here."""

        def done(answer: asyncio.Future[Receipt | None]) -> None:
            if self.receipt is None or self.receipt.done() or answer.cancelled():
                return
            problem = answer.exception()
            if problem is None:
                self.receipt.set_result(None)
            else:
                self.receipt.set_exception(problem)
                # Whoever published may have stopped waiting, and is not to read of it on stderr.
                self.receipt.exception()

        answer.add_done_callback(done)

    async def confirmed(self, place: int) -> None:
        """The event at this place has reached everybody, or ClientError says why not."""
        assert self.receipt is not None
        try:
            await asyncio.shield(self.receipt)
        except ClientError:
            if self.first + place not in self.declined:
                raise
        if reason := self.declined.get(self.first + place):
            raise Refused(f"publish: {reason}")


class OutgoingBatches:
    """`hand_over(batch)` gives one to the session."""

    def __init__(
        self, publishing: Window, loop: asyncio.AbstractEventLoop, hand_over: Callable[[OutgoingBatch], None]
    ) -> None:
        self.publishing, self.loop, self.hand_over = publishing, loop, hand_over
        self.overhead_bytes = 0
        """What is added to an event on its way."""
        self.batch: OutgoingBatch | None = None
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.flushing: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.unconfirmed: dict[int, OutgoingBatch] = {}
        """Batches with a receipt to come, by the number of their first event."""
        self.declined: Counter[str] = Counter()
        """Events that the broker refused since somebody last asked, by reason."""

    def has_room(self, size_bytes: int) -> bool:
        batch = self.batch
        if batch is None:
            return self.publishing.has_room(1, size_bytes)
        return self.publishing.has_room(len(batch.heads) + 1, batch.size_bytes + size_bytes)

    def put(self, advertisement: int, head: bytes, payload: bytes, receipt: bool = False) -> tuple[OutgoingBatch, int]:
        """Into the batch that leaves next; there must be room. Answers with the batch, and the place in it."""
        if len(head) + len(payload) + self.overhead_bytes > PUBLICATION_BYTES_MAX:
            refuse_size(len(head) + len(payload) + self.overhead_bytes)
        batch = self.batch
        if batch is not None and (batch.advertisement != advertisement or batch.is_large):
            self.leave()
            batch = None
        if batch is None:
            batch = self.batch = OutgoingBatch(advertisement)
            self.loop.call_soon(self.leave)
        if receipt and batch.receipt is None:
            batch.receipt = self.loop.create_future()
        batch.heads.append(head)
        batch.payloads.append(payload)
        batch.size_bytes += len(head) + len(payload)
        batch.is_large = len(batch.heads) >= BATCH_PUBLICATIONS or batch.size_bytes >= BATCH_BYTES
        return batch, len(batch.heads) - 1

    def leave(self) -> None:
        """What has gathered goes to the session."""
        batch, self.batch = self.batch, None
        if batch is not None:
            self.hand_over(batch)

    def portions(self, heads: Sequence[bytes], payloads: Sequence[bytes]) -> Iterator[slice]:
        """Neighbours that leave together, as many as the window takes and the loop should do at once."""
        count_max = min(PORTION_PUBLICATIONS, self.publishing.publications_max)
        bytes_max = min(PORTION_BYTES, self.publishing.bytes_max)
        begin = size = 0
        for place, taken in enumerate(map(add, map(len, heads), map(len, payloads))):
            if taken > PUBLICATION_BYTES_MAX:
                refuse_size(taken)
            if place > begin and (size + taken > bytes_max or place - begin == count_max):
                yield slice(begin, place)
                begin, size = place, 0
            size += taken
        if heads:
            yield slice(begin, len(heads))

    async def wait_for_room(
        self, size_bytes: int, count: int = 1, may_leave: Callable[[], bool] = lambda: True
    ) -> None:
        self.leave()
        while not (self.publishing.has_room(count, size_bytes) and may_leave()):
            waiter = self.loop.create_future()
            self.waiting.append(waiter)
            await waiter

    async def wait_until_accepted(self) -> None:
        """Everything that was published so far is in the hands of a broker."""
        self.leave()
        last = self.publishing.next - 1
        if self.publishing.through < last:
            waiter = self.loop.create_future()
            self.flushing.append((last, waiter))
            await waiter

    # What the session tells us.

    def accepted(self, item: Accepted | RoomMade) -> None:
        """The broker has taken some of it, or what waited in a transport has left."""
        while self.flushing and self.flushing[0][0] <= self.publishing.through:
            wake(self.flushing.popleft()[1])
        if self.waiting:
            room = self.publishing.publications_max - self.publishing.count
            while self.waiting and room > 0:
                room -= wake(self.waiting.popleft())

    def refused(self, message: Declined) -> None:
        self.declined[message.reason] += len(message.numbers)
        for number in message.numbers:
            for first, batch in self.unconfirmed.items():
                if first <= number < first + len(batch.heads):
                    batch.declined[number] = message.reason

    def fail(self, error: Exception) -> None:
        for waiter in [*self.waiting, *(waiter for _, waiter in self.flushing)]:
            if not waiter.done():
                waiter.set_exception(error)
        self.waiting.clear()
        self.flushing.clear()


def refuse_size(size_bytes: int) -> NoReturn:
    raise UsageError(
        f"event of {size_bytes} encoded bytes, at most {PUBLICATION_BYTES_MAX} can be published; "
        "publish the payload in pieces, or a reference to it"
    )


def wake(waiter: asyncio.Future[None]) -> bool:
    """Whether anybody was still waiting."""
    if waiter.done():
        return False
    waiter.set_result(None)
    return True
