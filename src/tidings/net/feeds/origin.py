"""Asking an origin for a feed: politely, and without being sent where nobody wants us to go.

The address of a feed comes from a file, or from somebody who shares it, and could be that of a router, a database or a
cloud's metadata service on our own network. So each address that a name stands for is looked at before it is called,
on every redirect again, and what was looked at is what is called: a name that resolves otherwise a moment later makes
no difference. Only public addresses are called, unless private ones are allowed.

Bounded: redirects, seconds in all, bytes on the wire and bytes after unpacking.
"""

import gzip
import http.client
import io
import ipaddress
import socket
import ssl
import threading
import time
import zlib
from contextlib import closing, suppress
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from tidings import __version__
from tidings.net.errors import HostError
from tidings.net.feeds.entries import DOCUMENT_BYTES_MAX

REDIRECTS_MAX = 5
SECONDS_MAX = 30.0
CONNECT_SECONDS = 10.0
PIECE_BYTES = 64 * 1024
HEADER_CHARS_MAX = 1024
AGENT = f"tidings/{__version__} (feeds shared among their readers; one poll serves all)"
ACCEPT = "application/atom+xml, application/rss+xml;q=0.9, application/xml;q=0.8, */*;q=0.5"


class OriginProblem(HostError):
    """It cannot be had; the text says why."""

    def __init__(self, reason: str, status: int = 0, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.status, self.retry_after = status, retry_after


class OriginAnswer(NamedTuple):
    status: int
    """200 or 304."""
    data: bytes
    etag: str
    modified: str
    moved_to: str
    """Where the feed is for good, if that is not where we asked."""
    max_age: float
    """Seconds for which the origin says that its answer is good."""


class Pinned(http.client.HTTPConnection):
    """To an address that was looked at, whatever its name stands for by now."""

    def __init__(self, host: str, port: int, address: str, context: ssl.SSLContext | None) -> None:
        super().__init__(host, port, timeout=CONNECT_SECONDS)
        self.address, self.context = address, context

    def connect(self) -> None:
        stream = socket.create_connection((self.address, self.port), self.timeout)
        self.sock = self.context.wrap_socket(stream, server_hostname=self.host) if self.context else stream

    def abort(self) -> None:
        """From another thread: whoever reads from it finds its end."""
        with suppress(OSError):
            if self.sock is not None:
                self.sock.shutdown(socket.SHUT_RDWR)


def fetch(url: str, etag: str = "", modified: str = "", allow_private: bool = False) -> OriginAnswer:
    """Blocks; OriginProblem where nothing comes of it."""
    deadline, moved_to, is_permanent = time.monotonic() + SECONDS_MAX, "", True
    for _ in range(REDIRECTS_MAX + 1):
        connection = connect(url, allow_private)
        # An origin that sends a byte now and then would never be too late for a socket.
        watch = threading.Timer(max(0.0, deadline - time.monotonic()), connection.abort)
        watch.daemon = True
        watch.start()
        try:
            # A response that says "close" holds the socket by itself from then on.
            with closing(ask(connection, url, etag, modified)) as response:
                if response.status in (301, 302, 303, 307, 308):
                    target = urljoin(url, response.getheader("Location") or "")
                    is_permanent = is_permanent and response.status in (301, 308)
                    url, moved_to = target, target if is_permanent else moved_to
                    continue
                return read(response, deadline, moved_to)
        except (OSError, http.client.HTTPException, zlib.error, EOFError) as problem:
            raise OriginProblem(f"{type(problem).__name__}: {problem}") from None
        finally:
            watch.cancel()
            connection.close()
    raise OriginProblem(f"more than {REDIRECTS_MAX} redirects")


def connect(url: str, allow_private: bool) -> Pinned:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as problem:
        raise OriginProblem(f"{url} is no address: {problem}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OriginProblem(f"{url} is neither http nor https")
    context = ssl.create_default_context() if parts.scheme == "https" else None
    return Pinned(parts.hostname, port, permitted(parts.hostname, port, allow_private), context)


def permitted(host: str, port: int, allow_private: bool) -> str:
    """An address of that host that may be called; all of them must be, or a name could mix them."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise OriginProblem(f"{host} is not found: {problem}") from None
    addresses = list(dict.fromkeys(str(it[4][0]).partition("%")[0] for it in found))
    inner = [it for it in addresses if not is_public(it)]
    if inner and not allow_private:
        raise OriginProblem(
            f"{host} is {inner[0]}, which is not a public address; allow private addresses if this is a feed of yours"
        )
    return addresses[0]


def is_public(address: str) -> bool:
    known = ipaddress.ip_address(address)
    if isinstance(known, ipaddress.IPv6Address):
        # Addresses that carry one of the other kind lead where that one does.
        carried = known.ipv4_mapped or known.sixtofour or (known.teredo and known.teredo[1])
        if carried:
            known = carried
    return known.is_global and not known.is_multicast and not known.is_reserved


def ask(connection: Pinned, url: str, etag: str, modified: str) -> http.client.HTTPResponse:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"User-Agent": AGENT, "Accept": ACCEPT, "Accept-Encoding": "gzip", "Connection": "close"}
    if etag:
        headers["If-None-Match"] = etag
    if modified:
        headers["If-Modified-Since"] = modified
    try:
        connection.request("GET", target, headers=headers)
    except (UnicodeError, ValueError) as problem:
        raise OriginProblem(f"{url} is no address: {problem}") from None
    return connection.getresponse()


def read(response: http.client.HTTPResponse, deadline: float, moved_to: str) -> OriginAnswer:
    etag, modified = (header(response, name) for name in ("ETag", "Last-Modified"))
    age = max_age(header(response, "Cache-Control"))
    if response.status == 304:
        return OriginAnswer(304, b"", etag, modified, moved_to, age)
    if response.status != 200:
        retry_after = seconds_until(header(response, "Retry-After"))
        raise OriginProblem(f"the origin says {response.status} {response.reason}", response.status, retry_after)
    data = io.BytesIO()
    while piece := response.read(PIECE_BYTES):
        data.write(piece)
        if data.tell() > DOCUMENT_BYTES_MAX:
            raise OriginProblem(f"longer than {DOCUMENT_BYTES_MAX} bytes")
        if time.monotonic() > deadline:
            raise OriginProblem(f"not all of it came within {SECONDS_MAX} s")
    return OriginAnswer(200, unpacked(response, data.getvalue()), etag, modified, moved_to, age)


def unpacked(response: http.client.HTTPResponse, data: bytes) -> bytes:
    if header(response, "Content-Encoding").lower() != "gzip":
        return data
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        whole = stream.read(DOCUMENT_BYTES_MAX + 1)
    if len(whole) > DOCUMENT_BYTES_MAX:
        raise OriginProblem(f"longer than {DOCUMENT_BYTES_MAX} bytes when it is unpacked")
    return whole


def header(response: http.client.HTTPResponse, name: str) -> str:
    value = response.getheader(name) or ""
    return value if len(value) <= HEADER_CHARS_MAX and value.isprintable() else ""


def max_age(text: str) -> float:
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "max-age" and value.strip('"').isdigit():
            return float(value.strip('"')[:9])
    return 0.0


def seconds_until(text: str) -> float:
    """Retry-After: seconds, or a date."""
    from email.utils import parsedate_to_datetime

    if text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time()) if text else 0.0
    except (ValueError, TypeError, OverflowError):
        return 0.0
