"""A peer as a program: it reads feeds with others, asks origins for those that are its to ask for, and serves readers.

    async with FeedService(FeedSettings(contacts=("feeds.example.org:7500",), data=Path("feeds"))) as service:
        service.subscribe("https://example.org/feed.xml")
        await service.wait()

Without contacts it works alone: it adopts every feed and polls. Everything that comes, from an origin or from peers,
goes the same way: through the machine, on to the shelf, out of the local door.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, Self

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net.addresses import address_text, parse_address
from tidings.net.errors import HostError
from tidings.net.feeds.atom import ATOM, HTML, atom, index_page, slug_of
from tidings.net.feeds.bridge import Bridge
from tidings.net.feeds.entries import FeedDocument, NoFeed, check_feed_url, cut, decode_entry, encode_entry, web_link
from tidings.net.feeds.hub import Hub
from tidings.net.feeds.item_shelf import ItemShelf, ShelvedFeed
from tidings.net.feeds.local import (
    HEADER,
    LocalAnswer,
    LocalDoor,
    LocalRequest,
    NotServed,
    cached,
    json_answer,
    refused,
)
from tidings.net.feeds.opml import FeedLine, write_opml
from tidings.net.feeds.peer_host import PeerHost
from tidings.net.feeds.polls import PollParams, Polls
from tidings.net.feeds.published import PublishedFile
from tidings.net.keys import signature_check
from tidings.net.logs import make_logger
from tidings.net.params import HostParams
from tidings.net.tls import Address, is_loopback
from tidings.nodes.peer import PeerNode, PeerParams
from tidings.protocols.feeds.params import RegisterParams, TreeParams
from tidings.pubsub.feeds import (
    AllLeft,
    FeedAdopted,
    FeedItem,
    ItemsMissed,
    LeaveAll,
    OfferFeed,
    PublishItem,
    SubscribeFeed,
    UnsubscribeFeed,
)

Sign = Callable[[bytes], bytes]

LANDMARKS_MIN = 4
"""With fewer contacts places would say nothing; everybody is at the same one."""

FIRST_ITEMS_MAX = 50
"""Items of a feed that is new to all peers which are passed on; later ones all are."""

GOODBYE_SECONDS = 5.0
FRIENDS = "friends"


class FeedSettings(msgspec.Struct, frozen=True, kw_only=True):
    listen: Address = ("127.0.0.1", 0)
    public: str = ""
    """Where others reach us ("host:port"), if that is elsewhere. It is our name."""

    contacts: tuple[str, ...] = ()
    """Peers to begin with, "host:port"."""

    http: Address = ("127.0.0.1", 0)
    data: Path | None = None
    """A folder for what is kept over restarts."""

    insecure: bool = False
    """Plain text beyond this machine. Feeds are public; what a reader of yours reads is seen by who is on the way."""

    broker: str = ""
    """Where items go as events (`bridge.py`), as an address or a URL; empty for nowhere."""

    polls: PollParams = PollParams()
    trees: TreeParams = TreeParams(cache=50)
    host: HostParams = HostParams()


class FeedService:
    def __init__(self, settings: FeedSettings, log: Any = None) -> None:
        self.settings = settings
        listen = settings.listen if settings.listen[1] else (settings.listen[0], free_port(settings.listen[0]))
        self.name: NodeId = settings.public or address_text(listen)
        check_reachable(parse_address(self.name, "public")[0], settings)
        self.log = log or make_logger(self.name)
        if settings.data is not None:
            settings.data.mkdir(parents=True, exist_ok=True)
        self.shelf = ItemShelf(settings.data / "feeds.db" if settings.data else None)
        self.rng = Random(SystemRandom().getrandbits(64))
        contacts = tuple(address_text(parse_address(it, "contact")) for it in settings.contacts)
        now = time.time()
        self.node = PeerNode(
            self.name,
            PeerParams(
                landmarks=contacts if len(contacts) >= LANDMARKS_MIN else (),
                contacts=contacts,
                stale_friends=self.stale_friends(),
                version=int(now),
                trees=settings.trees,
                register=RegisterParams(clock_offset=now - time.monotonic()),
            ),
            self.rng,
            signature_check,
        )
        self.host = PeerHost(
            self.name, self.node, listen=listen, params=settings.host, insecure=settings.insecure, log=self.log
        )
        self.polls = Polls(settings.polls, self.rng, self.found, self.log)
        self.door = LocalDoor(settings.http, self.serve)
        self.hub = Hub(lambda: self.url, self.content, self.log)
        self.bridge = Bridge(broker_url(settings.broker), self.log) if settings.broker else None
        self.adopted: dict[str, int] = {}
        """Feeds that we publish for all, with the reign."""
        self.slugs: dict[str, str] = {}
        self.publishing: dict[str, asyncio.Task[None]] = {}
        """Feeds of our own."""
        self.received = self.missed = self.refused = 0
        self.task: asyncio.Task[None] | None = None
        self.has_left = asyncio.Event()
        self.began_at = now

    def stale_friends(self) -> tuple[NodeId, ...]:
        kept = self.shelf.kept(FRIENDS)
        return tuple(msgspec.msgpack.decode(kept, type=list[str])) if kept else ()

    # Beginning and end.

    async def start(self) -> None:
        try:
            await self.door.start()
            await self.host.start()
        except BaseException:
            await self.door.stop()
            self.shelf.close()
            raise
        for feed in self.shelf.feeds():
            # What we published ourselves we publish when we are told to.
            if feed.publisher != self.name:
                self.begin(feed)
        self.task = asyncio.create_task(self.take_items())
        if self.bridge is not None:
            self.bridge.start()

    async def stop(self) -> None:
        """Hands over what is ours, says goodbye, keeps what is to be kept."""
        if self.task is not None and self.host.is_running:
            self.keep()
            self.host.inject(LeaveAll())
            with suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self.has_left.wait()
        for publishing in self.publishing.values():
            publishing.cancel()
        await asyncio.gather(*self.publishing.values(), return_exceptions=True)
        await self.polls.stop()
        if self.bridge is not None:
            await self.bridge.stop()
        await self.hub.stop()
        await self.door.stop()
        await self.host.stop()
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        self.shelf.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *problem: Any) -> None:
        await self.stop()

    async def wait(self) -> None:
        """Until the host fails, which it says."""
        await self.host.wait()

    def keep(self) -> None:
        friends = list(self.node.friendship.friends)
        if friends:
            self.shelf.keep(FRIENDS, msgspec.msgpack.encode(friends))
        for feed, polled in {**self.polls.remembered, **self.polls.feeds}.items():
            self.shelf.keep_polled(feed, polled)

    # Feeds.

    def subscribe(self, url: str, title: str = "", publisher: str = "", key: bytes = b"") -> bool:
        """Whether it is a new one; it is kept over restarts."""
        url = check_feed_url(url)
        publisher = address_text(parse_address(publisher, "publisher")) if publisher else ""
        if not self.shelf.add(url, title, publisher, key):
            return False
        (added,) = [it for it in self.shelf.feeds() if it.feed == url]
        try:
            self.begin(added)
        except UsageError:
            self.shelf.remove(url)
            raise
        return True

    def begin(self, feed: ShelvedFeed) -> None:
        self.slugs[slug_of(feed.feed)] = feed.feed
        if feed.polled is not None:
            self.polls.remembered[feed.feed] = feed.polled
        self.host.inject(SubscribeFeed(feed.feed, feed.publisher, feed.signed))

    def publish_file(self, url: str, path: Path, sign: Sign | None = None, key: bytes = b"") -> None:
        """Be the publisher of this feed: whatever the file holds goes to its readers."""
        url = check_feed_url(url)
        if url in self.slugs.values():
            raise UsageError(f"{url} is read here already; give it up, or publish it from another peer")
        published = PublishedFile(url, path, sign, self.host.inject, self.log)
        self.shelf.add(url, publisher=self.name)
        self.slugs[slug_of(url)] = url
        self.host.inject(OfferFeed(url, key=key))
        self.publishing[url] = asyncio.get_running_loop().create_task(published.watch())

    def unsubscribe(self, url: str) -> bool:
        if not self.shelf.remove(url):
            return False
        self.slugs.pop(slug_of(url), None)
        self.end_adoption(url)
        if url in self.publishing:
            self.publishing.pop(url).cancel()
        self.polls.remembered.pop(url, None)
        self.host.inject(UnsubscribeFeed(url))
        return True

    def end_adoption(self, feed: str) -> None:
        self.adopted.pop(feed, None)
        self.polls.end(feed)

    async def found(self, feed: str, document: FeedDocument) -> None:
        """What the origin of a feed of ours has: what is new of it goes to everybody, the oldest first."""
        self.shelf.describe(feed, document.title, document.link)
        entries = document.entries if self.shelf.count(feed) else document.entries[:FIRST_ITEMS_MAX]
        for entry in reversed(entries):
            if feed not in self.adopted:
                return
            if self.shelf.is_news(feed, entry):
                self.host.inject(PublishItem(feed, encode_entry(entry), time.time()))
                # Readers and peers have their turn between two items.
                await asyncio.sleep(0)
        if (polled := self.polls.feeds.get(feed)) is not None:
            self.shelf.keep_polled(feed, polled)

    async def take_items(self) -> None:
        async for item in self.host.items:
            match item:
                case FeedItem(feed, _, _, payload) if slug_of(feed) in self.slugs:
                    self.take_item(feed, payload)
                case FeedAdopted(feed, reign, True) if slug_of(feed) in self.slugs:
                    self.adopted[feed] = reign
                    self.polls.begin(feed)
                case FeedAdopted(feed, _, False):
                    self.end_adoption(feed)
                case ItemsMissed(feed, first, last):
                    self.missed += last - first + 1
                    self.log.warning("items missed", feed=feed, first=first, last=last)
                case AllLeft():
                    self.has_left.set()

    def take_item(self, feed: str, payload: bytes) -> None:
        try:
            entry = decode_entry(payload)
        except NoFeed as problem:
            self.refused += 1
            self.log.warning("item refused", feed=feed, problem=str(problem))
            return
        self.received += 1
        if entry.feed_title:
            self.shelf.describe(feed, cut(entry.feed_title), web_link(entry.feed_link))
        if self.shelf.is_news(feed, entry):
            self.shelf.put(feed, entry, time.time())
            self.hub.has_news(f"{self.url}/f/{slug_of(feed)}")
            if self.bridge is not None:
                self.bridge.put(feed, entry)

    # Readers.

    @property
    def url(self) -> str:
        return f"http://{address_text(self.door.address)}"

    def state_of(self, feed: str) -> str:
        tree = self.node.forest.trees.get(feed)
        if tree is None:
            return "left"
        if feed in self.publishing:
            return "published here"
        if feed in self.adopted:
            polled = self.polls.feeds.get(feed)
            return f"polled here ({polled.problem})" if polled and polled.problem else "polled here, for everybody"
        return f"from {tree.parent}" if tree.parent else "looking for other readers"

    def rows(self) -> list[tuple[ShelvedFeed, int, str]]:
        return [(it, self.shelf.count(it.feed), self.state_of(it.feed)) for it in self.shelf.feeds()]

    def feed_list(self) -> list[dict[str, Any]]:
        return [
            {
                "feed": it.feed,
                "title": it.title,
                "url": f"{self.url}/f/{slug_of(it.feed)}",
                "items": count,
                "state": said,
            }
            for it, count, said in self.rows()
        ]

    def status(self) -> dict[str, Any]:
        friendship, counts = self.node.friendship, self.host.counts
        return {
            "name": self.name,
            "http": self.url,
            "seconds": round(time.time() - self.began_at, 1),
            "feeds": len(self.shelf.feeds()),
            "adopted": len(self.adopted),
            "friends": list(friendship.friends),
            "fans": len(friendship.fans),
            "streams": len(self.host.links.up),
            "polls": sum(it.polls for it in (*self.polls.feeds.values(), *self.polls.remembered.values())),
            "items": self.received,
            "missed": self.missed,
            "refused": self.refused,
            "bridged": self.bridge.published if self.bridge is not None else 0,
            "messages_sent": counts.stream_messages_sent,
            "messages_received": counts.stream_messages_received,
        }

    async def serve(self, request: LocalRequest) -> LocalAnswer:
        if request.method == "POST":
            return self.hub.asked(request.body) if request.path == "/hub" else self.change(request)
        if request.path == "/":
            alone = "" if self.host.links.up else " No other peer is linked."
            return LocalAnswer(200, HTML, index_page(self.rows(), f"This is peer {self.name}.{alone}"))
        if request.path.startswith("/f/"):
            content = self.content(self.url + request.path)
            if content is None:
                raise NotServed(404, "there is no such feed here; / lists those there are")
            return cached(request, ATOM, content)
        if request.path == "/opml":
            lines = [FeedLine(f"{self.url}/f/{slug_of(it.feed)}", it.title or it.feed) for it in self.shelf.feeds()]
            return cached(request, "text/x-opml; charset=utf-8", write_opml(lines))
        if request.path == "/api/feeds":
            return json_answer(self.feed_list())
        if request.path == "/api/status":
            return json_answer(self.status())
        raise NotServed(404, "there are /, /f/NAME, /opml, /api/feeds and /api/status")

    def content(self, url: str) -> bytes | None:
        """What is served there now; None where it is no feed of ours."""
        ours, _, slug = url.partition("/f/")
        feed = self.slugs.get(slug) if ours == self.url else None
        if feed is None:
            return None
        (shelved,) = [it for it in self.shelf.feeds() if it.feed == feed]
        return atom(shelved, self.shelf.items(feed), url, f"{self.url}/hub")

    def change(self, request: LocalRequest) -> LocalAnswer:
        if request.path != "/api/feeds":
            raise NotServed(404, "feeds are changed at /api/feeds")
        if HEADER not in request.headers:
            raise NotServed(403, "say X-Tidings: a page of somebody else cannot")
        try:
            asked = msgspec.json.decode(request.body, type=FeedChange)
        except (msgspec.DecodeError, msgspec.ValidationError) as problem:
            return refused(400, f"no change of feeds: {problem}")
        if asked.add:
            return json_answer(
                {"added": self.subscribe(asked.add, publisher=asked.publisher, key=bytes.fromhex(asked.key))}
            )
        return json_answer({"removed": self.unsubscribe(asked.remove)})


class FeedChange(msgspec.Struct, forbid_unknown_fields=True):
    add: str = ""
    remove: str = ""
    publisher: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        if bool(self.add) == bool(self.remove):
            raise ValueError("say what to add or what to remove")
        if self.key and (len(self.key) != 64 or not all(it in "0123456789abcdef" for it in self.key)):
            raise ValueError("a key is 64 hexadecimal digits")


def check_reachable(ours: str, settings: FeedSettings) -> None:
    """Whoever we call has to be able to call us, under the name that we say."""
    if ours in ("0.0.0.0", "::", ""):
        raise UsageError("listen: others cannot call us by an address that means all of ours; give --public HOST:PORT")
    others = [it for it in settings.contacts if not is_loopback(parse_address(it, "contact")[0])]
    if others and is_loopback(ours):
        raise UsageError(
            f"contact: {others[0]} is on another machine and could not call us back at {ours}; give "
            "--listen 0.0.0.0:7500 --public HOST:PORT, with an address that reaches this machine"
        )


def broker_url(text: str) -> str:
    return text if "://" in text or text == "memory:" else f"tidings://{text}"


def free_port(host: str) -> int:
    """One that nobody listens on now: our name has to be known before we do."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as tried:
            tried.bind((host, 0))
            return int(tried.getsockname()[1])
    except OSError as problem:
        raise HostError(f"cannot listen on {host}: {problem.strerror}; give an address of this machine") from None
