"""A publisher over NATS in a process of its own: `python -m tests.scenarios.carrier_publisher URL NETWORK COUNT`.

It sends events without payload until it hears "go" on its input, then publishes so many numbered ones, and stays, to
answer those who lost some, until its input is closed.
"""

import asyncio
import sys

from tidings.net.carriers.nats import connect_over_nats

GREETING_EVERY = 0.05
STEP, STEP_EVERY = 10, 0.01
"""Events at a time, and seconds between: about what a busy sensor sends."""


async def publish(url: str, network: str, count: int) -> None:
    loop = asyncio.get_running_loop()
    async with connect_over_nats(url, network=network, reliable=True) as client:
        told_to_go = loop.run_in_executor(None, sys.stdin.readline)
        while not told_to_go.done():
            await client.publish({"kind": "news"})
            await asyncio.wait([told_to_go], timeout=GREETING_EVERY)
        for number in range(count):
            await client.publish({"kind": "news", "place": number % 20}, number.to_bytes(4))
            if number % STEP == 0:
                await asyncio.sleep(STEP_EVERY)
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(publish(sys.argv[1], sys.argv[2], int(sys.argv[3])))
