"""Items of feeds as events of brokers, so that a content filter works on them.

    tidings feeds run --opml mine.opml --broker 127.0.0.1:7411
    tidings sub "type = 'feed.item' AND title LIKE '%Spark%'"

Each item that is new here is one event: `type` is "feed.item", `source` and `feed` the address of the feed, `id` the
key of the item; `title`, `author`, `link`, `categories` (apart by commas) and `published` (seconds since 1970) where
the feed says them. The payload is the text of the item, as the origin wrote it.

Bounded: what waits for a broker that is away is `WAITING_MAX` items; further ones are dropped, counted, and said.
"""

import asyncio
from collections import deque
from typing import Any

from tidings.model.bounds import STRING_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.net.client.client import Client
from tidings.net.errors import HostError
from tidings.net.feeds.entries import FeedEntry

KIND = "feed.item"
WAITING_MAX = 10_000
ID_CHARS_MAX = 1024
RETRY_SECONDS = 5.0


def event_of(feed: str, entry: FeedEntry) -> Event:
    words = {
        "title": entry.title,
        "author": entry.author,
        "link": entry.link,
        "categories": ",".join(entry.categories)[: STRING_BYTES_MAX // 4],
    }
    named: dict[str, Any] = {name: value for name, value in words.items() if value}
    if entry.published or entry.updated:
        named["published"] = entry.published or entry.updated
    text = entry.content or entry.summary
    kind = {"datacontenttype": "text/html"} if text else {}
    id = entry.key[:ID_CHARS_MAX]
    return Event({"type": KIND, "source": feed, "feed": feed, "id": id, **named, **kind}, text.encode())


class Bridge:
    def __init__(self, url: str, log: Any) -> None:
        self.url, self.log = url, log
        self.waiting: deque[Event] = deque()
        self.news = asyncio.Event()
        self.dropped = self.published = 0
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self.carry())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    def put(self, feed: str, entry: FeedEntry) -> None:
        problem = "the broker takes none" if len(self.waiting) >= WAITING_MAX else ""
        try:
            event = event_of(feed, entry)
        except UsageError as refusal:
            problem = str(refusal)
        if problem:
            self.dropped += 1
            if self.dropped.bit_count() == 1:
                self.log.warning("items are no events", problem=problem, dropped=self.dropped)
            return
        self.waiting.append(event)
        self.news.set()

    async def carry(self) -> None:
        import tidings

        while True:
            try:
                async with tidings.connect(self.url) as client:
                    await client.advertise(f"type = '{KIND}'")
                    await self.publish_all(client)
            except (HostError, OSError, UsageError) as problem:
                self.log.warning("broker not reached, items wait", broker=self.url, problem=str(problem))
                await asyncio.sleep(RETRY_SECONDS)

    async def publish_all(self, client: Client) -> None:
        while True:
            while self.waiting:
                event = self.waiting[0]
                await client.publish(event.attributes, event.payload)
                self.waiting.popleft()
                self.published += 1
            self.news.clear()
            await self.news.wait()
