"""A publisher that says what it offers, does not wait when it must not, and wants to know when it must."""

import asyncio
import sys

import tidings


async def main(url: str) -> None:
    async with tidings.connect(url, name="exchange") as client:
        subscription = await client.subscribe("price > 99")
        advertisement = await client.advertise("symbol IN ('IBM', 'AAPL') AND price > 0")
        print("everybody knows what", client.name, "offers:", advertisement.receipt.brokers_count, "broker")

        skipped = 0
        for price in range(1, 101):
            # A price that cannot leave at once is out of date; the next one will do.
            if not client.try_publish({"symbol": "IBM", "price": price}):
                skipped += 1
        await client.flush()
        print("skipped", skipped)

        await client.publish({"symbol": "AAPL", "price": 200}, receipt=True)
        print("the last one is where it is wanted")
        try:
            await client.publish({"symbol": "MSFT", "price": 300})
        except tidings.Refused as problem:
            print("refused:", problem)
        print([(await anext(subscription)).attributes["price"] for _ in range(2)])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
