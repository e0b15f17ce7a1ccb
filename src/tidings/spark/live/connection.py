"""One connection to brokers, used from code without a loop.

Spark calls readers and writers as plain functions, which have no loop. The loop of a `LiveConnection` turns only inside
its calls, in the thread that calls; there is no thread of its own. Between two calls nobody answers the broker's
heartbeats, and after some time it hangs up. The client then comes back by itself as soon as the loop turns again,
before it asks. A link is made where it is used, in the process of the driver or of a task, and never travels.
"""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from tidings.net.client.client import Client
from tidings.net.errors import NotReachable
from tidings.spark.live.options import Options

Result = TypeVar("Result")


class LiveConnection:
    def __init__(self, options: Options, name: str = "", **others: Any) -> None:
        """`name` and `others` are for `Options.connect`."""
        self.options = options
        self.connecting = options.connect(name, **others)
        self.loop = asyncio.new_event_loop()
        try:
            self.client: Client = self.loop.run_until_complete(self.connecting.open())
        except BaseException:
            self.loop.close()
            raise

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for the result, but not for ever."""
        return self.finish(self.loop.create_task(work))

    def begin(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Let a request leave for the broker while we do something else; `finish` waits for the answer."""
        task = self.loop.create_task(work)
        self.loop.run_until_complete(turn())
        return task

    def finish(self, task: "asyncio.Task[Result]") -> Result:
        return self.loop.run_until_complete(self.bounded(task))

    def drop(self, task: "asyncio.Task[Result]") -> None:
        """Nobody waits for the answer any more."""
        if not task.done():
            task.cancel()
            self.loop.run_until_complete(asyncio.wait([task]))

    async def bounded(self, task: "asyncio.Task[Result]") -> Result:
        try:
            async with asyncio.timeout(self.options.timeout):
                return await task
        except TimeoutError:
            reason = self.client.reason or "no answer"
            raise NotReachable(
                f"{self.client.brokers} did not answer within {self.options.timeout:g} s ({reason}); is the broker "
                'running? give it longer with .option("timeout", seconds)'
            ) from None

    def close(self) -> None:
        if not self.loop.is_closed():
            try:
                self.loop.run_until_complete(self.client.leave())
                self.loop.run_until_complete(self.loop.shutdown_default_executor())
            finally:
                self.loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


TURNS = 3
"""A request is made, handed to the machine, and written, one turn of the loop each."""


async def turn() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)
