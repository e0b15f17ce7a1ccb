"""A WebSub hub for the feed readers of this machine: they are called when something is new, and need not ask.

A reader asks with a form at `/hub` (`hub.mode`, `hub.topic`, `hub.callback`, and if it likes `hub.lease_seconds` and
`hub.secret`). We call it back to hear whether it meant it, as the standard says, and from then on send it the whole
feed when there is something new: with a signature if it gave a secret. Several items that come together are one call.

Only readers on this machine are called: a callback elsewhere would make us a weapon. Bounded: subscriptions, the time
that a lease lasts, and the seconds that a reader has to answer; one that fails `FAILURES_MAX` times in a row is
forgotten.

Source: WebSub, W3C recommendation of 23 January 2018.
"""

import asyncio
import hashlib
import hmac
import http.client
import secrets
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from tidings.net.feeds.atom import ATOM
from tidings.net.feeds.local import LocalAnswer, NotServed, refused
from tidings.net.tls import is_loopback

SUBSCRIPTIONS_MAX = 1000
LEASE_MAX, LEASE_USUAL = 30 * 86_400, 10 * 86_400
CALL_SECONDS = 10.0
FAILURES_MAX = 5
SECRET_BYTES_MAX = 200
GATHER_SECONDS = 0.2
CHALLENGE_BYTES_MAX = 1024


class HubSubscription(msgspec.Struct):
    topic: str
    callback: str
    secret: str
    until: float
    failures: int = 0


class Hub:
    """`content` gives what is served under one of our addresses now, or None where there is nothing."""

    def __init__(self, url: Callable[[], str], content: Callable[[str], bytes | None], log: Any) -> None:
        self.url, self.content, self.log = url, content, log
        self.subscriptions: dict[tuple[str, str], HubSubscription] = {}
        self.tasks: dict[asyncio.Task[None], None] = {}
        self.changed: dict[str, None] = {}
        self.called = 0

    def begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks[task] = None
        task.add_done_callback(lambda done: self.tasks.pop(done, None))

    async def stop(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def asked(self, body: bytes) -> LocalAnswer:
        form = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        mode, topic, callback = (form.get(f"hub.{it}", "") for it in ("mode", "topic", "callback"))
        secret = form.get("hub.secret", "")
        if mode not in ("subscribe", "unsubscribe"):
            raise NotServed(400, "hub.mode is subscribe or unsubscribe")
        if self.content(topic) is None:
            raise NotServed(404, "hub.topic is no feed of this peer")
        check_callback(callback)
        if len(secret.encode()) >= SECRET_BYTES_MAX:
            raise NotServed(400, f"hub.secret has fewer than {SECRET_BYTES_MAX} bytes")
        lease = form.get("hub.lease_seconds", "")
        seconds = min(max(int(lease), 60), LEASE_MAX) if lease.isdecimal() and len(lease) < 12 else LEASE_USUAL
        if len(self.tasks) >= SUBSCRIPTIONS_MAX:
            raise NotServed(503, "too many are asking at once")
        self.begin(self.verify(mode, HubSubscription(topic, callback, secret, time.time() + seconds), seconds))
        return refused(202, "we call back to hear whether you meant it")

    async def verify(self, mode: str, wanted: HubSubscription, seconds: int) -> None:
        challenge = secrets.token_urlsafe(24)
        words = {"hub.mode": mode, "hub.topic": wanted.topic, "hub.challenge": challenge}
        if mode == "subscribe":
            words["hub.lease_seconds"] = str(seconds)
        joined = f"{wanted.callback}{'&' if urlsplit(wanted.callback).query else '?'}{urlencode(words)}"
        status, answer = await asyncio.to_thread(call, "GET", joined, b"", {})
        if not 200 <= status < 300 or answer.strip() != challenge.encode():
            self.log.info("reader did not mean it", callback=wanted.callback, status=status)
            return
        key = wanted.topic, wanted.callback
        self.subscriptions.pop(key, None)
        if mode == "subscribe":
            self.forget_old()
            if len(self.subscriptions) < SUBSCRIPTIONS_MAX:
                self.subscriptions[key] = wanted

    def forget_old(self) -> None:
        now = time.time()
        self.subscriptions = {key: it for key, it in self.subscriptions.items() if it.until > now}

    def has_news(self, topic: str) -> None:
        if topic in self.changed or not any(it.topic == topic for it in self.subscriptions.values()):
            return
        self.changed[topic] = None
        self.begin(self.tell(topic))

    async def tell(self, topic: str) -> None:
        await asyncio.sleep(GATHER_SECONDS)
        self.changed.pop(topic, None)
        self.forget_old()
        content = self.content(topic)
        readers = [it for it in self.subscriptions.values() if it.topic == topic]
        if content is not None:
            await asyncio.gather(*(self.tell_one(it, content) for it in readers))

    async def tell_one(self, reader: HubSubscription, content: bytes) -> None:
        links = f'<{self.url()}/hub>; rel="hub", <{reader.topic}>; rel="self"'
        headers = {"Content-Type": ATOM, "Link": links}
        if reader.secret:
            digest = hmac.new(reader.secret.encode(), content, hashlib.sha256).hexdigest()
            headers["X-Hub-Signature"] = f"sha256={digest}"
        status, _ = await asyncio.to_thread(call, "POST", reader.callback, content, headers)
        self.called += 1
        reader.failures = 0 if 200 <= status < 300 else reader.failures + 1
        if reader.failures >= FAILURES_MAX or status == 410:
            self.log.info("reader forgotten", callback=reader.callback, status=status)
            self.subscriptions.pop((reader.topic, reader.callback), None)


def check_callback(callback: str) -> None:
    try:
        parts = urlsplit(callback)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise NotServed(400, "hub.callback is no address") from None
    is_ours = parts.scheme == "http" and not parts.username and is_loopback(host)
    if not is_ours or not callback.isascii() or not callback.isprintable() or " " in callback:
        raise NotServed(400, "hub.callback is http on this machine, such as http://127.0.0.1:8080/called")


def call(method: str, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """Blocks; status 0 where nobody answers. No redirect is followed."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=CALL_SECONDS)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body or None, headers)
        response = connection.getresponse()
        answer = response.read(CHALLENGE_BYTES_MAX)
        response.close()
        return response.status, answer
    except (OSError, http.client.HTTPException, ValueError):
        return 0, b""
    finally:
        connection.close()
