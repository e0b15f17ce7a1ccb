"""A subscription in the hands of an application, and the events it gives.

    async for event in subscription:              one at a time
        ...
    events = await subscription.take(100)         as many as are there, at least one, at most so many

Events stay in the bytes and in the batches they came in until somebody looks: an event object is made when it is handed
out, its attributes are decoded when they are asked for. Iterating over events that wait makes no future and does not
give up the loop.

What waits here is bounded by the window: the broker sends no more until the application has taken some. What does not
fit waits at the broker, whose queue is bounded by `queue_max`, and the policy of the subscription says what happens
when that is full. `counts` shows both: what was taken and what waits here, what was lost there and why.

With a transport (`transport.py`) an event also tells on which `way` it came.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from itertools import repeat
from typing import Self

import msgspec

from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.identity import name_of
from tidings.model.values import Value
from tidings.protocols.transport.carrier import Carried, Modes, OpenCarried
from tidings.protocols.transport.signals import Quality, Way
from tidings.pubsub.client import Arrived, Guarantee, Missed, OpenSubscription, Receipt, Took
from tidings.pubsub.publications import event_of

AT_LEAST = "at least so many"


class Delivered(msgspec.Struct, gc=False):
    """An event as it came. `life` and `number` tell it from all others; `accepted_at` is the time of day at which the
    network took it from its publisher."""

    subscription: int
    life: str
    """Its publisher, as `positions` and `after=` name it: where a client has a name of the application's choice, each
    process that uses it is another life of it, such as "desk~k3v9q0ta"."""
    number: int
    accepted_at: float
    head: bytes
    payload: bytes
    decoded: Event | None = None
    way: Way = "direct"
    """With a transport: "late" after a later one of its publisher, "repaired" by another receiver or its publisher,
    "history" from the history of a broker. A repaired event has no number, 0."""

    @property
    def publisher(self) -> str:
        """The name of the client that published it."""
        return name_of(self.life)

    @property
    def event(self) -> Event:
        if self.decoded is None:
            self.decoded = event_of(self.head, self.payload)
        return self.decoded

    @property
    def attributes(self) -> dict[str, Value]:
        return self.event.attributes

    @property
    def id(self) -> str:
        return self.event.id or str(self.number)

    @property
    def source(self) -> str:
        return self.event.source or self.publisher


class SubscriptionReceipt(msgspec.Struct, frozen=True):
    """What the network answered."""

    brokers: tuple[str, ...]
    """Who installed it, as far as they are named."""
    brokers_count: int
    at: float
    """Time of day at the broker: from here on the guarantee holds."""
    filter: str
    """What was installed."""
    is_narrowed: bool
    """Whether that is less than what was asked for, because the client may not have more."""
    guarantee: Guarantee = "installed"
    """What is promised; with "none" something may be missed at any time."""


class SubscriptionCounts(msgspec.Struct):
    delivered: int = 0
    """Events that came to this client."""
    waiting: int = 0
    """Those of them that the application has not taken."""
    missed: Counter[str] = msgspec.field(default_factory=Counter)
    """Events that did not come, by reason. Where their number is not known one is counted, and the reason says "at
    least"; where it is not known which of those that are gone match, it says "at most"."""
    foreign: int = 0
    """Messages of other clients' transports that the filter matches; they are not handed out."""
    late: int = 0
    """With a transport: events that came after a later one of their publisher."""
    repaired: int = 0
    """Lost events that other receivers, or the publisher, sent again."""
    from_history: int = 0
    """Lost events that were read from the history of a broker."""
    lost: int = 0
    """Events that were found to be lost, whatever became of them."""
    given_up: int = 0
    """Those of them that nobody looks for any longer."""


class Subscription:
    """`inject(request)` tells the session, in steps, what the application has taken; `close(subscription)` is called on
    unsubscribe."""

    def __init__(
        self,
        filter: str,
        window: int,
        inject: Callable[[Took], None],
        close: Callable[["Subscription"], Awaitable[None]],
    ) -> None:
        self.filter, self.window, self.inject, self.close = filter, window, inject, close
        self.modes: Modes | None = None
        """What the transport does for it, where there is one."""
        self.change_modes: Callable[[Subscription, Modes], None] | None = None
        self.number = 0
        self.receipt: SubscriptionReceipt
        self.counts = SubscriptionCounts()
        self.step = max(1, window // 4)
        self.chunks: deque[Arrived] = deque()
        self.offset = 0
        """How much of the first chunk has been unpacked."""
        self.ready: deque[Delivered] = deque()
        self.unpacked: tuple[int, ...] = ()
        """The numbers of the events that were last made ready."""
        self.last: dict[str, int] = {}
        self.last_before: tuple[str, int | None] = ("", None)
        self.untold = 0
        self.news = asyncio.Event()
        self.is_ended = False
        self.error: Exception | None = None

    # What the client tells us.

    def opening(self, request: OpenSubscription) -> OpenSubscription | OpenCarried:
        """The request that begins it."""
        return request if self.modes is None else OpenCarried(request, self.modes)

    def confirmed(self, receipt: Receipt, is_narrowed: bool) -> None:
        self.receipt = SubscriptionReceipt(
            brokers=receipt.brokers,
            brokers_count=receipt.brokers_count,
            at=receipt.at,
            filter=receipt.filter,
            is_narrowed=is_narrowed,
            guarantee=receipt.guarantee,
        )

    def arrived(self, chunk: Arrived) -> None:
        self.chunks.append(chunk)
        count = len(chunk.numbers)
        if type(chunk) is Carried:
            self.came_by(chunk.way, count)
        self.counts.delivered += count
        self.counts.waiting += count
        self.news.set()

    def came_by(self, way: Way, count: int) -> None:
        if way == "late":
            self.counts.late += count
        elif way == "repaired":
            self.counts.repaired += count
        elif way == "history":
            self.counts.from_history += count

    def told(self, quality: Quality) -> None:
        if quality.what == "lost":
            self.counts.lost += 1
        elif quality.what == "given_up":
            self.counts.given_up += 1

    def missed(self, message: Missed) -> None:
        if message.count:
            self.counts.missed[message.reason] += message.count
        else:
            self.counts.missed[f"{message.reason} ({AT_LEAST})"] += 1

    def end(self, error: Exception | None) -> None:
        """Nothing more comes; what is there can still be taken."""
        if not self.is_ended:
            self.is_ended, self.error = True, error
            self.news.set()

    # What the application does.

    @property
    def positions(self) -> dict[str, int]:
        """For each publisher the number of its last event that was taken: `after=` for a subscription that continues
        here, in another process if need be."""
        positions = dict(self.last)
        if self.ready:
            taken = len(self.unpacked) - len(self.ready)
            publisher, before = self.last_before
            highest = max((before or 0, *self.unpacked[:taken]))
            if highest:
                positions[publisher] = highest
            else:
                positions.pop(publisher, None)
        return positions

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivered:
        while not self.ready:
            if not self.chunks and not await self.wait():
                raise StopAsyncIteration
            if self.chunks:
                self.ready.extend(self.unpack(self.step))
        self.counts.waiting -= 1
        return self.ready.popleft()

    async def take(self, count_max: int | None = None) -> list[Delivered]:
        """Wait until there is something, then take what there is, at most so many. Empty if nothing comes any more."""
        while not self.counts.waiting:
            if not await self.wait():
                return []
        return self.take_now(count_max)

    def take_now(self, count_max: int | None = None) -> list[Delivered]:
        """What is there, without waiting."""
        room = self.counts.waiting if count_max is None else min(count_max, self.counts.waiting)
        taken: list[Delivered] = []
        while self.ready and len(taken) < room:
            taken.append(self.ready.popleft())
        while len(taken) < room:
            taken += self.unpack(room - len(taken))
        self.counts.waiting -= len(taken)
        if self.untold >= self.step:
            self.tell()
        return taken

    def set_modes(
        self,
        *,
        ordered: bool | None = None,
        reliable: bool | None = None,
        paced: bool | None = None,
        priority: float | None = None,
    ) -> None:
        """Other modes of the transport from now on; those that are not named stay (T-102)."""
        if self.modes is None or self.change_modes is None:
            raise UsageError("set_modes: this client has no transport; connect(..., ordered=True)")
        self.change_modes(self, changed_modes(self.modes, ordered, reliable, paced, priority))

    async def unsubscribe(self) -> None:
        """End it, at all brokers. Events that came before can still be taken."""
        await self.close(self)

    def unpack(self, count_max: int) -> list[Delivered]:
        """Event objects for the next publications that wait."""
        if self.untold >= self.step:
            self.tell()
        chunk, begin = self.chunks[0], self.offset
        end = min(begin + count_max, len(chunk.numbers))
        numbers, heads, payloads = chunk.numbers, chunk.heads, chunk.payloads
        if end - begin < len(numbers):
            numbers, heads, payloads = numbers[begin:end], heads[begin:end], payloads[begin:end]
        if end == len(chunk.numbers):
            self.chunks.popleft()
            self.offset = 0
        else:
            self.offset = end
        publisher = chunk.publisher
        self.unpacked, self.last_before = numbers, (publisher, self.last.get(publisher))
        self.untold += len(numbers)
        same = repeat(self.number), repeat(publisher), numbers, repeat(chunk.accepted_at)
        if type(chunk) is Arrived:
            self.last[publisher] = numbers[-1]
            return list(map(Delivered, *same, heads, payloads))
        # What comes late has a lower number than what came before it, and what was repaired has none.
        if max(numbers) > self.last.get(publisher, 0):
            self.last[publisher] = max(numbers)
        assert isinstance(chunk, Carried)
        return list(map(Delivered, *same, heads, payloads, repeat(None), repeat(chunk.way)))

    def tell(self) -> None:
        untold, self.untold = self.untold, 0
        self.inject(Took(self.number, untold))

    async def wait(self) -> bool:
        """Until something is there; False if nothing comes any more."""
        if self.untold:
            self.tell()
        while not self.chunks and not self.ready:
            if self.is_ended:
                if self.error is not None:
                    raise self.error
                return False
            self.news.clear()
            await self.news.wait()
        return True


def changed_modes(
    modes: Modes, ordered: bool | None, reliable: bool | None, paced: bool | None, priority: float | None
) -> Modes:
    """Those that are not None take the place of what there was."""
    return Modes(
        modes.is_ordered if ordered is None else ordered,
        # Without order there is nothing to recover or to pace by; it need not be said twice.
        (modes.is_reliable and ordered is not False) if reliable is None else reliable,
        (modes.is_paced and ordered is not False) if paced is None else paced,
        modes.priority if priority is None else priority,
    )
