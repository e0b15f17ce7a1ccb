"""Asking by publishing, and replying to what was asked.

    reply = await client.request({"type": "price", "symbol": "IBM"}, timeout=2)          whoever knows

    async for event in await client.subscribe("type = 'price'"):                         whoever answers
        await client.reply(event, json={"price": 101.5})

A request is an event like any other, with one more attribute (`REPLY_ATTRIBUTE`): a word drawn at random. Whoever gets
it may reply, and does not learn who asked; the reply goes back on the way on which the event came
(`protocols/delivery/edge/replies.py`). The first reply ends the request; those that come later are counted, and thrown
away.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tidings.model.bounds import REPLY_WORD_CHARS
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.values import Value
from tidings.net.client.payloads import CONTENT_TYPE, JSON, Given, Payload, contents
from tidings.net.client.subscription import Delivered
from tidings.net.errors import NotAnswered
from tidings.pubsub.client import REPLY_ATTRIBUTE, Replied, SendReply
from tidings.pubsub.publications import encode_head, event_of

REQUEST_TIMEOUT = 10.0
"""Seconds that `request` waits where nothing else is said."""


class Reply(msgspec.Struct, frozen=True):
    """What somebody answered; who, nobody says."""

    head: bytes
    payload: bytes

    @property
    def event(self) -> Event:
        return event_of(self.head, self.payload)

    @property
    def attributes(self) -> dict[str, Value]:
        return self.event.attributes

    def json(self) -> Any:
        """The value that `reply(event, json=...)` was given."""
        if self.attributes.get(CONTENT_TYPE) != JSON:
            raise UsageError("json: the reply says that it is something else; take its payload")
        return msgspec.json.decode(self.payload)


class OpenRequests:
    """Requests of this client that wait for a reply, by their words."""

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Future[Reply]] = {}
        self.unclaimed = 0
        """Replies that nobody waited for: they came after the first one, or too late."""

    def begin(self) -> str:
        word = secrets.token_hex(REPLY_WORD_CHARS // 2)
        self.waiting[word] = asyncio.get_running_loop().create_future()
        return word

    async def wait(self, word: str, timeout: float) -> Reply:
        try:
            async with asyncio.timeout(timeout):
                return await self.waiting[word]
        except TimeoutError:
            raise NotAnswered(
                f"request: nobody replied within {timeout:g} s; is somebody subscribed to it, and answering? "
                "`tidings why` tells where an event goes"
            ) from None

    def end(self, word: str) -> None:
        self.waiting.pop(word).cancel()

    def arrived(self, item: Replied) -> None:
        waiting = self.waiting.get(item.word)
        if waiting is None or waiting.done():
            self.unclaimed += 1
        else:
            waiting.set_result(Reply(item.head, item.payload))

    def fail(self, error: Exception) -> None:
        for waiting in self.waiting.values():
            if not waiting.done():
                waiting.set_exception(error)


def word_of(event: Delivered) -> str:
    word = event.attributes.get(REPLY_ATTRIBUTE) if isinstance(event, Delivered) else None
    if not isinstance(word, str):
        raise UsageError("reply: this event was not published by request(), so nobody waits for an answer to it")
    return word


class RequestingClient:
    """That part of a client."""

    requests: OpenRequests
    publish: Callable[..., Coroutine[Any, Any, None]]
    ask: Callable[..., Coroutine[Any, Any, Any]]

    async def request(
        self,
        attributes: Given,
        payload: Payload = b"",
        *,
        json: Any | UnsetType = UNSET,
        timeout: float = REQUEST_TIMEOUT,
    ) -> Reply:
        """Publish it, and wait for the first who replies; NotAnswered after so many seconds."""
        attributes, payload = contents(attributes, payload, json)
        word = self.requests.begin()
        try:
            await self.publish({**attributes, REPLY_ATTRIBUTE: word}, payload)
            return await self.requests.wait(word, timeout)
        finally:
            self.requests.end(word)

    async def reply(
        self,
        event: Delivered,
        payload: Payload = b"",
        *,
        json: Any | UnsetType = UNSET,
        attributes: dict[str, Value] | None = None,
    ) -> None:
        """Answer an event that was published by `request`. Returns when the broker of the client that asked has
        the reply for it; Refused or NotReachable if that cannot be."""
        word = word_of(event)
        attributes, payload = contents(attributes or {}, payload, json)
        head = encode_head(Event(attributes, payload).attributes)
        await self.ask("reply", lambda ticket: SendReply(ticket, event.life, word, head, payload))
