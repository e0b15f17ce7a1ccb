"""A carrier that loses, repeats and delays what another brings, by a seed."""

import asyncio
from collections.abc import Callable
from random import Random

from tidings.net.carriers.carrier import Carrier


class FaultyCarrier:
    """Of what arrives a share is lost, a share comes twice, and a share up to `delay` seconds later than it should, so
    that others overtake it. What is published leaves unharmed: the others have carriers of their own."""

    def __init__(self, carrier: Carrier, seed: int, share: float, delay: float) -> None:
        self.carrier, self.random, self.share, self.delay = carrier, Random(seed), share, delay
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

        await self.carrier.open(bring)

    async def publish(self, data: bytes) -> None:
        await self.carrier.publish(data)

    async def close(self) -> None:
        await self.carrier.close()
