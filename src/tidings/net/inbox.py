"""What was delivered and waits for the application.

    async for event in host.items:
        ...

The inbox is bounded, and `InboxPolicy` says what happens when it is full. With PAUSE the host stops reading from its
links, and reads on when the application has emptied half of the inbox: the pressure goes back to the senders, whose
queues are bounded too.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from tidings.net.errors import HostError
from tidings.net.params import InboxPolicy

INBOX_FULL = "inbox full"


class Inbox:
    """`relieved` is called when a full inbox under PAUSE has room again."""

    def __init__(self, size_max: int, policy: InboxPolicy, relieved: Callable[[], None]) -> None:
        self.size_max, self.policy, self.relieved = size_max, policy, relieved
        self.items: deque[Any] = deque()
        self.news = asyncio.Event()
        self.ended = False
        self.failure: BaseException | None = None
        self.is_pausing = False

    def put(self, item: Any) -> Any:
        """Take `item` in. Returns what had to be given up for want of room, in a tuple of one; () if nothing."""
        if len(self.items) < self.size_max:
            self.items.append(item)
            if self.policy is InboxPolicy.PAUSE and len(self.items) == self.size_max:
                self.is_pausing = True
            self.news.set()
            return ()
        if self.policy is InboxPolicy.DROP_OLDEST:
            self.items.append(item)
            return (self.items.popleft(),)
        return (item,)

    async def get(self) -> Any:
        """The oldest item, as soon as there is one."""
        while not self.items:
            if self.ended:
                raise self.failure or HostError("the host has stopped, and everything it delivered was taken")
            self.news.clear()
            await self.news.wait()
        return self.take()

    def take(self) -> Any:
        item = self.items.popleft()
        if self.is_pausing and len(self.items) <= self.size_max // 2:
            self.is_pausing = False
            self.relieved()
        return item

    def take_all(self) -> list[Any]:
        """Everything that is there, without waiting."""
        return [self.take() for _ in range(len(self.items))]

    def end(self, failure: BaseException | None) -> None:
        """Nothing more will come. What is there can still be taken."""
        self.ended, self.failure = True, failure
        self.news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.get()
        except HostError:
            raise StopAsyncIteration from None
