"""A small HTTP server for those who watch a node: /metrics, /healthz, /readyz.

    /metrics   what was counted, in the text form that Prometheus reads
    /healthz   200 as long as the node runs
    /readyz    200 when it may be sent traffic; 503 with the reason when not

It answers one request a connection and reads nothing but the first line and the headers, within bounds: this is for
watchers, not a web server. Who asks is answered at once, so whoever is there long is slow, or wants nothing: it gives
way to the next where there are too many. It listens on the loopback interface unless plain text beyond that was asked
for by name.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from tidings.model.escapes import printable
from tidings.net.addresses import address_text, open_sockets
from tidings.net.errors import HostError
from tidings.net.tls import Address, is_loopback

REQUEST_BYTES_MAX = 8 * 1024
"""The first line and the headers."""

REQUEST_TIMEOUT = 5.0
"""Seconds from a connection to the end of its headers, and again for the answer to be taken."""

WATCHERS_MAX = 32
"""Connections at the same time; for one more the one gives way that is there longest."""

HEALTHY, READY, METRICS = "/healthz", "/readyz", "/metrics"
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
PLAIN = "text/plain; charset=utf-8"

Answer = tuple[int, str, bytes]
"""Status, type of content, content."""


class HealthServer:
    """`why_not_ready()` is empty when the node is ready; `registry` is a Prometheus one, read at every request."""

    def __init__(
        self,
        address: Address,
        registry: Any,
        why_not_healthy: Callable[[], str],
        why_not_ready: Callable[[], str],
        insecure: bool = False,
    ) -> None:
        self.address, self.registry, self.insecure = address, registry, insecure
        self.why_not_healthy, self.why_not_ready = why_not_healthy, why_not_ready
        self.server: asyncio.Server | None = None
        self.watchers: dict[asyncio.Task[None], None] = {}
        """Who is there longest stands first."""

    async def start(self) -> None:
        if not self.insecure and not is_loopback(self.address[0]):
            raise HostError(
                f"http {address_text(self.address)}: anybody who reaches it could read it; listen on 127.0.0.1, or say "
                "insecure"
            )
        stream, _ = open_sockets(self.address, with_datagrams=False)
        self.address = stream.getsockname()[:2]
        self.server = await asyncio.start_server(self.serve, sock=stream, limit=REQUEST_BYTES_MAX)

    async def stop(self) -> None:
        if self.server is not None:
            self.server.close()
            for task in list(self.watchers):
                task.cancel()
            await asyncio.gather(*self.watchers, return_exceptions=True)
            await self.server.wait_closed()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.watchers[task] = None
        if len(self.watchers) > WATCHERS_MAX:
            slowest = next(iter(self.watchers))
            del self.watchers[slowest]
            slowest.cancel()
        try:
            answer = await self.answer_to(reader)
            async with asyncio.timeout(REQUEST_TIMEOUT):
                writer.write(encode_answer(*answer))
                await writer.drain()
                # Closing with something unread would reset the connection, and destroy the answer on its way.
                writer.write_eof()
                while await reader.read(REQUEST_BYTES_MAX):
                    pass
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError):
            # Who does not take the answer does not want it.
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self.watchers.pop(task, None)

    async def answer_to(self, reader: asyncio.StreamReader) -> Answer:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            return 408, PLAIN, b"no request came\n"
        except asyncio.LimitOverrunError:
            return 431, PLAIN, b"the request is too long\n"
        except asyncio.IncompleteReadError:
            return 400, PLAIN, b"no whole request came\n"
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return 400, PLAIN, b"this is no HTTP/1.1 request\n"
        method, target = words[0], words[1].decode("ascii", "replace").partition("?")[0]
        if method not in (b"GET", b"HEAD"):
            return 405, PLAIN, b"only GET and HEAD are answered here\n"
        status, kind, content = self.answer(target)
        return status, kind, content if method == b"GET" else b""

    def answer(self, target: str) -> Answer:
        if target == METRICS:
            from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

            return 200, CONTENT_TYPE_LATEST, generate_latest(self.registry)
        if target in (HEALTHY, READY):
            reason = self.why_not_healthy() or (self.why_not_ready() if target == READY else "")
            return (503, PLAIN, f"{printable(reason)}\n".encode()) if reason else (200, PLAIN, b"ok\n")
        return 404, PLAIN, f"there are {METRICS}, {HEALTHY} and {READY}\n".encode()


def encode_answer(status: int, kind: str, content: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content
