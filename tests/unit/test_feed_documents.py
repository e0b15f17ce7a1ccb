"""Feeds and OPML files as they come: broken, hostile, far too large."""

import gzip
import re
import tarfile
from html import unescape
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.origins import Scripted, origin
from tidings.model.bounds import FEED_PAYLOAD_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.net.feeds.atom import atom, index_page, slug_of
from tidings.net.feeds.bridge import event_of
from tidings.net.feeds.entries import (
    DOCUMENT_BYTES_MAX,
    FeedEntry,
    NoFeed,
    check_feed_url,
    decode_entry,
    encode_entry,
    read_feed,
)
from tidings.net.feeds.item_shelf import ITEMS_MAX, ItemShelf, ShelvedFeed, ShelvedItem
from tidings.net.feeds.opml import FeedLine, read_opml, write_opml
from tidings.net.feeds.origin import OriginProblem, fetch, is_public, seconds_until
from tidings.net.feeds.polls import PolledFeed, PollParams, Polls
from tidings.workloads.recorded import require_folder

URL = "http://example.org/feed.xml"
SCRIPT = "<script>alert(1)</script>"


def rss(items: str, head: str = "") -> bytes:
    return f"<rss version='2.0'><channel><title>T</title>{head}{items}</channel></rss>".encode()


def opml_files() -> dict[str, bytes]:
    path = require_folder("OPML files") / "feeds" / "awesome-rss-feeds-opml-raw.tar.gz"
    with tarfile.open(path) as archive:
        found = {it.name: archive.extractfile(it) for it in archive if it.isfile() and it.name.endswith(".opml")}
        return {name: file.read() for name, file in found.items() if file is not None}


def test_every_opml_file_is_read_whether_it_is_xml_or_not() -> None:
    """59 files that people wrote, 40 of which no XML parser reads; none loses a feed."""
    files, broken = opml_files(), 0
    for name, data in files.items():
        try:
            ElementTree.fromstring(data)
        except ElementTree.ParseError:
            broken += 1
        written = re.findall(r'xmlUrl="([^"]*)"', data.decode("utf-8", "replace"))
        urls = {unescape(it).strip() for it in written}
        assert {line.url for line in read_opml(data)} == {it for it in urls if it.startswith("http")}, name
    assert len(files) == 59 and broken >= 35


def test_an_opml_file_that_is_written_is_read_again() -> None:
    lines = [FeedLine("http://a.example/?x=1&y=2", "A & <B>"), FeedLine("https://b.example/", "'\"")]
    assert read_opml(write_opml(lines)) == lines
    ElementTree.fromstring(write_opml(lines))


@pytest.mark.parametrize(
    "data", [b"", b"<opml/>", b"<outline xmlUrl='file:///etc/passwd'/>", b"<outline xmlUrl='javascript:x'/>"]
)
def test_an_opml_file_without_feeds_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="no feed"):
        read_opml(data)


@given(st.binary(max_size=2000))
def test_no_bytes_break_the_reader_of_opml_files(data: bytes) -> None:
    try:
        read_opml(b"<outline xmlUrl=http://a.example/x text=a&b>" + data)
    except UsageError:
        return


def test_items_are_known_by_id_or_link_and_the_first_of_a_key_counts() -> None:
    items = (
        "<item><guid isPermaLink='false'>g</guid><title>a</title></item><item><link>http://l/</link></item>"
        "<item><title>only a title</title></item><item><description>nothing</description></item>"
        "<item><guid isPermaLink='false'>g</guid><title>again</title></item>"
    )
    found = read_feed(rss(items), URL)
    assert [it.key for it in found.entries] == ["g", "http://l/", "only a title"]
    assert found.entries[0].title == "a" and found.entries[0].feed_title == "T"


def test_hostile_html_is_passed_on_and_escaped_wherever_we_show_it() -> None:
    items = f"<item><guid isPermaLink='false'>g</guid><title>{SCRIPT.replace('<', '&lt;')}</title>"
    items += f"<link>javascript:alert(1)</link><description><![CDATA[{SCRIPT}]]></description></item>"
    (entry,) = read_feed(rss(items), URL).entries
    assert entry.link == "" and SCRIPT in entry.summary
    feed = ShelvedFeed(URL, SCRIPT, "", "", b"", 0.0, None)
    shown = atom(feed, [ShelvedItem(entry, 1.0)], "http://127.0.0.1/f/x")
    page = index_page([(feed, 1, SCRIPT)], SCRIPT)
    assert b"<script>" not in shown and b"<script>" not in page
    (told,) = ElementTree.fromstring(shown).iterfind(".//{*}summary")
    assert told.text == SCRIPT and told.get("type") == "html", "a reader gets what the origin wrote"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<!DOCTYPE x [<!ENTITY a 'b'><!ENTITY c '&a;&a;'>]>" + rss(""), "entities"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]>".encode("utf-16") + rss(""), "entities"),
        (b"x" * (DOCUMENT_BYTES_MAX + 1), "at most"),
        (b"<html><body>hello</body></html>", "no RSS"),
        (b"", "no RSS"),
    ],
)
def test_bombs_and_what_is_no_feed_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(NoFeed, match=words):
        read_feed(data, URL)


def test_an_item_that_is_too_long_says_so_and_still_travels() -> None:
    items = f"<item><guid>g</guid><description>{'x' * 2_000_000}</description></item>"
    (entry,) = read_feed(rss(items), URL).entries
    assert "too long" in entry.content and len(encode_entry(entry)) <= FEED_PAYLOAD_BYTES_MAX


@given(st.binary(max_size=500))
def test_no_bytes_of_a_feed_raise_anything_else_than_that_it_is_none(data: bytes) -> None:
    polls = Polls(PollParams(), Random(1), None, None)  # type: ignore[arg-type]
    try:
        read_feed(data, URL)
    except NoFeed:
        return
    except Exception:
        assert polls is not None
        raise


@given(st.binary(max_size=200))
def test_what_a_peer_sends_as_an_item_is_one_or_refused(data: bytes) -> None:
    try:
        assert decode_entry(data).key
    except NoFeed:
        return


def test_what_a_peer_sends_is_made_what_an_origin_could_have_had() -> None:
    hostile = FeedEntry(
        "k\x00\n" + "x" * 10_000, "a\x1bb", "javascript:alert(1)", published=float("inf"), content="\x01c"
    )
    entry = decode_entry(encode_entry(hostile))
    assert len(entry.key) <= 4096 and (entry.title, entry.link, entry.published, entry.content) == ("ab", "", 0.0, "c")
    assert decode_entry(encode_entry(entry)) == entry, "once is enough"
    shown = atom(ShelvedFeed(URL, "", "", "", b"", 0.0, None), [ShelvedItem(entry, 1.0)], "http://127.0.0.1/f/x")
    ElementTree.fromstring(shown)


@given(st.builds(FeedEntry, st.text(min_size=1), st.text(), st.text(), st.text(), st.text(), st.text()))
def test_any_item_of_a_peer_makes_a_feed_that_is_xml(entry: FeedEntry) -> None:
    try:
        made = decode_entry(encode_entry(entry))
    except (NoFeed, UnicodeEncodeError):
        return
    feed = ShelvedFeed(URL, made.title, made.link, "", b"", 0.0, None)
    ElementTree.fromstring(atom(feed, [ShelvedItem(made, 1.0)], "http://127.0.0.1/f/x"))
    assert event_of(URL, made).attributes["feed"] == URL


@pytest.mark.parametrize(
    ("head", "interval"),
    [
        ("<ttl>60</ttl>", 3600.0),
        ("<ttl>soon</ttl>", 0.0),
        (
            "<sy:updatePeriod xmlns:sy='http://purl.org/rss/1.0/modules/syndication/'>hourly</sy:updatePeriod>"
            "<sy:updateFrequency xmlns:sy='http://purl.org/rss/1.0/modules/syndication/'>2</sy:updateFrequency>",
            1800.0,
        ),
        ("", 0.0),
    ],
)
def test_an_origin_says_how_often_it_wants_to_be_asked(head: str, interval: float) -> None:
    assert read_feed(rss("", head), URL).interval == interval


# Origins.


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "100.64.0.1",
        "::1",
        "fe80::1",
        "fc00::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
    ],
)
def test_addresses_of_our_own_network_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_an_origin_on_this_machine_is_not_asked_unless_it_is_allowed() -> None:
    with origin() as server:
        with pytest.raises(OriginProblem, match="not a public address"):
            fetch(server.feed)
        assert server.asked == []
        assert fetch(server.feed, allow_private=True).status == 200


def test_a_redirect_is_looked_at_as_the_first_address_was() -> None:
    with origin() as server:
        server.scripts["/away"] = Scripted(302, {"Location": "file:///etc/passwd"})
        with pytest.raises(OriginProblem, match="neither http nor https"):
            fetch(server.url + "away", allow_private=True)
        server.scripts["/round"] = Scripted(302, {"Location": "/round"})
        with pytest.raises(OriginProblem, match="redirects"):
            fetch(server.url + "round", allow_private=True)
        server.scripts["/moved"] = Scripted(301, {"Location": "/feed.xml"})
        assert fetch(server.url + "moved", allow_private=True).moved_to == server.feed
        server.scripts["/lent"] = Scripted(302, {"Location": "/moved"})
        assert fetch(server.url + "lent", allow_private=True).moved_to == "", "a temporary one is none for good"


def test_what_is_too_long_is_not_read_packed_or_not() -> None:
    long = b"x" * (DOCUMENT_BYTES_MAX + 1)
    with origin() as server:
        server.scripts["/long"] = Scripted(200, {}, long)
        server.scripts["/bomb"] = Scripted(200, {"Content-Encoding": "gzip"}, gzip.compress(long))
        server.scripts["/half"] = Scripted(200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 1000)[:20])
        server.scripts["/packed"] = Scripted(200, {"Content-Encoding": "gzip"}, gzip.compress(b"feed"))
        for path in ("long", "bomb", "half"):
            with pytest.raises(OriginProblem):
                fetch(server.url + path, allow_private=True)
        assert fetch(server.url + "packed", allow_private=True).data == b"feed"


def test_tags_are_sent_again_and_problems_say_when_to_come_back() -> None:
    with origin() as server:
        first = fetch(server.feed, allow_private=True)
        again = fetch(server.feed, first.etag, "Thu, 01 Jan 2026 00:00:00 GMT", allow_private=True)
        assert (first.status, again.status, again.data) == (200, 304, b"")
        assert server.asked[1][1]["if-modified-since"] == "Thu, 01 Jan 2026 00:00:00 GMT"
        server.scripts["/busy"] = Scripted(429, {"Retry-After": "120"})
        with pytest.raises(OriginProblem) as problem:
            fetch(server.url + "busy", allow_private=True)
        assert (problem.value.status, problem.value.retry_after) == (429, 120.0)
    assert seconds_until("Thu, 01 Jan 1970 00:00:00 GMT") == 0 and seconds_until("nonsense") == 0


@pytest.mark.parametrize(
    "url", ["http://", "http://[::1", "ftp://a.example/", "http://a b/", "x", "http://nobody.invalid/"]
)
def test_addresses_that_lead_nowhere_are_problems_and_nothing_else(url: str) -> None:
    with pytest.raises((OriginProblem, UsageError)):
        fetch(check_feed_url(url))


def test_intervals_are_the_longer_one_and_double_with_each_failure() -> None:
    polls = Polls(PollParams(interval=600.0), Random(1), None, None)  # type: ignore[arg-type]
    assert polls.interval(PolledFeed(URL)) == 600.0
    assert polls.interval(PolledFeed(URL, interval=3600.0)) == 3600.0
    assert polls.interval(PolledFeed(URL, interval=1e9)) == 86_400.0
    assert [polls.interval(PolledFeed(URL, failures=it)) for it in (1, 2, 20)] == [1200.0, 2400.0, 86_400.0]


# The shelf.


def test_an_item_that_changes_takes_the_place_of_what_it_was() -> None:
    shelf = ItemShelf(None)
    shelf.add(URL)
    shelf.put(URL, FeedEntry("k", "a"), 1.0)
    assert not shelf.is_news(URL, FeedEntry("k", "a")) and shelf.is_news(URL, FeedEntry("k", "b"))
    shelf.put(URL, FeedEntry("k", "b"), 2.0)
    assert [it.entry.title for it in shelf.items(URL)] == ["b"]


def test_only_so_many_items_are_kept_and_the_oldest_go() -> None:
    shelf = ItemShelf(None)
    for number in range(ITEMS_MAX + 5):
        shelf.put(URL, FeedEntry(f"k{number}"), float(number))
    keys = [it.entry.key for it in shelf.items(URL)]
    assert len(keys) == ITEMS_MAX and keys[0] == f"k{ITEMS_MAX + 4}" and "k4" not in keys


def test_what_is_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    shelf = ItemShelf(tmp_path / "feeds.db")
    shelf.add(URL, "T", "p:1", b"k" * 32)
    shelf.keep_polled(URL, PolledFeed(URL, etag="x"))
    shelf.put(URL, FeedEntry("k"), 1.0)
    shelf.close()
    again = ItemShelf(tmp_path / "feeds.db")
    (feed,) = again.feeds()
    assert (feed.title, feed.publisher, feed.signed) == ("T", "p:1", b"k" * 32)
    assert feed.polled is not None and feed.polled.etag == "x" and again.count(URL) == 1
    assert again.remove(URL) and not again.remove(URL) and again.count(URL) == 0


def test_no_two_feeds_have_the_same_address_here() -> None:
    feeds: list[Any] = ["http://a.example/1", "http://a.example/2", "http://b.example/", "http://\u00fc.example/"]
    slugs = [slug_of(it) for it in feeds]
    assert len(set(slugs)) == 4 and all(it.isascii() and "/" not in it for it in slugs)
