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
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from tidings.model.filter import Filter
from tidings.net.client.client import Client as AsyncClient
from tidings.net.client.connection import connect as connect_async
from tidings.net.client.history import Stored
from tidings.net.client.outbound import Advertisement as AsyncAdvertisement
from tidings.net.client.subscription import Delivered, SubscriptionCounts, SubscriptionReceipt
from tidings.net.client.subscription import Subscription as AsyncSubscription
from tidings.net.errors import Closed
from tidings.protocols.transport.signals import Quality
from tidings.pubsub.client import Receipt

TAKEN_MAX = 256
"""Events that an iteration takes from the loop at once."""

P = ParamSpec("P")
Result = TypeVar("Result")
Inner = TypeVar("Inner")
Made = TypeVar("Made")
Held = TypeVar("Held", covariant=True)


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


class OnLoop(Protocol[Held]):
    """Stands for something that lives on the loop of a thread."""

    thread: LoopThread

    @property
    def inner(self) -> Held: ...


def waiting(
    method: Callable[Concatenate[Inner, P], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[OnLoop[Inner], P], Result]:
    """The method of the same name, waited for."""

    def call(self: OnLoop[Inner], /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return self.thread.run(method(self.inner, *args, **kwargs))

    return update_wrapper(call, method)


def at_once(method: Callable[Concatenate[Inner, P], Result]) -> Callable[Concatenate[OnLoop[Inner], P], Result]:
    """The method of the same name, which does not wait, called on the loop."""

    def call(self: OnLoop[Inner], /, *args: P.args, **kwargs: P.kwargs) -> Result:
        async def work() -> Result:
            return method(self.inner, *args, **kwargs)

        return self.thread.run(work())

    return update_wrapper(call, method)


def making(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, Inner]], make: Callable[[LoopThread, Inner], Made]
) -> Callable[Concatenate["Client", P], Made]:
    """The method of the same name, and what it returns without `await` too."""

    def call(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Made:
        return make(self.thread, self.thread.run(method(self.inner, *args, **kwargs)))

    return update_wrapper(call, method)


class Subscription:
    def __init__(self, thread: LoopThread, inner: AsyncSubscription) -> None:
        self.thread, self.inner = thread, inner
        self.taken: deque[Delivered] = deque()
        """Those that an iteration has taken from the loop and not handed out yet."""

    set_modes = at_once(AsyncSubscription.set_modes)
    unsubscribe = waiting(AsyncSubscription.unsubscribe)

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


class Advertisement:
    def __init__(self, thread: LoopThread, inner: AsyncAdvertisement) -> None:
        self.thread, self.inner = thread, inner

    unadvertise = waiting(AsyncAdvertisement.unadvertise)

    @property
    def receipt(self) -> Receipt:
        return self.inner.receipt


class Client:
    def __init__(self, thread: LoopThread, inner: AsyncClient) -> None:
        self.thread, self.inner, self.name = thread, inner, inner.name

    subscribe = making(AsyncClient.subscribe, Subscription)
    advertise = making(AsyncClient.advertise, Advertisement)
    publish, flush = waiting(AsyncClient.publish), waiting(AsyncClient.flush)
    request, reply = waiting(AsyncClient.request), waiting(AsyncClient.reply)
    marks, fetch = waiting(AsyncClient.marks), waiting(AsyncClient.fetch)
    try_publish = at_once(AsyncClient.try_publish)
    transport_state = at_once(AsyncClient.transport_state)
    configure_transport = at_once(AsyncClient.configure_transport)

    def history(
        self,
        filter: str | Filter,
        publisher: str,
        *,
        after: int | None = None,
        since: float | datetime | None = None,
        through: int,
        payloads: bool = True,
    ) -> Iterator[Stored]:
        pages = self.inner.history(filter, publisher, after=after, since=since, through=through, payloads=payloads)

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

    def publish_encoded(
        self, heads: Sequence[bytes], payloads: Sequence[bytes], advertisement: Advertisement | None = None
    ) -> None:
        chosen = None if advertisement is None else advertisement.inner
        self.thread.run(self.inner.publish_encoded(heads, payloads, chosen))

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
