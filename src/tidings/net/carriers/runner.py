"""One client with a transport on an asyncio loop, over a foreign network.

The machine is that of any client with a transport, over a carrier that promises nothing (`Broadcast`). What it
wants is done here: what it sends goes to the network, through a queue that one task empties; timers are those of the
loop.

Guaranteed: the machine is never entered twice, and hears of messages in the order in which the network brings them. The
queue to the network is bounded: an application that publishes waits for room, and what the transport itself would send
beyond it is dropped, and counted, as if the network had lost it.

The foreign network brings bytes from whoever publishes them to all others in the same network. It may be late, lose
some, repeat some, change their order; it must not cut or join them. It knows no filters: each receiver looks at every
message and keeps what it asked for (`protocols/transport/carrier.py`).

A message is the length of its head in four bytes, its head (attributes, with the mark of the transport where it has
one), and its payload (with the transport's header before it).
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from tidings.machine.effects import CancelTimer, Deliver, Drop, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received
from tidings.model.bounds import ATTRIBUTES_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.net.counts import HostCounts
from tidings.net.logs import make_logger
from tidings.net.stepper import Stepper
from tidings.net.timers import Timers
from tidings.protocols.transport.adapter.adapter import Adapter
from tidings.protocols.transport.carrier import Broadcast, Posted
from tidings.protocols.transport.marks import is_event
from tidings.protocols.transport.transport import TransportNode

LENGTH_BYTES = 4
NAME_SYNTAX = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ForeignNetwork(Protocol):
    """One connection to such a network."""

    async def open(self, arrived: Callable[[bytes], None]) -> None:
        """Connect. From now on `arrived` is called, on this loop, with each message of the network."""

    async def publish(self, data: bytes) -> None:
        """Give one message to the network. OSError or ValueError where it is not taken: it is lost then."""

    async def close(self) -> None:
        """Hand over what was published, and leave."""


def check_name(network: str) -> None:
    if not NAME_SYNTAX.fullmatch(network):
        raise UsageError(f"network: {network!r} is no name; give 1 to 64 letters, digits, '-' or '_'")


class BadPosted(ValueError):
    """Bytes that are no message of ours; something else uses the same network."""


def join(message: Posted) -> bytes:
    return len(message.head).to_bytes(LENGTH_BYTES) + message.head + message.payload


def split(data: bytes) -> Posted:
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES])
    if not LENGTH_BYTES < end <= min(len(data), LENGTH_BYTES + ATTRIBUTES_BYTES_MAX):
        raise BadPosted(f"{len(data)} bytes that are no message")
    return Posted(data[LENGTH_BYTES:end], data[end:])


OUTGOING_MAX = 10_000
"""Messages that wait for the network."""

NETWORK = "network"
"""Whoever sent a message: such a network does not say."""

NO_MESSAGE = "no message of a transport"
NETWORK_FULL = "more waits for the network than allowed"
NOT_TAKEN = "the network did not take it"


class Runner:
    """`deliver(item)` is called for whatever the transport hands up."""

    def __init__(self, transport: TransportNode, network: ForeignNetwork, deliver: Callable[[Any], None]) -> None:
        self.network = network
        self.machine = Adapter(Broadcast(), transport)
        self.loop = asyncio.get_running_loop()
        self.counts = HostCounts()
        self.outgoing: deque[bytes] = deque()
        self.room, self.work = asyncio.Event(), asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self.error: Exception | None = None
        self.timers = Timers(self.loop, lambda at, key: self.stepper.take(Fired(key)))
        performers: dict[type, Callable[[Any], None]] = {
            Send: self.send,
            SetTimer: lambda effect: self.timers.set(effect.key, effect.at),
            CancelTimer: lambda effect: self.timers.cancel(effect.key),
            Deliver: lambda effect: deliver(effect.item),
            Drop: lambda effect: self.stepper.count(effect.reason),
        }
        name = f"transport {transport.node_id:08x}"
        self.stepper = Stepper(
            node_id=name,
            machine=self.machine,
            clock=self.loop.time,
            counts=self.counts,
            log=make_logger(name, "warning"),
            trace=None,
            performers=performers,
            failed=self.machine_failed,
        )
        self.sending: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.network.open(self.arrived)
        self.sending = asyncio.create_task(self.hand_on())
        self.stepper.start()

    async def stop(self) -> None:
        """What was published is with the network then."""
        self.stepper.stop()
        self.timers.clear()
        if self.sending is not None:
            await self.idle.wait()
            self.sending.cancel()
            await asyncio.gather(self.sending, return_exceptions=True)
        await self.network.close()

    def take(self, input: Input) -> None:
        """For the machine."""
        if self.error is not None:
            raise self.error
        self.stepper.take(input)

    def arrived(self, data: bytes) -> None:
        self.counts.datagrams_received += 1
        try:
            message = split(data)
        except BadPosted:
            self.stepper.count(NO_MESSAGE)
        else:
            self.stepper.take(Received(NETWORK, message, len(data)))

    async def wait_for_room(self) -> None:
        while len(self.outgoing) >= OUTGOING_MAX:
            self.room.clear()
            await self.room.wait()

    def send(self, send: Send) -> None:
        assert isinstance(send.message, Posted)
        if len(self.outgoing) >= OUTGOING_MAX and not is_event(send.message.head):
            self.stepper.count(NETWORK_FULL)
            return
        self.outgoing.append(join(send.message))
        self.idle.clear()
        self.work.set()

    async def hand_on(self) -> None:
        while True:
            while self.outgoing:
                try:
                    await self.network.publish(self.outgoing[0])
                    self.counts.datagrams_sent += 1
                except (OSError, ValueError):
                    self.stepper.count(NOT_TAKEN)
                self.outgoing.popleft()
                self.room.set()
            self.idle.set()
            self.work.clear()
            await self.work.wait()

    def machine_failed(self, error: Exception) -> None:
        self.error = error
        self.stepper.stop()
        self.timers.clear()
        self.loop.call_exception_handler({"message": "the transport failed", "exception": error})
