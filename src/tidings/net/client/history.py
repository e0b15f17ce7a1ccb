"""Reading what the network has stored, without a subscription.

    marks = await client.marks("magnitude >= 4.5")                    how far publishers have come
    for mark in marks.marks:
        pages = client.history("magnitude >= 4.5", mark.publisher, after=mark.forgotten, through=mark.through)
        async for stored in pages:
            ...

The publications of a publisher, under its numbers, are a log; a position in the history of the network is a number for
each publisher. What was read between two positions can be read again, by another program if need be, and is the same,
or says that some of it is no longer stored (`is_truncated`). A page is a few buffers of bytes (`pubsub/pages.py`), for
those who make columns of them; `events()` makes objects. What publishers' transports wrote for themselves is taken off.

While one page is in use the next one is on its way.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from itertools import repeat
from typing import Any

import msgspec

from tidings.model.errors import UsageError
from tidings.model.escapes import check_printable
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.net.client.items import Tickets
from tidings.net.client.subscription import Delivered
from tidings.net.host import Host
from tidings.protocols.transport.marks import has_marks, take_off
from tidings.pubsub.client import HistoryRead, MarksRead, ReadHistory, ReadMarks, StopReading
from tidings.pubsub.pages import StoredPage, page_of

PAGE_PUBLICATIONS = 4096
"""Publications of a page at most; their bytes, and how long a broker may look for them, bound it too."""


class Mark(msgspec.Struct, frozen=True):
    """How far a publisher has come. Everything behind `forgotten`, up to and including `through`, is stored."""

    publisher: str
    forgotten: int
    through: int


class Marks(msgspec.Struct, frozen=True):
    marks: tuple[Mark, ...]
    """Sorted by publisher."""
    offers: tuple[str, ...]
    """The filters of what is advertised, each once; not all of them if they are many."""
    unreachable: tuple[str, ...]
    """Publishers whose brokers did not answer; they have no mark here."""
    brokers: tuple[str, ...] = ()
    """Those that answered; not all of them if they are many."""
    absent: tuple[str, ...] = ()
    """Those that should have answered: they store what was asked for, or did when the way to them was lost."""
    remembered_for: float = 0.0
    """Who published something within so many seconds has a mark, or would have one where a broker is absent."""


class Stored(msgspec.Struct, frozen=True):
    """A page of what a publisher published. The properties make values of it, anew each time; whoever makes columns
    looks at the bytes of the page itself."""

    publisher: str
    through: int
    """Nothing that matches is left out up to this number: the next page is behind it."""
    is_truncated: bool
    """Whether something in between is no longer stored."""
    has_more: bool
    page: StoredPage

    def __len__(self) -> int:
        return len(self.page)

    @property
    def accepted_at(self) -> tuple[float, ...]:
        return self.page.accepted_at

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.page.numbers

    @property
    def heads(self) -> tuple[bytes, ...]:
        return self.page.heads

    @property
    def payloads(self) -> tuple[bytes, ...]:
        return self.page.payloads

    def events(self) -> list[Delivered]:
        same = repeat(0), repeat(self.publisher)
        return list(map(Delivered, *same, self.numbers, self.accepted_at, self.heads, self.payloads))


class HistoryReader:
    """That side of a client."""

    tickets: Tickets
    host: Host

    def check_open(self, what: str) -> None:
        """Raises where it is of no use to ask."""

    async def marks(self, filter: str | Filter) -> Marks:
        """How far the publishers have come that may publish what the filter matches."""
        text = text_of(filter)
        answer: MarksRead = await self.read("marks", lambda ticket: ReadMarks(ticket, text))
        rows = [Mark(*row) for part in answer.parts for row in part.marks]
        offers = [offer for part in answer.parts for offer in part.offers]
        unreachable = [name for part in answer.parts for name in part.unreachable]
        first = answer.parts[0]
        return Marks(tuple(rows), tuple(offers), tuple(unreachable), first.brokers, first.absent, first.remembered_for)

    async def fetch(
        self,
        filter: str | Filter,
        publisher: str,
        *,
        after: int | None = None,
        since: float | datetime | None = None,
        through: int,
        limit: int = PAGE_PUBLICATIONS,
        payloads: bool = True,
    ) -> Stored:
        """A page of what is stored of a publisher and matches: behind a number, or since a time, or all of it; up to
        and including `through`, which is a number that `marks` told. With payloads=False only attributes are sent, and
        payloads are empty. NotReachable if the publisher's broker does not answer, or has not come so far."""
        text = text_of(filter)
        if after is not None and since is not None:
            raise UsageError("fetch: after= and since= are two beginnings; give one of them")
        check_printable("fetch: publisher", publisher)
        if limit < 1:
            raise UsageError(f"fetch: limit={limit} leaves no room; give at least 1")
        if isinstance(since, datetime):
            since = since.timestamp()
        asked = text, publisher, after, since, through, limit, payloads
        answer: HistoryRead = await self.read("fetch", lambda ticket: ReadHistory(ticket, *asked))
        fetched, page = answer.page, answer.page.page
        if has_marks(page.raw_heads):
            if not payloads:
                # Which of them are for the application is said by headers, which stand in the payloads.
                return await self.fetch(filter, publisher, after=after, since=since, through=through, limit=limit)
            places, heads, bodies = take_off(page.heads, page.payloads)
            times, numbers = page.accepted_at, page.numbers
            page = page_of([times[place] for place in places], [numbers[place] for place in places], heads, bodies)
        return Stored(publisher, fetched.through, fetched.is_truncated, fetched.has_more, page)

    async def history(
        self,
        filter: str | Filter,
        publisher: str,
        *,
        after: int | None = None,
        since: float | datetime | None = None,
        through: int,
        payloads: bool = True,
    ) -> AsyncGenerator[Stored, None]:
        """All such pages, one after the other; a page may be empty. The next one is asked for before this one is
        used."""

        def begin(after: int | None, since: float | datetime | None) -> asyncio.Task[Stored]:
            return asyncio.ensure_future(
                self.fetch(filter, publisher, after=after, since=since, through=through, payloads=payloads)
            )

        coming: asyncio.Task[Stored] | None = begin(after, since)
        try:
            while coming is not None:
                stored = await coming
                coming = begin(stored.through, None) if stored.has_more else None
                yield stored
        finally:
            if coming is not None:
                coming.cancel()

    async def read(self, what: str, request: Callable[[int], Any]) -> Any:
        self.check_open(what)
        begun: list[int] = []
        try:
            return await self.tickets.ask(what, request, begun.append)
        except asyncio.CancelledError:
            for number in begun:
                self.host.step(StopReading(number))
            raise


def text_of(filter: str | Filter) -> str:
    return (parse(filter) if isinstance(filter, str) else filter).text()
