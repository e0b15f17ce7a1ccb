"""Where other nodes are: what was configured, and what the machine has learned.

Whoever runs the host says where peers are (`peers=`, `learn`); that stands. A machine that meets others at run time
says so with the effect `Know`, and from then on they can be called and sent datagrams like any other. What is learned
is hearsay: it never replaces what was configured, neither for a name nor for an address, and it leads nowhere that
plain text may not go (`tls.check_permitted`). The table is bounded: beyond `learned_max` the one learned longest ago
gives way, unless there is a stream to it.
"""

import asyncio

from tidings.machine.effects import BROADCAST, Know
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId, is_address
from tidings.net import counts as reasons
from tidings.net.addresses import parse_address
from tidings.net.datagrams import Datagrams
from tidings.net.links import HostLinks
from tidings.net.stepper import HostWorld
from tidings.net.tls import Address, Tls, check_address, check_permitted


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
        if effect.node in (self.world.node_id, BROADCAST) or is_address(effect.node):
            raise UsageError(f"know: {effect.node!r} is no other node")
        address = parse_address(effect.address, "know")
        check_address("know", address)
        check_permitted(*address, self.tls, self.insecure)
        return address

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
