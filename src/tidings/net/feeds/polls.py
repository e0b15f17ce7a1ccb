"""When an origin is asked, for the feeds that are ours to ask for.

Once each interval and no more, whatever happens: the interval is ours, or the one that the origin asks for (`ttl`, the
syndication module, `max-age`) if that is longer. An origin that says `Retry-After` is left alone until then, one that
fails twice as long each time, one that says the feed is gone for a day. Each feed has a phase of its own and some
jitter, so that a thousand feeds of one host are not one blow; and one host is asked for one feed at a time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tidings.net.errors import HostError
from tidings.net.feeds.entries import FeedDocument, NoFeed, read_feed
from tidings.net.feeds.origin import OriginAnswer, OriginProblem, fetch

INTERVAL_MIN, INTERVAL_MAX = 1.0, 86_400.0
DOUBLINGS_MAX = 8
JITTER = 0.1
GONE = 410
AT_ONCE_MAX = 4
"""Origins that are asked at the same time."""


class PollParams(msgspec.Struct, frozen=True, kw_only=True):
    interval: float = 600.0
    """Seconds between two questions to the same origin; it may ask for more."""

    honoured_max: float = INTERVAL_MAX
    """The longest interval that an origin can ask for."""

    settling: float = 2.0
    """Seconds, at most, before the first question: two who found nobody at the same time know of each other by then."""

    allow_private: bool = False
    """Whether origins on this machine and its network may be asked."""


class PolledFeed(msgspec.Struct):
    url: str
    """Where it is asked for; it may have moved."""
    etag: str = ""
    modified: str = ""
    last_at: float = 0.0
    """Seconds since 1970."""
    next_at: float = 0.0
    interval: float = 0.0
    """As the origin asks."""
    failures: int = 0
    problem: str = ""
    polls: int = 0


class Polls:
    """`found(feed, document)` is awaited with what is there; nothing is where it is as it was."""

    def __init__(
        self, params: PollParams, rng: Random, found: Callable[[str, FeedDocument], Awaitable[None]], log: Any
    ) -> None:
        self.params, self.rng, self.found, self.log = params, rng, found, log
        self.feeds: dict[str, PolledFeed] = {}
        """Those that are ours now."""
        self.remembered: dict[str, PolledFeed] = {}
        """Of those that were: what spares the origin a whole answer when they are again."""
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.hosts: dict[str, asyncio.Lock] = {}
        self.at_once = asyncio.Semaphore(AT_ONCE_MAX)

    def begin(self, feed: str) -> None:
        if feed in self.feeds:
            return
        known = self.remembered.pop(feed) if feed in self.remembered else None
        polled = self.feeds[feed] = known or PolledFeed(feed)
        # Not sooner than an interval after the last time, be that in an earlier life.
        soonest = polled.last_at + self.interval(polled) if polled.last_at else 0.0
        earliest = time.time() + self.params.settling * self.rng.uniform(0.5, 1.0)
        polled.next_at = max(earliest, min(soonest, time.time() + INTERVAL_MAX))
        self.tasks[feed] = asyncio.get_running_loop().create_task(self.keep_polling(feed, polled))

    def end(self, feed: str) -> None:
        polled = self.feeds.pop(feed, None)
        if polled is not None:
            self.remembered[feed] = polled
            self.tasks.pop(feed).cancel()

    async def stop(self) -> None:
        tasks = list(self.tasks.values())
        for feed in list(self.feeds):
            self.end(feed)
        await asyncio.gather(*tasks, return_exceptions=True)

    def interval(self, polled: PolledFeed) -> float:
        asked = min(polled.interval, self.params.honoured_max)
        interval = max(self.params.interval, asked, INTERVAL_MIN)
        return min(interval * 2.0 ** min(polled.failures, DOUBLINGS_MAX), max(INTERVAL_MAX, interval))

    async def keep_polling(self, feed: str, polled: PolledFeed) -> None:
        while True:
            await asyncio.sleep(max(0.0, polled.next_at - time.time()))
            host = self.hosts.setdefault(urlsplit(polled.url).netloc, asyncio.Lock())
            async with host, self.at_once:
                await self.poll(feed, polled)

    async def poll(self, feed: str, polled: PolledFeed) -> None:
        polled.last_at, polled.polls = time.time(), polled.polls + 1
        wait = 0.0
        try:
            answer, document = await asyncio.to_thread(self.ask, polled)
            polled.failures, polled.problem = 0, ""
            polled.etag, polled.modified = answer.etag or polled.etag, answer.modified or polled.modified
            polled.url = answer.moved_to or polled.url
            if document is not None:
                polled.interval = max(document.interval, answer.max_age)
                await self.found(feed, document)
        except (HostError, OSError) as problem:
            polled.failures, polled.problem = polled.failures + 1, str(problem)
            if isinstance(problem, OriginProblem):
                wait = INTERVAL_MAX if problem.status == GONE else problem.retry_after
            self.log.warning("origin not read", feed=feed, problem=str(problem), failures=polled.failures)
        pause = max(self.interval(polled), min(wait, INTERVAL_MAX))
        polled.next_at = polled.last_at + pause * (1 + JITTER * self.rng.random())

    def ask(self, polled: PolledFeed) -> tuple[OriginAnswer, FeedDocument | None]:
        answer = fetch(polled.url, polled.etag, polled.modified, self.params.allow_private)
        if answer.status != 200:
            return answer, None
        try:
            return answer, read_feed(answer.data, polled.url)
        except (NoFeed, OriginProblem):
            raise
        except Exception as problem:
            # Whatever a parser makes of a stranger's document, it is that document's fault.
            raise NoFeed(f"it cannot be read: {type(problem).__name__}: {problem}") from None
