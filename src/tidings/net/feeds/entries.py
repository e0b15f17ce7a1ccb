"""What is in a feed: items, read from whatever an origin sends, and as they travel between peers.

`feedparser` reads RSS and Atom of all ages. Before it sees anything, what would cost too much is refused: documents
that are too long, and those that define entities of their own, by which a few lines become gigabytes. An item is known
by its id, or its link where it has none; one that changes is the same item again.

HTML in an item is passed on as the origin wrote it, as any reader of that feed would get it. Where we show it
ourselves it is escaped.
"""

import re
import time
from calendar import timegm
from typing import Any

import msgspec
import xxhash

from tidings.model.bounds import FEED_PAYLOAD_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.net.errors import HostError

DOCUMENT_BYTES_MAX = 4 * 1024 * 1024
ENTRIES_MAX = 500
TEXT_BYTES_MAX = 4 * 1024
CONTENT_BYTES_MAX = 200 * 1024
CATEGORIES_MAX = 32
TIME_MAX = 250e9
"""Seconds since 1970: the year 9892."""
ENTITY = re.compile(rb"<!ENTITY", re.IGNORECASE)
NULLS = re.compile(rb"\x00")


class NoFeed(HostError):
    """What came is no feed, or one that is refused; the text says why."""


class FeedEntry(msgspec.Struct, frozen=True, array_like=True):
    key: str
    title: str = ""
    link: str = ""
    author: str = ""
    summary: str = ""
    content: str = ""
    categories: tuple[str, ...] = ()
    published: float = 0.0
    """Seconds since 1970; 0 where the origin does not say."""
    updated: float = 0.0
    feed_title: str = ""
    feed_link: str = ""
    """What the feed calls itself: who only knows its address learns it with the items."""

    @property
    def digest(self) -> int:
        return xxhash.xxh3_64_intdigest(encode_entry(self))


class FeedDocument(msgspec.Struct, frozen=True):
    title: str
    link: str
    entries: tuple[FeedEntry, ...]
    """The newest first, as origins have them."""
    interval: float = 0.0
    """Seconds between two polls that the origin asks for; 0 where it does not."""


encode_entry = msgspec.msgpack.Encoder().encode
decoder = msgspec.msgpack.Decoder(FeedEntry)


def decode_entry(data: bytes) -> FeedEntry:
    """What a peer sent: anything. It is made what an origin could have had; NoFeed where it is no item."""
    try:
        entry = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise NoFeed(f"a peer sent what is no item: {problem}") from None
    made = FeedEntry(
        key=cut(entry.key),
        title=cut(entry.title),
        link=web_link(entry.link),
        author=cut(entry.author),
        summary=clean(entry.summary),
        content=clean(entry.content),
        categories=tuple(cut(it) for it in entry.categories[:CATEGORIES_MAX]),
        published=moment(entry.published),
        updated=moment(entry.updated),
        feed_title=cut(entry.feed_title),
        feed_link=web_link(entry.feed_link),
    )
    if not made.key:
        raise NoFeed("a peer sent an item without a key")
    return made


def moment(seconds: float) -> float:
    """As much of a time as any calendar has."""
    return seconds if 0 <= seconds < TIME_MAX else 0.0


def read_feed(data: bytes, url: str) -> FeedDocument:
    try:
        import feedparser
    except ModuleNotFoundError:
        raise HostError("feeds are read with feedparser; install it with: pip install 'tidings[feeds]'") from None
    if len(data) > DOCUMENT_BYTES_MAX:
        raise NoFeed(f"{len(data)} bytes; a feed has {DOCUMENT_BYTES_MAX} at most")
    # In UTF-16 every other byte of it is zero.
    if ENTITY.search(NULLS.sub(b"", data)):
        raise NoFeed("it defines entities of its own, which nobody needs and which can be a bomb")
    found: Any = feedparser.parse(data, sanitize_html=False, resolve_relative_uris=True, response_headers=headers(url))
    if not found.entries and not found.get("version"):
        raise NoFeed("this is no RSS and no Atom")
    entries: dict[str, FeedEntry] = {}
    feed: Any = found.feed
    title, home = cut(feed.get("title", "")), web_link(feed.get("link", ""))
    for it in found.entries[:ENTRIES_MAX]:
        entry = entry_of(it, title, home)
        if entry is not None:
            entries.setdefault(entry.key, entry)
    return FeedDocument(title, home, tuple(entries.values()), interval_of(feed))


def headers(url: str) -> dict[str, str]:
    return {"content-location": url}


PERIODS = {"hourly": 3600.0, "daily": 86400.0, "weekly": 604800.0, "monthly": 2592000.0, "yearly": 31536000.0}


def interval_of(feed: Any) -> float:
    """By `ttl`, in minutes, or the syndication module."""
    try:
        if minutes := feed.get("ttl"):
            return max(0.0, float(minutes) * 60)
        if period := PERIODS.get(str(feed.get("sy_updateperiod", "")).strip().lower()):
            return period / max(1.0, float(feed.get("sy_updatefrequency") or 1))
    except ValueError:
        pass
    return 0.0


def entry_of(it: Any, feed_title: str, feed_link: str) -> FeedEntry | None:
    link = web_link(it.get("link", ""))
    title = cut(it.get("title", ""))
    key = cut(it.get("id", "") or link or title)
    if not key:
        return None
    contents = [str(each.get("value", "")) for each in it.get("content", ())]
    summary, content = str(it.get("summary", "")), contents[0] if contents else ""
    if len(content.encode(errors="replace")) > CONTENT_BYTES_MAX:
        content = "(this item is too long to be passed on; it is where its link leads)"
    if len(summary.encode(errors="replace")) > TEXT_BYTES_MAX * 4:
        # Many feeds have their whole text there.
        content = content or whole(summary)
        summary = ""
    tags = [cut(str(each.get("term") or each.get("label") or "")) for each in it.get("tags", ())[:CATEGORIES_MAX]]
    entry = FeedEntry(
        key=key,
        title=title,
        link=link,
        author=cut(it.get("author", "")),
        summary=clean(summary if summary != content else ""),
        content=clean(content),
        categories=tuple(tag for tag in tags if tag),
        published=seconds(it.get("published_parsed")),
        updated=seconds(it.get("updated_parsed")),
        feed_title=feed_title,
        feed_link=feed_link,
    )
    if len(encode_entry(entry)) > FEED_PAYLOAD_BYTES_MAX:
        return msgspec.structs.replace(entry, summary="", content="(this item is too long to be passed on)")
    return entry


def whole(text: str) -> str:
    is_short = len(text.encode(errors="replace")) <= CONTENT_BYTES_MAX
    return text if is_short else "(this item is too long to be passed on; it is where its link leads)"


def clean(text: str) -> str:
    """Without what XML cannot carry, and what is no character."""
    return UNCARRIED.sub("", text.encode("utf-8", "replace").decode())


UNCARRIED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def cut(text: Any) -> str:
    line = clean(" ".join(str(text).split()))
    return line.encode()[:TEXT_BYTES_MAX].decode(errors="ignore")


def web_link(text: Any) -> str:
    """Links that a browser may be given; `javascript:` and its like are none."""
    link = cut(text)
    return link if link.lower().startswith(("http://", "https://")) else ""


def seconds(parsed: time.struct_time | None) -> float:
    try:
        return float(timegm(parsed)) if parsed else 0.0
    except (ValueError, OverflowError):
        return 0.0


def check_feed_url(url: str) -> str:
    from tidings.net.feeds.opml import clean_url

    cleaned = clean_url(url)
    if not cleaned:
        raise UsageError(f"{url!r} is no address of a feed; give one that begins with http:// or https://")
    return cleaned
