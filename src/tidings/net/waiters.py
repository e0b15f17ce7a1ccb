"""Those who wait for the next of something, in the order in which they came.

    while not self.items:
        await self.waiters.wait()

Whoever is woken looks again whether there is something for it. A wake-up that finds its waiter cancelled goes on to the
next one, so none is lost.
"""

import asyncio
from collections import deque


class Waiters:
    def __init__(self) -> None:
        self.futures: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future in self.futures:
                self.futures.remove(future)
            else:
                self.wake_one()
            raise

    def wake_one(self) -> None:
        while self.futures:
            future = self.futures.popleft()
            if not future.done():
                future.set_result(None)
                return

    def wake_all(self) -> None:
        while self.futures:
            self.wake_one()
