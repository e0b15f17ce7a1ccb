"""Feeds as any reader understands them, and a page that lists them. Everything that came from others is escaped."""

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from urllib.parse import urlsplit

import xxhash

from tidings.net.feeds.item_shelf import ShelvedFeed, ShelvedItem

ATOM = "application/atom+xml; charset=utf-8"
HTML = "text/html; charset=utf-8"


def slug_of(feed: str) -> str:
    """How a feed is called in our own addresses: readable, and no two alike."""
    host = (urlsplit(feed).hostname or "feed").replace(":", "-")
    safe = "".join(it if it.isascii() and (it.isalnum() or it in ".-") else "-" for it in host)[:60]
    return f"{safe}-{xxhash.xxh3_64_hexdigest(feed.encode())[:10]}"


def instant(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "1970-01-01T00:00:00Z"


def element(name: str, text: str, **attributes: str) -> str:
    named = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{named}>{escape(text)}</{name}>" if text else ""


def atom(feed: ShelvedFeed, items: Iterable[ShelvedItem], here: str, hub: str = "") -> bytes:
    items = list(items)
    updated = max([it.entry.updated or it.entry.published or it.came_at for it in items], default=feed.added_at)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        element("id", feed.feed),
        element("title", feed.title or feed.feed),
        element("updated", instant(updated)),
        f'<link rel="self" href="{escape(here)}"/>',
        f'<link rel="via" href="{escape(feed.feed)}"/>',
        f'<link rel="alternate" href="{escape(feed.link)}"/>' if feed.link else "",
        f'<link rel="hub" href="{escape(hub)}"/>' if hub else "",
        *(atom_entry(it) for it in items),
        "</feed>\n",
    ]
    return "\n".join(line for line in lines if line).encode("utf-8", "replace")


def atom_entry(item: ShelvedItem) -> str:
    entry = item.entry
    lines = [
        "<entry>",
        element("id", entry.key),
        element("title", entry.title or entry.link or entry.key),
        f'<link rel="alternate" href="{escape(entry.link)}"/>' if entry.link else "",
        element("updated", instant(entry.updated or entry.published or item.came_at)),
        element("published", instant(entry.published)) if entry.published else "",
        f"<author>{element('name', entry.author or 'unknown')}</author>",
        *(f'<category term="{escape(it)}"/>' for it in entry.categories),
        element("summary", entry.summary, type="html"),
        element("content", entry.content, type="html"),
        "</entry>",
    ]
    return "\n".join(line for line in lines if line)


STYLE = "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}td{padding:.2em 1em .2em 0}"


def index_page(rows: Iterable[tuple[ShelvedFeed, int, str]], status: str) -> bytes:
    """Feeds, how many items of each are here, and how each stands."""
    lines = "\n".join(
        f'<tr><td><a href="/f/{slug_of(it.feed)}">{escape(it.title or it.feed)}</a></td><td>{count}</td>'
        f"<td>{escape(state)}</td></tr>"
        for it, count, state in rows
    )
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Feeds</title><style>{STYLE}</style></head>'
        f"<body><h1>Feeds</h1><p>{escape(status)} Give the address of a feed below to your reader; "
        f'<a href="/opml">all of them as OPML</a>.</p><table><tr><th>feed</th><th>items</th><th>state</th></tr>\n'
        f"{lines}</table></body></html>\n"
    )
    return page.encode("utf-8", "replace")
