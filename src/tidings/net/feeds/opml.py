"""Feeds from OPML files as they are, many of which are not XML.

What readers export has stray `&` and `<`, attributes without quotes, tags that nobody closes, the wrong encoding. So it
is read as browsers read HTML: an `outline` with an `xmlUrl` is a feed, whatever is around it.
"""

import re
from html import escape, unescape
from html.parser import HTMLParser
from typing import NamedTuple

from tidings.model.bounds import FEED_TREES_MAX, FEED_URL_CHARS_MAX
from tidings.model.errors import UsageError

OPML_BYTES_MAX = 8 * 1024 * 1024
TITLE_CHARS_MAX = 200
ADDRESS = re.compile(r"""xmlUrl\s*=\s*["']([^"'<>]{1,4096})["']""", re.IGNORECASE)
SCHEMES = ("http://", "https://")


class FeedLine(NamedTuple):
    url: str
    title: str


class OpmlReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # In a broken file the name of the tag may have run into something else; the attribute says what it is.
        named = {name: value or "" for name, value in attrs}
        url = clean_url(named.get("xmlurl", ""))
        if url:
            title = " ".join((named.get("title") or named.get("text") or "").split())[:TITLE_CHARS_MAX]
            self.found.setdefault(url, title)


def clean_url(text: str) -> str:
    """Empty where it is no address of a feed that anybody could fetch."""
    url = text.strip()
    for scheme in ("feed://", "feed:"):
        if url.lower().startswith(scheme):
            url = url[len(scheme) :]
            url = url if url.lower().startswith(SCHEMES) else f"http://{url}"
    if not url.lower().startswith(SCHEMES) or len(url) > FEED_URL_CHARS_MAX:
        return ""
    return url if url.isprintable() and not any(map(str.isspace, url)) else ""


def read_opml(data: bytes) -> list[FeedLine]:
    """In the order of the file, each feed once."""
    if len(data) > OPML_BYTES_MAX:
        raise UsageError(f"this OPML file has {len(data)} bytes; {OPML_BYTES_MAX} are read at most")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
    else:
        text = data.decode("utf-8-sig", "replace")
    reader = OpmlReader()
    reader.feed(text)
    reader.close()
    for written in ADDRESS.findall(text):
        # In a description with quotes of its own everything after them is lost to any parser.
        if url := clean_url(unescape(written)):
            reader.found.setdefault(url, "")
    found = [FeedLine(url, title) for url, title in reader.found.items()]
    if not found:
        raise UsageError("there is no feed in this OPML file: nothing in it has an xmlUrl of http or https")
    if len(found) > FEED_TREES_MAX:
        raise UsageError(f"this OPML file has {len(found)} feeds; a peer reads {FEED_TREES_MAX} at most")
    return found


def write_opml(feeds: list[FeedLine]) -> bytes:
    lines = [f'    <outline type="rss" text="{escape(it.title or it.url)}" xmlUrl="{escape(it.url)}"/>' for it in feeds]
    head = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<opml version="2.0">',
        "  <head><title>Feeds</title></head><body>",
    ]
    return "\n".join([*head, *lines, "  </body>", "</opml>", ""]).encode()
