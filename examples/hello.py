"""Subscribe, publish, receive. `python examples/hello.py`, or with the URL of a broker behind it."""

import asyncio
import sys

import tidings


async def main(url: str) -> None:
    async with tidings.connect(url) as client:
        subscription = await client.subscribe("type = 'quake' AND magnitude >= 4.5")
        print("installed by", ", ".join(subscription.receipt.brokers))

        for magnitude in (2.3, 5.1, 4.4, 6.0):
            await client.publish({"type": "quake", "magnitude": magnitude}, b"somewhere")

        strong = await subscription.take(2)
        while len(strong) < 2:
            strong += await subscription.take(2 - len(strong))
        for event in strong:
            print("magnitude", event.attributes["magnitude"], event.payload.decode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
