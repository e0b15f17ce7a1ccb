"""Peers on loopback that share feeds of a real HTTP server, and serve them to a reader."""

import asyncio
import hmac
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from xml.etree import ElementTree

import msgspec
import pytest

from tests.worlds.loopback import Broker, connect
from tests.worlds.origins import Origin, origin
from tests.worlds.sockets import PATIENT, QUIET, play, until
from tidings.model.errors import UsageError
from tidings.net.errors import HostError
from tidings.net.feeds.polls import PollParams
from tidings.net.feeds.service import FeedService, FeedSettings
from tidings.net.keys import new_key, read_public, signer
from tidings.protocols.feeds.updates import UNSIGNED

POLLS = PollParams(interval=3600.0, settling=0.05, allow_private=True)
OFTEN = msgspec.structs.replace(POLLS, interval=1.0)


def peer(*contacts: FeedService, polls: PollParams = POLLS, **more: Any) -> FeedService:
    names = tuple(it.name for it in contacts)
    return FeedService(FeedSettings(contacts=names, polls=polls, host=PATIENT, **more), QUIET)


async def ask(url: str, **headers: str) -> tuple[int, bytes, Any]:
    def get() -> tuple[int, bytes, Any]:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as problem:
            return problem.code, problem.read(), problem.headers

    return await asyncio.to_thread(get)


async def change(service: FeedService, body: Any, **headers: str) -> tuple[int, Any]:
    def post() -> tuple[int, Any]:
        request = urllib.request.Request(f"{service.url}/api/feeds", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as problem:
            return problem.code, problem.read().decode()

    return await asyncio.to_thread(post)


async def titles(service: FeedService, feed: str) -> list[str]:
    (found,) = [it for it in service.feed_list() if it["feed"] == feed]
    status, data, _ = await ask(found["url"])
    assert status == 200
    return [it.text or "" for it in ElementTree.fromstring(data).iterfind("{*}entry/{*}title")]


def test_one_poll_serves_two_peers_and_each_reader_gets_the_feed() -> None:
    async def scenario(server: Origin) -> None:
        server.publish("1", "first")
        server.publish("2", "second")
        async with peer() as one, peer(one) as other:
            assert one.subscribe(server.feed)
            await until(lambda: one.shelf.count(server.feed) == 2)
            assert other.subscribe(server.feed) and not other.subscribe(server.feed)
            await until(lambda: other.shelf.count(server.feed) == 2)
            assert sorted(await titles(other, server.feed)) == sorted(await titles(one, server.feed))
            assert set(await titles(other, server.feed)) == {"first", "second"}
            assert len(server.asked) == 1, "one poll for both"
            assert (len(one.adopted), len(other.adopted)) == (1, 0)
            assert other.shelf.feeds()[0].title == "News"

    with origin() as server:
        play(scenario(server))


def test_what_is_new_at_the_origin_comes_to_all_by_one_question_an_interval() -> None:
    async def scenario(server: Origin) -> None:
        server.publish("1", "first")
        async with peer(polls=OFTEN) as one, peer(one, polls=OFTEN) as other, peer(one, polls=OFTEN) as third:
            services = (one, other, third)
            for service in services:
                service.subscribe(server.feed)
            await until(lambda: all(it.shelf.count(server.feed) == 1 for it in services))
            asked = len(server.asked)
            server.publish("2", "second")
            server.publish("1", "first, changed")
            await until(lambda: all(it.shelf.count(server.feed) == 2 for it in services))
            assert len(server.asked) > asked
            for service in services:
                assert set(await titles(service, server.feed)) == {"first, changed", "second"}
            await until(lambda: sum(len(it.adopted) for it in services) == 1)
            await until(lambda: 304 in server.answered)

    with origin() as server:
        play(scenario(server))


def test_who_polls_hands_over_when_it_leaves() -> None:
    async def scenario(server: Origin) -> None:
        server.publish("1", "first")
        one = peer(polls=OFTEN)
        await one.start()
        async with peer(one, polls=OFTEN) as other:
            one.subscribe(server.feed)
            await until(lambda: one.shelf.count(server.feed) == 1)
            other.subscribe(server.feed)
            await until(lambda: other.shelf.count(server.feed) == 1)
            await one.stop()
            await until(lambda: server.feed in other.adopted)
            server.publish("2", "second")
            await until(lambda: other.shelf.count(server.feed) == 2)

    with origin() as server:
        play(scenario(server))


def test_a_peer_keeps_feeds_items_and_tags_over_a_restart(tmp_path: Path) -> None:
    async def scenario(server: Origin) -> None:
        server.publish("1", "first")
        async with peer(polls=OFTEN, data=tmp_path) as one:
            one.subscribe(server.feed)
            await until(lambda: one.shelf.count(server.feed) == 1)
        asked = len(server.asked)
        async with peer(polls=OFTEN, data=tmp_path) as again:
            assert await titles(again, server.feed) == ["first"], "before anybody was asked"
            await until(lambda: len(server.asked) > asked)
            await until(lambda: len(server.answered) > asked)
            assert server.answered[-1] == 304

    with origin() as server:
        play(scenario(server))


def test_a_reader_that_asks_again_is_told_that_nothing_changed() -> None:
    async def scenario(server: Origin) -> None:
        server.publish("1", "first")
        async with peer() as one:
            one.subscribe(server.feed)
            await until(lambda: one.shelf.count(server.feed) == 1)
            url = one.feed_list()[0]["url"]
            _, data, headers = await ask(url)
            assert headers["Content-Type"].startswith("application/atom+xml") and data
            status, again, _ = await ask(url, **{"If-None-Match": headers["ETag"]})
            assert (status, again) == (304, b"")
            page = (await ask(one.url + "/"))[1].decode()
            assert "/f/" in page and "News" in page
            assert (await ask(one.url + "/opml"))[0] == 200
            assert (await ask(one.url + "/f/nothing"))[0] == 404

    with origin() as server:
        play(scenario(server))


def test_the_door_is_for_this_machine_and_not_for_pages_of_others() -> None:
    async def scenario() -> None:
        async with peer() as one:
            assert (await ask(one.url + "/", Host="evil.example"))[0] == 421
            assert (await change(one, {"add": "http://a.example/"}))[0] == 403
            assert (await change(one, {"nonsense": 1}, **{"X-Tidings": "1"}))[0] == 400
            assert (await change(one, {"add": "file:///etc/passwd"}, **{"X-Tidings": "1"}))[0] == 400
            assert one.shelf.feeds() == []

    play(scenario())
    with pytest.raises(HostError, match="this machine only"):
        FeedService(FeedSettings(http=("0.0.0.0", 0)), QUIET)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"contacts": ("192.0.2.1:7500",)}, "could not call us back"),
        ({"listen": ("0.0.0.0", 7500)}, "--public"),
    ],
)
def test_a_peer_that_others_could_not_call_says_so_at_once(settings: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        FeedService(FeedSettings(**settings), QUIET)


def test_feeds_are_added_and_removed_while_it_runs() -> None:
    async def scenario(server: Origin) -> None:
        server.publish("1", "first")
        async with peer() as one:
            header = {"X-Tidings": "1"}
            assert await change(one, {"add": server.feed}, **header) == (200, {"added": True})
            await until(lambda: one.shelf.count(server.feed) == 1)
            assert await change(one, {"remove": server.feed}, **header) == (200, {"removed": True})
            assert await change(one, {"remove": server.feed}, **header) == (200, {"removed": False})
            assert one.feed_list() == [] and not one.adopted

    with origin() as server:
        play(scenario(server))


def test_an_origin_on_this_machine_is_not_asked_unless_that_is_allowed() -> None:
    async def scenario(server: Origin) -> None:
        async with peer(polls=msgspec.structs.replace(POLLS, allow_private=False)) as one:
            one.subscribe(server.feed)
            await until(lambda: "not a public address" in one.state_of(server.feed))
            assert server.asked == []

    with origin() as server:
        play(scenario(server))


@pytest.mark.spec("P-77")
def test_a_publisher_signs_and_readers_take_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        pair, other = new_key(tmp_path / "news"), new_key(tmp_path / "other")
        file, feed = tmp_path / "feed.xml", "https://news.example/feed.xml"
        file.write_text("<rss version='2.0'><channel><title>Ours</title><item><guid>1</guid></item></channel></rss>")
        async with peer() as publisher, peer(publisher) as reader, peer(publisher) as suspicious:
            publisher.publish_file(feed, file, signer(pair[0]), read_public(pair[1]))
            reader.subscribe(feed, publisher=publisher.name, key=read_public(pair[1]))
            await until(lambda: reader.shelf.count(feed) == 1)
            assert reader.state_of(feed) == f"from {publisher.name}" and publisher.state_of(feed) == "published here"
            suspicious.subscribe(feed, publisher=publisher.name, key=read_public(other[1]))
            await until(lambda: suspicious.host.counts.drops.get(UNSIGNED))
            assert suspicious.shelf.count(feed) == 0

    play(scenario())


def test_items_are_events_of_a_broker_and_a_filter_works_on_them() -> None:
    async def scenario(server: Origin) -> None:
        for number, title in enumerate(("Spark 4.2 is out", "nothing of interest")):
            server.publish(str(number), title)
        async with Broker() as broker, connect(broker.url) as client:
            subscription = await client.subscribe("type = 'feed.item' AND title LIKE '%Spark%'")
            async with peer(broker=broker.url) as one:
                one.subscribe(server.feed)
                event = await anext(aiter(subscription))
                assert event.attributes["feed"] == server.feed and event.attributes["title"] == "Spark 4.2 is out"
                assert one.bridge is not None
                await until(lambda: one.bridge is not None and one.bridge.published == 2)

    with origin() as server:
        play(scenario(server))


class Reader(ThreadingHTTPServer):
    """A feed reader that is called; `means_it` is what it answers when it is asked."""

    def __init__(self, means_it: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), ReaderHandler)
        self.means_it, self.calls = means_it, list[tuple[str, bytes]]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/called?x=1"


class ReaderHandler(BaseHTTPRequestHandler):
    server: Reader

    def do_GET(self) -> None:
        challenge = parse_qs(urlsplit(self.path).query)["hub.challenge"][0]
        self.answer(challenge.encode() if self.server.means_it else b"no")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls.append((self.headers["X-Hub-Signature"], body))
        self.answer(b"")

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        pass


@contextmanager
def reader(means_it: bool = True) -> Iterator[Reader]:
    server = Reader(means_it)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def ask_hub(service: FeedService, **words: str) -> int:
    def post() -> int:
        form = urlencode({f"hub.{name}": value for name, value in words.items()}).encode()
        try:
            with urllib.request.urlopen(f"{service.url}/hub", form, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as problem:
            problem.close()
            return problem.code

    return await asyncio.to_thread(post)


def test_a_reader_that_speaks_websub_is_called_when_something_is_new() -> None:
    async def scenario(server: Origin, called: Reader, silent: Reader) -> None:
        server.publish("1", "first")
        async with peer(polls=OFTEN) as one:
            one.subscribe(server.feed)
            await until(lambda: one.shelf.count(server.feed) == 1)
            topic = one.feed_list()[0]["url"]
            assert f'rel="hub" href="{one.url}/hub"' in (await ask(topic))[1].decode()
            wanted = {"mode": "subscribe", "topic": topic, "secret": "s"}
            assert await ask_hub(one, callback=silent.url, **wanted) == 202
            assert await ask_hub(one, callback=called.url, **wanted) == 202
            await until(lambda: one.hub.subscriptions)
            server.publish("2", "second")
            await until(lambda: called.calls)
            signature, body = called.calls[0]
            assert "second" in body.decode() and not silent.calls
            assert signature == "sha256=" + hmac.new(b"s", body, "sha256").hexdigest()
            assert await ask_hub(one, mode="unsubscribe", topic=topic, callback=called.url) == 202
            await until(lambda: not one.hub.subscriptions)
            for wrong in ({"callback": "http://evil.example/"}, {"topic": "http://x/"}, {"mode": "y"}):
                assert await ask_hub(one, **{**wanted, "callback": called.url, **wrong}) in (400, 404)

    with origin() as server, reader() as called, reader(means_it=False) as silent:
        play(scenario(server, called, silent))


def test_of_eight_that_find_nobody_at_the_same_moment_one_is_left_that_polls() -> None:
    async def scenario(server: Origin) -> None:
        server.publish("1", "first")
        async with peer() as one:
            others = [peer(one) for _ in range(7)]
            for service in others:
                await service.start()
            for service in (one, *others):
                service.subscribe(server.feed)
            await until(lambda: all(it.shelf.count(server.feed) == 1 for it in (one, *others)))
            await until(lambda: sum(len(it.adopted) for it in (one, *others)) == 1)
            for service in others:
                await service.stop()

    with origin() as server:
        play(scenario(server))


def test_twelve_peers_cause_no_more_polls_than_one() -> None:
    async def scenario(server: Origin) -> None:
        for number in range(10):
            server.publish(str(number), f"item {number}")
        async with peer() as one:
            others = [peer(one) for _ in range(11)]
            for service in others:
                await service.start()
            one.subscribe(server.feed)
            await until(lambda: server.feed in one.adopted)
            for service in others:
                service.subscribe(server.feed)
            await until(lambda: all(it.shelf.count(server.feed) == 10 for it in (one, *others)))
            assert not any(it.adopted for it in others)
            assert len(server.asked) == 1
            for service in others:
                await service.stop()

    with origin() as server:
        play(scenario(server))
