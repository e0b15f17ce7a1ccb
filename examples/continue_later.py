"""A reader that stops and continues where it was, as another process could: with the positions of its subscription."""

import asyncio
import sys

import tidings


async def read(url: str, count: int, positions: dict[str, int] | None) -> dict[str, int]:
    """Print so many readings, behind these positions if there are any; the new positions."""
    async with tidings.connect(url) as client:
        subscription = await client.subscribe("celsius > -100", after=positions, since=0.0)
        async for event in subscription:
            print("read", event.attributes["celsius"])
            count -= 1
            if count == 0:
                break
        return subscription.positions


async def main(url: str) -> None:
    async with tidings.connect(url) as sensor:
        for celsius in range(3):
            await sensor.publish({"celsius": celsius})
        await sensor.flush()
        positions = await read(url, 2, None)
        print("stopped")
        for celsius in range(3, 5):
            await sensor.publish({"celsius": celsius})
        await read(url, 3, positions)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:continue-later"))
