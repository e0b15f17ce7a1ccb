"""One end of `python -m bench.transport` on sockets: `python -m bench.transport_client ROLE URL MODE COUNT`.

The receiver subscribes, says "ready", and at the end the CPU time of its process for each event received, in
microseconds. The publisher says the same of what it published; it stays no more than `AHEAD` events ahead of what the
receiver says it has, line by line, on its input.
"""

import asyncio
import sys
import time

import msgspec

import tidings
from tidings.net.client.connection import Connecting
from tidings.net.client.transport import make_params

MODES = {
    "plain": (False, False, False),
    "ordered": (True, False, False),
    "ordered, reliable": (True, True, False),
    "all three": (True, True, True),
}
"""Ordered, reliable, paced."""
RECORD = 10
AHEAD = 200
WARM_UP = 1000
"""Events before the clock starts: what is compiled, learned or measured first is no part of the figure."""
PROGRESS_EVERY = 50
TAKEN_AT_ONCE = 1000


def connect(url: str, mode: str) -> Connecting:
    if mode == "plain":
        return tidings.connect(url)
    ordered, reliable, paced = MODES[mode]
    params = make_params(ordered, reliable, paced, None)
    assert params is not None
    return tidings.connect(url, transport=msgspec.structs.replace(params, record=RECORD))


def tell(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def receive(url: str, mode: str, count: int) -> None:
    async with connect(url, mode) as client:
        subscription = await client.subscribe("type = 'reading'")
        tell("ready")
        received, told, began = 0, 0, 0.0
        while received < count + WARM_UP:
            received += len(await subscription.take(TAKEN_AT_ONCE))
            if not began and received >= WARM_UP:
                began, first = time.process_time(), received
            if received - told >= PROGRESS_EVERY:
                told = received
                tell(received)
        tell(f"cpu {(time.process_time() - began) / (received - first) * 1e6}")
        await asyncio.to_thread(sys.stdin.read)


async def publish(url: str, mode: str, count: int) -> None:
    async with connect(url, mode) as client:
        loop, received = asyncio.get_running_loop(), 0
        began = 0.0
        for number in range(count + WARM_UP):
            while number - received >= AHEAD:
                received = int(await loop.run_in_executor(None, sys.stdin.readline))
            if number == WARM_UP:
                began = time.process_time()
            await client.publish({"type": "reading", "place": number % 100, "celsius": number % 40}, bytes(100))
        await client.flush()
        tell(f"cpu {(time.process_time() - began) / count * 1e6}")
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    role, url, mode, count = sys.argv[1:]
    asyncio.run((receive if role == "receive" else publish)(url, mode, int(count)))
