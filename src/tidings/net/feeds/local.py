"""The door for the feed readers of this machine: plain HTTP on loopback.

    /                 a page that lists the feeds
    /f/NAME           one of them, as Atom; with ETag, so that a reader that asks again gets 304
    /opml             all of them, for a reader that imports lists
    /api/feeds        the same as JSON; POST {"add": URL} or {"remove": URL}
    /api/status       how this peer stands
    /hub              WebSub: a reader asks to be called when something is new (`hub.py`)

It listens on loopback only, and answers only requests that name a loopback host: a page in a browser that lets its own
name stand for 127.0.0.1 is sent away. To change something, a request has to carry the header `X-Tidings`, which no page
of somebody else can make a browser send.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import xxhash

from tidings.model.errors import UsageError
from tidings.net.addresses import address_text, open_sockets
from tidings.net.errors import HostError
from tidings.net.tls import Address, is_loopback

REQUEST_BYTES_MAX = 16 * 1024
BODY_BYTES_MAX = 64 * 1024
REQUEST_SECONDS = 10.0
CALLERS_MAX = 64
REASONS = {
    200: "OK", 202: "Accepted", 304: "Not Modified", 400: "Bad Request", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 408: "Request Timeout", 411: "Length Required", 413: "Content Too Large",
    421: "Misdirected Request", 431: "Request Header Fields Too Large", 503: "Service Unavailable",
}  # fmt: skip
PLAIN, JSON = "text/plain; charset=utf-8", "application/json"
HEADER = "x-tidings"


class LocalRequest(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class LocalAnswer(NamedTuple):
    status: int
    kind: str
    content: bytes
    headers: tuple[tuple[str, str], ...] = ()


Serve = Callable[[LocalRequest], Awaitable[LocalAnswer]]


class NotServed(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class LocalDoor:
    def __init__(self, address: Address, serve: Serve) -> None:
        if not is_loopback(address[0]):
            raise HostError(
                f"--http {address_text(address)}: feeds are served to this machine only; give 127.0.0.1:PORT"
            )
        self.address, self.serve = address, serve
        self.server: asyncio.Server | None = None
        self.callers: dict[asyncio.Task[None], None] = {}

    async def start(self) -> None:
        stream, _ = open_sockets(self.address, with_datagrams=False)
        self.address = stream.getsockname()[:2]
        self.server = await asyncio.start_server(self.called, sock=stream, limit=REQUEST_BYTES_MAX)

    async def stop(self) -> None:
        if self.server is not None:
            self.server.close()
            for task in list(self.callers):
                task.cancel()
            await asyncio.gather(*self.callers, return_exceptions=True)
            await self.server.wait_closed()

    async def called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.callers[task] = None
        if len(self.callers) > CALLERS_MAX:
            # Whoever has been here longest is the slowest.
            slowest = next(iter(self.callers))
            del self.callers[slowest]
            slowest.cancel()
        try:
            answer, is_head = await self.answer_to(reader)
            async with asyncio.timeout(REQUEST_SECONDS):
                writer.write(encode_answer(answer, is_head))
                await writer.drain()
                writer.write_eof()
                while await reader.read(REQUEST_BYTES_MAX):
                    pass
        except (OSError, TimeoutError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            writer.close()
            self.callers.pop(task, None)

    async def answer_to(self, reader: asyncio.StreamReader) -> tuple[LocalAnswer, bool]:
        request = None
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = await self.read(reader)
            answer = await self.serve(request)
        except TimeoutError:
            answer = refused(408, "no whole request came")
        except asyncio.LimitOverrunError:
            answer = refused(431, "the request is too long")
        except asyncio.IncompleteReadError:
            answer = refused(400, "no whole request came")
        except NotServed as problem:
            answer = refused(problem.status, problem.text)
        except (UsageError, HostError) as problem:
            answer = refused(400, str(problem))
        return answer, request is not None and request.method == "HEAD"

    async def read(self, reader: asyncio.StreamReader) -> LocalRequest:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise NotServed(400, "this is no HTTP/1.1 request")
        headers = {name.strip().lower(): value.strip() for name, _, value in (it.partition(":") for it in lines)}
        self.check_host(headers.get("host", ""))
        method, path = words[0], urlsplit(words[1]).path
        if method not in ("GET", "HEAD", "POST"):
            raise NotServed(405, "GET, HEAD and POST are answered here")
        if method != "POST":
            return LocalRequest(method, path, headers, b"")
        length = headers.get("content-length", "")
        if not length.isascii() or not length.isdigit():
            raise NotServed(411, "say how long the body is")
        if len(length) > 9 or int(length) > BODY_BYTES_MAX:
            raise NotServed(413, f"a body has {BODY_BYTES_MAX} bytes at most")
        return LocalRequest(method, path, headers, await reader.readexactly(int(length)))

    def check_host(self, text: str) -> None:
        host = text.rpartition(":")[0] if not text.endswith("]") and ":" in text else text
        if host.strip("[]") != "localhost" and not is_loopback(host.strip("[]")):
            raise NotServed(421, "this machine is meant by another name than that")


def refused(status: int, text: str) -> LocalAnswer:
    return LocalAnswer(status, PLAIN, f"{text}\n".encode("utf-8", "replace"))


def json_answer(value: object) -> LocalAnswer:
    return LocalAnswer(200, JSON, msgspec.json.encode(value))


def cached(request: LocalRequest, kind: str, content: bytes) -> LocalAnswer:
    """With a tag; and without the content for whoever has it."""
    tag = f'"{xxhash.xxh3_64_hexdigest(content)}"'
    headers = (("ETag", tag), ("Cache-Control", "no-cache"))
    known = [it.strip().removeprefix("W/") for it in request.headers.get("if-none-match", "").split(",")]
    if tag in known:
        return LocalAnswer(304, kind, b"", headers)
    return LocalAnswer(200, kind, content, headers)


def encode_answer(answer: LocalAnswer, is_head: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status} {REASONS[answer.status]}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(answer.content)}",
        # What a feed brings along must not run in a page of ours.
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
    return head if is_head or answer.status == 304 else head + answer.content
