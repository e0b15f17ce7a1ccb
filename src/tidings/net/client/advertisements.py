"""What a client has said it is going to publish, and which of that an event belongs to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.net.client.outbound import HeadCache
from tidings.net.errors import Closed, Refused
from tidings.pubsub.client import CloseAdvertisement, OpenAdvertisement, Receipt

EVERYTHING = "TRUE"


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

    async def advertise(self, filter: str | Filter) -> Advertisement:
        asked = parse(filter) if isinstance(filter, str) else filter
        advertisement = Advertisement(asked, self.unadvertise)

        def begun(number: int) -> None:
            advertisement.number = number

        receipt = await self.ask("advertise", lambda ticket: OpenAdvertisement(ticket, asked.text()), begun)
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
