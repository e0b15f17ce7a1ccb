"""Our attempts to reach one peer.

A peer is called for one of two reasons: the machine wants a lasting link (`Connect`), then we try again until there is
one or it says `Disconnect`; or the machine sends a message and there is no link, then we try once. What is sent while
an attempt is under way waits for its outcome, under the bounds of a send queue; when it fails, that is dropped.

After a failure nobody is called for a while: `backoff_first` seconds, then twice as long each time up to `backoff_max`,
less a random part of up to half, so that a hundred nodes that lost the same peer do not all call at once when it comes
back. What is sent in such a pause is dropped. A link that lasts ends the series of failures; one that breaks again at
once does not.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from random import Random

from tidings.model.identity import NodeId
from tidings.net.connection import Connection
from tidings.net.outbox import Outbox
from tidings.net.params import HostParams
from tidings.net.tls import Address

DOUBLINGS_MAX = 30
"""Keeps the power of two finite; `backoff_max` is reached long before."""


class Dial:
    """`call(peer, address)` opens a connection; `failed(dial, reason)` hears of each attempt that led to no link."""

    def __init__(
        self,
        peer: NodeId,
        address: Address,
        loop: asyncio.AbstractEventLoop,
        params: HostParams,
        rng: Random,
        call: Callable[[NodeId, Address], Awaitable[Connection]],
        failed: Callable[["Dial", str], None],
    ) -> None:
        self.peer, self.address, self.loop, self.params, self.rng = peer, address, loop, params, rng
        self.call, self.failed = call, failed
        self.is_wanted = False
        self.is_told = False
        """Whether the machine knows that there is no link."""
        self.failures = 0
        self.retry_at = 0.0
        self.task: asyncio.Task[None] | None = None
        self.retry: asyncio.TimerHandle | None = None
        self.waiting = Outbox(loop, params)

    @property
    def is_under_way(self) -> bool:
        return self.task is not None

    def want(self) -> None:
        self.is_wanted, self.is_told = True, False
        self.begin_or_wait()

    def begin_or_wait(self) -> None:
        if not self.begin() and self.task is None and self.retry is None:
            self.retry = self.loop.call_at(self.retry_at, self.begin)

    def begin(self) -> bool:
        """Call now, unless we do so already or it is too early."""
        if self.task is not None or self.loop.time() < self.retry_at:
            return False
        self.cancel_retry()
        self.task = self.loop.create_task(self.attempt(), name=f"call {self.peer}")
        return True

    async def attempt(self) -> None:
        connection = None
        try:
            async with asyncio.timeout(self.params.connect_timeout):
                connection = await self.call(self.peer, self.address)
                reason = await connection.verdict
        except TimeoutError:
            reason = f"no answer within {self.params.connect_timeout} s"
        except ssl.SSLError as problem:
            reason = f"TLS failed: {problem.reason or problem}"
        except OSError as problem:
            reason = problem.strerror or str(problem)
        self.task = None
        if reason:
            if connection is not None:
                connection.abort()
            self.put_off()
            self.failed(self, reason)

    def put_off(self) -> None:
        """Nobody calls for a while, longer after each failure."""
        longest = min(self.params.backoff_max, self.params.backoff_first * 2 ** min(self.failures, DOUBLINGS_MAX))
        self.failures += 1
        self.retry_at = self.loop.time() + longest * (1 - self.rng.random() / 2)

    def try_again(self) -> None:
        if self.is_wanted:
            self.begin_or_wait()

    def link_ended(self, lasted: float) -> None:
        if lasted >= self.params.backoff_max:
            self.failures = 0
        self.put_off()
        self.try_again()

    def stop(self) -> None:
        """No further attempt, and none that is under way."""
        self.is_wanted = False
        self.cancel_retry()
        if self.task is not None:
            self.task.cancel()
            self.task = None

    def cancel_retry(self) -> None:
        if self.retry is not None:
            self.retry.cancel()
            self.retry = None
