"""Whether anything listens where a node does (`ProbeNode`): a TCP connection that is made, and closed at once.

The operating system at the other end makes it, whatever the process that listens is doing; so a process that stands
still is found, and one that is dead, or whose machine is, is not. Nothing is said on the connection, so the other end
counts a caller that hung up, and that is all.
"""

import asyncio
from collections.abc import Callable

from tidings.machine.effects import ProbeNode
from tidings.machine.inputs import NodeProbed
from tidings.net.tls import Address


class NodeProbes:
    """`address_of` says where to look, if anybody knows; `step` takes the answer. Machines bound how many they ask for
    at once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address_of: Callable[[ProbeNode], Address | None],
        step: Callable[[NodeProbed], None],
    ) -> None:
        self.loop, self.address_of, self.step = loop, address_of, step
        self.tasks: set[asyncio.Task[None]] = set()

    def ask(self, probe: ProbeNode) -> None:
        task = self.loop.create_task(self.find(probe, self.address_of(probe)))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def find(self, probe: ProbeNode, address: Address | None) -> None:
        is_there = True
        if address is not None:
            try:
                async with asyncio.timeout(probe.seconds):
                    transport, _ = await self.loop.create_connection(asyncio.Protocol, *address)
                transport.abort()
            except (OSError, TimeoutError):
                is_there = False
        self.step(NodeProbed(probe.node, is_there, probe.address))

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()
