"""Where other nodes are: what was configured, and what the machine has learned; and messages that travel there alone.

Whoever runs the host says where peers are (`peers=`, `learn`); that stands. A machine that meets others at run time
says so with the effect `Know`, and from then on they can be called and sent datagrams like any other. What is learned
is hearsay: it never replaces what was configured, neither for a name nor for an address, and it leads nowhere that
plain text may not go (`tls.check_permitted`). The table is bounded: beyond `learned_max` the one learned longest ago
gives way, unless there is a stream to it.

*Datagrams*: one UDP socket, one message per datagram. A datagram carries the bytes of a message and nothing else; who
sent it is known by the address it came from, which must be that of a peer we know. Whoever can forge addresses on the
network can therefore forge datagrams: see `tls.py` for when they are allowed at all. They may be lost, doubled and
overtaken, and nobody is told. A broadcast is a datagram to each peer.

The socket is read directly and not through asyncio's datagram transport, which spends several times as long on each.
"""

import asyncio
import socket
from typing import Any

from tidings.machine.effects import BROADCAST, Know, ProbeNode
from tidings.machine.inputs import Received
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId, is_address, is_visitor
from tidings.net import counts as reasons
from tidings.net.addresses import parse_address
from tidings.net.connection import CONTROL
from tidings.net.links import HostLinks
from tidings.net.stepper import HostWorld
from tidings.net.tls import Address, Tls, check_address, check_permitted
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


class Directory:
    def __init__(
        self, world: HostWorld, links: HostLinks, datagrams: Datagrams | None, tls: Tls | None, insecure: bool
    ) -> None:
        self.world, self.links, self.datagrams = world, links, datagrams
        self.tls, self.insecure = tls, insecure
        self.configured: dict[NodeId, Address] = {}
        self.learned: dict[NodeId, Address] = {}
        """Those heard of last at the end."""
        self.lookups: set[asyncio.Task[None]] = set()

    async def configure(self, peer: NodeId, address: Address) -> None:
        self.learned.pop(peer, None)
        self.configured[peer] = address
        self.links.learn(peer, address)
        if self.datagrams is not None and not is_address(peer):
            await self.datagrams.learn(peer, address)

    def know(self, effect: Know) -> None:
        """What the machine says; nonsense is dropped, since it comes from others in the end."""
        try:
            address = self.permitted(effect)
        except UsageError:
            self.world.counts.drop(reasons.BAD_ADDRESS)
            return
        if self.is_configured(effect.node) or (effect.node not in self.learned and not self.make_room()):
            return
        is_news = self.learned.pop(effect.node, None) != address
        self.learned[effect.node] = address
        if is_news:
            self.links.learn(effect.node, address)
            if self.datagrams is not None:
                lookup = self.world.loop.create_task(self.look_up(effect.node, address))
                self.lookups.add(lookup)
                lookup.add_done_callback(self.lookups.discard)

    def is_configured(self, node: NodeId) -> bool:
        """By its name, or by the address at which it answered."""
        return node in self.configured or self.links.address_of(node) in self.configured

    def permitted(self, effect: Know) -> Address:
        if effect.node in (self.world.node_id, BROADCAST) or is_address(effect.node) or is_visitor(effect.node):
            raise UsageError(f"know: {effect.node!r} is no other node")
        address = parse_address(effect.address, "know")
        check_address("know", address)
        check_permitted(*address, self.tls, self.insecure)
        return address

    def address_of(self, probe: ProbeNode) -> Address | None:
        """Where a node is looked for. An address that a probe brings is for this once, and nobody remembers it."""
        if probe.address and not self.is_configured(probe.node):
            try:
                return self.permitted(Know(probe.node, probe.address))
            except UsageError:
                self.world.counts.drop(reasons.BAD_ADDRESS)
        dial = self.links.dial_to(probe.node)
        return None if dial is None else dial.address

    def make_room(self) -> bool:
        if len(self.learned) < self.world.params.learned_max:
            return True
        for node in self.learned:
            if self.links.forget(node):
                del self.learned[node]
                if self.datagrams is not None:
                    self.datagrams.forget(node)
                return True
        self.world.counts.drop(reasons.TOO_MANY_LEARNED)
        return False

    async def look_up(self, node: NodeId, address: Address) -> None:
        assert self.datagrams is not None
        await self.datagrams.learn(node, address, is_hearsay=True)
        if self.learned.get(node) != address:
            self.datagrams.forget(node)

    def close(self) -> None:
        for lookup in self.lookups:
            lookup.cancel()
