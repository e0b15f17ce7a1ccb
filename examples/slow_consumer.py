"""Two subscribers that do nothing for a while: one waits and gets everything, one prefers the newest."""

import asyncio
import sys

import tidings

EVENTS = 100


async def main(url: str) -> None:
    async with tidings.connect(url) as publisher, tidings.connect(url) as client:
        patient = await client.subscribe("tick >= 0", policy="wait", window=4, queue_max=8)
        hasty = await client.subscribe("tick >= 0", policy="drop oldest", window=4, queue_max=8)
        for tick in range(EVENTS):
            await publisher.publish({"tick": tick}, receipt=True)

        async for event in patient:
            if event.attributes["tick"] == EVENTS - 1:
                break
        async for event in hasty:
            if event.attributes["tick"] == EVENTS - 1:
                break
        print("patient got", patient.counts.delivered, "and missed", patient.counts.missed.total())
        print("hasty got", hasty.counts.delivered, "and missed", hasty.counts.missed.total())
        for reason, count in hasty.counts.missed.items():
            print(f"  {count}: {reason}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:slow-consumer"))
