"""`tidings feeds`: read feeds together with others, so that one poll serves all.

    tidings feeds run --opml mine.opml
    tidings feeds list

`run` is the peer. It serves the feeds to any feed reader of this machine as ordinary Atom; the other commands ask it
over its local door.
"""

import asyncio
import contextlib
import json as plain_json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tidings import UsageError
from tidings.cli.output import NO, Json, json_line, print_json, read_span, show, table_lines
from tidings.net.addresses import parse_address
from tidings.net.errors import HostError
from tidings.net.feeds.opml import read_opml
from tidings.net.feeds.polls import PollParams
from tidings.net.feeds.service import FeedService, FeedSettings
from tidings.net.keys import read_private, read_public, signer
from tidings.net.logs import run as run_loop

HTTP = "127.0.0.1:7580"
LISTEN = "127.0.0.1:7500"
ASK_SECONDS = 10.0

feeds = typer.Typer(
    help="Read feeds together with others: one poll serves all.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
Http = Annotated[str, typer.Option(metavar="HOST:PORT", help="The local door of the peer.")]


@feeds.command("run")
def run(
    opml: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Feeds to read, as a reader exports them; broken ones will do.")
    ] = None,
    feed: Annotated[list[str] | None, typer.Option(metavar="URL", help="A feed to read; may be repeated.")] = None,
    contact: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="A peer to begin with; may be repeated.")
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where other peers reach us; port 0 is any.")
    ] = LISTEN,
    public: Annotated[str, typer.Option(metavar="HOST:PORT", help="The same as others see it, if it differs.")] = "",
    http: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where feed readers of this machine find us.")] = HTTP,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep feeds and items here, over restarts.")] = None,
    broker: Annotated[str, typer.Option(metavar="HOST:PORT", help="Also publish items as events of this broker.")] = "",
    interval: Annotated[str, typer.Option(help="Time between two questions to the same origin.")] = "10m",
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Also feeds on this machine and on private networks.")
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Plain text with peers beyond this machine, as it is asked for here.")
    ] = False,
    json: Json = False,
) -> None:
    """Be a peer: read feeds with others, and serve them to the feed readers of this machine.

    Without a contact it works alone, and polls every feed itself. It runs until it is told to stop (Ctrl-C).

    \b
    Example:
      tidings feeds run --opml mine.opml --data ~/.tidings-feeds
      tidings feeds run --opml mine.opml --contact feeds.example.org:7500 --listen 0.0.0.0:7500 \\
        --public my.example.org:7500 --insecure
    """
    lines = read_opml(read_bytes(opml)) if opml is not None else []
    settings = FeedSettings(
        listen=parse_address(listen, "--listen"),
        public=public,
        contacts=tuple(contact or ()),
        http=parse_address(http, "--http"),
        data=data,
        broker=broker,
        insecure=insecure,
        polls=PollParams(interval=read_span(interval, "--interval"), allow_private=allow_private),
    )
    wanted = [(it.url, it.title) for it in lines] + [(url, "") for url in feed or ()]
    run_loop(serve(settings, wanted, json))


async def serve(
    settings: FeedSettings,
    wanted: list[tuple[str, str]],
    json: bool,
    begin: Callable[[FeedService], None] = lambda service: None,
) -> None:
    service = FeedService(settings)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, told.set)
    async with service:
        begin(service)
        new = sum(service.subscribe(url, title) for url, title in wanted)
        status = {"name": service.name, "http": service.url, "feeds": len(service.shelf.feeds()), "new": new}
        if json:
            show(json_line(status))
        else:
            reading = f"peer {service.name} reads {status['feeds']} feeds ({new} new)"
            show(f"{reading}; your reader finds them at {service.url}/")
        stopped = asyncio.create_task(told.wait())
        failed = asyncio.create_task(service.wait())
        try:
            await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if failed.done():
            failed.result()
        failed.cancel()


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise HostError(f"{path} cannot be read: {os.strerror(problem.errno or 0)}") from None


@feeds.command("publish")
def publish(
    file: Annotated[Path, typer.Argument(help="RSS or Atom, as a program of yours writes it; it is watched.")],
    feed: Annotated[str, typer.Option(metavar="URL", help="The address under which it is known.")],
    key: Annotated[
        Path | None, typer.Option(metavar="FILE.key", help="Sign each item (tidings keys new NAME).")
    ] = None,
    contact: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="A peer to begin with; may be repeated.")
    ] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where readers reach us; port 0 is any.")] = LISTEN,
    public: Annotated[str, typer.Option(metavar="HOST:PORT", help="The same as others see it, if it differs.")] = "",
    http: Annotated[str, typer.Option(metavar="HOST:PORT", help="Our local door.")] = HTTP,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Plain text with peers beyond this machine, as it is asked for here.")
    ] = False,
    json: Json = False,
) -> None:
    """Publish a feed of your own from a file, to readers who verify that it is yours.

    They read it with: tidings feeds add URL --publisher HOST:PORT --key NAME.pub

    \b
    Example:
      tidings feeds publish feed.xml --feed https://example.org/feed.xml --key news.key
    """
    settings = FeedSettings(
        listen=parse_address(listen, "--listen"),
        public=public,
        contacts=tuple(contact or ()),
        http=parse_address(http, "--http"),
        insecure=insecure,
    )
    sign = signer(key) if key is not None else None
    signed_by = read_private(key).public_key().public_bytes_raw() if key is not None else b""
    run_loop(serve(settings, [], json, lambda service: service.publish_file(feed, file, sign, signed_by)))


@feeds.command("list")
def list_feeds(http: Http = HTTP, json: Json = False) -> None:
    """List the feeds of the peer, and where a reader finds each.

    \b
    Example:
      tidings feeds list
    """
    found = ask(http, "/api/feeds")
    if json:
        print_json(found)
        return
    rows = [[it["title"] or it["feed"], str(it["items"]), it["url"], it["state"]] for it in found]
    show(*table_lines(["feed", "items", "for your reader", "state"], rows))


@feeds.command("add")
def add(
    url: Annotated[str, typer.Argument(help="The address of the feed.")],
    publisher: Annotated[str, typer.Option(metavar="HOST:PORT", help="The peer that publishes it, if one does.")] = "",
    key: Annotated[Path | None, typer.Option(metavar="FILE.pub", help="Then only what it signs counts.")] = None,
    http: Http = HTTP,
    json: Json = False,
) -> None:
    """Read one more feed.

    \b
    Example:
      tidings feeds add https://example.org/feed.xml
    """
    signed = read_public(key).hex() if key is not None else ""
    found = ask(http, "/api/feeds", {"add": url, "publisher": publisher, "key": signed})
    if json:
        print_json(found)
    else:
        show(f"{url} is read from now on" if found["added"] else f"{url} is read already")


@feeds.command("remove")
def remove(
    url: Annotated[str, typer.Argument(help="The address of the feed.")], http: Http = HTTP, json: Json = False
) -> None:
    """Give a feed up. Whoever got it from us gets it from another.

    \b
    Example:
      tidings feeds remove https://example.org/feed.xml
    """
    found = ask(http, "/api/feeds", {"remove": url})
    if json:
        print_json(found)
    else:
        show(f"{url} is read no longer" if found["removed"] else f"{url} is not read here")
    if not found["removed"]:
        raise typer.Exit(NO)


@feeds.command("status")
def status(http: Http = HTTP, json: Json = False) -> None:
    """Say how the peer stands: friends, feeds that it polls for all, items, messages.

    \b
    Example:
      tidings feeds status --json
    """
    found = ask(http, "/api/status")
    if json:
        print_json(found)
        return
    show(*(f"{name:18} {', '.join(value) if isinstance(value, list) else value}" for name, value in found.items()))


def ask(http: str, path: str, body: dict[str, Any] | None = None) -> Any:
    host, port = parse_address(http, "--http")
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(f"http://{host}:{port}{path}", data=data, headers={"X-Tidings": "feeds"})
    try:
        # Whatever proxy there is, it is not between us and this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=ASK_SECONDS) as answer:
            return plain_json.load(answer)
    except urllib.error.HTTPError as problem:
        raise UsageError(problem.read().decode(errors="replace").strip()) from None
    except (OSError, ValueError) as problem:
        raise HostError(f"no peer answers at {http} ({problem}); start one: tidings feeds run") from None
