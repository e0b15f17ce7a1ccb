"""A feed of our own, from a file: whatever is new in it goes to its readers, signed.

The file is what any program writes that makes a feed. It is looked at now and then; when it has changed, items that are
new or different are published. With a key each of them is signed, with its number and its feed, so that whoever passes
it on can neither change it nor make one up. Numbers begin with the second in which we did, so they grow over all lives
of the publisher.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidings.model.errors import UsageError
from tidings.net.errors import HostError
from tidings.net.feeds.entries import DOCUMENT_BYTES_MAX, FeedEntry, NoFeed, encode_entry, read_feed
from tidings.protocols.feeds.updates import signed_bytes
from tidings.pubsub.feeds import PublishItem, number_of

LOOK_SECONDS = 1.0
FIRST_ITEMS_MAX = 50


class PublishedFile:
    """`publish` takes each item as a request; `sign` is None where nothing is signed."""

    def __init__(
        self,
        feed: str,
        path: Path,
        sign: Callable[[bytes], bytes] | None,
        publish: Callable[[PublishItem], None],
        log: Any,
    ) -> None:
        self.feed, self.path, self.sign, self.publish, self.log = feed, path, sign, publish, log
        self.reign, self.count = int(time.time()), 0
        self.known: dict[str, int] = {}
        """Digests of what was published in this life."""
        self.seen_at = 0.0
        self.read_first()

    def read_first(self) -> None:
        try:
            self.path.stat()
        except OSError as problem:
            raise UsageError(f"{self.path} cannot be read: {problem.strerror}; name a file with RSS or Atom") from None

    async def watch(self) -> None:
        while True:
            try:
                await self.look()
            except (HostError, OSError) as problem:
                # Whoever writes it may not be done.
                self.log.warning("feed not read", file=str(self.path), problem=str(problem))
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        found = self.path.stat()
        if found.st_mtime == self.seen_at:
            return
        if found.st_size > DOCUMENT_BYTES_MAX:
            raise NoFeed(f"{found.st_size} bytes; a feed has {DOCUMENT_BYTES_MAX} at most")
        document = await asyncio.to_thread(lambda: read_feed(self.path.read_bytes(), self.feed))
        self.seen_at = found.st_mtime
        for entry in reversed(document.entries[:FIRST_ITEMS_MAX]):
            if self.known.get(entry.key) != entry.digest:
                self.known[entry.key] = entry.digest
                self.publish(self.request(entry))
                await asyncio.sleep(0)

    def request(self, entry: FeedEntry) -> PublishItem:
        payload, at = encode_entry(entry), time.time()
        self.count += 1
        number = number_of(self.reign, self.count)
        signature = self.sign(signed_bytes(self.feed, number, at, payload)) if self.sign is not None else b""
        return PublishItem(self.feed, payload, at, number, signature)
