"""Foreign networks for tests: one in the memory of this process, and one that loses, repeats and delays, by a seed."""

import asyncio
from collections.abc import Callable
from random import Random

from tidings.net.carriers.runner import ForeignNetwork


class MemoryNetwork:
    """Brings each message to all that share `members`, the sender included, as a server of MQTT or NATS would."""

    def __init__(self, members: list[Callable[[bytes], None]]) -> None:
        self.members = members

    async def open(self, arrived: Callable[[bytes], None]) -> None:
        self.arrived = arrived
        self.members.append(arrived)

    async def publish(self, data: bytes) -> None:
        for arrived in self.members:
            asyncio.get_running_loop().call_soon(arrived, data)

    async def close(self) -> None:
        self.members.remove(self.arrived)


class FaultyNetwork:
    """Of what arrives a share is lost, a share comes twice, and a share up to `delay` seconds later than it should, so
    that others overtake it. What is published leaves unharmed: the others have connections of their own."""

    def __init__(self, network: ForeignNetwork, seed: int, share: float, delay: float) -> None:
        self.network, self.random, self.share, self.delay = network, Random(seed), share, delay
        self.lost = self.repeated = self.delayed = 0

    async def open(self, arrived: Callable[[bytes], None]) -> None:
        loop, random, share = asyncio.get_running_loop(), self.random, self.share

        def bring(data: bytes) -> None:
            if random.random() < share:
                self.lost += 1
                return
            if random.random() < share:
                self.repeated += 1
                loop.call_later(random.uniform(0, self.delay), arrived, data)
            if random.random() < share:
                self.delayed += 1
                loop.call_later(random.uniform(0, self.delay), arrived, data)
            else:
                arrived(data)

        await self.network.open(bring)

    async def publish(self, data: bytes) -> None:
        await self.network.publish(data)

    async def close(self) -> None:
        await self.network.close()
