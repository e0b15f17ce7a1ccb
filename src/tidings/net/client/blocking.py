"""The client for programs without a loop: the same methods, without `await`.

    from tidings.blocking import connect

    with connect("tidings://localhost:7411") as client:
        for event in client.subscribe("magnitude >= 4.5"):
            ...

Behind it is the client of `client.py` on a loop of its own, in a thread that ends with it. A call hands its work to the
loop and waits. Any thread may call; two threads that iterate over the same subscription share its events.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.values import Value
from tidings.net.client.client import QUEUE_MAX, WINDOW
from tidings.net.client.client import Client as AsyncClient
from tidings.net.client.connection import connect as connect_async
from tidings.net.client.history import PAGE_PUBLICATIONS, Marks, Stored
from tidings.net.client.outbound import Advertisement as AsyncAdvertisement
from tidings.net.client.subscription import Delivered, SubscriptionCounts, SubscriptionReceipt
from tidings.net.client.subscription import Subscription as AsyncSubscription
from tidings.net.errors import Closed
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import Quality
from tidings.protocols.transport.views import TransportState
from tidings.pubsub.client import Guarantee, Policy, Receipt

if TYPE_CHECKING:
    from tidings.net.client.transport import Ordered

TAKEN_MAX = 256
"""Events that an iteration takes from the loop at once."""

Result = TypeVar("Result")


class LoopThread:
    """A loop that runs on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="tidings client", daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, Result], timeout: float | None = None) -> Result:
        """Wait for the result; TimeoutError after so many seconds. Whoever stops waiting stops the work too."""
        if self.loop.is_closed():
            work.close()
            raise Closed("this client is closed; connect() again")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


class Subscription:
    def __init__(self, thread: LoopThread, inner: AsyncSubscription) -> None:
        self.thread, self.inner = thread, inner
        self.taken: deque[Delivered] = deque()
        """Those that an iteration has taken from the loop and not handed out yet."""

    @property
    def receipt(self) -> SubscriptionReceipt:
        return self.inner.receipt

    @property
    def counts(self) -> SubscriptionCounts:
        return self.inner.counts

    @property
    def positions(self) -> dict[str, int]:
        """As of the events that `take` gave; an iteration takes some in advance."""
        return self.inner.positions

    def take(self, count_max: int | None = None, timeout: float | None = None) -> list[Delivered]:
        """Wait until there is something (TimeoutError after so many seconds), then take what there is."""
        if self.taken:
            return [self.taken.popleft() for _ in range(min(count_max or TAKEN_MAX, len(self.taken)))]
        return self.thread.run(self.inner.take(count_max), timeout)

    def __iter__(self) -> Iterator[Delivered]:
        while True:
            if not self.taken:
                self.taken.extend(self.thread.run(self.inner.take(TAKEN_MAX)))
                if not self.taken:
                    return
            yield self.taken.popleft()

    def set_modes(
        self,
        *,
        ordered: bool | None = None,
        reliable: bool | None = None,
        paced: bool | None = None,
        priority: float | None = None,
    ) -> None:
        async def change() -> None:
            self.inner.set_modes(ordered=ordered, reliable=reliable, paced=paced, priority=priority)

        self.thread.run(change())

    def unsubscribe(self) -> None:
        self.thread.run(self.inner.unsubscribe())


class Advertisement:
    def __init__(self, thread: LoopThread, inner: AsyncAdvertisement) -> None:
        self.thread, self.inner = thread, inner

    @property
    def receipt(self) -> Receipt:
        return self.inner.receipt

    def unadvertise(self) -> None:
        self.thread.run(self.inner.unadvertise())


class Client:
    def __init__(self, thread: LoopThread, inner: AsyncClient) -> None:
        self.thread, self.inner, self.name = thread, inner, inner.name

    def subscribe(
        self,
        filter: str | Filter,
        *,
        guarantee: Guarantee | None = None,
        since: float | datetime | None = None,
        after: Mapping[str, int] | None = None,
        group: str | None = None,
        policy: Policy = "wait",
        queue_max: int = QUEUE_MAX,
        window: int = WINDOW,
        ordered: bool | None = None,
        reliable: bool | None = None,
        paced: bool | None = None,
        priority: float = 1.0,
    ) -> Subscription:
        work = self.inner.subscribe(
            filter,
            guarantee=guarantee,
            since=since,
            after=after,
            group=group,
            policy=policy,
            queue_max=queue_max,
            window=window,
            ordered=ordered,
            reliable=reliable,
            paced=paced,
            priority=priority,
        )
        return Subscription(self.thread, self.thread.run(work))

    def marks(self, filter: str | Filter) -> Marks:
        return self.thread.run(self.inner.marks(filter))

    def fetch(
        self,
        filter: str | Filter,
        publisher: str,
        *,
        after: int | None = None,
        since: float | datetime | None = None,
        through: int,
        limit: int = PAGE_PUBLICATIONS,
    ) -> Stored:
        work = self.inner.fetch(filter, publisher, after=after, since=since, through=through, limit=limit)
        return self.thread.run(work)

    def history(
        self,
        filter: str | Filter,
        publisher: str,
        *,
        after: int | None = None,
        since: float | datetime | None = None,
        through: int,
    ) -> Iterator[Stored]:
        pages = self.inner.history(filter, publisher, after=after, since=since, through=through)

        async def next_page() -> Stored | None:
            return await anext(pages, None)

        async def stop() -> None:
            await pages.aclose()

        try:
            while (stored := self.thread.run(next_page())) is not None:
                yield stored
        finally:
            if not self.thread.loop.is_closed():
                self.thread.run(stop())

    def advertise(self, filter: str | Filter) -> Advertisement:
        return Advertisement(self.thread, self.thread.run(self.inner.advertise(filter)))

    def publish(self, attributes: dict[str, Value] | Event, payload: bytes = b"", *, receipt: bool = False) -> None:
        self.thread.run(self.inner.publish(attributes, payload, receipt=receipt))

    def publish_encoded(
        self, heads: Sequence[bytes], payloads: Sequence[bytes], advertisement: Advertisement | None = None
    ) -> None:
        chosen = None if advertisement is None else advertisement.inner
        self.thread.run(self.inner.publish_encoded(heads, payloads, chosen))

    def try_publish(self, attributes: dict[str, Value] | Event, payload: bytes = b"") -> bool:
        async def attempt() -> bool:
            return self.inner.try_publish(attributes, payload)

        return self.thread.run(attempt())

    def flush(self) -> None:
        self.thread.run(self.inner.flush())

    def transport_state(self) -> TransportState:
        async def look() -> TransportState:
            return self.inner.transport_state()

        return self.thread.run(look())

    def configure_transport(
        self,
        params: TransportParams | None = None,
        *,
        ordered: "Ordered | None" = None,
        reliable: bool | None = None,
        paced: bool | None = None,
    ) -> None:
        async def change() -> None:
            self.inner.configure_transport(params, ordered=ordered, reliable=reliable, paced=paced)

        self.thread.run(change())

    def on_quality(self, callback: Callable[[Quality], None]) -> None:
        """The callback runs on the thread of the client's loop, and must not wait for anything."""
        self.inner.on_quality(callback)

    def close(self) -> None:
        try:
            if not self.thread.loop.is_closed():
                self.thread.run(self.inner.close())
        finally:
            self.thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if not self.thread.loop.is_closed():
                self.thread.run(self.inner.__aexit__(kind, error, at))
        finally:
            self.thread.stop()


def connect(url: str = "tidings://localhost", **options: Any) -> Client:
    """`with connect(url) as client`, or `client = connect(url)` and later `client.close()`. The options are those of
    `tidings.connect`."""
    connection = connect_async(url, **options)
    thread = LoopThread()
    try:
        return Client(thread, thread.run(connection.open()))
    except BaseException:
        thread.stop()
        raise
