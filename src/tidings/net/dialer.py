"""Our attempts to reach one peer.

A peer is called when the machine says `Connect`, or sends it a message and there is no stream. What is sent while an
attempt is under way waits for its outcome, under the bounds of a send queue; when it fails, that is dropped.

After a failure the peer is not called for a while: `backoff_first` seconds, then twice as long each time up to
`backoff_max`, less a random part of up to half, so that a hundred nodes that lost the same peer do not all call at once
when it comes back. What is sent in such a pause is dropped; a `Connect` waits until it is over. So a machine that wants
a lasting link says `Connect` again whenever it hears `LinkDown`, and needs no timer for it. A stream that lasts ends
the series of failures; one that breaks again at once does not.
"""

import asyncio
import os
import ssl
from random import Random
from typing import Protocol

from tidings.model.identity import NodeId
from tidings.net.connection import Cause, Connection, Outbox
from tidings.net.params import HostParams
from tidings.net.tls import Address

DOUBLINGS_MAX = 30
"""Keeps the power of two finite; `backoff_max` is reached long before."""


class Caller(Protocol):
    """Who wants peers called."""

    async def call(self, peer: NodeId, address: Address) -> Connection: ...

    def introduced(self, peer: NodeId) -> Connection | None:
        """A connection with this peer of which it is not yet known whether it becomes the stream."""
        ...

    def is_up(self, peer: NodeId) -> bool: ...

    def connect(self, peer: NodeId) -> None: ...

    def dial_failed(self, dial: "Dial", reason: str) -> None: ...


class Dial:
    def __init__(
        self,
        peer: NodeId,
        address: Address,
        loop: asyncio.AbstractEventLoop,
        params: HostParams,
        rng: Random,
        caller: Caller,
    ) -> None:
        self.peer, self.address, self.loop, self.params, self.rng = peer, address, loop, params, rng
        self.caller = caller
        self.is_wanted = False
        """Whether a `Connect` of the machine waits for its answer."""
        self.failures = 0
        self.retry_at = 0.0
        self.task: asyncio.Task[None] | None = None
        self.retry: asyncio.TimerHandle | None = None
        self.waiting = Outbox(loop, params)

    @property
    def is_under_way(self) -> bool:
        return self.task is not None

    def want(self) -> None:
        """Call as soon as it is allowed."""
        self.is_wanted = True
        if not self.begin() and self.task is None and self.retry is None:
            self.retry = self.loop.call_at(self.retry_at, self.begin_again)

    def begin(self) -> bool:
        """Call now, unless we do so already or it is too early."""
        if self.task is not None or self.loop.time() < self.retry_at:
            return False
        self.cancel_retry()
        self.task = self.loop.create_task(self.attempt(), name=f"call {self.peer}")
        return True

    def begin_again(self) -> None:
        # A loop may wake us before the very moment, and there is no second wake-up.
        self.retry, self.retry_at = None, 0.0
        self.begin()

    async def attempt(self) -> None:
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self.params.connect_timeout):
                connection = await self.caller.call(self.peer, self.address)
                reason = await connection.verdict
                # Both may have called at once. Then one call is refused, and the other one is about to succeed.
                while reason and (other := self.caller.introduced(self.peer)) is not None:
                    reason = await other.verdict
        except TimeoutError:
            reason = f"no answer within {self.params.connect_timeout} s"
            if connection is not None:
                connection.end(Cause.NO_HANDSHAKE, reason)
        except ssl.SSLError as problem:
            reason = f"TLS failed: {problem.reason or problem}"
        except OSError as problem:
            number = problem.errno or 0
            reason = os.strerror(number) if number > 0 else problem.strerror or str(problem)
        self.task = None
        if reason and not self.caller.is_up(self.peer):
            self.put_off()
            self.caller.dial_failed(self, reason)
        elif reason and self.is_wanted:
            # Whoever answered has a stream with us already, under its name.
            self.caller.connect(self.peer)

    def put_off(self) -> None:
        """Nobody calls for a while, longer after each failure."""
        longest = min(self.params.backoff_max, self.params.backoff_first * 2 ** min(self.failures, DOUBLINGS_MAX))
        self.failures += 1
        self.retry_at = self.loop.time() + longest * (1 - self.rng.random() / 2)

    def move(self, address: Address) -> None:
        """The peer is somewhere else: what we learned of its old address does not count."""
        self.address, self.retry_at, self.failures = address, 0.0, 0
        self.cancel_retry()
        if self.is_wanted:
            self.begin()

    def stream_ended(self, lasted: float) -> None:
        if lasted >= self.params.backoff_max:
            self.failures = 0
        self.put_off()

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
