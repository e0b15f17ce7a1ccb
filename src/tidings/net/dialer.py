"""Peers of a node: how each is called, and what becomes of a message.

**Calling.** A peer is called when the machine says `Connect`, or sends it a message and there is no stream. What is
sent while an attempt is under way waits for its outcome, under the bounds of a send queue; when it fails, that is
dropped.

After a failure the peer is not called for a while: `backoff_first` seconds, then twice as long each time up to
`backoff_max`, less a random part of up to half, so that a hundred nodes that lost the same peer do not all call at once
when it comes back. What is sent in such a pause is dropped; a `Connect` waits until it is over. So a machine that wants
a lasting link says `Connect` again whenever it hears `LinkDown`, and needs no timer for it. A stream that lasts ends
the series of failures; one that breaks again at once does not.

**Sending.** A message is encoded once, however many peers it goes to one after the other. Without a stream it waits for
the call that is under way, or causes one.

A stream has no holes. A message that it cannot take, because its queue is full or the peer reads no frame of that
length, ends it: what waits in the queue still goes out, in order, with a goodbye behind it. If it was a link, both ends
hear `LinkDown`, and their protocols do what they do when a link breaks. To leave the one message out and go on would be
worse, since nobody would be told. In the same way, when too much waits for a call, all of it is dropped, and a
`Connect` that waits with it is answered by `LinkDown`. Where the message itself is the reason, the machine hears which
one (`Unread`), so that it does not end the next stream too.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

from tidings.machine.effects import BROADCAST
from tidings.machine.inputs import Unread
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net import counts as reasons
from tidings.net.connection import CONTROL, Cause, Connection, ConnectionStage
from tidings.net.outbox import Outbox
from tidings.net.params import HostParams
from tidings.net.stepper import HostWorld
from tidings.net.tls import Address
from tidings.wire.codec import BadMessage
from tidings.wire.frames import HEAD_BYTES, frame
from tidings.wire.registry import decode, encode

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
        except ssl.SSLCertVerificationError as problem:
            reason = f"TLS failed: {problem.verify_message}; check the address, and what is in the certificate"
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


class Posting:
    """`up` are the streams there are, `dials` the peers that can be called; both belong to `Links`. `overfull(dial,
    reason)` is called when too much waited for a call, and was dropped. With `calls` a message without a stream causes
    a call; without, which is right where whoever answers has to prove who it is first, it is dropped."""

    def __init__(
        self,
        world: HostWorld,
        up: Mapping[NodeId, Connection],
        dials: Mapping[NodeId, Dial],
        overfull: Callable[[Dial, str], None],
        calls: bool,
    ) -> None:
        self.world, self.counts, self.up, self.dials, self.overfull = world, world.counts, up, dials, overfull
        self.calls = calls
        self.latest_message: Any = None
        self.latest_frame = b""

    def send(self, to: NodeId, message: Any) -> None:
        if to == BROADCAST:
            self.world.lost(to, message, reasons.NO_BROADCAST)
            return
        if message is not self.latest_message:
            try:
                self.latest_frame = frame(encode(message))
            except UsageError as problem:
                self.latest_message = None
                self.world.log.error("message without bytes", message=type(message).__name__, problem=str(problem))
                self.world.lost(to, message, reasons.NO_BYTES)
                self.world.step(Unread(to, message, f"{reasons.NO_BYTES}: {problem}"))
                return
            self.latest_message = message
        stream = self.up.get(to)
        if stream is not None:
            self.put(stream, self.latest_frame)
        else:
            self.send_without_stream(to, message, self.latest_frame)

    def put(self, stream: Connection, framed: bytes) -> None:
        if len(framed) > stream.frame_bytes_max + HEAD_BYTES:
            told = f"{len(framed) - HEAD_BYTES} bytes, and {stream.peer} reads at most {stream.frame_bytes_max}"
            self.world.step(Unread(stream.peer, message_in(framed), f"{reasons.TOO_LARGE}: {told}"))
            self.break_off(stream, framed, reasons.TOO_LARGE)
        elif stream.outbox.put(framed):
            self.counts.stream_messages_sent += 1
            self.counts.stream_bytes_sent += len(framed)
        else:
            self.break_off(stream, framed, reasons.QUEUE_FULL)

    def break_off(self, stream: Connection, framed: bytes, reason: str) -> None:
        self.lose(stream.peer, framed, reason)
        stream.end(Cause.UNSENT, reason)

    def send_without_stream(self, to: NodeId, message: Any, framed: bytes) -> None:
        dial = self.dials.get(to)
        if dial is None:
            self.world.lost(to, message, reasons.NO_ADDRESS)
        elif not self.calls or (not dial.is_under_way and not dial.begin()):
            self.world.lost(to, message, reasons.NO_LINK)
        elif not dial.waiting.put(framed):
            self.world.lost(to, message, reasons.QUEUE_FULL)
            self.drop_waiting(dial, reasons.QUEUE_FULL)
            self.overfull(dial, reasons.QUEUE_FULL)

    def send_waiting(self, dial: Dial, stream: Connection) -> None:
        """The call succeeded."""
        # What was said in the handshake must not count as waiting messages.
        stream.outbox.flush()
        for framed in dial.waiting.take_all():
            if stream.stage is ConnectionStage.ENDED:
                self.lose(stream.peer, framed, reasons.LINK_DOWN)
            else:
                self.put(stream, framed)

    def drop_waiting(self, dial: Dial, reason: str) -> None:
        for framed in dial.waiting.take_all():
            self.lose(dial.peer, framed, reason)

    def lose(self, to: NodeId, framed: bytes, reason: str) -> None:
        message = message_in(framed)
        if type(message) not in CONTROL:
            self.world.lost(to, message, reason)


def message_in(framed: bytes) -> Any:
    """The message; or its bytes, if nobody can read them."""
    try:
        return decode(framed[HEAD_BYTES:])
    except BadMessage:
        return framed
