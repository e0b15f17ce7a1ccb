"""What it costs a client to receive: `python -m bench.brokers.receivers BROKER PORT COUNT CLIENTS`.

Subscribes with the library that an application would use, says "ready", and then how many events have arrived, now and
then. At the end it prints the CPU time of its process for each event received, in microseconds.
"""

import asyncio
import sys
import threading
import time
from typing import Any

from bench.brokers.dialects import EVERYTHING
from bench.brokers.servers import NATS, TIDINGS, ZENOH
from bench.brokers.zenoh_router import session

PROGRESS_EVERY = 500
TAKEN_AT_ONCE = 1000


class Tally:
    """Counts what arrives, and the CPU time from the first to the last."""

    def __init__(self, count: int) -> None:
        self.wanted, self.received = count, 0
        self.began = self.cpu = 0.0
        self.is_over = threading.Event()

    def add(self, count: int = 1) -> None:
        if not self.received:
            self.began = time.process_time()
        before = self.received
        self.received += count
        if before // PROGRESS_EVERY != self.received // PROGRESS_EVERY:
            print(self.received, flush=True)
        if self.received >= self.wanted and not self.is_over.is_set():
            self.cpu = time.process_time() - self.began
            self.is_over.set()

    def say(self) -> None:
        print(f"cpu {self.cpu / self.received * 1e6}", flush=True)


async def receive_ours(port: int, tally: Tally) -> None:
    import tidings

    async with tidings.connect(f"tidings://127.0.0.1:{port}") as client:
        subscription = await client.subscribe("type = 'reading'", guarantee="installed")
        print("ready", flush=True)
        while not tally.is_over.is_set():
            tally.add(len(await subscription.take(TAKEN_AT_ONCE)))


async def receive_nats(port: int, tally: Tally) -> None:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{port}")
    over = asyncio.Event()

    async def hear(message: Any) -> None:
        tally.add()
        if tally.is_over.is_set():
            over.set()

    await client.subscribe(EVERYTHING, cb=hear, pending_msgs_limit=10**7, pending_bytes_limit=10**9)
    await client.flush()
    print("ready", flush=True)
    await over.wait()
    await client.close()


def receive_zenoh(port: int, tally: Tally, clients: int) -> None:
    sessions = [session("client", port) for _ in range(clients)]
    lock = threading.Lock()

    def hear(sample: Any) -> None:
        sample.payload.to_bytes()
        with lock:
            tally.add()

    kept = [each.declare_subscriber(EVERYTHING, hear) for each in sessions]
    time.sleep(1.0)  # zenoh does not say when a subscription is in place
    print("ready", flush=True)
    tally.is_over.wait()
    del kept
    for each in sessions:
        each.close()


def main() -> None:
    broker, port, count, clients = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    tally = Tally(count * clients)
    if broker == TIDINGS:
        run = asyncio.run
        try:
            import uvloop

            run = uvloop.run
        except ModuleNotFoundError:
            pass
        run(receive_ours(port, tally))
    elif broker == NATS:
        asyncio.run(receive_nats(port, tally))
    else:
        assert broker == ZENOH
        receive_zenoh(port, tally, clients)
    tally.say()


if __name__ == "__main__":
    main()
