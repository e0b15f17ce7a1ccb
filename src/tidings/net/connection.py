"""One TCP connection: frames in, frames out, signs of life. It knows nothing of other connections.

A connection has four stages. `greeting`: the caller sends its Hello, and the called end answers with its own once it
knows who calls (it needs the name to propose an epoch). `introduced`: both Hellos are there and agree; now the end with
the smaller name decides whether this connection becomes the stream between the two (`links.py` says why there can be
more than one), and says so with its first Heartbeat, or with a Goodbye. `up`: messages flow. `ended`: the reason is
known and nothing more is handed on, though the transport may still be sending what had waited. A further Hello while
the stream is up asks to make a link of it.

Signs of life. Once in `heartbeat_period` we look: if nothing was sent since the last look, a Heartbeat is; if nothing
was heard for `silence_max`, the peer is taken for dead. That finds what TCP does not: a machine that lost its power, a
cable, a process that hangs. Time during which we ourselves stood still, or did not read, does not count as silence.

The end. Whoever ends a connection says Goodbye with the reason, behind whatever still waits, closes its sending half,
and throws away what arrives until the other end closes too; closing at once would make the operating system reset the
connection and destroy the Goodbye on its way. `drain_timeout` bounds all of this.

Nothing a peer sends raises beyond here. Bytes that are no frame or no message end the connection, with the reason;
whatever came before them is handed on first. The peer is told which message it was, and does not send it again.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, cast

from tidings.model.bounds import CREDENTIALS_BYTES_MAX, FRAME_BYTES_MAX, OPENING_BYTES_MAX, PUBLICATIONS_MAX
from tidings.model.identity import NodeId, is_address
from tidings.net.counts import QUEUE_FULL
from tidings.net.outbox import Outbox
from tidings.net.params import HostParams
from tidings.net.tls import certified
from tidings.protocols.delivery.messages import PublishMessage, joined
from tidings.wire.codec import BadMessage
from tidings.wire.frames import HEAD_BYTES, FrameReader, frame
from tidings.wire.handshake import Agreement, Goodbye, Heartbeat, Hello, Unreadable, goodbye, unreadable
from tidings.wire.registry import decode, encode

READ_BYTES = 256 * 1024
"""Bytes read at once, into a buffer that all connections of a host share: what is in it is copied before the call
returns that filled it."""

VISITOR_FRAME_BYTES_MAX = 2 * CREDENTIALS_BYTES_MAX
"""Body of a frame of whoever called us, until it is known who that is: credentials and a little more."""

RUN_BYTES_MAX = 128 * 1024
"""Publications of a client that have arrived are handled together up to about this size."""

HEARTBEAT = frame(encode(Heartbeat()))
CONTROL = (Hello, Heartbeat, Goodbye, Unreadable)


class ConnectionStage(Enum):
    GREETING = "greeting"
    INTRODUCED = "introduced"
    UP = "up"
    ENDED = "ended"


class Cause(Enum):
    """Why a connection ended, for counting; the sentence for people goes beside it."""

    GOODBYE = "the peer said goodbye"
    LOST = "connection lost"
    SILENT = "peer silent"
    BAD_FRAME = "bad frame"
    BAD_MESSAGE = "bad message"
    NO_HANDSHAKE = "no handshake"
    REFUSED = "handshake refused"
    DUPLICATE = "duplicate connection"
    REPLACED = "replaced by a newer connection"
    TOO_MANY = "too many connections"
    UNSENT = "a message did not fit"
    DISCONNECTED = "disconnected on purpose"
    STOPPED = "this node stops"


class Owner(Protocol):
    """Who decides about connections and takes their messages."""

    joins: bool
    """Whether publications that have arrived together may be handed over as one message."""

    def connected(self, connection: "Connection") -> None:
        """There is a connection, and nothing was said on it; with TLS its handshake has yet to come."""
        ...

    def opened(self, connection: "Connection") -> None:
        """Messages can be said on it."""
        ...

    def greeted(self, connection: "Connection", theirs: Hello) -> None: ...

    def accepted(self, connection: "Connection") -> None: ...

    def asked_for_link(self, connection: "Connection", theirs: Hello) -> None: ...

    def heard(self, connection: "Connection") -> None: ...

    def received(self, sender: NodeId, message: Any, size_bytes: int) -> None: ...

    def called_unreadable(self, connection: "Connection", message: Unreadable) -> None: ...

    def ended(self, connection: "Connection", cause: Cause, reason: str) -> None: ...

    def gone(self, connection: "Connection") -> None: ...


class Connection(asyncio.BufferedProtocol):
    """`calling` is the name of the peer we called, None if we were called."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        params: HostParams,
        owner: Owner,
        calling: NodeId | None,
        buffer: memoryview,
        is_guarded: bool = False,
    ) -> None:
        self.loop, self.clock, self.params, self.owner, self.calling = loop, clock, params, owner, calling
        self.stage = ConnectionStage.GREETING
        self.peer: NodeId = calling or ""
        self.caller = ""
        """The address from which we were called; empty where we called."""
        self.mine: Hello | None = None
        self.theirs: Hello | None = None
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        """There from `connected` on, before which nobody else knows of us."""
        self.outbox = Outbox(loop, params)
        self.buffer = buffer
        self.reader = FrameReader(
            VISITOR_FRAME_BYTES_MAX if is_guarded else FRAME_BYTES_MAX, opening_bytes_max=OPENING_BYTES_MAX
        )
        self.allowed: tuple[type, ...] | None = None
        """All that the other end may say, while it is not known who that is."""
        self.unread: list[bytes] = []
        self.run: list[PublishMessage] = []
        self.run_bytes = 0
        self.certified: tuple[str, ...] | None = None
        """What the certificate of the other end says that it may be; None where there is none for its name."""
        self.is_link = False
        """Whether an end asked for a link, so that machines hear of this stream, under the epoch below."""
        self.epoch = 0
        self.asked_epoch: int | None = None
        """What we proposed when we asked for a link on a stream that was up."""
        self.frame_bytes_max = 0
        """The longest frame that the peer reads."""
        self.is_reading_paused = False
        self.is_questioned = False
        """Whether the owner wants to know when something is heard."""
        self.heard_at = clock()
        self.made_at = self.heard_at
        self.up_at = self.look_at = 0.0
        self.tick: asyncio.TimerHandle | None = None
        self.verdict: asyncio.Future[str] = loop.create_future()
        """Done when the connection is up, with "", or has ended before, with the reason."""

    # What the transport tells us.

    def connected(self, transport: asyncio.Transport) -> None:
        """TCP is there."""
        self.transport = transport
        self.tick = self.loop.call_later(self.params.handshake_timeout, self.give_up_greeting)
        self.owner.connected(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.transport is None:
            self.connected(cast(asyncio.Transport, transport))
        if self.stage is not ConnectionStage.ENDED:
            self.transport.set_write_buffer_limits(high=self.params.write_buffer_bytes)
            self.outbox.attach(self.transport)
            self.owner.opened(self)

    def not_secured(self, problem: Exception) -> None:
        """There is no TLS with the other end."""
        self.end(Cause.NO_HANDSHAKE, f"no TLS: {problem}", quietly=True)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.arrived(bytes(self.buffer[:nbytes]))

    def arrived(self, data: bytes) -> None:
        if self.stage is ConnectionStage.ENDED or self.reader.problem is not None:
            return
        self.heard_at = self.clock()
        if self.is_questioned:
            self.is_questioned = False
            self.owner.heard(self)
        self.take(self.reader.feed(data))

    def eof_received(self) -> None:
        if self.stage is not ConnectionStage.ENDED:
            self.end(Cause.LOST, "the peer closed the connection without a goodbye")

    def connection_lost(self, error: Exception | None) -> None:
        self.end(Cause.LOST, f"the connection broke: {error}" if error else "the connection broke", quietly=True)
        self.cancel_tick()
        self.owner.gone(self)

    def pause_writing(self) -> None:
        self.outbox.is_paused = True

    def resume_writing(self) -> None:
        self.outbox.is_paused = False
        self.outbox.flush()

    # What arrives.

    def take(self, bodies: list[bytes]) -> None:
        for place, body in enumerate(bodies):
            if self.is_reading_paused:
                self.unread += bodies[place - len(self.run) :]
                self.run.clear()
                return
            try:
                message = decode(body)
            except BadMessage as problem:
                self.hand_over()
                self.end(Cause.BAD_MESSAGE, problem.reason, bad=body)
                return
            if self.allowed is not None and type(message) not in self.allowed and type(message) not in CONTROL:
                self.end(Cause.BAD_MESSAGE, f"{type(message).__name__} came before it is known who you are")
                return
            if self.run and not self.goes_with_run(message):
                self.hand_over()
                if self.is_reading_paused and self.stage is not ConnectionStage.ENDED:
                    self.unread += bodies[place:]
                    return
            if self.stage is ConnectionStage.UP and type(message) is PublishMessage and self.owner.joins:
                self.run.append(message)
                self.run_bytes += HEAD_BYTES + len(body)
            elif self.stage is ConnectionStage.UP and type(message) not in CONTROL:
                self.owner.received(self.peer, message, len(body))
            elif self.stage is not ConnectionStage.ENDED:
                self.take_control(message)
            if self.stage is ConnectionStage.ENDED:
                self.run.clear()
                return
        self.hand_over()
        if self.reader.problem is not None and self.reader.can_go_on:
            self.take(self.reader.feed(b""))
        elif self.reader.problem is not None:
            self.end(Cause.BAD_FRAME, self.reader.problem)

    def goes_with_run(self, message: Any) -> bool:
        """Publications that a client sent one after the other are handled as one batch, which costs much less."""
        return (
            type(message) is PublishMessage
            and message.continues(self.run[-1])
            and self.run_bytes < RUN_BYTES_MAX
            and sum([len(each.heads) for each in self.run]) + len(message.heads) <= PUBLICATIONS_MAX
        )

    def hand_over(self) -> None:
        if self.run:
            message = self.run[0] if len(self.run) == 1 else joined(self.run)
            size_bytes, self.run, self.run_bytes = self.run_bytes - HEAD_BYTES, [], 0
            self.owner.received(self.peer, message, size_bytes)

    def take_control(self, message: Any) -> None:
        kind = type(message)
        if kind is Goodbye:
            self.end(Cause.GOODBYE, message.reason or "the peer said goodbye", quietly=True)
            self.transport.close()
        elif kind is Unreadable and self.stage is ConnectionStage.UP:
            self.owner.called_unreadable(self, message)
        elif self.stage is ConnectionStage.GREETING:
            if kind is not Hello:
                self.end(Cause.NO_HANDSHAKE, f"{kind.__name__} came where Hello was expected")
                return
            self.theirs, self.peer = message, message.node
            self.owner.greeted(self, message)
        elif kind is Hello and self.stage is ConnectionStage.UP and not self.is_link:
            self.owner.asked_for_link(self, message)
        elif kind is not Heartbeat:
            self.end(Cause.BAD_MESSAGE, f"{kind.__name__} came at the wrong time: this stream is {self.stage.value}")
        elif self.stage is ConnectionStage.INTRODUCED:
            self.owner.accepted(self)

    def pause_reading(self) -> None:
        if not self.is_reading_paused and self.stage is not ConnectionStage.ENDED:
            self.is_reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self.is_reading_paused:
            self.is_reading_paused = False
            bodies, self.unread = self.unread, []
            if self.stage is not ConnectionStage.ENDED:
                self.take(bodies)
            if not self.is_reading_paused and not self.transport.is_closing():
                # While we did not read we could not hear: the silence was ours.
                self.heard_at = self.clock()
                self.transport.resume_reading()

    # What leaves.

    def greet(self, mine: Hello) -> None:
        if self.mine is None:
            self.mine = mine
        if not self.outbox.put(frame(encode(mine))):
            self.end(Cause.UNSENT, QUEUE_FULL)

    def introduce(self, agreement: Agreement) -> None:
        self.stage, self.frame_bytes_max = ConnectionStage.INTRODUCED, agreement.frame_bytes_max

    def become_up(self) -> None:
        self.stage = ConnectionStage.UP
        self.up_at = self.clock()
        self.cancel_tick()
        self.look_later()
        self.decide("")

    def let_in(self) -> None:
        """It is known who is there: from now on it may say anything, at any length."""
        self.allowed = None
        self.reader.widen(FRAME_BYTES_MAX)

    def why_not_certified(self, node: NodeId) -> str:
        """What the certificate of the other end says against its being that node."""
        called, encrypted = self.calling, self.transport.get_extra_info("ssl_object")
        found = certified(encrypted, node, called, is_host_proved=called is not None and is_address(called))
        self.certified = found.roles
        return found.problem

    def end(self, cause: Cause, reason: str, quietly: bool = False, bad: bytes = b"") -> None:
        """The connection is over for us. Unless `quietly`, the peer is told why behind what waits for it; `bad` is the
        body of the message that could not be read, if that is why."""
        if self.stage is ConnectionStage.ENDED:
            return
        self.stage = ConnectionStage.ENDED
        self.unread.clear()
        self.cancel_tick()
        if not quietly and not self.transport.is_closing():
            self.say_goodbye(reason, bad)
        self.decide(reason)
        self.owner.ended(self, cause, reason)

    def give_up(self, cause: Cause, reason: str) -> None:
        """End it without a word."""
        self.end(cause, reason, quietly=True)
        self.transport.abort()

    def dismiss(self, cause: Cause, reason: str) -> None:
        """End it with a word, and without waiting until the other end has taken it: for strangers, of whom there may be
        many."""
        self.end(cause, reason, quietly=True)
        self.transport.write(frame(encode(goodbye(reason))))
        self.transport.close()

    def say_goodbye(self, reason: str, bad: bytes) -> None:
        self.resume_reading()
        complaint = frame(encode(unreadable(bad, reason))) if bad else b""
        self.outbox.finish(complaint + frame(encode(goodbye(reason))))
        self.tick = self.loop.call_later(self.params.drain_timeout, self.transport.abort)
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        try:
            self.transport.write_eof()
        except OSError:
            # The peer is gone already; the transport has not told us yet.
            self.transport.abort()

    # Signs of life.

    def look(self) -> None:
        now = self.clock()
        # A look that comes late means that this process stood still, and could not hear either.
        self.heard_at = now if self.is_reading_paused else min(now, self.heard_at + max(0.0, now - self.look_at))
        silent = now - self.heard_at
        if silent >= self.params.silence_max:
            self.end(Cause.SILENT, f"nothing was heard for {silent:.1f} s", quietly=True)
            self.transport.abort()
            return
        if not self.outbox.has_written and not self.outbox.frames:
            self.outbox.put(HEARTBEAT)
        self.outbox.has_written = False
        self.look_later()

    def look_later(self) -> None:
        self.look_at = self.clock() + self.params.heartbeat_period
        self.tick = self.loop.call_later(self.params.heartbeat_period, self.look)

    def give_up_greeting(self) -> None:
        self.end(Cause.NO_HANDSHAKE, f"no handshake within {self.params.handshake_timeout} s")

    def decide(self, reason: str) -> None:
        if not self.verdict.done():
            self.verdict.set_result(reason)

    def cancel_tick(self) -> None:
        if self.tick is not None:
            self.tick.cancel()
            self.tick = None
