"""An origin of feeds: a real HTTP server on loopback that counts who asks, and can misbehave."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple


class Scripted(NamedTuple):
    """What it answers instead of the feed."""

    status: int
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""


class Origin(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), OriginHandler)
        self.items: list[tuple[str, str]] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.answered: list[int] = []
        self.scripts: dict[str, Scripted] = {}
        """By path."""
        self.ttl = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    @property
    def feed(self) -> str:
        return self.url + "feed.xml"

    def publish(self, key: str, title: str) -> None:
        self.items = [(key, title), *(it for it in self.items if it[0] != key)]

    def document(self) -> bytes:
        items = "".join(
            f"<item><guid isPermaLink='false'>{key}</guid><title>{title}</title></item>" for key, title in self.items
        )
        return f"<rss version='2.0'><channel><title>News</title>{self.ttl}{items}</channel></rss>".encode()


class OriginHandler(BaseHTTPRequestHandler):
    server: Origin

    def do_GET(self) -> None:
        origin = self.server
        origin.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        script = origin.scripts.get(self.path)
        if script is None:
            body = origin.document()
            tag = f'"{hash(body) & 0xFFFFFFFF:x}"'
            is_known = self.headers.get("If-None-Match") == tag
            script = Scripted(304 if is_known else 200, {"ETag": tag}, b"" if is_known else body)
        origin.answered.append(script.status)
        self.send_response(script.status)
        for name, value in {"Content-Length": str(len(script.body)), **script.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(script.body)

    def log_message(self, *words: Any) -> None:
        pass


@contextmanager
def origin() -> Iterator[Origin]:
    server = Origin()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
