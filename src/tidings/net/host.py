"""One node in the real world: a machine, its sockets, its timers, its disk.

    async with Host("a", machine, listen=("127.0.0.1", 7400), peers={"b": ("127.0.0.1", 7401)}) as host:
        host.inject(Publish(event))
        async for item in host.items:
            ...

The machine is the same object that runs in the simulator. Whatever happens (a message, a timer, a link, a saved entry)
becomes an input; inputs are handled one at a time, on one thread, each to its end (`stepper.py`), and peers that ask
for much wait for the others (`turns.py`). Time is the clock of the loop. A round of the loop hands out the messages
that have arrived and then fires what is due (`timers.py`): a single loop that never blocks, messages first, expired
timers when no message waits.

A message to a peer goes over a stream (`links.py`) or as a datagram (`directory.py`), as its `Send` says. What cannot
be sent is dropped with a reason, counted, and written to the trace; the machine is not asked. `Save` and `Load` go to
SQLite, `Compute` to threads (`storage.py`), `Deliver` to `host.items` (`inbox.py`). A signal has
nobody to hear it here. Bulk transfers (`Transfer`) are not built: the machine is told so.

A machine that raises has broken an invariant. The host then stops where it is, without goodbyes, and the error comes
out wherever the application waits: in `items`, in `wait()`, and at the end of `async with`.
"""

import asyncio
import math
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

from tidings.machine.effects import (
    BROADCAST,
    Admit,
    CancelTimer,
    CancelTransfer,
    Compute,
    Connect,
    Deliver,
    Disconnect,
    Drop,
    Know,
    Load,
    ProbeNode,
    Save,
    Send,
    SetTimer,
    Transfer,
    Transport,
)
from tidings.machine.inputs import Computed, Fired, Input, Loaded, Received, Saved, TimerKey, Transferred, Unread
from tidings.machine.message import Message
from tidings.machine.node import Machine, visitor_messages
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net import counts as reasons
from tidings.net.addresses import address_text, open_sockets
from tidings.net.counts import HostCounts
from tidings.net.directory import Datagrams, Directory
from tidings.net.errors import HostError
from tidings.net.inbox import INBOX_FULL, Inbox
from tidings.net.links import LINK, HostLinks
from tidings.net.logs import make_logger
from tidings.net.params import HostParams
from tidings.net.probes import NodeProbes
from tidings.net.stepper import Stepper
from tidings.net.storage import NO_STORAGE, TOO_MANY_COMPUTATIONS, TOO_MANY_WAITING, Answer, Computing, Storage
from tidings.net.timers import Timers
from tidings.net.tls import Address, Tls, check_address, check_permitted, is_loopback
from tidings.net.turns import Turns
from tidings.trace.writer import Writer
from tidings.wire.handshake import Unreadable, digest_of, hello
from tidings.wire.registry import decode, encode

ANY_PORT: Address = ("127.0.0.1", 0)
NOWHERE: Address = ("", 0)


NO_TRANSFERS = "bulk transfers are possible in the simulator only; send it in messages"
"""What a machine that asks for one is told."""


class Host:
    """`address` is where it listens, once it has started; `counts` is what it has counted."""

    def __init__(
        self,
        node_id: NodeId,
        machine: Machine,
        *,
        listen: Address | None = ANY_PORT,
        peers: Mapping[NodeId, Address] | None = None,
        params: HostParams | None = None,
        tls: Tls | None = None,
        insecure: bool = False,
        storage: str | Path | None = None,
        trace: Writer | None = None,
        rng: Random | None = None,
        capabilities: Iterable[str] = (),
        inbox: Inbox | None = None,
        log: Any = None,
        observers: Mapping[type, Callable[[Any], None]] | None = None,
        unanswered: Callable[[], Iterable[Message]] = tuple,
    ) -> None:
        """`peers` says where nodes are; links are made when the machine asks for one or sends. A host that listens
        nowhere (None) only calls others. `rng` spreads attempts to connect over time. `storage` is the file for `Save`;
        `trace` a writer, which the caller closes. `inbox` takes what is delivered in place of the usual one.
        `observers` are called with what the machine notes, by kind. `unanswered` are messages that the machine would
        send again on another stream: one that a peer could not read is looked for there."""
        self.capabilities = tuple(capabilities)
        hello(node_id, capabilities=(*self.capabilities, LINK))
        for peer, address in (peers or {}).items():
            self.check_peer("peers", node_id, peer, address)
        self.node_id, self.machine, self.listen, self.peers = node_id, machine, listen, dict(peers or {})
        self.params = params or HostParams()
        self.tls, self.insecure, self.storage_path = tls, insecure, storage
        self.is_traced, self.unanswered = trace is not None, unanswered
        self.rng = rng or Random()
        self.log = log or make_logger(node_id)
        self.counts = HostCounts()
        self.clock: Callable[[], float] = time.monotonic
        self.failure: Exception | None = None
        self.items = inbox or Inbox(self.params.inbox_max, self.params.inbox_policy, self.inbox_relieved)
        self.ended = asyncio.Event()
        self.address: Address = listen or NOWHERE
        self.loop: asyncio.AbstractEventLoop
        self.links: HostLinks
        self.timers: Timers
        self.computing: Computing
        self.probes: NodeProbes
        self.datagrams: Datagrams | None = None
        self.directory: Directory
        self.storage: Storage | None = None
        performers: dict[type, Callable[[Any], None]] = {
            Send: self.send,
            SetTimer: self.set_timer,
            CancelTimer: lambda effect: self.timers.cancel(effect.key),
            Deliver: self.deliver,
            Drop: lambda effect: self.stepper.count(effect.reason),
            Connect: lambda effect: self.links.connect(effect.neighbour),
            Disconnect: lambda effect: self.links.disconnect(effect.neighbour, effect.reason),
            Admit: lambda effect: self.links.admit(effect),
            Know: lambda effect: self.directory.know(effect),
            ProbeNode: lambda effect: self.probes.ask(effect),
            Compute: self.compute,
            Transfer: lambda effect: self.step_soon(Transferred(effect.key, NO_TRANSFERS)),
            CancelTransfer: lambda effect: None,
            Save: self.save,
            Load: self.load,
            **(observers or {}),
        }
        self.stepper = Stepper(node_id, machine, self.clock, self.counts, self.log, trace, performers, self.fail)
        self.turns = Turns(
            self.params.turn,
            self.clock,
            self.counts,
            step=self.stepper.take,
            give_up=self.stepper.give_up,
            soon=lambda serve: self.loop.call_soon(serve),
            reading=lambda peer: self.links.up.get(peer),
            is_paused=lambda: self.links.is_paused or not self.is_running,
        )
        # Who calls others and is not called has nobody to be fair to.
        self.step: Callable[[Input], None] = self.stepper.take if listen is None else self.turns.take
        self.step_soon, self.lost = self.stepper.take_soon, self.stepper.lost

    # Beginning and end.

    async def start(self) -> None:
        if self.is_running or self.items.ended:
            raise UsageError("start: this host has been started already; make a new one, with a new machine")
        self.loop = asyncio.get_running_loop()
        for address in (*((self.listen,) if self.listen else ()), *self.peers.values()):
            check_permitted(address[0], address[1], self.tls, self.insecure)
        if self.listen is not None and self.tls is not None and self.tls.server is None:
            raise UsageError("listen: whoever is called over TLS needs a certificate; give tls=Tls.from_files(...)")
        stream, datagram = None, None
        if self.listen is not None:
            stream, datagram = open_sockets(self.listen, self.insecure or is_loopback(self.listen[0]))
            self.address = stream.getsockname()[:2]
        try:
            if self.storage_path is not None:
                self.storage = await asyncio.to_thread(self.open_storage, Path(self.storage_path))
            await self.begin(stream, datagram)
        except BaseException:
            await self.stop()
            for each in (stream, datagram):
                if each is not None:
                    each.close()
            raise

    async def begin(self, stream: socket.socket | None, datagram: socket.socket | None) -> None:
        self.timers = Timers(self.loop, self.fire)
        self.links = HostLinks(self, self.rng, self.tls, self.capabilities, visitor_messages(self.machine))
        self.datagrams = Datagrams(self, datagram) if datagram is not None else None
        self.directory = Directory(self, self.links, self.datagrams, self.tls, self.insecure)
        self.probes = NodeProbes(self.loop, self.directory.address_of, self.step)
        self.computing = Computing(self.params.compute_workers, self.params.computations_max, self.computed)
        for peer, address in self.peers.items():
            await self.directory.configure(peer, address)
        if self.ended.is_set():
            raise HostError(f"host {self.node_id} was stopped while it started")
        self.stepper.write("start", detail=f'{{"clock":"{datetime.now(UTC).isoformat()}"}}')
        self.log.info("started", address="{}:{}".format(*self.address), tls=self.tls is not None)
        self.stepper.start()
        if self.failure is not None:
            raise self.failure
        if self.datagrams is not None:
            self.datagrams.begin()
        if stream is not None:
            await self.links.door.open(stream)

    async def stop(self) -> None:
        """Say goodbye, hand over what waits (within `drain_timeout`), finish saving. Twice does no harm."""
        try:
            if self.is_running:
                await self.leave()
            elif self.failure is not None:
                await self.links.wait_until_gone()
        finally:
            if self.storage is not None:
                storage, self.storage = self.storage, None
                await asyncio.to_thread(storage.close)
            self.items.end(self.failure)
            self.ended.set()

    async def leave(self) -> None:
        self.stepper.stop()
        self.timers.clear()
        try:
            await self.links.stop()
        finally:
            # Whoever loses patience with us leaves nothing open either.
            self.links.abort()
            self.close_rest()
            self.stepper.write("stop", reason="stopped")
            self.log.info("stopped")

    def fail(self, error: Exception) -> None:
        """The machine is broken: stop where we are."""
        self.failure = error
        self.stepper.stop()
        self.log.critical("the machine failed", exc_info=error)
        self.timers.clear()
        self.links.abort()
        self.close_rest()
        self.stepper.write("stop", reason=f"failed: {type(error).__name__}")
        self.items.end(error)
        self.ended.set()

    def close_rest(self) -> None:
        if self.datagrams is not None:
            self.datagrams.close()
        self.directory.close()
        self.probes.close()
        self.computing.close()

    async def wait(self) -> None:
        """Return when the host has stopped; raise what made the machine fail."""
        await self.ended.wait()
        if self.failure is not None:
            raise self.failure

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.stop()
        if self.failure is not None and error is None:
            raise self.failure

    @property
    def is_running(self) -> bool:
        return self.stepper.is_running

    def address_of(self, node: NodeId) -> str:
        """From where a linked node calls; empty where there is no such node."""
        stream = self.links.up.get(node)
        address = stream.transport.get_extra_info("peername") if stream is not None else None
        return address_text((str(address[0]), int(address[1]))) if address else ""

    # Inputs.

    def inject(self, input: Input) -> None:
        """A request of the application, such as `Publish(event)`. Call it on the loop's thread."""
        if not self.stepper.is_running:
            raise UsageError(f"inject: host {self.node_id} is not running; use it inside 'async with', or start() it")
        self.step(input)

    async def learn(self, peer: NodeId, address: Address) -> None:
        """Where a node is, or is now; what the machine says of it (`Know`) does not count against this."""
        if not self.is_running:
            raise UsageError(f"learn: host {self.node_id} is not running; give it peers=, or start() it before")
        self.check_peer("learn", self.node_id, peer, address)
        check_permitted(*address, self.tls, self.insecure)
        await self.directory.configure(peer, address)

    @staticmethod
    def check_peer(call: str, node_id: NodeId, peer: NodeId, address: Address) -> None:
        if peer in (node_id, BROADCAST):
            who = "this node itself" if peer == node_id else "the address of all nodes"
            raise UsageError(f"{call}: {peer!r} is {who}; leave it out")
        check_address(call, address)

    def fire(self, at: float, key: TimerKey) -> None:
        self.stepper.latest = max(self.stepper.latest, at)
        self.counts.timers_fired += 1
        self.step(Fired(key))

    def called_unreadable(self, peer: NodeId, complaint: Unreadable) -> None:
        """Whatever the machine would send again of it, it is told not to."""
        self.log.error("a peer could not read a message of ours", peer=peer, reason=complaint.reason)
        for message in list(self.unanswered()):
            if digest_of(encode(message)) == complaint.digest:
                self.step(Unread(peer, message, f"{peer} could not read it: {complaint.reason}"))

    # Effects.

    def send(self, effect: Send) -> None:
        if effect.to == self.node_id:
            self.send_to_self(effect)
        elif effect.transport is Transport.STREAM:
            self.links.posting.send(effect.to, effect.message)
        elif self.datagrams is not None:
            self.datagrams.send(effect.to, effect.message)
        else:
            self.lost(effect.to, effect.message, reasons.DATAGRAMS_OFF)

    def send_to_self(self, effect: Send) -> None:
        try:
            data = encode(effect.message)
        except UsageError:
            self.lost(self.node_id, effect.message, reasons.NO_BYTES)
        else:
            self.step_soon(Received(self.node_id, decode(data), len(data)))

    def set_timer(self, effect: SetTimer) -> None:
        if not effect.at < math.inf:
            raise UsageError(
                f"node {self.node_id!r} set the timer {effect.key!r} to {effect.at!r}, which is no time to come"
            )
        self.timers.set(effect.key, effect.at)

    def deliver(self, effect: Deliver) -> None:
        self.counts.delivered += 1
        for item in self.items.put(effect.item):
            self.stepper.give_up(item, INBOX_FULL)
        if self.items.is_pausing and not self.links.is_paused:
            self.log.warning("inbox full: nothing is read until the application takes items")
            self.links.pause_reading()

    def inbox_relieved(self) -> None:
        if self.is_running:
            self.loop.call_soon(self.read_on)

    def read_on(self) -> None:
        # The inbox may have filled again before its relief was heard of.
        if self.is_running and not self.items.is_pausing:
            self.links.resume_reading()
            self.turns.serve_soon()

    def compute(self, effect: Compute) -> None:
        if not self.computing.ask(effect):
            self.step_soon(Computed(effect.key, None, TOO_MANY_COMPUTATIONS))

    def computed(self, answer: Computed) -> None:
        self.call_on_loop(self.take_computed, answer)

    def take_computed(self, answer: Computed) -> None:
        self.computing.done()
        self.counts.computations += 1
        self.step(answer)

    def save(self, effect: Save) -> None:
        if self.storage is None:
            self.counts.save_errors += 1
            self.step_soon(Saved(effect.name, NO_STORAGE))
        elif not self.storage.ask(effect):
            self.storage.refuse(effect)
            self.call_on_loop(self.take_stored, [Saved(effect.name, TOO_MANY_WAITING)], 0.0)

    def load(self, effect: Load) -> None:
        if self.storage is None or not self.storage.ask(effect):
            self.counts.save_errors += 1
            self.step_soon(Loaded(effect.prefix, (), TOO_MANY_WAITING if self.storage else NO_STORAGE))

    def open_storage(self, path: Path) -> Storage:
        return Storage(path, self.params.saves_max, lambda *answer: self.call_on_loop(self.take_stored, *answer))

    def take_stored(self, answers: list[Answer], seconds: float) -> None:
        self.counts.save_seconds += seconds
        for answer in answers:
            self.counts.saves += 1
            if answer.error is not None:
                self.counts.save_errors += 1
                self.log.error("storage failed", problem=answer.error)
                if isinstance(answer, Saved) and self.storage is not None:
                    self.storage.reopen(answer.name)
            self.step(answer)

    def call_on_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        """From another thread."""
        # A loop that is closed raises, and has nobody left to tell.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *arguments)
