"""Messages that travel alone: one UDP socket, one message per datagram.

A datagram carries the bytes of a message and nothing else; who sent it is known by the address it came from, which must
be that of a peer we know. Whoever can forge addresses on the network can therefore forge datagrams: see `tls.py` for
when they are allowed at all. They may be lost, doubled and overtaken, and nobody is told. A broadcast is a datagram to
each peer.

The socket is read directly and not through asyncio's datagram transport, which spends several times as long on each.
"""

import asyncio
import socket
from typing import Any

from tidings.machine.effects import BROADCAST
from tidings.machine.inputs import Received
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net import counts as reasons
from tidings.net.connection import CONTROL
from tidings.net.stepper import HostWorld
from tidings.net.tls import Address
from tidings.wire.codec import BadMessage
from tidings.wire.registry import decode, encode

DATAGRAMS_PER_TURN = 64
"""Datagrams read before the loop looks at the other sockets again."""

RECEIVE_BYTES = 65_536
"""No datagram is longer, so none is cut."""


class Datagrams:
    """`bound` is a non-blocking UDP socket."""

    def __init__(self, world: HostWorld, bound: socket.socket) -> None:
        self.world, self.socket = world, bound
        self.params, self.counts = world.params, world.counts
        self.addresses: dict[NodeId, Any] = {}
        self.names: dict[Address, NodeId] = {}

    def begin(self) -> None:
        self.world.loop.add_reader(self.socket, self.readable)

    async def learn(self, peer: NodeId, address: Address, is_hearsay: bool = False) -> None:
        """Where datagrams for this peer go, and whose datagrams come from there. Hearsay takes no address away."""
        resolved = await resolve(self.world.loop, address, self.socket.family)
        if is_hearsay and resolved is not None and self.names.get(resolved[:2], peer) != peer:
            return
        if resolved is None:
            self.world.log.warning("address unknown, no datagrams", peer=peer, address="{}:{}".format(*address))
            return
        self.forget(peer)
        self.addresses[peer] = resolved
        self.names[resolved[:2]] = peer

    def forget(self, peer: NodeId) -> None:
        old = self.addresses.pop(peer, None)
        if old is not None and self.names.get(old[:2]) == peer:
            del self.names[old[:2]]

    def send(self, to: NodeId, message: Any) -> None:
        receivers = self.receivers(to)
        if not receivers:
            self.world.lost(to, message, reasons.NOBODY_HEARS if to == BROADCAST else reasons.NO_ADDRESS)
            return
        data = self.encode(to, message)
        if data is not None:
            for receiver, address in receivers:
                self.send_bytes(receiver, address, message, data)

    def receivers(self, to: NodeId) -> list[tuple[NodeId, Any]]:
        if to == BROADCAST:
            return list(self.addresses.items())
        address = self.addresses.get(to)
        return [] if address is None else [(to, address)]

    def encode(self, to: NodeId, message: Any) -> bytes | None:
        try:
            data = encode(message)
        except UsageError as problem:
            self.world.log.error("message without bytes", message=type(message).__name__, problem=str(problem))
            self.world.lost(to, message, reasons.NO_BYTES)
            return None
        if len(data) > self.params.datagram_bytes_max:
            self.world.lost(to, message, reasons.DATAGRAM_TOO_LARGE)
            return None
        return data

    def send_bytes(self, to: NodeId, address: Any, message: Any, data: bytes) -> None:
        try:
            self.socket.sendto(data, address)
            self.counts.datagrams_sent += 1
        except OSError:
            self.world.lost(to, message, reasons.DATAGRAM_NOT_SENT)

    def readable(self) -> None:
        for _ in range(DATAGRAMS_PER_TURN):
            try:
                data, address = self.socket.recvfrom(RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                # Linux reports here that an earlier datagram found nobody listening. That is no news of this one.
                continue
            self.take(data, address)
            if self.socket.fileno() < 0:
                return

    def take(self, data: bytes, address: Any) -> None:
        sender = self.names.get(address[:2])
        if sender is None:
            self.give_up(reasons.UNKNOWN_SENDER, address)
            return
        if len(data) > self.params.datagram_bytes_max:
            self.give_up(reasons.DATAGRAM_TOO_LARGE, address)
            return
        try:
            message = decode(data)
        except BadMessage:
            self.give_up(reasons.BAD_DATAGRAM, address)
            return
        if type(message) in CONTROL:
            self.give_up(reasons.BAD_DATAGRAM, address)
            return
        self.counts.datagrams_received += 1
        self.world.step(Received(sender, message, len(data)))

    def give_up(self, reason: str, address: Any) -> None:
        if self.counts.drop(reason):
            self.world.log.warning("datagram dropped", reason=reason, address=f"{address[0]}:{address[1]}")

    def close(self) -> None:
        self.world.loop.remove_reader(self.socket)
        self.socket.close()


async def resolve(loop: asyncio.AbstractEventLoop, address: Address, family: int) -> Any:
    """The numeric form of an address, or None if there is none of this family."""
    try:
        found = await loop.getaddrinfo(*address, family=family, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    return found[0][4]
