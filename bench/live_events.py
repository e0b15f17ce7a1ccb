"""The events that the benchmarks of live brokers read and write; nothing here depends on Spark."""

from pathlib import Path
from typing import Any

from tidings.net.client.connection import connect
from tidings.pubsub.publications import encode_head

ROOT = Path(__file__).parent.parent
PAYLOAD = b"x" * 64
ADVERTISED = "price >= 0 AND volume >= 0 AND EXISTS symbol"
STORED = {
    "TIDINGS_BROKER_DELIVERY__HISTORY_AGE": "7200",
    "TIDINGS_BROKER_DELIVERY__HISTORY_COUNT_MAX": "10000000",
    "TIDINGS_BROKER_DELIVERY__HISTORY_BYTES_MAX": str(2**32),
    "TIDINGS_BROKER_DELIVERY__HISTORY_BYTES_TOTAL_MAX": str(2**32),
}


def attributes(number: int) -> dict[str, Any]:
    return {
        "id": str(number),
        "source": "/exchange/floor",
        "type": "quote",
        "time": "2026-11-15T20:45:00Z",
        "symbol": f"S{number % 500}",
        "price": number * 0.37 % 1000,
        "volume": number % 9973,
    }


async def publish_encoded(url: str, name: str, count: int) -> None:
    async with connect(url, name=name) as client:
        await client.advertise(ADVERTISED)
        for begin in range(0, count, 10_000):
            heads = [encode_head(attributes(number)) for number in range(begin, min(begin + 10_000, count))]
            await client.publish_encoded(heads, [PAYLOAD] * len(heads))
        await client.flush()
