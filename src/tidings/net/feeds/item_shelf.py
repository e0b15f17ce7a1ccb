"""The items of all feeds that are read here, in SQLite, so that readers are served at once after a restart.

Bounded: `ITEMS_MAX` items of each feed; the one that came longest ago goes. An item is known by its key: one that
changed takes the place of what it was.
"""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidings.net.errors import HostError
from tidings.net.feeds.entries import FeedEntry, decode_entry, encode_entry
from tidings.net.feeds.polls import PolledFeed

ITEMS_MAX = 200
SCHEMA = """
create table if not exists items (
    feed text, key text, came_at real, digest text, data blob, primary key (feed, key)) without rowid;
create table if not exists feeds (
    feed text primary key, title text, link text, publisher text, signed blob, added_at real, polled blob);
create table if not exists words (name text primary key, value blob);
"""


class ShelvedFeed(NamedTuple):
    feed: str
    title: str
    link: str
    publisher: str
    signed: bytes
    added_at: float
    polled: PolledFeed | None


class ShelvedItem(NamedTuple):
    entry: FeedEntry
    came_at: float


class ItemShelf:
    """`path` None keeps everything in memory."""

    def __init__(self, path: Path | None) -> None:
        try:
            self.database = sqlite3.connect(str(path) if path else ":memory:", isolation_level=None)
            self.database.execute("pragma journal_mode = wal")
            self.database.execute("pragma synchronous = normal")
            self.database.executescript(SCHEMA)
        except sqlite3.Error as problem:
            raise HostError(f"{path} cannot be used: {problem}; give another --data, or move it away") from None

    def close(self) -> None:
        self.database.close()

    # Feeds.

    def add(self, feed: str, title: str = "", publisher: str = "", signed: bytes = b"") -> bool:
        """Whether it is a new one."""
        cursor = self.database.execute(
            "insert into feeds values (?, ?, '', ?, ?, ?, null) on conflict do nothing",
            (feed, title, publisher, signed, time.time()),
        )
        return cursor.rowcount > 0

    def remove(self, feed: str) -> bool:
        self.database.execute("delete from items where feed = ?", (feed,))
        return self.database.execute("delete from feeds where feed = ?", (feed,)).rowcount > 0

    def describe(self, feed: str, title: str, link: str) -> None:
        self.database.execute("update feeds set title = ?, link = ? where feed = ?", (title, link, feed))

    def feeds(self) -> list[ShelvedFeed]:
        rows = self.database.execute(
            "select feed, title, link, publisher, signed, added_at, polled from feeds order by added_at, feed"
        )
        return [
            ShelvedFeed(feed, title, link, publisher, signed, added_at, polled_of(polled))
            for feed, title, link, publisher, signed, added_at, polled in rows
        ]

    def keep_polled(self, feed: str, polled: PolledFeed) -> None:
        self.database.execute("update feeds set polled = ? where feed = ?", (msgspec.msgpack.encode(polled), feed))

    # Items.

    def is_news(self, feed: str, entry: FeedEntry) -> bool:
        row = self.database.execute("select digest from items where feed = ? and key = ?", (feed, entry.key)).fetchone()
        return row is None or row[0] != f"{entry.digest:016x}"

    def put(self, feed: str, entry: FeedEntry, came_at: float) -> None:
        self.database.execute(
            "insert or replace into items values (?, ?, ?, ?, ?)",
            (feed, entry.key, came_at, f"{entry.digest:016x}", encode_entry(entry)),
        )
        (count,) = self.database.execute("select count(*) from items where feed = ?", (feed,)).fetchone()
        if count > ITEMS_MAX:
            self.database.execute(
                "delete from items where feed = ? and key in "
                "(select key from items where feed = ? order by came_at, key limit ?)",
                (feed, feed, count - ITEMS_MAX),
            )

    def items(self, feed: str) -> Iterator[ShelvedItem]:
        """The newest first."""
        rows = self.database.execute(
            "select data, came_at from items where feed = ? order by came_at desc, key", (feed,)
        ).fetchall()
        found = [ShelvedItem(decode_entry(data), came_at) for data, came_at in rows]
        return iter(sorted(found, key=lambda it: -(it.entry.published or it.entry.updated or it.came_at)))

    def count(self, feed: str) -> int:
        (count,) = self.database.execute("select count(*) from items where feed = ?", (feed,)).fetchone()
        return int(count)

    # Words.

    def keep(self, name: str, value: bytes) -> None:
        self.database.execute("insert or replace into words values (?, ?)", (name, value))

    def kept(self, name: str) -> bytes:
        row = self.database.execute("select value from words where name = ?", (name,)).fetchone()
        return bytes(row[0]) if row else b""


def polled_of(data: bytes | None) -> PolledFeed | None:
    return msgspec.msgpack.decode(data, type=PolledFeed) if data else None
