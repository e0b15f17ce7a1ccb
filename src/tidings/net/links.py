"""The streams of a node: at most one to each peer, whoever called whom; and the links that are made of them.

Machines differ in what they make of a name. Some believe it: a stream is the peer's whose name the Hello says. Others
ask first who is there (`machine.inputs.Knocked`); for these every new stream, called or calling, is that of a
*visitor*, under a name of ours, and becomes the peer's when the machine says so (`Admit`). Until then it replaces
nothing, is remembered nowhere, may say only what is for that question, and in short frames.

A stream is opened when a machine sends to a peer it has none with. Machines hear nothing of that. A machine that says
`Connect` asks for a link: a stream of which both ends are told, with `LinkUp` and `LinkDown` by turns and with growing
epochs. The wish travels as a capability in the Hello; where a stream is up already, as a second Hello on it. Each
`Connect` has one answer. `dialer.py` says how peers are called and what becomes of a message, `door.py` how we are
called, `choice.py` which connection is kept where two nodes have several.

A peer may be known by its address alone (`identity.at`). Whoever answers there is taken, unless the certificate says
otherwise, and from its Hello on it goes by its own name everywhere; `LinkUp` tells the machine both.

On a stream that breaks, whatever was on its way is gone.
"""

import asyncio
from collections.abc import Iterable
from itertools import count
from random import Random
from typing import Any

from tidings.machine.effects import Admit
from tidings.machine.inputs import Knocked, LinkDown, LinkUp, Received
from tidings.model.bounds import EPOCH_MAX
from tidings.model.identity import NodeId, is_address, is_visitor, visitor
from tidings.net import counts as reasons
from tidings.net.choice import Epochs, Rivals, StreamChoice, judge
from tidings.net.connection import HEARTBEAT, READ_BYTES, Cause, Connection, ConnectionStage
from tidings.net.dialer import Dial, Posting
from tidings.net.door import Door
from tidings.net.stepper import HostWorld
from tidings.net.tls import Address, Tls
from tidings.net.tls_stream import TlsStream
from tidings.wire.frames import HEAD_BYTES
from tidings.wire.handshake import Agreement, HandshakeRefusal, Hello, Unreadable, agree, hello

LINK = "link"
"""The capability that says: make a link of this stream."""


class HostLinks:
    """`visitor_messages` is all that a visitor may say; nothing where names are believed."""

    def __init__(
        self,
        world: HostWorld,
        rng: Random,
        tls: Tls | None,
        capabilities: Iterable[str],
        visitor_messages: tuple[type, ...] = (),
    ) -> None:
        self.world, self.rng, self.tls, self.capabilities = world, rng, tls, tuple(capabilities)
        self.visitor_messages, self.visitor_numbers = visitor_messages, count(1)
        self.is_asking = bool(visitor_messages)
        """Whether the machine wants to know who is there before it believes a name."""
        self.loop, self.params, self.counts, self.log = world.loop, world.params, world.counts, world.log
        # A trace shows each message as it was sent.
        self.joins = not world.is_traced
        self.up: dict[NodeId, Connection] = {}
        """Streams; those of visitors under the names that they have here."""
        self.dials: dict[NodeId, Dial] = {}
        self.posting = Posting(world, self.up, self.dials, self.answer, calls=not visitor_messages)
        self.names: dict[NodeId, NodeId] = {}
        """Of peers known by their address: who answered there last."""
        self.epochs = Epochs()
        self.visitors = 0
        """How many of these streams are theirs."""
        self.rivals = Rivals()
        self.heard = self.rivals.heard
        self.open: dict[Connection, None] = {}
        """All connections that have a transport, in whatever stage."""
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.door = Door(self, world.clock)
        self.all_gone = asyncio.Event()
        self.is_paused = self.is_stopping = False

    # Beginning and end.

    async def stop(self) -> None:
        """Say goodbye to all, and give them `drain_timeout` to take what waits for them."""
        self.close_doors()
        for connection in list(self.open):
            connection.end(Cause.STOPPED, f"node {self.world.node_id} stops")
        await self.wait_until_gone()

    async def wait_until_gone(self) -> None:
        await self.door.wait_until_closed()
        try:
            async with asyncio.timeout(self.params.drain_timeout):
                while self.open:
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
        self.door.close()
        for dial in self.dials.values():
            dial.stop()

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
        if is_visitor(peer):
            self.world.step_soon(LinkDown(peer, 0, reasons.NO_ADDRESS))
        elif stream is not None and stream.is_link:
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
            context = self.tls.client if is_address(peer) else self.tls.by_name
            stream = TlsStream(context, connection, self.buffer, self.loop, server_name=address[0])
            await self.loop.create_connection(lambda: stream, *address)
            await stream.secured
        return connection

    def make_connection(self, calling: NodeId | None) -> Connection:
        # Whom we called ourselves we have chosen: what it says may be long.
        is_guarded = calling is None and self.is_asking
        return Connection(self.loop, self.world.clock, self.params, self, calling, self.buffer, is_guarded)

    def introduced(self, peer: NodeId) -> Connection | None:
        # Where names are not believed, one that is claimed is no reason to wait.
        name, candidates = self.name_of(peer), () if self.is_asking else self.open
        return next((it for it in candidates if it.peer == name and it.stage is ConnectionStage.INTRODUCED), None)

    def is_up(self, peer: NodeId) -> bool:
        return self.name_of(peer) in self.up

    def dial_failed(self, dial: Dial, reason: str) -> None:
        self.counts.dial_failures += 1
        self.posting.drop_waiting(dial, reasons.UNREACHABLE)
        if dial.failures.bit_count() == 1:  # at once, and then more and more rarely
            where, wait = ":".join(map(str, dial.address)), round(dial.retry_at - self.loop.time(), 3)
            self.log.info("peer not reached", peer=dial.peer, address=where, reason=reason, wait=wait)
        self.answer(dial, reason)

    def answer(self, dial: Dial, reason: str) -> None:
        """Tell the machine, if it said `Connect`, that there is no link."""
        if dial.is_wanted:
            dial.is_wanted = False
            self.world.step(LinkDown(dial.peer, self.epochs.of(dial.peer), f"cannot connect: {reason}"))

    # What connections tell us.

    def connected(self, connection: Connection) -> None:
        self.open[connection] = None
        if self.is_stopping:
            connection.end(Cause.STOPPED, f"node {self.world.node_id} stops")
        elif connection.calling is None:
            self.door.came(connection)

    def opened(self, connection: Connection) -> None:
        if (calling := connection.calling) is None:
            return
        if self.is_up(calling):
            # The peer called too, and its call was quicker. Saying Hello now would look like giving up that stream.
            connection.give_up(Cause.DUPLICATE, "there is a stream already")
        elif not is_address(calling) and (problem := connection.why_not_certified(calling)):
            connection.give_up(Cause.REFUSED, problem)
        else:
            connection.greet(self.greeting(calling))

    def greeting(self, peer: NodeId) -> Hello:
        dial = self.dial_to(peer)
        wish = (LINK,) if self.is_asking or (dial is not None and dial.is_wanted) else ()
        epoch = self.epochs.next(self.name_of(peer))
        return hello(self.world.node_id, capabilities=(*self.capabilities, *wish), epoch=epoch)

    def greeted(self, connection: Connection, theirs: Hello) -> None:
        if connection.calling is None:
            connection.greet(self.greeting(theirs.node))
        assert connection.mine is not None
        outcome = agree(connection.mine, theirs)
        problem = outcome.reason if isinstance(outcome, HandshakeRefusal) else self.why_not(connection, theirs.node)
        if problem:
            connection.end(Cause.REFUSED, problem)
            return
        assert isinstance(outcome, Agreement)
        connection.introduce(outcome)
        if self.world.node_id < theirs.node:
            if self.is_asking:
                self.take_as_stream(connection)
            else:
                self.recognise(connection, theirs.node)
                self.judge(connection, theirs.node)

    def recognise(self, connection: Connection, name: NodeId) -> None:
        """This node answered where we called."""
        if connection.calling is not None and is_address(connection.calling):
            self.names[connection.calling] = name

    def why_not(self, connection: Connection, node: NodeId) -> str:
        called = connection.calling
        if called is not None and called != node and not is_address(called):
            return f"we called {called}, and {node} answered; check the address"
        if not self.is_asking and self.is_full(node):
            return f"{self.world.node_id} has {self.params.streams_max} streams already; connect elsewhere"
        return connection.why_not_certified(node)

    def is_full(self, peer: NodeId) -> bool:
        return peer not in self.up and len(self.up) - self.visitors >= self.params.streams_max

    def judge(self, connection: Connection, peer: NodeId) -> None:
        """Whether this connection becomes the stream to that peer; we are the end that decides."""
        mine, theirs, stream = connection.mine, connection.theirs, self.up.get(peer)
        assert mine is not None and theirs is not None
        # Who is admitted under another name than it said was not known by that when we greeted it.
        ours = mine.epoch if theirs.node == peer else self.epochs.next(peer)
        proposals = (theirs.epoch, ours) if connection.calling is None else (ours, theirs.epoch)
        match judge(self.epochs.of(peer), *proposals, stream is not None):
            case StreamChoice.TAKE:
                self.take(connection, peer)
            case StreamChoice.REFUSE:
                connection.end(Cause.DUPLICATE, "both ends called at once; the other connection is kept")
            case StreamChoice.QUESTION:
                assert stream is not None
                self.rivals.question(peer, stream, connection)

    def take(self, connection: Connection, peer: NodeId) -> None:
        if connection.stage is ConnectionStage.UP:
            self.bind(connection, peer)
        else:
            self.take_as_stream(connection)

    def take_as_stream(self, connection: Connection) -> None:
        connection.outbox.put(HEARTBEAT)
        self.accepted(connection)

    def accepted(self, connection: Connection) -> None:
        """This connection is a stream from now on, by our decision or by the peer's."""
        assert connection.theirs is not None
        connection.become_up()
        self.counts.streams_opened += 1
        if self.is_paused:
            connection.pause_reading()
        if self.is_asking:
            self.knock(connection, connection.theirs.node)
        else:
            self.recognise(connection, connection.theirs.node)
            self.bind(connection, connection.theirs.node)

    def knock(self, connection: Connection, claimed: NodeId) -> None:
        connection.peer, connection.is_link = visitor(next(self.visitor_numbers)), True
        connection.allowed = self.visitor_messages
        self.up[connection.peer] = connection
        self.visitors += 1
        asked = connection.calling or ""
        dial = self.dials.get(asked)
        if dial is not None:
            dial.is_wanted = False
            dial.cancel_retry()
        self.log.debug("knocked", visitor=connection.peer, claimed=claimed, asked=asked)
        waited = self.world.clock() - connection.made_at
        self.world.step(Knocked(connection.peer, claimed, asked, waited, connection.certified))

    def admit(self, effect: Admit) -> None:
        connection = self.up.get(effect.visitor)
        if connection is None or not is_visitor(effect.visitor):
            # It is gone, and the machine hears of that.
            return
        if self.is_full(effect.name):
            connection.end(Cause.TOO_MANY, f"{self.world.node_id} has {self.params.streams_max} streams already")
            return
        self.recognise(connection, effect.name)
        if effect.replaces:
            self.bind(connection, effect.name)
        else:
            self.judge(connection, effect.name)

    def bind(self, connection: Connection, peer: NodeId) -> None:
        """This is the stream to that peer from now on."""
        mine, theirs, knocked_as = connection.mine, connection.theirs, connection.peer
        assert mine is not None and theirs is not None
        old = self.up.get(peer)
        if old is not None:
            old.end(Cause.REPLACED, "a newer connection between the same nodes took its place")
        if is_visitor(knocked_as):
            del self.up[knocked_as]
            self.visitors -= 1
        self.up[peer], connection.peer = connection, peer
        connection.let_in()
        self.door.let_in(connection)
        epoch = self.epochs.advance(peer, 0 if connection.calling is None else theirs.epoch)
        dial = self.dial_of(connection)
        if dial is not None:
            dial.cancel_retry()
            self.posting.send_waiting(dial, connection)
            if connection.stage is ConnectionStage.ENDED:
                return
        self.log.info("stream up", peer=peer, epoch=epoch, direction="out" if connection.calling else "in")
        if is_visitor(knocked_as):
            self.make_link(connection, epoch, knocked_as)
        elif LINK in mine.capabilities or LINK in theirs.capabilities:
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
        if stream.asked_epoch is None:
            capabilities = (*self.capabilities, LINK)
            epoch = self.epochs.next(stream.peer)
            stream.greet(hello(self.world.node_id, capabilities=capabilities, epoch=epoch))
        believed = 0 if stream.asked_epoch is None else theirs.epoch
        self.make_link(stream, self.epochs.advance(stream.peer, believed))

    def make_link(self, stream: Connection, epoch: int, knocked_as: NodeId = "") -> None:
        stream.is_link, stream.epoch = True, epoch
        dial = self.dial_of(stream)
        asked = "" if dial is None or dial.peer == stream.peer else dial.peer
        if dial is not None:
            dial.is_wanted = False
        self.log.info("link up", peer=stream.peer, epoch=epoch)
        self.world.step(LinkUp(stream.peer, epoch, asked, knocked_as))

    def received(self, sender: NodeId, message: Any, size_bytes: int) -> None:
        self.counts.stream_messages_received += 1
        self.counts.stream_bytes_received += HEAD_BYTES + size_bytes
        self.world.step(Received(sender, message, size_bytes))

    def called_unreadable(self, connection: Connection, message: Unreadable) -> None:
        self.world.called_unreadable(connection.peer, message)

    def ended(self, connection: Connection, cause: Cause, reason: str) -> None:
        self.counts.closings[cause.value] += 1
        peer = connection.peer
        self.rivals.ended(connection)
        if self.up.get(peer) is not connection:
            if connection.calling is None:
                # There may be as many as somebody likes to make.
                self.log.debug("connection refused", peer=peer, cause=cause.value, reason=reason)
            return
        del self.up[peer]
        self.visitors -= is_visitor(peer)
        unsent = connection.outbox.take_all()
        for framed in unsent:
            self.posting.lose(peer, framed, reasons.LINK_DOWN)
        log = self.log.debug if is_visitor(peer) else self.log.info
        log("stream down", peer=peer, cause=cause.value, reason=reason, unsent=len(unsent))
        dial, rival = self.dial_of(connection), self.rivals.take(peer)
        is_wanted = False
        if dial is not None and cause is not Cause.REPLACED:
            is_wanted, dial.is_wanted = dial.is_wanted, False
            dial.stream_ended(self.world.clock() - connection.up_at)
        if connection.is_link:
            asked = connection.calling or "" if is_visitor(peer) else ""
            self.world.step(LinkDown(peer, connection.epoch, reason, asked))
        elif connection.asked_epoch is not None or is_wanted:
            epoch = connection.asked_epoch or self.epochs.of(peer)
            self.world.step(LinkDown(peer, epoch, f"cannot connect: {reason}"))
        if rival is not None and cause not in (Cause.REPLACED, Cause.DISCONNECTED, Cause.STOPPED):
            self.take(rival, peer)

    def gone(self, connection: Connection) -> None:
        """Its transport is closed."""
        self.open.pop(connection, None)
        self.door.left(connection)
        if not self.open:
            self.all_gone.set()
