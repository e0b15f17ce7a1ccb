"""The streams of a node: at most one to each peer, whoever called whom; and the links that are made of them.

A stream is opened when a machine sends to a peer it has none with. Machines hear nothing of that. A machine that says
`Connect` asks for a link: a stream of which both ends are told, with `LinkUp` and `LinkDown` by turns and with growing
epochs. The wish travels as a capability in the Hello; where a stream is up already, as a second Hello on it. Each
`Connect` has one answer. `dialer.py` says how peers are called, which connection is kept where two nodes have several,
and what becomes of a message.

A peer may be known by its address alone (`identity.at`). Whoever answers there is taken, unless the certificate says
otherwise, and from its Hello on it goes by its own name everywhere; `LinkUp` tells the machine both.

On a stream that breaks, whatever was on its way is gone.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

from tidings.machine.inputs import LinkDown, LinkUp, Received
from tidings.model.bounds import EPOCH_MAX
from tidings.model.identity import NodeId, is_address
from tidings.net import counts as reasons
from tidings.net.connection import HEARTBEAT, Cause, Connection, ConnectionStage
from tidings.net.dialer import Dial, Epochs, Posting, StreamChoice, judge
from tidings.net.stepper import HostWorld
from tidings.net.tls import Address, Tls, TlsUpgrade, why_not_this_peer
from tidings.wire.frames import HEAD_BYTES
from tidings.wire.handshake import Agreement, HandshakeRefusal, Hello, Unreadable, agree, hello

LINK = "link"
"""The capability that says: make a link of this stream."""

ACCEPTING_TURNS = 2
"""Of the loop, until a call that it has accepted is known to us: one to begin, one to be told."""


class HostLinks:
    def __init__(self, world: HostWorld, rng: Random, tls: Tls | None, capabilities: Iterable[str]) -> None:
        self.world, self.rng, self.tls, self.capabilities = world, rng, tls, tuple(capabilities)
        self.loop, self.params, self.counts, self.log = world.loop, world.params, world.counts, world.log
        # A trace shows each message as it was sent.
        self.joins = not world.is_traced
        self.up: dict[NodeId, Connection] = {}
        self.dials: dict[NodeId, Dial] = {}
        self.posting = Posting(world, self.up, self.dials, self.overfull)
        self.names: dict[NodeId, NodeId] = {}
        """Of peers known by their address: who answered there last."""
        self.epochs = Epochs()
        self.rivals: dict[NodeId, Connection] = {}
        """Connections that wait until it is known whether the stream to the same peer still lives."""
        self.open: dict[Connection, None] = {}
        """All connections that have a transport, in whatever stage."""
        self.upgrades: dict[TlsUpgrade, None] = {}
        """Those whose TLS handshake is not finished."""
        self.callers: Counter[str] = Counter()
        """How many of them came from which address."""
        self.all_gone = asyncio.Event()
        self.server: asyncio.Server | None = None
        self.is_paused = self.is_stopping = False

    # Beginning and end.

    async def listen(self, listening: socket.socket) -> None:
        self.server = await self.loop.create_server(self.take_call, sock=listening, start_serving=False)
        # The machine has begun, and may have failed by now.
        if self.is_stopping:
            self.server.close()
        else:
            await self.server.start_serving()

    async def stop(self) -> None:
        """Say goodbye to all, and give them `drain_timeout` to take what waits for them."""
        self.close_doors()
        for connection in list(self.open):
            connection.end(Cause.STOPPED, f"node {self.world.node_id} stops")
        await self.wait_until_gone()

    async def wait_until_gone(self) -> None:
        for _ in range(ACCEPTING_TURNS):
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(self.params.drain_timeout):
                while self.open or self.upgrades:
                    self.all_gone.clear()
                    await self.all_gone.wait()
        except TimeoutError:
            self.log.warning("streams did not take everything in time", streams=len(self.open))
            self.abort()

    def abort(self) -> None:
        """End without a word."""
        self.close_doors()
        for connection in list(self.open):
            connection.end(Cause.STOPPED, "aborted", quietly=True)
            connection.transport.abort()

    def close_doors(self) -> None:
        self.is_stopping = True
        if self.server is not None:
            server, self.server = self.server, None
            # A call that asyncio has accepted and not yet begun with would be left open by closing the server now.
            for listening in server.sockets:
                self.loop.remove_reader(listening.fileno())
            self.loop.call_soon(server.close)
        for dial in self.dials.values():
            dial.stop()
        for upgrade in list(self.upgrades):
            upgrade.abort()

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
            self.dials[peer] = Dial(peer, address, self.loop, self.params, self.rng, self)
        elif dial.address != address:
            dial.move(address)

    def forget(self, peer: NodeId) -> bool:
        """Where the peer is, unless that is in use."""
        dial = self.dials.get(peer)
        if dial is None or dial.is_wanted or dial.is_under_way or self.is_up(peer):
            return False
        dial.stop()
        self.posting.drop_waiting(dial, reasons.NO_ADDRESS)
        del self.dials[peer]
        return True

    def connect(self, peer: NodeId) -> None:
        stream, dial = self.up.get(self.name_of(peer)), self.dials.get(peer)
        if stream is not None and stream.is_link:
            if dial is not None:
                dial.is_wanted = False
            self.world.step_soon(LinkUp(stream.peer, stream.epoch, peer if is_address(peer) else ""))
        elif stream is not None:
            self.ask_for_link(stream)
        elif dial is not None:
            dial.want()
        else:
            self.world.step_soon(LinkDown(peer, self.epochs.of(peer), reasons.NO_ADDRESS))

    def disconnect(self, peer: NodeId, reason: str) -> None:
        dial, reason, name = self.dial_to(peer), reason or "disconnected", self.name_of(peer)
        if dial is not None:
            if dial.is_wanted:
                self.world.step(LinkDown(peer, self.epochs.of(peer), reason))
            dial.stop()
            self.posting.drop_waiting(dial, reasons.NO_LINK)
        for connection in [it for it in self.open if it.peer in (peer, name)]:
            connection.end(Cause.DISCONNECTED, reason)

    # Names and addresses.

    def name_of(self, peer: NodeId) -> NodeId:
        return self.names.get(peer, peer)

    def dial_to(self, peer: NodeId) -> Dial | None:
        """How the node of this name is called, be it by its address."""
        return self.dials.get(peer) or self.dials.get(self.address_of(peer))

    def dial_of(self, connection: Connection) -> Dial | None:
        return self.dial_to(connection.calling or connection.peer)

    def address_of(self, peer: NodeId) -> NodeId:
        return next((address for address, name in self.names.items() if name == peer), "")

    # Calling.

    async def call(self, peer: NodeId, address: Address) -> Connection:
        connection = self.make_connection(peer)
        if self.tls is None:
            await self.loop.create_connection(lambda: connection, *address)
        else:
            upgrade = TlsUpgrade(self.tls.client, self.params.connect_timeout, connection, self)
            await self.loop.create_connection(lambda: upgrade, *address)
            await upgrade.finish(self.loop)
        return connection

    # Being called.

    def take_call(self) -> asyncio.BaseProtocol:
        connection = self.make_connection(None)
        if self.tls is None:
            return connection
        return TlsUpgrade(self.tls.server, self.params.handshake_timeout, connection, self)

    def upgrade_begun(self, upgrade: TlsUpgrade) -> None:
        self.upgrades[upgrade] = None
        is_called = upgrade.connection.calling is None
        if self.is_stopping or (is_called and self.count_strangers() > self.params.strangers_max):
            upgrade.abort()
        elif is_called:
            upgrade.task = self.loop.create_task(self.answer_upgrade(upgrade))

    async def answer_upgrade(self, upgrade: TlsUpgrade) -> None:
        try:
            await upgrade.finish(self.loop)
        except OSError as problem:
            self.log.info("no TLS with a caller", reason=str(problem))

    def upgrade_over(self, upgrade: TlsUpgrade) -> None:
        self.upgrades.pop(upgrade, None)
        self.tell_if_all_gone()

    def make_connection(self, calling: NodeId | None) -> Connection:
        return Connection(self.loop, self.world.clock, self.params, self, calling)

    def introduced(self, peer: NodeId) -> Connection | None:
        name = self.name_of(peer)
        return next((it for it in self.open if it.peer == name and it.stage is ConnectionStage.INTRODUCED), None)

    def is_up(self, peer: NodeId) -> bool:
        return self.name_of(peer) in self.up

    def dial_failed(self, dial: Dial, reason: str) -> None:
        self.counts.dial_failures += 1
        self.posting.drop_waiting(dial, reasons.UNREACHABLE)
        host, port = dial.address
        wait = round(dial.retry_at - self.loop.time(), 3)
        self.log.info("peer not reached", peer=dial.peer, address=f"{host}:{port}", reason=reason, wait=wait)
        self.answer(dial, reason)

    def overfull(self, dial: Dial) -> None:
        """Too much waited for this call, and was dropped."""
        self.answer(dial, reasons.QUEUE_FULL)

    def answer(self, dial: Dial, reason: str) -> None:
        """Tell the machine, if it said `Connect`, that there is no link."""
        if dial.is_wanted:
            dial.is_wanted = False
            self.world.step(LinkDown(dial.peer, self.epochs.of(dial.peer), f"cannot connect: {reason}"))

    # What connections tell us.

    def opened(self, connection: Connection) -> None:
        self.open[connection] = None
        if self.is_stopping:
            connection.end(Cause.STOPPED, f"node {self.world.node_id} stops")
        elif connection.calling is not None and self.is_up(connection.calling):
            # The peer called too, and its call was quicker. Saying Hello now would look like giving up that stream.
            connection.end(Cause.DUPLICATE, "there is a stream already", quietly=True)
            connection.transport.abort()
        elif connection.calling is not None:
            connection.greet(self.greeting(connection.calling))
        elif self.count_caller(connection) > self.params.address_connections_max:
            connection.end(Cause.TOO_MANY, "too many connections from your address; close some, or call another node")
        elif self.count_strangers() > self.params.strangers_max:
            connection.end(Cause.TOO_MANY, "too many connections that are not yet streams; try later")

    def count_strangers(self) -> int:
        return len(self.upgrades) + sum(
            1 for it in self.open if it.stage in (ConnectionStage.GREETING, ConnectionStage.INTRODUCED)
        )

    def count_caller(self, connection: Connection) -> int:
        """One more connection from there; how many there are."""
        connection.caller = str((connection.transport.get_extra_info("peername") or ("",))[0])
        self.callers[connection.caller] += 1
        return self.callers[connection.caller]

    def greeting(self, peer: NodeId) -> Hello:
        dial = self.dial_to(peer)
        wish = (LINK,) if dial is not None and dial.is_wanted else ()
        epoch = self.epochs.next(self.name_of(peer))
        return hello(self.world.node_id, capabilities=(*self.capabilities, *wish), epoch=epoch)

    def greeted(self, connection: Connection, theirs: Hello) -> None:
        if connection.calling is None:
            connection.greet(self.greeting(theirs.node))
        assert connection.mine is not None
        outcome = agree(connection.mine, theirs)
        problem = outcome.reason if isinstance(outcome, HandshakeRefusal) else self.why_not(connection, theirs)
        if problem:
            connection.end(Cause.REFUSED, problem)
            return
        assert isinstance(outcome, Agreement)
        if connection.calling is not None and is_address(connection.calling):
            self.names[connection.calling] = theirs.node
        connection.introduce(outcome)
        if self.world.node_id < theirs.node:
            self.judge(connection, connection.mine, theirs)

    def why_not(self, connection: Connection, theirs: Hello) -> str:
        called = connection.calling
        if called is not None and called != theirs.node and not is_address(called):
            return f"we called {connection.calling}, and {theirs.node} answered; check the address"
        if theirs.node not in self.up and len(self.up) >= self.params.streams_max:
            return f"{self.world.node_id} has {self.params.streams_max} streams already; connect elsewhere"
        return why_not_this_peer(connection.transport.get_extra_info("ssl_object"), theirs.node)

    def judge(self, connection: Connection, mine: Hello, theirs: Hello) -> None:
        """Whether this connection becomes the stream; we are the end that decides."""
        peer, stream = theirs.node, self.up.get(theirs.node)
        match judge(self.epochs.of(peer), mine.epoch, theirs.epoch, stream is not None):
            case StreamChoice.TAKE:
                self.take_as_stream(connection)
            case StreamChoice.REFUSE:
                connection.end(Cause.DUPLICATE, "both ends called at once; the other connection is kept")
            case StreamChoice.QUESTION:
                assert stream is not None
                rival = self.rivals.pop(peer, None)
                if rival is not None:
                    rival.end(Cause.DUPLICATE, "a newer connection waits in its place")
                self.rivals[peer] = connection
                stream.is_questioned = True
                stream.outbox.put(HEARTBEAT)

    def heard(self, stream: Connection) -> None:
        """A stream that was questioned lives."""
        rival = self.rivals.pop(stream.peer, None)
        if rival is not None:
            rival.end(Cause.DUPLICATE, "there is a stream already, and it works")

    def take_as_stream(self, connection: Connection) -> None:
        connection.outbox.put(HEARTBEAT)
        self.accepted(connection)

    def accepted(self, connection: Connection) -> None:
        """This connection is the stream from now on, by our decision or by the peer's."""
        peer, mine, theirs = connection.peer, connection.mine, connection.theirs
        assert mine is not None and theirs is not None
        old = self.up.get(peer)
        if old is not None:
            old.end(Cause.REPLACED, "a newer connection between the same nodes took its place")
        self.up[peer] = connection
        connection.become_up()
        self.counts.streams_opened += 1
        epoch = max(mine.epoch, theirs.epoch)
        self.epochs.remember(peer, epoch)
        dial = self.dial_of(connection)
        if dial is not None:
            dial.cancel_retry()
            self.posting.send_waiting(dial, connection)
            if connection.stage is ConnectionStage.ENDED:
                return
        if self.is_paused:
            connection.pause_reading()
        self.log.info("stream up", peer=peer, epoch=epoch, direction="out" if connection.calling else "in")
        if LINK in mine.capabilities or LINK in theirs.capabilities:
            self.make_link(connection, epoch)
        elif dial is not None and dial.is_wanted:
            self.ask_for_link(connection)

    def ask_for_link(self, stream: Connection) -> None:
        """Say Hello once more on a stream that is up. The answer is the peer's Hello of the same kind."""
        if stream.asked_epoch is None:
            stream.asked_epoch = self.epochs.next(stream.peer)
            capabilities = (*self.capabilities, LINK)
            stream.greet(hello(self.world.node_id, capabilities=capabilities, epoch=stream.asked_epoch))

    def asked_for_link(self, stream: Connection, theirs: Hello) -> None:
        if theirs.node != stream.peer or LINK not in theirs.capabilities or theirs.epoch > EPOCH_MAX:
            stream.end(Cause.BAD_MESSAGE, "a second Hello that asks for no link")
            return
        epoch = max(theirs.epoch, self.epochs.next(stream.peer))
        if stream.asked_epoch is None:
            stream.greet(hello(self.world.node_id, capabilities=(*self.capabilities, LINK), epoch=epoch))
        self.epochs.remember(stream.peer, epoch)
        self.make_link(stream, epoch)

    def make_link(self, stream: Connection, epoch: int) -> None:
        stream.is_link, stream.epoch = True, epoch
        dial = self.dial_of(stream)
        asked = "" if dial is None or dial.peer == stream.peer else dial.peer
        if dial is not None:
            dial.is_wanted = False
        self.log.info("link up", peer=stream.peer, epoch=epoch)
        self.world.step(LinkUp(stream.peer, epoch, asked))

    def received(self, sender: NodeId, message: Any, size_bytes: int) -> None:
        self.counts.stream_messages_received += 1
        self.counts.stream_bytes_received += HEAD_BYTES + size_bytes
        self.world.step(Received(sender, message, size_bytes))

    def called_unreadable(self, connection: Connection, message: Unreadable) -> None:
        self.world.called_unreadable(connection.peer, message)

    def ended(self, connection: Connection, cause: Cause, reason: str) -> None:
        self.counts.closings[cause.value] += 1
        peer = connection.peer
        if self.rivals.get(peer) is connection:
            del self.rivals[peer]
        if self.up.get(peer) is not connection:
            if connection.calling is None:
                self.log.info("connection refused", peer=peer, cause=cause.value, reason=reason)
            return
        del self.up[peer]
        unsent = connection.outbox.take_all()
        for framed in unsent:
            self.posting.lose(peer, framed, reasons.LINK_DOWN)
        self.log.info("stream down", peer=peer, cause=cause.value, reason=reason, unsent=len(unsent))
        dial, rival = self.dial_of(connection), self.rivals.pop(peer, None)
        is_wanted = False
        if dial is not None and cause is not Cause.REPLACED:
            is_wanted, dial.is_wanted = dial.is_wanted, False
            dial.stream_ended(self.world.clock() - connection.up_at)
        if connection.is_link:
            self.world.step(LinkDown(peer, connection.epoch, reason))
        elif connection.asked_epoch is not None or is_wanted:
            epoch = connection.asked_epoch or self.epochs.of(peer)
            self.world.step(LinkDown(peer, epoch, f"cannot connect: {reason}"))
        if rival is not None and cause not in (Cause.REPLACED, Cause.DISCONNECTED, Cause.STOPPED):
            self.take_as_stream(rival)

    def gone(self, connection: Connection) -> None:
        """Its transport is closed."""
        self.open.pop(connection, None)
        self.callers[connection.caller] -= 1
        if self.callers[connection.caller] <= 0:
            del self.callers[connection.caller]
        self.tell_if_all_gone()

    def tell_if_all_gone(self) -> None:
        if not self.open and not self.upgrades:
            self.all_gone.set()
