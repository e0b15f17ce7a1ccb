"""The links of a node: at most one to each peer, whoever called whom.

Two nodes may call each other at the same moment, and a peer whose connection broke unnoticed calls again while we still
hold the old one. So there can be several connections between two nodes, and both must keep the same one. Only one of
the two decides: the one with the smaller name. It takes the first connection that is introduced, and tells the other
with its first Heartbeat; the other waits for that. When a further connection is introduced while a link is up:

- It was begun before the link was agreed upon (its epoch is not larger): both called at once. It is refused.
- The caller proposed a larger epoch: it knew the link and has given it up. The new one replaces it.
- Neither: the caller has no memory, or it called before it heard of the link. The deciding end sends a heartbeat on the
  link and waits. If anything is heard on the link, the new one is refused; if it breaks (a process that was restarted
  answers with a reset), the new one takes its place.

A machine hears `LinkUp(peer, epoch)` and `LinkDown(peer, epoch, reason)` by turns, with growing epochs.

What is sent to a peer without a link goes as `dialing.py` says. What is lost for a reason we know is reported as lost,
with that reason. On a link that breaks, whatever was on its way is gone: the machine hears `LinkDown`.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Protocol

from tidings.machine.inputs import Input, LinkDown, LinkUp, Received
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net import counts as reasons
from tidings.net.connection import HEARTBEAT, Cause, Connection, Stage
from tidings.net.counts import Counts
from tidings.net.dialing import Dial
from tidings.net.params import HostParams
from tidings.net.tls import Address, Tls, check_permitted, why_not_this_peer
from tidings.wire.frames import HEAD_BYTES, frame
from tidings.wire.handshake import Agreement, Hello, Refusal, agree, hello
from tidings.wire.registry import decode, encode

EPOCHS_MAX = 100_000
"""Peers whose last epoch is remembered; the one that was heard of longest ago is forgotten."""


class World(Protocol):
    """The host, as far as links need it."""

    node_id: NodeId
    loop: asyncio.AbstractEventLoop
    params: HostParams
    counts: Counts
    log: Any

    def clock(self) -> float: ...

    def step(self, input: Input) -> None: ...

    def step_soon(self, input: Input) -> None: ...

    def lost(self, to: NodeId, message: Any, reason: str) -> None: ...


class Links:
    def __init__(self, world: World, rng: Random, tls: Tls | None, insecure: bool, capabilities: Iterable[str]) -> None:
        self.world, self.rng, self.tls, self.insecure = world, rng, tls, insecure
        self.capabilities = tuple(capabilities)
        self.loop, self.params, self.counts, self.log = world.loop, world.params, world.counts, world.log
        self.up: dict[NodeId, Connection] = {}
        self.dials: dict[NodeId, Dial] = {}
        self.epochs: dict[NodeId, int] = {}
        self.rivals: dict[NodeId, Connection] = {}
        """Connections that wait until it is known whether the link to the same peer still lives."""
        self.open: dict[Connection, None] = {}
        """All connections that have a transport, in whatever stage."""
        self.all_gone = asyncio.Event()
        self.server: asyncio.Server | None = None
        self.is_paused = self.is_stopping = False
        self.latest_message: Any = None
        self.latest_frame = b""

    # Beginning and end.

    async def listen(self, listening: socket.socket) -> None:
        tls = self.tls.server if self.tls else None
        timeout = self.params.handshake_timeout if tls else None
        self.server = await self.loop.create_server(
            lambda: self.make_connection(None), sock=listening, ssl=tls, ssl_handshake_timeout=timeout
        )

    async def stop(self) -> None:
        """Say goodbye to all, and give them `drain_timeout` to take what waits for them."""
        self.is_stopping = True
        if self.server is not None:
            self.server.close()
        for dial in self.dials.values():
            dial.stop()
        for connection in list(self.open):
            connection.end(Cause.STOPPED, f"node {self.world.node_id} stops")
        try:
            async with asyncio.timeout(self.params.drain_timeout):
                while self.open:
                    self.all_gone.clear()
                    await self.all_gone.wait()
        except TimeoutError:
            self.log.warning("links did not take everything in time", links=len(self.open))
            self.abort()

    def abort(self) -> None:
        """End without a word."""
        self.is_stopping = True
        if self.server is not None:
            self.server.close()
        for dial in self.dials.values():
            dial.stop()
        for connection in list(self.open):
            connection.end(Cause.STOPPED, "aborted", quietly=True)
            connection.abort()

    def pause_reading(self) -> None:
        self.is_paused = True
        for connection in list(self.up.values()):
            connection.pause_reading()

    def resume_reading(self) -> None:
        self.is_paused = False
        for connection in list(self.up.values()):
            if self.is_paused:
                return
            connection.resume_reading()

    # What the machine orders.

    def learn(self, peer: NodeId, address: Address) -> None:
        dial = self.dials.get(peer)
        if dial is None:
            self.dials[peer] = Dial(
                peer, address, self.loop, self.params, self.rng, call=self.call, failed=self.dial_failed
            )
        elif dial.address != address:
            dial.address, dial.retry_at, dial.failures = address, 0.0, 0
            dial.cancel_retry()
            if peer not in self.up:
                dial.try_again()

    def connect(self, peer: NodeId) -> None:
        dial = self.dials.get(peer)
        if dial is None:
            self.world.step_soon(LinkDown(peer, self.epochs.get(peer, 0), reasons.NO_ADDRESS))
            return
        dial.is_wanted, dial.is_told = True, False
        if peer not in self.up:
            dial.want()

    def disconnect(self, peer: NodeId, reason: str) -> None:
        dial = self.dials.get(peer)
        if dial is not None:
            dial.stop()
            self.drop_waiting(dial, reasons.NO_LINK)
        for connection in [it for it in self.open if it.peer == peer and it.stage is not Stage.ENDED]:
            connection.end(Cause.DISCONNECTED, reason or "disconnected")

    def send(self, to: NodeId, message: Any) -> None:
        framed = self.frame_of(to, message)
        if framed is None:
            return
        link = self.up.get(to)
        if link is None:
            self.send_without_link(to, message, framed)
        elif len(framed) - HEAD_BYTES > link.agreement.frame_bytes_max:  # type: ignore[union-attr]
            self.world.lost(to, message, reasons.TOO_LARGE)
        elif link.outbox.put(framed):
            self.counts.stream_messages_sent += 1
            self.counts.stream_bytes_sent += len(framed)
        else:
            self.world.lost(to, message, reasons.QUEUE_FULL)

    def frame_of(self, to: NodeId, message: Any) -> bytes | None:
        # The same message often goes to many.
        if message is self.latest_message:
            return self.latest_frame
        try:
            framed = frame(encode(message))
        except UsageError as problem:
            self.log.error("message without bytes", message=type(message).__name__, problem=str(problem))
            self.world.lost(to, message, reasons.NO_BYTES)
            return None
        self.latest_message, self.latest_frame = message, framed
        return framed

    def send_without_link(self, to: NodeId, message: Any, framed: bytes) -> None:
        dial = self.dials.get(to)
        if dial is None:
            self.world.lost(to, message, reasons.NO_ADDRESS)
        elif not dial.is_under_way and not dial.begin():
            self.world.lost(to, message, reasons.NO_LINK)
        elif not dial.waiting.put(framed):
            self.world.lost(to, message, reasons.QUEUE_FULL)

    # Calling.

    async def call(self, peer: NodeId, address: Address) -> Connection:
        host, port = address
        check_permitted(host, port, self.tls, self.insecure)
        tls = self.tls.client if self.tls else None
        _, connection = await self.loop.create_connection(
            lambda: self.make_connection(peer), host, port, ssl=tls, server_hostname="" if tls else None
        )
        return connection

    def make_connection(self, calling: NodeId | None) -> Connection:
        return Connection(self.loop, self.world.clock, self.params, self, calling)

    def dial_failed(self, dial: Dial, reason: str) -> None:
        if dial.peer in self.up:
            return
        self.counts.dial_failures += 1
        self.drop_waiting(dial, reasons.UNREACHABLE)
        host, port = dial.address
        wait = round(dial.retry_at - self.loop.time(), 3)
        self.log.info("peer not reached", peer=dial.peer, address=f"{host}:{port}", reason=reason, again_after=wait)
        if dial.is_wanted and not dial.is_told:
            dial.is_told = True
            self.world.step_soon(LinkDown(dial.peer, self.epochs.get(dial.peer, 0), f"cannot connect: {reason}"))
        dial.try_again()

    def drop_waiting(self, dial: Dial, reason: str) -> None:
        for framed in dial.waiting.take_all():
            self.world.lost(dial.peer, decode(framed[HEAD_BYTES:]), reason)

    # What connections tell us.

    def opened(self, connection: Connection) -> None:
        self.open[connection] = None
        if self.is_stopping:
            connection.end(Cause.STOPPED, f"node {self.world.node_id} stops")
        elif connection.calling is not None:
            connection.greet(self.greeting(connection.calling))
        elif sum(1 for it in self.open if it.stage in (Stage.GREETING, Stage.INTRODUCED)) > self.params.strangers_max:
            connection.end(Cause.TOO_MANY, "too many connections that are not yet links; try later")

    def greeting(self, peer: NodeId) -> Hello:
        return hello(
            self.world.node_id, capabilities=self.capabilities, epoch=self.epochs.get(peer, 0) + 1
        )

    def greeted(self, connection: Connection, theirs: Hello) -> None:
        if connection.calling is None:
            connection.greet(self.greeting(theirs.node))
        assert connection.mine is not None
        outcome = agree(connection.mine, theirs)
        problem = outcome.reason if isinstance(outcome, Refusal) else self.why_not(connection, theirs)
        if problem:
            connection.end(Cause.REFUSED, problem)
            return
        assert isinstance(outcome, Agreement)
        connection.introduce(outcome)
        if self.world.node_id < theirs.node:
            self.judge(connection, outcome, theirs)

    def why_not(self, connection: Connection, theirs: Hello) -> str:
        if connection.calling is not None and connection.calling != theirs.node:
            return f"we called {connection.calling}, and {theirs.node} answered; check the address"
        if theirs.node not in self.up and len(self.up) >= self.params.links_max:
            return f"{self.world.node_id} has {self.params.links_max} links already; connect elsewhere"
        return why_not_this_peer(connection.transport.get_extra_info("ssl_object"), theirs.node)

    def judge(self, connection: Connection, agreement: Agreement, theirs: Hello) -> None:
        """Whether this connection becomes the link; we are the end that decides."""
        link = self.up.get(agreement.peer)
        if link is None and agreement.epoch > self.epochs.get(agreement.peer, 0):
            self.take_as_link(connection)
        elif link is None or agreement.epoch <= self.epochs[agreement.peer]:
            connection.end(Cause.DUPLICATE, "both ends called at once; the other connection is kept")
        elif theirs.epoch > self.epochs[agreement.peer]:
            self.take_as_link(connection)
        else:
            rival = self.rivals.pop(agreement.peer, None)
            if rival is not None:
                rival.end(Cause.DUPLICATE, "a newer connection waits in its place")
            self.rivals[agreement.peer] = connection
            link.outbox.put(HEARTBEAT)

    def take_as_link(self, connection: Connection) -> None:
        connection.accept()
        self.accepted(connection)

    def accepted(self, connection: Connection) -> None:
        """This connection is the link from now on, by our decision or by the peer's."""
        peer = connection.peer
        old = self.up.get(peer)
        if old is not None:
            old.end(Cause.REPLACED, "a newer connection between the same nodes took its place")
        assert connection.agreement is not None
        epoch = connection.agreement.epoch
        self.remember_epoch(peer, epoch)
        self.up[peer] = connection
        connection.become_up()
        self.counts.links_up += 1
        self.log.info("link up", peer=peer, epoch=epoch, called=connection.calling is not None)
        dial = self.dials.get(peer)
        if dial is not None:
            dial.cancel_retry()
            dial.is_told = False
            for framed in dial.waiting.take_all():
                connection.outbox.put(framed)
                self.counts.stream_messages_sent += 1
                self.counts.stream_bytes_sent += len(framed)
        if self.is_paused:
            connection.pause_reading()
        self.world.step_soon(LinkUp(peer, epoch))

    def remember_epoch(self, peer: NodeId, epoch: int) -> None:
        self.epochs.pop(peer, None)
        self.epochs[peer] = epoch
        if len(self.epochs) > EPOCHS_MAX:
            del self.epochs[next(iter(self.epochs))]
